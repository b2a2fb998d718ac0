package journal

import (
	"errors"
	"os"
	"unsafe"

	"github.com/wirectl/wirectl/capture"
)

const (
	// segmentSize is the maximum number of copied bytes in a segment, unless its only record
	// is longer.
	segmentSize = 128 << 10
	// segmentRecords is the maximum number of records in a segment.
	segmentRecords = 512
	// segmentHeld is the approximate maximum number of bytes that a segment holds without
	// copying.
	segmentHeld = 256 << 10

	firstSize = 8 << 10 // of the first byte buffer, which is enough for a quiet session

	recordSize = int64(unsafe.Sizeof(capture.Record{}))
)

// A segment is a run of consecutive records of one session. Records in memory do not change
// when others are appended, so they may be read at the same time.
type segment struct {
	*batch                  // nil if they are in the temporary file
	at     extent           // if batch is nil
	owner  *capture.Session // of the records
	first  int64            // the number of its first record
	count  int64            // records
	frames int64            // frames before its first record
	cost   int64            // in memory
	read   int64            // the part of cost that every lossless cursor has read
	users  int              // cursors that read it, or are going to, and the spilling goroutine
	flood  bool             // part of a flood
	sealed bool             // nothing is appended any more
	gone   bool             // no longer in the tail
}

// nextNumber returns the number of the first record after the segment.
func (s *segment) nextNumber() int64 { return s.first + s.count }

// A batch is a list of records. Their bytes are copies, or lie in memory that it holds.
type batch struct {
	records []capture.Record // oldest first

	bytes  []byte
	copied int64 // bytes that were copied
	held   int64 // bytes in memory that is held
	holds  []capture.Memory
}

// appendRecord appends a copy of r. It returns false if there is no room. An empty batch has
// room for any record.
func (b *batch) appendRecord(r *capture.Record) bool {
	n := len(r.Raw) + len(r.Text)
	if r.Meta != nil {
		n += len(r.Meta.Data)
	}
	if len(b.records) > 0 && (len(b.records) >= segmentRecords || b.copied+int64(n) > segmentSize) {
		return false
	}
	b.copied += int64(n)
	if n > cap(b.bytes)-len(b.bytes) {
		size := segmentSize
		if b.bytes == nil {
			size = firstSize
		}
		b.bytes = make([]byte, 0, max(n, size))
	}
	b.records = append(b.records, *r)
	kept := &b.records[len(b.records)-1]
	kept.Raw, kept.Text = b.keepBytes(r.Raw), b.keepBytes(r.Text)
	if r.Meta != nil {
		meta := *r.Meta
		meta.Data = b.keepBytes(meta.Data)
		kept.Meta = &meta
	}
	return true
}

// appendRun appends records of a run, from index from on, while there is room. It returns how
// many it appended. An empty batch has room for at least one.
func (b *batch) appendRun(r *capture.Run, from int) int {
	n := 0
	if r.Memory == nil {
		for ; from+n < len(r.Frames); n++ {
			if rec := r.Record(from + n); !b.appendRecord(&rec) {
				break
			}
		}
		return n
	}
	for ; from+n < len(r.Frames) && len(b.records) < segmentRecords && b.held < segmentHeld; n++ {
		b.records = append(b.records, r.Shared)
		kept := &b.records[len(b.records)-1]
		kept.Seq += int64(from + n)
		kept.Frame = r.Frames[from+n]
		b.held += int64(len(r.Frames[from+n].Raw))
	}
	if n > 0 {
		r.Memory.Hold()
		b.holds = append(b.holds, r.Memory)
	}
	return n
}

func (b *batch) keepBytes(data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	from := len(b.bytes)
	b.bytes = append(b.bytes, data...)
	return b.bytes[from:len(b.bytes):len(b.bytes)]
}

// size returns approximately how much memory the records use.
func (b *batch) size() int64 {
	return b.copied + b.held + int64(len(b.records))*recordSize
}

// reset empties the batch for reuse. Nobody may hold its records any more. It frees buffers
// that are larger than usual.
func (b *batch) reset() {
	clear(b.records) // release flaws and names for garbage collection
	b.records = b.records[:0]
	for _, m := range b.holds {
		m.Release()
	}
	clear(b.holds)
	b.holds, b.held, b.copied = b.holds[:0], 0, 0
	if b.bytes = b.bytes[:0]; cap(b.bytes) > segmentSize {
		b.bytes = nil
	}
}

// A spill is a temporary file for unread records that exceed the memory limit. If writing it
// fails, the next file is created beside the capture. Segments are written by one goroutine.
// The journal's lock guards everything except the content of the files.
type spill struct {
	dirs   []string   // folders for the next files; "" is the temporary folder
	files  []*os.File // new extents go to the last one
	size   int64      // of the last file
	held   int        // segments in the files
	active bool
	encode encoder
}

// An extent is the position of a segment in a file.
type extent struct {
	file    *os.File
	from, n int64
}

// overflow starts spilling, unless it is already running.
func (j *Journal) overflow() {
	if !j.spill.active && !j.closed {
		j.spill.active = true
		go j.spillAll()
	}
}

// spillAll spills segments until memory use is at most half of the limit.
func (j *Journal) spillAll() {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer func() {
		j.spill.active = false
		j.tidy()
		j.room.Broadcast()
	}()
	for j.memory > j.opts.Memory/2 {
		s := j.victim()
		if s == nil {
			return
		}
		err := j.spillOne(s)
		for err != nil && len(j.spill.dirs) > 1 {
			j.spill.dirs = j.spill.dirs[1:]
			if err = j.openSpill(err); err == nil {
				err = j.spillOne(s)
			}
		}
		if err != nil {
			j.notice("recording stopped: frames that wait for the capture cannot be kept: %v; the session continues", err)
			for c := range j.cursors {
				if c.follows {
					c.detach(err)
				}
			}
			return
		}
		j.room.Broadcast()
	}
}

// victim returns the newest unread segment, because the oldest one is needed next. It prefers
// complete ones.
func (j *Journal) victim() *segment {
	for i := len(j.tail) - 2; i >= j.unread; i-- {
		if s := j.tail[i]; s.batch != nil && s.users == 0 {
			return s
		}
	}
	if last := j.last(); last.batch != nil && last.users == 0 && last.cost > last.read {
		return last
	}
	return nil
}

// unnamed is a placeholder for the session of spilled records.
var unnamed = &capture.Session{}

// spillOne writes a segment to the file. It releases the lock while writing.
func (j *Journal) spillOne(s *segment) error {
	if len(j.spill.files) == 0 {
		if err := j.openSpill(nil); err != nil {
			return err
		}
	}
	if j.spill.held == 0 {
		j.spill.size = 0
	}
	at := extent{file: j.spill.files[len(j.spill.files)-1], from: j.spill.size}
	s.sealed = true
	s.users++
	j.mu.Unlock()
	e := &j.spill.encode
	e.reset()
	e.session = nil
	var err error
	for i := 0; i < len(s.records) && err == nil; i++ {
		err = e.write(unnamed, &s.records[i])
	}
	if err == nil {
		_, err = at.file.WriteAt(e.buf, at.from)
	}
	j.mu.Lock()
	s.users--
	if s.gone || s.users > 0 || s.cost == s.read { // it was read meanwhile
		j.recycle(s)
		return nil
	}
	if err != nil {
		return err
	}
	at.n = int64(len(e.buf))
	j.memory -= s.cost - s.read
	j.resize(s, -s.cost, -s.count)
	s.read = 0
	j.reuse(s.batch)
	s.at, s.batch = at, nil
	j.spill.size += at.n
	j.spill.held++
	return nil
}

// openSpill creates a file in the first folder that works. failed is the error of the previous
// file, if any.
func (j *Journal) openSpill(failed error) error {
	s := &j.spill
	for ; len(s.dirs) > 0; s.dirs = s.dirs[1:] {
		f, err := os.CreateTemp(s.dirs[0], "wirectl-*.spill")
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		_ = os.Remove(f.Name()) // if an open file cannot be removed, tidy does it later
		s.files, s.size = append(s.files, f), 0
		if failed != nil {
			j.notice("the temporary folder cannot be written: %v: waiting frames go to a file beside the capture", failed)
		} else {
			j.notice("the capture is written more slowly than frames arrive: waiting frames go to a temporary file")
		}
		return nil
	}
	return failed
}

// tidy removes the files once they hold nothing, and no more can come.
func (j *Journal) tidy() {
	s := &j.spill
	if s.active || s.held > 0 || j.isFollowed() && !j.closed {
		return
	}
	for _, f := range s.files {
		_ = f.Close() // nothing in it is needed
		_ = os.Remove(f.Name())
	}
	s.files = nil
}

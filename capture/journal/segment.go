package journal

import (
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

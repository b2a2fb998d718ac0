package recorder

import (
	"bytes"
	"errors"
	"os"
	"slices"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// A spill is a temporary file for records that exceed the memory limit. If writing it fails,
// the next file is created beside the capture. One writer and one reader use different
// extents. The recorder's lock guards everything except the content of the files.
type spill struct {
	dirs   []string   // folders for the next files; "" is the temporary folder
	files  []*os.File // new extents go to the last one
	size   int64      // of the last file
	held   int        // items in the files
	active bool
	failed error

	encode Encoder // used by the writer
	buf    []byte  // used by the reader
}

// An extent is the position of an item in a file.
type extent struct {
	file    *os.File
	from, n int64
}

// overflow starts spilling, unless it is already running.
func (r *Recorder) overflow() {
	if r.spill.active || r.ended {
		return
	}
	r.spill.active = true
	r.spilling.Go(r.spillAll)
}

// spillAll spills items until memory use is at most half of the limit.
func (r *Recorder) spillAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.spill.active = false }()
	for r.memory > r.cfg.Memory/2 {
		it := r.victim()
		if it == nil {
			return
		}
		err := r.spillOne(it)
		for err != nil && len(r.spill.dirs) > 0 && r.openSpill(err) == nil {
			err = r.spillOne(it)
		}
		if r.spill.failed = err; err != nil {
			r.notice("recording stopped: frames that wait for the capture cannot be kept: %v; the session continues", r.spill.failed)
			r.closeIntake()
			return
		}
		r.changed.Broadcast()
	}
}

// victim returns the newest complete item in memory, because the writer needs the oldest one
// next. If there is none, it returns the incomplete last item.
func (r *Recorder) victim() *item {
	for i := len(r.queue) - 2; i >= 0; i-- {
		if it := r.queue[i]; it.Segment != nil {
			return it
		}
	}
	if last := r.last(); last != nil && last.Segment != nil {
		return last
	}
	return nil
}

// unnamed is a placeholder for the session of spilled records.
var unnamed = &capture.Session{}

// spillOne writes an item to the file. It releases the lock while writing.
func (r *Recorder) spillOne(it *item) error {
	if len(r.spill.files) == 0 {
		if err := r.openSpill(nil); err != nil {
			return err
		}
	}
	if r.spill.held == 0 {
		r.spill.size = 0
	}
	at, records := extent{file: r.spill.files[len(r.spill.files)-1], from: r.spill.size}, it.Segment
	it.busy = true
	r.mu.Unlock()
	e := &r.spill.encode
	e.Reset()
	e.EndSession()
	var err error
	for i := 0; i < len(records.Records) && err == nil; i++ {
		err = e.Write(unnamed, &records.Records[i])
	}
	if err == nil {
		_, err = at.file.WriteAt(e.Buf, at.from)
	}
	r.mu.Lock()
	it.busy = false
	if it.taken {
		return nil
	}
	if err != nil {
		return err
	}
	at.n = int64(len(e.Buf))
	it.at, it.Segment = at, nil
	r.reuse(records)
	r.memory -= it.cost
	r.spill.size += at.n
	r.spill.held++
	return nil
}

// openSpill creates a file in the next folder that works. failed is the error of the previous
// file, if any.
func (r *Recorder) openSpill(failed error) error {
	s := &r.spill
	for len(s.dirs) > 0 {
		dir := s.dirs[0]
		s.dirs = s.dirs[1:]
		f, err := os.CreateTemp(dir, "wirectl-*.spill")
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		_ = os.Remove(f.Name()) // if an open file cannot be removed, removeFiles does it later
		s.files, s.size = append(s.files, f), 0
		if failed != nil {
			r.notice("the temporary folder cannot be written: %v: waiting frames go to a file beside the capture", failed)
		} else {
			r.notice("the capture is written more slowly than frames arrive: waiting frames go to a temporary file")
		}
		return nil
	}
	return failed
}

// readExtent returns the records of an extent. They are valid until the next call.
func (s *spill) readExtent(at extent) (source, error) {
	s.buf = slices.Grow(s.buf[:0], int(at.n))[:at.n]
	if _, err := at.file.ReadAt(s.buf, at.from); err != nil {
		return nil, err
	}
	return pcapng.NewReader(bytes.NewReader(s.buf), int(at.n))
}

func (s *spill) removeFiles() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
		if gone := os.Remove(f.Name()); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

package history

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// A Recording is a record being written. It receives the bytes of a capture.
type Recording struct {
	Summary
	folder  *Folder
	file    *os.File
	written int64 // bytes since the ring was last trimmed
	err     error
}

// Start begins a record, after trimming the ring to make room.
func (f *Folder) Start(s Summary) (*Recording, error) {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return nil, err
	}
	_, _ = f.trim(s.Started) // a failure means that somebody is reading the record
	id, file, err := f.newCapture()
	if err != nil {
		return nil, err
	}
	s.ID = id
	if err = hold(file); err == nil {
		err = f.Update(&s)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return &Recording{Summary: s, folder: f, file: file}, nil
}

// trimEvery is the number of bytes after which the ring is trimmed again.
const trimEvery = 4 << 20

// errFull reports that the records being written exceed the limit by themselves.
var errFull = fmt.Errorf("the sessions that are being recorded have reached %d MiB", MaxBytes>>20)

// Write writes whole blocks of the capture. It fails if the records being written fill the
// ring.
func (r *Recording) Write(blocks []byte) (int, error) {
	if r.written += int64(len(blocks)); r.err == nil && r.written >= min(trimEvery, r.folder.maxBytes/4) {
		r.written = 0
		if size, err := r.folder.trim(time.Now()); err == nil && size > r.folder.maxBytes {
			r.err, r.Incomplete = errFull, true
		}
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.file.Write(blocks)
}

// Finish ends the record, with the current Summary of the Recording.
func (r *Recording) Finish() error {
	r.Ended = time.Now()
	err := errors.Join(r.folder.Update(&r.Summary), r.file.Close())
	_, _ = r.folder.trim(r.Ended)
	return err
}

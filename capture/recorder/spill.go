package recorder

import (
	"bytes"
	"errors"
	"os"
	"slices"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/internal/segment"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// A spill is the temporary file that takes what memory is too small for. It has
// one writer and one reader, of other extents; the recorder's lock guards all
// but the bytes.
type spill struct {
	file   *os.File
	size   int64
	held   int // items that are in the file
	active bool
	failed error

	encode segment.Encoder // of whoever spills
	buf    []byte          // of whoever reads
}

// An extent is where an item lies in the file.
type extent struct{ from, n int64 }

// overflow starts what spills, if nothing does already.
func (r *Recorder) overflow() {
	if r.spill.active || r.ended {
		return
	}
	r.spill.active = true
	r.spilling.Add(1)
	go r.spillAll()
}

// spillAll spills until enough of memory is free.
func (r *Recorder) spillAll() {
	defer r.spilling.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.spill.active = false }()
	for r.memory > r.cfg.Memory/2 {
		it := r.victim()
		if it == nil {
			return
		}
		if r.spill.failed = r.spillOne(it); r.spill.failed != nil {
			r.notice("recording ends: what waits for the capture cannot be kept: %v; the session goes on", r.spill.failed)
			r.end()
			return
		}
		r.changed.Broadcast()
	}
}

// victim returns the newest item that is whole and in memory, since the writer
// wants the oldest next; if there is none, the one that is being filled.
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

// unnamed is the session that spilled records are written under.
var unnamed = &capture.Session{}

// spillOne brings an item to the file. The lock is not held while it writes.
func (r *Recorder) spillOne(it *item) error {
	if err := r.openSpill(); err != nil {
		return err
	}
	if r.spill.held == 0 {
		r.spill.size = 0
	}
	at, records := extent{from: r.spill.size}, it.Segment
	it.busy = true
	r.mu.Unlock()
	e := &r.spill.encode
	e.Reset()
	e.End()
	var err error
	for i := 0; i < len(records.Records) && err == nil; i++ {
		err = e.Write(unnamed, &records.Records[i])
	}
	if err == nil {
		_, err = r.spill.file.WriteAt(e.Buf, at.from)
	}
	r.mu.Lock()
	it.busy = false
	if err != nil || it.taken {
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

func (r *Recorder) openSpill() error {
	if r.spill.file != nil {
		return nil
	}
	f, err := os.CreateTemp("", "wirectl-*.spill")
	if err != nil {
		return err
	}
	_ = os.Remove(f.Name()) // where an open file has to keep its name, close removes it
	r.spill.file = f
	r.notice("the capture is written more slowly than frames come: what waits for it goes to a temporary file")
	return nil
}

// read returns the records of an extent, until it is called again.
func (s *spill) read(at extent) (source, error) {
	s.buf = slices.Grow(s.buf[:0], int(at.n))[:at.n]
	if _, err := s.file.ReadAt(s.buf, at.from); err != nil {
		return nil, err
	}
	return pcapng.NewReader(bytes.NewReader(s.buf), int(at.n))
}

func (s *spill) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if gone := os.Remove(s.file.Name()); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

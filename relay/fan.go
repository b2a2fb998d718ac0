package relay

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wirectl/wirectl/capture"
)

// A Fan is the session of one or more relays: it numbers the frames and passes
// each record to every sink. A sink that fails is reported and removed, so that
// observers never affect the relay.
type Fan struct {
	mu    sync.Mutex
	seq   int64
	sinks []capture.Writer
	slow  bool        // not every sink accepts runs
	idle  atomic.Bool // no sink is left
	warn  func(text string)
}

// NewFan returns a Fan over sinks. It calls warn when one fails.
func NewFan(warn func(text string), sinks ...capture.Writer) *Fan {
	f := &Fan{sinks: sinks, warn: warn}
	for _, s := range sinks {
		if _, ok := s.(capture.RunWriter); !ok {
			f.slow = true
		}
	}
	return f
}

// Write passes on a record. It is safe for concurrent use.
func (f *Fan) Write(r *capture.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Kind == capture.Frame {
		f.seq++
		r.Seq = f.seq
	}
	f.each(func(s capture.Writer) error { return s.Write(r) })
}

// writeRun passes on a run of records.
func (f *Fan) writeRun(r *capture.Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Shared.Seq = f.seq + 1
	f.seq += int64(len(r.Frames))
	f.each(func(s capture.Writer) error {
		if w, ok := s.(capture.RunWriter); ok {
			return w.WriteRun(r)
		}
		for i := range r.Frames {
			rec := r.Record(i)
			if err := s.Write(&rec); err != nil {
				return err
			}
		}
		return nil
	})
}

// each calls give for every sink.
func (f *Fan) each(give func(capture.Writer) error) {
	f.sinks = slices.DeleteFunc(f.sinks, func(s capture.Writer) bool {
		err := give(s)
		if err != nil && !errors.Is(err, capture.ErrEnough) {
			f.warn(fmt.Sprintf("%v: the relay continues without it", err))
		}
		return err != nil
	})
	f.idle.Store(len(f.sinks) == 0)
}

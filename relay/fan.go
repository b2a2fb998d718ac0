package relay

import (
	"fmt"
	"sync"

	"github.com/wirectl/wirectl/capture"
)

// A Fan is the one session of one or more relays: it numbers the frames and
// hands each record to every sink. A sink that fails is told of and left out
// from then on, so that what watches can never end what works.
type Fan struct {
	mu    sync.Mutex
	seq   int64
	sinks []capture.Writer
	slow  bool // not every sink takes runs
	warn  func(text string)
}

// NewFan returns a Fan over sinks. Its warn is told when one fails.
func NewFan(warn func(text string), sinks ...capture.Writer) *Fan {
	f := &Fan{sinks: sinks, warn: warn}
	for _, s := range sinks {
		if _, ok := s.(capture.RunWriter); !ok {
			f.slow = true
		}
	}
	return f
}

// Write hands on a record. It may be called from several goroutines.
func (f *Fan) Write(r *capture.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Kind == capture.Frame {
		f.seq++
		r.Seq = f.seq
	}
	f.each(func(s capture.Writer) error { return s.Write(r) })
}

// writeRun hands on a run of records.
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

// each lets every sink take something.
func (f *Fan) each(give func(capture.Writer) error) {
	for i := 0; i < len(f.sinks); i++ {
		if err := give(f.sinks[i]); err != nil {
			f.sinks = append(f.sinks[:i], f.sinks[i+1:]...)
			i--
			f.warn(fmt.Sprintf("%v: the relay continues without it", err))
		}
	}
}

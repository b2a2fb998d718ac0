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
	warn  func(text string)
}

// NewFan returns a Fan over sinks. Its warn is told when one fails.
func NewFan(warn func(text string), sinks ...capture.Writer) *Fan {
	return &Fan{sinks: sinks, warn: warn}
}

// Write hands on a record. It may be called from several goroutines.
func (f *Fan) Write(r *capture.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Kind == capture.Frame {
		f.seq++
		r.Seq = f.seq
	}
	for i := 0; i < len(f.sinks); i++ {
		if err := f.sinks[i].Write(r); err != nil {
			f.sinks = append(f.sinks[:i], f.sinks[i+1:]...)
			i--
			f.warn(fmt.Sprintf("%v: the relay goes on without it", err))
		}
	}
}

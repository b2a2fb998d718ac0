package relay

import (
	"fmt"
	"sync"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
)

// A Fan is the one session of one or more relays: it numbers the frames and
// hands each record to every sink. A sink that fails is told of and left out
// from then on, so that what watches can never end what works.
//
// A [tap.Hub] among the sinks gets no frames while a relay's observer is behind:
// who looks on would miss them anyway, and is told how many.
type Fan struct {
	mu    sync.Mutex
	seq   int64
	sinks []capture.Writer
	warn  func(text string)
	lost  int64 // frames that the hubs have not been given
}

// NewFan returns a Fan over sinks. Its warn is told when one fails.
func NewFan(warn func(text string), sinks ...capture.Writer) *Fan {
	return &Fan{sinks: sinks, warn: warn}
}

// Write hands on a record. It may be called from several goroutines.
func (f *Fan) Write(r *capture.Record) { f.write(r, false) }

// skip passes over n frames if nobody but hubs would have them, and reports
// whether it did.
func (f *Fan) skip(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sinks {
		if _, ok := s.(*tap.Hub); !ok {
			return false
		}
	}
	f.seq += int64(n)
	f.lost += int64(n)
	return true
}

// write hands on a record, without delay if whoever has it is behind.
func (f *Fan) write(r *capture.Record, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Kind == capture.Frame {
		f.seq++
		r.Seq = f.seq
	}
	behind = behind && r.Kind == capture.Frame
	lost := f.lost
	if f.lost = 0; behind {
		f.lost = lost + 1
	}
	for i := 0; i < len(f.sinks); i++ {
		if hub, ok := f.sinks[i].(*tap.Hub); ok {
			if behind {
				continue
			}
			if lost > 0 {
				note := tap.Note{Tap: tap.Lost, Lost: lost}.Record()
				_ = hub.Write(&note) // which cannot fail
			}
		}
		if err := f.sinks[i].Write(r); err != nil {
			f.sinks = append(f.sinks[:i], f.sinks[i+1:]...)
			i--
			f.warn(fmt.Sprintf("%v: the relay goes on without it", err))
		}
	}
}

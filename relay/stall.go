package relay

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/frame"
)

// A Stall is a period in which bytes waited because a side did not read them.
type Stall struct {
	// What is the cause, such as "unit has not read its stdin".
	What  string
	For   time.Duration
	Bytes int64
}

// String describes the stall, as in "unit has not read its stdin for 31s; 4096 bytes wait".
func (s Stall) String() string {
	return fmt.Sprintf("%s for %v; %d bytes wait", s.What, s.For.Round(time.Millisecond), s.Bytes)
}

// A pendingWrite is the time and the size of the current write of a way. Reads are timed
// separately: only a side that does not read waiting bytes stalls, not one that sends nothing.
type pendingWrite struct {
	what  string
	since atomic.Int64 // nanoseconds since 1970; 0 while no write is under way
	bytes atomic.Int64
	// worst is the longest write that has ended.
	worst, size atomic.Int64

	told int64 // the since of the write that was reported last; only for the watcher
}

func (w *pendingWrite) startWrite(n int) {
	w.bytes.Store(int64(n))
	w.since.Store(time.Now().UnixNano())
}

func (w *pendingWrite) endWrite() {
	took := time.Now().UnixNano() - w.since.Swap(0)
	if took > w.worst.Load() {
		w.worst.Store(took)
		w.size.Store(w.bytes.Load())
	}
}

// now returns the duration of the current write.
func (w *pendingWrite) now(at time.Time) (s Stall, since int64) {
	s = Stall{What: w.what, Bytes: w.bytes.Load()}
	if since = w.since.Load(); since != 0 {
		s.For = time.Duration(at.UnixNano() - since)
	}
	return s, since
}

// stalls watches the writes of a relay.
type stalls struct {
	relay   *relay
	ways    [3]pendingWrite // by direction
	stderr  pendingWrite
	stopped sync.WaitGroup
}

func (s *stalls) init(r *relay) {
	s.relay = r
	s.ways[frame.C2U].what, s.ways[frame.U2C].what = "unit does not read", "controller does not read"
	if r.process != nil {
		s.ways[frame.C2U].what = "unit has not read its stdin"
		s.ways[frame.U2C].what = "controller does not drain stdout"
	}
	s.stderr.what = "stderr is not drained"
}

func (s *stalls) waitOf(dir frame.Dir) *pendingWrite { return &s.ways[dir] }

func (s *stalls) all() []*pendingWrite {
	return []*pendingWrite{&s.ways[frame.C2U], &s.ways[frame.U2C], &s.stderr}
}

// watch reports a write that takes longer than the relay's patience, and its end.
func (s *stalls) watch() {
	tick := time.Tick(max(s.relay.cfg.Patience/4, time.Millisecond))
	for {
		select {
		case <-s.relay.done:
			return
		case now := <-tick:
			for _, w := range s.all() {
				s.checkWrite(w, now)
			}
		}
	}
}

func (s *stalls) checkWrite(w *pendingWrite, now time.Time) {
	stall, since := w.now(now)
	switch {
	case w.told != 0 && since != w.told:
		over := time.Duration(w.worst.Load())
		w.told = 0
		s.relay.warn(fmt.Sprintf("%s: it went on after %v", w.what, over.Round(time.Millisecond)))
	case w.told == 0 && stall.For >= s.relay.cfg.Patience:
		w.told = since
		s.relay.warn(stall.String())
	}
}

// worst returns the longest wait so far.
func (s *stalls) worst() (worst Stall) {
	now := time.Now()
	for _, w := range s.all() {
		stall, _ := w.now(now)
		if ended := time.Duration(w.worst.Load()); ended > stall.For {
			stall.For, stall.Bytes = ended, w.size.Load()
		}
		if stall.For > worst.For {
			worst = stall
		}
	}
	return worst
}

package env

import (
	"sync"
	"sync/atomic"
	"time"
)

// A lease lets the goroutine that reads a wire answer calls itself, because waking another
// goroutine costs more than a quick call. If a call takes longer than leaseTime, another
// goroutine reads on, and calls get their own goroutines until they are quick again.
type lease struct {
	slow atomic.Bool // calls get goroutines of their own

	mu      sync.Mutex
	since   time.Time // when the call of the reading goroutine began; zero if it is reading
	request *request  // that the call belongs to
	timer   *time.Timer
	armed   bool // timer will fire
	closed  bool // nobody reads on any more
}

const leaseTime = 2 * time.Millisecond

// serve answers a call by f. It reports whether the calling goroutine is still the reader.
func (l *lease) serve(r *request, f func()) bool {
	start := time.Now()
	if l.slow.Load() {
		r.worker.running.Go(func() {
			f()
			if time.Since(start) < leaseTime/2 {
				l.slow.Store(false)
			}
		})
		return true
	}
	l.mu.Lock()
	l.since, l.request = start, r
	if l.timer == nil {
		l.timer = time.AfterFunc(leaseTime, l.expire)
	} else if !l.armed {
		l.timer.Reset(leaseTime)
	}
	l.armed = true
	l.mu.Unlock()
	f()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.since.Equal(start) {
		return false
	}
	l.since = time.Time{}
	return true
}

// expire makes another goroutine the reader if the reader's call takes too long.
func (l *lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if l.closed || l.since.IsZero() {
		return
	}
	if left := leaseTime - time.Since(l.since); left > 0 {
		l.armed = true
		l.timer.Reset(left)
		return
	}
	l.since = time.Time{}
	l.slow.Store(true)
	r := l.request
	r.worker.running.Go(func() { r.worker.read(r) })
}

// end ends the lease. No other goroutine becomes the reader any more.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

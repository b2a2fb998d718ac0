package env

import (
	"sync"
	"time"
)

// A clock measures how long a cell has been running. It stops during calls, except for the
// work that the code does meanwhile.
type clock struct {
	// timer fires at the limit, or before it: resetting it at each call would cost more than
	// calling over then.
	timer *time.Timer

	mu      sync.Mutex
	limit   time.Duration
	ran     time.Duration // up to since
	waited  time.Duration // during calls, up to since
	since   time.Time     // when ran and waited were updated
	calls   int
	armed   bool // timer will fire
	stopped bool
}

func newClock(limit time.Duration) *clock {
	return &clock{timer: time.NewTimer(limit), limit: limit, since: time.Now(), armed: true}
}

// add adds the time since c.since to ran or waited.
func (c *clock) add() {
	now := time.Now()
	if c.calls > 0 {
		c.waited += now.Sub(c.since)
	} else {
		c.ran += now.Sub(c.since)
	}
	c.since = now
}

// change calls f, unless the clock was stopped, and sets the timer.
func (c *clock) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	c.add()
	f()
	if left := c.limit - c.ran; left <= 0 || c.calls == 0 && !c.armed {
		c.armed = true
		c.timer.Reset(max(0, left))
	}
}

// over reports, when the timer has fired, whether the limit is reached.
func (c *clock) over() bool {
	c.change(func() { c.armed = false })
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ran >= c.limit
}

// began is told that a call has begun.
func (c *clock) began() { c.change(func() { c.calls++ }) }

// ended is told that a call has ended.
func (c *clock) ended() { c.change(func() { c.calls-- }) }

// worked is told how much processor time the code has used during calls. Of a wrong number,
// it counts no more than the time that has passed.
func (c *clock) worked(d time.Duration) {
	c.change(func() {
		d = min(max(0, d), c.waited)
		c.ran += d
		c.waited = 0
	})
}

// stop ends the measurement and returns its result.
func (c *clock) stop() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add()
	c.stopped = true
	c.timer.Stop()
	return c.ran
}

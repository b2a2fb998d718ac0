package env

import (
	"sync"
	"time"
)

// A clock measures how long a cell has been running. It stops during calls, except for the
// work that the code does meanwhile.
type clock struct {
	// timer fires at the limit, or before it: resetting it at each call would cost more.
	timer *time.Timer
	over  func() // is called at the limit

	mu      sync.Mutex
	limit   time.Duration
	ran     time.Duration // up to since
	waited  time.Duration // during calls, up to since
	since   time.Time     // when ran and waited were updated
	calls   int
	armed   bool // timer will fire
	stopped bool
}

func newClock(limit time.Duration, over func()) *clock {
	c := &clock{over: over, limit: limit, since: time.Now(), armed: true}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(limit, c.fired)
	return c
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

// fired calls over if the limit is reached.
func (c *clock) fired() {
	c.mu.Lock()
	c.add()
	left := c.limit - c.ran
	if c.armed = !c.stopped && c.calls == 0 && left > 0; c.armed {
		c.timer.Reset(left)
	}
	reached := !c.stopped && left <= 0
	c.mu.Unlock()
	if reached {
		c.over()
	}
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

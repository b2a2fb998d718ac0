package door

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/internal/life"
)

// Watch returns a context that ends with [broker.ErrGone] when the client goes
// away. first is the byte that the answer is sure to begin with: where the
// client's end of the stream leaves open whether it is gone or only has no more
// to ask, that byte is written ahead, and a client that is gone refuses it. Until
// stop is called nobody may read, and the context is of no use afterwards.
func (c *Conn) Watch(ctx context.Context, first byte) (_ context.Context, stop func()) {
	if c.Raw() == nil || !canWatch {
		return ctx, func() {}
	}
	_ = c.Flush() // a failure comes up again with the answer
	if c.watch == nil {
		c.watch = newWatch(c)
	}
	w := c.watch
	w.first = first
	w.over.Store(false)
	w.Begin(c.above(ctx))
	c.server.watched.Start(&w.delay)
	return &w.Context, w.stop
}

// above returns a context that ends with ctx. For the one that all calls of the
// server have it is a context of the connection, to which calls are hung cheaply.
func (c *Conn) above(ctx context.Context) context.Context {
	if ctx != c.serving {
		return ctx
	}
	if c.life == nil {
		c.life = new(life.Context)
		c.life.Begin(ctx)
	}
	return c.life
}

// unwatch lets go of what watching needed.
func (c *Conn) unwatch() {
	if c.life != nil {
		c.life.Finish()
	}
}

// watchDelay is how long a call runs before its client is watched: most that are
// answered from nearby are over by then, and cost no goroutine.
const watchDelay = 10 * time.Millisecond

// A watch is used for one call of a connection after the other.
type watch struct {
	life.Context
	conn  *Conn
	delay life.Timed
	first byte
	over  atomic.Bool
	ended chan struct{} // has an element when look has returned
	stop  func()
}

func newWatch(c *Conn) *watch {
	w := &watch{conn: c, ended: make(chan struct{}, 1)}
	w.stop = w.end
	w.delay.Due = func() { go w.look() }
	return w
}

// look waits until the client is gone, or the watch is over.
func (w *watch) look() {
	w.conn.setRead(time.Time{})
	if w.gone() {
		w.End(broker.ErrGone)
	}
	w.ended <- struct{}{}
}

func (w *watch) end() {
	w.over.Store(true)
	if !w.conn.server.watched.Stop(&w.delay) {
		w.conn.interrupt()
		<-w.ended
	}
	if !w.Finish() {
		w.conn.watch = nil // somebody may still look at this one
	}
}

// gone waits until the client is gone, or a deadline passes, and reports which.
func (w *watch) gone() bool {
	half := false
	gone := false
	err := w.conn.Raw().Read(func(fd uintptr) bool {
		if w.over.Load() { // and the deadline may have been set before ours was taken off
			return true
		}
		ended, broken := state(fd)
		if ended && !half && !broken {
			half = true
			broken = w.conn.writeEarly(w.first) != nil // a refusal comes as another event
		}
		gone = broken
		return broken
	})
	return err == nil && gone
}

package door

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/broker"
)

// watchDelay is how long a call runs before its client is watched. Most calls to nearby
// providers end earlier, and cost no goroutine.
const watchDelay = 10 * time.Millisecond

// Watch returns a context that ends with [broker.ErrGone] when the client leaves. A client
// that has closed its side may be gone, or may only have no more requests. To find out, Watch
// writes first early, the byte that the answer is sure to begin with: the system of a client
// that is gone rejects it. Nobody may read until stop is called; use the context only until then.
func (c *Conn) Watch(ctx context.Context, first byte) (_ context.Context, stop func()) {
	if c.raw == nil || !canWatch {
		return ctx, func() {}
	}
	_ = c.Flush() // a failure is returned again with the answer
	ctx, cancel := context.WithCancelCause(ctx)
	var over atomic.Bool
	ended := make(chan struct{})
	timer := time.AfterFunc(watchDelay, func() {
		defer close(ended)
		_ = c.SetReadDeadline(time.Time{})
		if c.isGone(first, &over) {
			cancel(broker.ErrGone)
		}
	})
	return ctx, func() {
		over.Store(true)
		if !timer.Stop() {
			c.interrupt()
			<-ended
		}
		cancel(nil)
	}
}

// isGone waits until the client is gone or the call is over, and reports whether it is gone.
func (c *Conn) isGone(first byte, over *atomic.Bool) (gone bool) {
	half := false
	err := c.raw.Read(func(fd uintptr) bool {
		if over.Load() { // the interrupt may have come before the deadline was removed
			return true
		}
		ended, broken := state(fd)
		if ended && !half && !broken {
			half = true
			broken = c.writeEarly(first) != nil // a rejection arrives as another event
		}
		gone = broken
		return broken
	})
	return err == nil && gone
}

package door

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/broker"
)

// watchDelay is how long a call runs before its client is watched: most that are
// answered from nearby are over by then, and cost no goroutine.
const watchDelay = 10 * time.Millisecond

// Watch returns a context that ends with [broker.ErrGone] when the client goes
// away. first is the byte that the answer is sure to begin with: where the
// client's end of the stream leaves open whether it is gone or only has no more
// to ask, that byte is written ahead, and a client that is gone refuses it. Until
// stop is called nobody may read, and the context is of no use afterwards.
func (c *Conn) Watch(ctx context.Context, first byte) (_ context.Context, stop func()) {
	if c.raw == nil || !canWatch {
		return ctx, func() {}
	}
	_ = c.Flush() // a failure comes up again with the answer
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

// isGone waits until the client is gone, or the call is over, and reports which.
func (c *Conn) isGone(first byte, over *atomic.Bool) (gone bool) {
	half := false
	err := c.raw.Read(func(fd uintptr) bool {
		if over.Load() { // the interrupt may have come before the deadline was taken off
			return true
		}
		ended, broken := state(fd)
		if ended && !half && !broken {
			half = true
			broken = c.writeEarly(first) != nil // a refusal comes as another event
		}
		gone = broken
		return broken
	})
	return err == nil && gone
}

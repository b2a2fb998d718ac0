// Package wait waits for a time or the end of a context.
package wait

import (
	"context"
	"time"
)

// Done waits until done is closed, but at most for d. It reports whether done is closed.
func Done(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// For waits for d, or for the end of ctx, whose cause it returns. If d is not positive, it
// only checks ctx.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

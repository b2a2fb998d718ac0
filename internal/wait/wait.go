// Package wait waits for a time that can be cut short.
package wait

import (
	"context"
	"time"
)

// For waits for d, or for the end of ctx, whose cause it returns. No time is no
// wait, and asks ctx all the same.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
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

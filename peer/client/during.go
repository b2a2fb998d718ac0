package client

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// During makes call, and beside it another call, which it cancels when call has ended.
func During(beside, call Call) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		side, end := context.WithCancelCause(ctx)
		ended := make(chan error, 1)
		go func() { ended <- beside(side, out) }()
		err := call(ctx, out)
		end(errOver)
		if sideErr := <-ended; !errors.Is(sideErr, errOver) {
			err = cmp.Or(err, sideErr)
		}
		return err
	})
}

var errOver = errors.New("the parallel call has ended")

// settled is c for a call whose parts come from several goroutines, which may outlive it:
// parts are passed on one at a time, and none after its end.
func settled(c Call) Call {
	return func(ctx context.Context, out func(Part)) error {
		var mu sync.Mutex
		over := false
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			over = true
		}()
		return c(ctx, func(p Part) {
			mu.Lock()
			defer mu.Unlock()
			if !over {
				out(p)
			}
		})
	}
}

// runAfter calls f after d, unless d is 0 or stop is called first. stop waits for f to return.
func runAfter(d time.Duration, f func()) (stop func()) {
	if d == 0 {
		return func() {}
	}
	done := make(chan struct{})
	t := time.AfterFunc(d, func() {
		defer close(done)
		f()
	})
	return func() {
		if !t.Stop() {
			<-done
		}
	}
}

// await waits for an answer. It fails with *reason when done is closed, or when ctx ends.
func await[T any](ctx context.Context, answer <-chan T, done <-chan struct{}, reason *error) (a T, err error) {
	select {
	case a = <-answer:
		return a, nil
	case <-done:
		select {
		case a = <-answer: // it came just before the end
			return a, nil
		default:
			return a, *reason
		}
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
}

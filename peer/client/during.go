package client

import (
	"cmp"
	"context"
	"errors"
	"sync"
)

// During is the call that makes call, and beside it another one that is ended
// when call has ended.
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

// errOver ends a call beside another that has ended.
var errOver = errors.New("the call beside it has ended")

// settled is the call c, whose parts may come from several goroutines, also from
// such that outlive it: they are handed out one at a time, and what comes after
// its end is not.
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

// await waits for an answer. There is none when done is closed, for the reason that is
// known then, or when ctx ends.
func await[T any](ctx context.Context, answer <-chan T, done <-chan struct{}, reason *error) (a T, err error) {
	select {
	case a = <-answer:
		return a, nil
	case <-done:
		select {
		case a = <-answer: // it was the last that came
			return a, nil
		default:
			return a, *reason
		}
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
}

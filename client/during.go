package client

import (
	"context"
	"errors"
	"sync"
)

// During is the call that makes call, and beside it another one that is ended
// when call has ended.
func During(beside, call Call) Call {
	return func(ctx context.Context, out func(Part)) error {
		shared := serialized(out)
		side, end := context.WithCancelCause(ctx)
		ended := make(chan error, 1)
		go func() { ended <- beside(side, shared) }()
		err := call(ctx, shared)
		end(errOver)
		if sideErr := <-ended; !errors.Is(sideErr, errOver) {
			err = firstOf(err, sideErr)
		}
		return err
	}
}

// errOver ends a call beside another that has ended.
var errOver = errors.New("the call beside it has ended")

func serialized(out func(Part)) func(Part) {
	var mu sync.Mutex
	return func(p Part) {
		mu.Lock()
		defer mu.Unlock()
		out(p)
	}
}

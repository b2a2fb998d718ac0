package broker

import (
	"context"
	"errors"
)

// A Report says how a call ended.
type Report struct {
	Outcome Outcome
	Err     error
	// By is why a cancelled call was given up: gone, cancel or shutdown.
	By string
	// Stopped is the hop at which a cancelled call was when the cancel came:
	// route, before any provider was chosen; queue, before the provider was
	// asked; provider.
	Stopped string
}

func outcomeOf(err error) Outcome {
	if err == nil {
		return OK // before errors.As, for which the variable takes memory
	}
	var unknown *UnknownModelError
	switch {
	case errors.Is(err, ErrGone), errors.Is(err, ErrCancelled), errors.Is(err, ErrShutdown), errors.Is(err, context.Canceled):
		return Cancelled
	case errors.As(err, &unknown):
		return Refused
	}
	return Failed
}

func newReport(c *Call, err error) *Report {
	r := &Report{Outcome: outcomeOf(err), Err: err}
	if r.Outcome != Cancelled {
		return r
	}
	switch {
	case errors.Is(err, ErrGone):
		r.By = "gone"
	case errors.Is(err, ErrShutdown):
		r.By = "shutdown"
	default:
		r.By = "cancel"
	}
	switch n := len(c.Hops); {
	case n == 0:
		r.Stopped = "route"
	case !c.Hops[n-1].Sent:
		r.Stopped = "queue"
	default:
		r.Stopped = "provider"
	}
	return r
}

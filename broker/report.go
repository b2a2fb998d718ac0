package broker

import (
	"context"
	"errors"
)

// A Report says how a call ended.
type Report struct {
	Outcome Outcome
	Err     error
	// By is the cause of a cancelled call: gone, cancel or shutdown.
	By string
	// Stopped is how far a cancelled call had come: route, before a provider was chosen;
	// queue, before the request was sent; provider, after that.
	Stopped string
}

func outcomeOf(err error) Outcome {
	if err == nil {
		return OK // before the variable of errors.As is allocated
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

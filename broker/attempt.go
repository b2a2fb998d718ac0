package broker

import (
	"context"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
)

// try asks the provider of r, within the limits of time.
func (r *route) try(ctx context.Context, req *provider.Request, c *Call) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.Total > 0 {
		defer time.AfterFunc(r.Total, func() { cancel(errTotal) }).Stop()
	}
	began := false
	if c.Emit != nil {
		first := func() bool { return true }
		if r.FirstPart > 0 {
			t := time.AfterFunc(r.FirstPart, func() { cancel(errFirstPart) })
			defer t.Stop()
			first = t.Stop
		}
		req.Emit = func(p provider.Part) error {
			if !began {
				began = true
				first()
			}
			return c.Emit(p)
		}
	}
	return begun(r.call(ctx, req, c), began)
}

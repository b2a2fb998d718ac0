package broker

import (
	"context"
	"sync"
	"time"

	"github.com/wirectl/wirectl/broker/life"
	"github.com/wirectl/wirectl/broker/provider"
)

// An attempt is what a provider is asked, and for how long. It is used again.
type attempt struct {
	life.Context
	req   provider.Request
	total life.Timed
}

var attempts = sync.Pool{New: func() any {
	a := new(attempt)
	a.total.Due = func() { a.End(errTotal) }
	return a
}}

// run asks the provider of r. If again is false, the attempt must not be used
// again.
func (a *attempt) run(ctx context.Context, r *route, c *Call) (again bool, err error) {
	a.Begin(ctx)
	began := false
	if c.Emit != nil {
		first := func() {}
		if r.FirstPart > 0 {
			t := time.AfterFunc(r.FirstPart, func() { a.End(errFirstPart) })
			defer t.Stop()
			first = func() { t.Stop() }
		}
		a.req.Emit = func(p provider.Part) error {
			if !began {
				began = true
				first()
			}
			return c.Emit(p)
		}
	}
	if r.total != nil {
		r.total.Start(&a.total)
	}
	err = begun(r.call(&a.Context, &a.req, c), began)
	inTime := r.total == nil || r.total.Stop(&a.total)
	return a.Finish() && inTime, err
}

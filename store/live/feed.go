package live

import (
	"context"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/store"
)

// Feed hands a session to the store, to its end. The wire is nil if it is not a tap's.
func Feed(ctx context.Context, s *store.Store, in decode.Input, cfg decode.Config, w *Wire) {
	if in.Capture != nil {
		in.Capture = newOverheard(in.Capture, s, w)
	}
	if w != nil {
		cfg.Workers = 1 // a tap gives small batches, and handing one over costs more than reading it
	}
	_ = s.Take(ctx, in, cfg) // the screen says it
}

// overheard is a capture. If it is a tap, its wire sees the records and numbers their
// connections.
type overheard struct {
	capture.Reader
	live   capture.Live   // the reader, if it is one, or nil
	placed capture.Placed // the same
	store  *store.Store
	wire   *Wire // or nil
}

func newOverheard(r capture.Reader, s *store.Store, w *Wire) *overheard {
	o := &overheard{Reader: r, store: s, wire: w}
	o.live, _ = r.(capture.Live)
	o.placed, _ = r.(capture.Placed)
	return o
}

// Next reads the next record.
func (o *overheard) Next(r *capture.Record) error {
	err := o.Reader.Next(r)
	if o.Session().Altered {
		o.store.Alter()
	}
	if err != nil || o.wire != nil && o.wire.hear(r) {
		return err
	}
	if o.wire != nil {
		o.wire.number(r)
	}
	return nil
}

// Place is where the current record begins; see [capture.Placed].
func (o *overheard) Place() int64 {
	if o.placed == nil {
		return -1
	}
	return o.placed.Place()
}

// Buffered reports whether Next would not wait.
func (o *overheard) Buffered() bool { return o.live == nil || o.live.Buffered() }

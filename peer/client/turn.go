package client

import (
	"context"
	"time"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A turnEnd is how a turn has ended: the result is JSON.
type turnEnd struct {
	result []byte
	err    error
}

// A turn is what an agent does for a prompt after it has accepted that.
type turn struct {
	out  func(Part)
	over chan turnEnd // it has room for one
}

// NewSession opens a session of an agent, which prompts then belong to.
func (r *RPC) NewSession(ctx context.Context) (id string, err error) {
	id, err = r.dialect.open(ctx, r)
	r.session = id
	return id, err
}

// Prompt is the call that sends a prompt in the session, and waits for the end of the turn.
// Of several the second waits for the end of the first.
func (r *RPC) Prompt(text string) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		r.turning.Lock()
		defer r.turning.Unlock()
		method, params := r.dialect.prompt(r, text)
		raw := jsonscan.MustMarshal(params)
		t := &turn{out: out, over: make(chan turnEnd, 1)}
		r.setTurn(t, "")
		defer r.setTurn(nil, "")
		asking := ctx
		if r.dialect.named {
			var stop func()
			asking, stop = outliving(ctx, parting)
			defer stop()
		}
		result, err := r.request(asking, method, raw, out)
		if err != nil {
			return err
		}
		if r.dialect.accepted(r, result) {
			end, err := await(ctx, t.over, r.ended, &r.err)
			switch {
			case err != nil && ctx.Err() != nil:
				r.cancelRequest(ctx, "", raw)
				bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), parting)
				defer stop()
				_, _ = await(bounded, t.over, r.ended, &r.err) // it is for the record
				return err
			case err != nil:
				return err
			case end.err != nil:
				return end.err
			}
			result = end.result
		}
		out(Part{Aside: true, Name: "result", JSON: result})
		return nil
	})
}

// outliving returns a context that ends that much later than ctx.
func outliving(ctx context.Context, by time.Duration) (later context.Context, stop func()) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() {
		time.AfterFunc(by, func() { cancel(context.Cause(ctx)) })
	})
	return later, func() {
		unwatch()
		cancel(nil)
	}
}

// setTurn sets the turn that goes on, or nil, and its id.
func (r *RPC) setTurn(t *turn, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn, r.turnID = t, id
}

// endTurn ends the turn that goes on, if m says so.
func (r *RPC) endTurn(m *rpcMessage) {
	r.mu.Lock()
	t := r.turn
	r.mu.Unlock()
	if t == nil || r.dialect.turnEnd == nil {
		return
	}
	if end, ok := r.dialect.turnEnd(r, m); ok {
		select {
		case t.over <- end:
		default: // it has ended before
		}
	}
}

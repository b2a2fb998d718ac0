package client

import (
	"context"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A turnEnd is the end of a turn. The result is JSON.
type turnEnd struct {
	result []byte
	err    error
}

// A turn is the work of an agent on an accepted prompt.
type turn struct {
	out  func(Part)
	over chan turnEnd // has a buffer of one
}

// NewSession opens a session of an agent, for the prompts to come.
func (r *RPC) NewSession(ctx context.Context) (id string, err error) {
	id, err = r.dialect.open(ctx, r)
	r.session = id
	return id, err
}

// Prompt sends a prompt in the session and waits for the end of the turn. Concurrent
// prompts are sent one after the other.
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
				_, _ = await(bounded, t.over, r.ended, &r.err) // so that the record has it
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

// outliving returns a context that ends by later than ctx.
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

func (r *RPC) setTurn(t *turn, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn, r.turnID = t, id
}

// endTurn ends the current turn if m says so.
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
		default: // it has ended already
		}
	}
}

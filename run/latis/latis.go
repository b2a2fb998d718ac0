// Package latis answers the prompts of latis by a broker: those of a unit, and those at its doors.
package latis

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/peer/unit"
)

// An Agent answers the prompts of a unit by a broker. The model is that of a prompt's metadata, if it
// has one.
type Agent struct {
	Broker       *broker.Broker
	Door, Client string // as which the broker accounts for it
	Model        string
	Tap          broker.Tap
}

// Answer answers p, as [unit.Agent] wants it.
func (a Agent) Answer(ctx context.Context, p *unit.Prompt, emit func(string) error) (map[string]string, error) {
	c := &broker.Call{
		Door: a.Door, Client: a.Client, Ref: p.ID, Model: cmp.Or(p.Metadata["model"], a.Model), Parent: p.Metadata["traceparent"],
		Prompt: provider.Quote(p.Content), Tap: a.Tap,
		Emit: func(part provider.Part) error {
			if part.Text == nil {
				return nil
			}
			return emit(provider.Unquote(part.Text))
		},
	}
	// The broker has its own names for why a call is given up.
	calling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(brokerCause(context.Cause(ctx))) })()
	if err := a.Broker.Do(calling, c); err != nil {
		return nil, &unit.Error{Code: unit.AgentFailed, Message: broker.Message(err)}
	}
	u := c.Completion.Usage
	return map[string]string{
		"model": c.Name, "finish_reason": c.Completion.Finish,
		"prompt_tokens": strconv.FormatInt(u.Input, 10), "completion_tokens": strconv.FormatInt(u.Output, 10),
	}, nil
}

// brokerCause is what a broker calls the cause of a prompt's end.
func brokerCause(cause error) error {
	switch cause {
	case unit.ErrCancelled:
		return broker.ErrCancelled
	case unit.ErrStopped:
		return broker.ErrShutdown
	}
	return broker.ErrGone
}

// Door returns what serves the connections of the doors for latis: a unit
// whose agent is the broker. A session of it is resumed on any of them.
func Door(b *broker.Broker, log *slog.Logger) web.Serve {
	u := unit.New(nil, unit.Options{SessionTTL: unit.DefaultTTL})
	return func(ctx context.Context, conn *door.Stream, p web.Peer) {
		agent := &doorAgent{Agent: Agent{Broker: b, Door: web.Name, Client: p.Client, Tap: p.Tap.Tap()}, door: ctx}
		conn.Due = func() bool { return agent.running.Load() > 0 }
		if err := u.With(agent).Serve(context.WithoutCancel(ctx), conn); err != nil {
			log.Debug("a connection failed", "door", web.Name, "error", err)
		}
	}
}

// A doorAgent knows how many prompts it works on, and gives them up, with an
// answer yet, when the door is shut: a unit whose own context ends is silent.
type doorAgent struct {
	unit.Agent
	door    context.Context
	running atomic.Int64
}

func (a *doorAgent) Answer(ctx context.Context, p *unit.Prompt, emit func(string) error) (map[string]string, error) {
	a.running.Add(1)
	defer a.running.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.door, func() { cancel(context.Canceled) })()
	return a.Agent.Answer(ctx, p, emit)
}

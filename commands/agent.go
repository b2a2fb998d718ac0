package commands

import (
	"cmp"
	"context"
	"strconv"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/peer/unit"
)

// A brokerAgent answers the prompts of a unit by a broker. The model is that of a
// prompt's metadata, where it has one.
type brokerAgent struct {
	broker       *broker.Broker
	door, client string // as which the broker accounts for it
	model        string
	tap          broker.Tap
}

// Answer answers p, as [unit.Agent] wants it.
func (a brokerAgent) Answer(ctx context.Context, p *unit.Prompt, emit func(string) error) (map[string]string, error) {
	c := &broker.Call{
		Door: a.door, Client: a.client, Ref: p.ID, Model: cmp.Or(p.Metadata["model"], a.model), Parent: p.Metadata["traceparent"],
		Prompt: provider.Quote(p.Content), Tap: a.tap,
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
	if err := a.broker.Do(calling, c); err != nil {
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

package commands

import (
	"context"
	"strconv"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/latis"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/unit"
)

// serveLatis serves a connection of the door latis: a unit whose agent is the
// broker.
func (s *serving) serveLatis(ctx context.Context, conn *door.Stream, p latis.Peer) {
	agent := unit.AgentFunc(func(ctx context.Context, prompt *unit.Prompt, emit func(string) error) (map[string]string, error) {
		return s.prompt(ctx, p, prompt, emit)
	})
	if err := unit.New(agent, unit.Options{}).Serve(ctx, conn); err != nil {
		s.log.Debug("a connection failed", "door", latis.Name, "error", err)
	}
}

// prompt makes a call of a prompt. Its metadata may name a model.
func (s *serving) prompt(ctx context.Context, p latis.Peer, prompt *unit.Prompt, emit func(string) error) (map[string]string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(broker.ErrCancelled) })()
	c := &broker.Call{
		Door: latis.Name, Client: p.Client, Ref: prompt.ID, Model: prompt.Metadata["model"], Parent: prompt.Metadata["traceparent"],
		Prompt: provider.Quote(prompt.Content), Tap: p.Tap.Tap(),
		Emit: func(part provider.Part) error {
			if part.Text == nil {
				return nil
			}
			return emit(provider.Unquote(part.Text))
		},
	}
	if err := s.broker.Do(ctx, c); err != nil {
		return nil, &unit.Error{Code: unit.AgentFailed, Message: broker.Message(err)}
	}
	u := c.Completion.Usage
	return map[string]string{
		"model": c.Name, "finish_reason": c.Completion.Finish,
		"prompt_tokens": strconv.FormatInt(u.Input, 10), "completion_tokens": strconv.FormatInt(u.Output, 10),
	}, nil
}

package commands

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/unit"
)

// A brokerAgent answers the prompts of a unit by a broker. The model is that of a
// prompt's metadata, where it has one.
type brokerAgent struct {
	broker *broker.Broker
	door   string // as which the broker accounts for it
	model  string
}

// Answer answers p, as [unit.Agent] wants it.
func (a brokerAgent) Answer(ctx context.Context, p *unit.Prompt, emit func(string) error) (map[string]string, error) {
	prompt, err := json.Marshal(p.Content)
	if err != nil {
		return nil, err
	}
	call := &broker.Call{
		Door: a.door, Client: p.Session, Ref: p.ID, Model: a.model, Prompt: prompt,
		Emit: func(part provider.Part) error { return emitToken(part.Text, emit) },
	}
	if model := p.Metadata["model"]; model != "" {
		call.Model = model
	}
	doing, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(brokerCause(context.Cause(ctx))) })
	defer stop()
	if err := a.broker.Do(doing, call); err != nil {
		return nil, &unit.Error{Code: "PROVIDER_ERROR", Message: broker.Message(err)}
	}
	return map[string]string{
		"model":         call.Name,
		"input_tokens":  strconv.FormatInt(call.Completion.Usage.Input, 10),
		"output_tokens": strconv.FormatInt(call.Completion.Usage.Output, 10),
	}, nil
}

// brokerCause is what a broker calls the cause of a prompt's end.
func brokerCause(cause error) error {
	switch cause {
	case unit.ErrCancelled:
		return broker.ErrCancelled
	case unit.ErrGone:
		return broker.ErrGone
	}
	return broker.ErrShutdown
}

// emitToken emits the text of a JSON string token, if there is one.
func emitToken(token []byte, emit func(string) error) error {
	var text string
	if token == nil {
		return nil
	}
	if err := json.Unmarshal(token, &text); err != nil || text == "" {
		return err
	}
	return emit(text)
}

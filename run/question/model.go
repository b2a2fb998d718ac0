package question

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	door "github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/rlm"
)

// A model gives a run the models of a broker.
type model struct {
	broker *broker.Broker
	config *config.Config
	conn   *observe.Conn // publishes the calls; may be nil
	prices prices.List

	client, account string // of the calls; may be empty
}

var errNoPrice = errors.New("the cost of the run is limited, and no price is known")

// checkName returns an error if a model cannot be used.
func (m *model) checkName(name string, needPrice bool) error {
	if err := m.broker.Find(name); err != nil {
		return err
	}
	if m.config.Facts(name).RLM {
		return fmt.Errorf("the model %q is a recursive language model itself: use a model with a provider", name)
	}
	if _, known := m.price(name); !known && needPrice {
		return fmt.Errorf("%w for the model %q", errNoPrice, m.config.Facts(name).Names[0])
	}
	return nil
}

// Complete implements [rlm.Model].
func (m *model) Complete(ctx context.Context, r rlm.Request) (rlm.Completion, error) {
	c := broker.Call{Model: r.Model, Ref: r.Ref, Parent: r.Traceparent, Client: m.client, Account: m.account, Prompt: r.Prompt}
	if r.Messages != nil {
		if err := setMessages(&c, &r); err != nil {
			return rlm.Completion{}, err
		}
	}
	if err := door.Do(ctx, m.broker, &c, m.conn); err != nil {
		return rlm.Completion{Model: c.Name, Took: c.Took}, errors.New(broker.Message(err))
	}
	price, _ := m.price(r.Model)
	tokens := func(in, out int64) rlm.Tokens {
		return rlm.Tokens{Input: in, Output: out, Cost: price.Cost(in, out)}
	}
	used, text := c.Completion.Usage, c.Completion.Plain()
	done := rlm.Completion{
		Model: c.Name, Text: text, Finish: c.Completion.Finish, Took: c.Took, Tokens: tokens(used.Input, used.Output),
		Estimate: tokens(int64(len(c.Prompt)+len(c.Body))/rlm.BytesPerToken, int64(len(text))/rlm.BytesPerToken),
	}
	for i, call := range c.Completion.ToolCalls {
		id := cmp.Or(call.ID, fmt.Sprintf("%s-%d", r.Ref[strings.LastIndex(r.Ref, "/")+1:], i+1))
		done.Calls = append(done.Calls, rlm.ToolCall{ID: id, Name: call.Name, Arguments: call.Arguments})
	}
	return done, nil
}

// setMessages makes a conversation the prompt of a call, or a chat if there are tools or a
// schema.
func setMessages(c *broker.Call, r *rlm.Request) (err error) {
	if c.Prompt == nil {
		c.Prompt, err = jsonscan.Marshal(r.Messages)
	}
	if err != nil || len(r.Tools) == 0 && r.Schema == nil {
		return err
	}
	type object = map[string]any
	chat := object{"messages": json.RawMessage(c.Prompt)}
	c.Prompt = nil
	if len(r.Tools) > 0 {
		tools := make([]object, len(r.Tools))
		for i, t := range r.Tools {
			tools[i] = object{"type": "function", "function": t}
		}
		chat["tools"] = tools
		switch chat["tool_choice"] = r.ToolChoice; r.ToolChoice {
		case "auto", "none", "required":
		default:
			chat["tool_choice"] = object{"type": "function", "function": object{"name": r.ToolChoice}}
		}
	}
	if r.Schema != nil {
		chat["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "answer", "schema": r.Schema}}
	}
	c.Body, err = jsonscan.Marshal(chat)
	return err
}

// CountTokens implements [rlm.TokenCounter], for models whose provider counts.
func (m *model) CountTokens(ctx context.Context, name string, messages []rlm.Message) (int, error) {
	c := broker.Call{Door: door.Name, Model: name}
	var err error
	if c.Prompt, err = jsonscan.Marshal(messages); err == nil {
		err = m.broker.Count(ctx, &c)
	}
	return int(c.Completion.Usage.Input), err
}

// price returns the price of a model: from the configuration, or else from the user's prices
// under any of its names.
func (m *model) price(name string) (prices.Price, bool) {
	facts := m.config.Facts(name)
	if facts.Price != nil {
		return *facts.Price, true
	}
	for _, name := range facts.Names {
		if price, ok := m.prices.Of(name); ok {
			return price, true
		}
	}
	return prices.Price{}, false
}

// Window implements [rlm.Model].
func (m *model) Window(name string) int { return m.config.Facts(name).ContextWindow }

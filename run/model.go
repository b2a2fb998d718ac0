package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	door "github.com/wirectl/wirectl/broker/door/rlm"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/rlm"
)

// A model is the models of a broker.
type model struct {
	broker    *broker.Broker
	config    *config.Config
	conn      *publish.Conn // where calls are seen; may be nil
	prices    prices.List
	needPrice bool
}

// Complete implements [rlm.Model].
func (m *model) Complete(ctx context.Context, r rlm.Request) (rlm.Completion, error) {
	price, known := m.price(r.Model)
	if !known && m.needPrice {
		return rlm.Completion{}, fmt.Errorf("no price is known for the model %q, and the cost of the run is limited", r.Model)
	}
	c := broker.Call{Model: r.Model, Ref: r.Ref, Parent: r.Traceparent, Prompt: r.Prompt}
	if r.Messages != nil {
		var err error
		if c.Prompt, err = jsonscan.Marshal(r.Messages); err != nil {
			return rlm.Completion{}, err
		}
	}
	if err := door.Do(ctx, m.broker, &c, m.conn); err != nil {
		return rlm.Completion{Model: c.Name, Took: c.Took}, errors.New(broker.Message(err))
	}
	used := c.Completion.Usage
	return rlm.Completion{
		Model: c.Name, Text: c.Completion.Plain(), Finish: c.Completion.Finish, Took: c.Took,
		Tokens: rlm.Tokens{Input: used.Input, Output: used.Output, Cost: price.Cost(used.Input, used.Output)},
	}, nil
}

// price is that of a model: by the configuration, or else by the user's prices under any of
// its names.
func (m *model) price(name string) (prices.Price, bool) {
	facts := m.config.Facts(name)
	if facts.Price != nil {
		return *facts.Price, true
	}
	for _, name := range facts.Names {
		if price, ok := m.prices[name]; ok {
			return price, true
		}
	}
	return prices.Price{}, false
}

// Window implements [rlm.Model].
func (m *model) Window(name string) int { return m.config.Facts(name).ContextWindow }

package broker

import (
	"context"
	"errors"

	"github.com/wirectl/wirectl/broker/provider"
)

// A Group is what brokers share: limits of providers, budgets, open breakers and usage.
// Its methods are called for each call, so that most of them have to be local.
type Group interface {
	// Limiter returns the rate that a provider has at all brokers together.
	Limiter(provider string, perSecond float64, burst int) Limiter
	// Admit counts a call against all of the budgets, or against none if one is used up,
	// and Charge adds what the call came to.
	Admit(ctx context.Context, purses []Purse) error
	Charge(purses []Purse, tokens int64, cost float64)
	// Spent is what the group has used of a budget, as far as the broker knows.
	Spent(p Purse) Spent
	// Opened tells the others that the breaker of b has opened; IsOpen reports whether
	// it is open at one of them.
	Opened(b *Backend)
	IsOpen(provider string) bool
	// Usage is that of the whole group, given this broker's own.
	Usage(ctx context.Context, own []Usage) ([]Usage, error)
}

// A Limiter has calls wait for their turn.
type Limiter interface {
	Wait(ctx context.Context) error
}

// ErrHubLost: what the group shares cannot be reached, and the configuration has calls
// fail then.
var ErrHubLost = &provider.Error{Cause: provider.Overloaded, Err: errors.New("the limits that brokers share cannot be checked: the hub cannot be reached, and on_hub_loss is closed")}

// GroupUsage returns what all brokers of the group were used for, nil if there is none.
func (b *Broker) GroupUsage(ctx context.Context) ([]Usage, error) {
	g := b.table.Load().group
	if g == nil {
		return nil, nil
	}
	return g.Usage(ctx, b.Usage())
}

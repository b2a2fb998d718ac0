package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

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

// Workers are other machines that answer calls.
type Workers interface {
	provider.Provider
	// Offers reports whether any of them offers a model, and Offered what they offer.
	Offers(model string) bool
	Offered() []string
}

// workersTime bounds calls that go to workers without the configuration saying so.
const workersTime = 10 * time.Minute

// addWorkers makes the model of names that only workers know.
func (t *table) addWorkers(w Workers, n *metrics) {
	if w == nil {
		return
	}
	b := t.backendOf(w)
	if b == nil {
		b = newBackend(&Backend{Name: t.unused("workers"), Provider: w, Total: workersTime}, n, t.secrets, t.group)
		t.backends = append(t.backends, b)
	}
	t.workers, t.rest = w, &model{name: "workers", routes: []route{{b, "", 1}}, turns: make([]int, 1)}
}

// backendOf returns the backend that the configuration has for workers, nil if it has none.
func (t *table) backendOf(w Workers) *backend {
	for _, b := range t.backends {
		if b.Provider == provider.Provider(w) {
			return b
		}
	}
	return nil
}

// unused returns a name that no backend has.
func (t *table) unused(name string) string {
	for slices.ContainsFunc(t.backends, func(b *backend) bool { return b.Name == name }) {
		name += "-joined"
	}
	return name
}

// withOffered adds to names what workers offer.
func (t *table) withOffered(names []string, patterns bool) []string {
	if t.workers == nil {
		return names
	}
	names = slices.Clone(names)
	for _, name := range t.workers.Offered() {
		if patterns || !strings.Contains(name, "*") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// offered returns the names of models; without patterns, those alone that can be asked for
// as they are.
func (t *table) offered(patterns bool) []string {
	if patterns {
		return t.withOffered(t.names, true)
	}
	return t.withOffered(t.named, false)
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

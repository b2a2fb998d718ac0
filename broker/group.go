package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
)

// A Group is the state that brokers share: limits of providers, budgets, open breakers and
// usage. Most methods run for each call, and must not wait for the network.
type Group interface {
	// Limiter returns the rate that a provider has at all brokers together.
	Limiter(provider string, perSecond float64, burst int) Limiter
	// Admit counts a call with its estimate against all of the budgets, or against none if one
	// is used up, and Charge adds tokens and cost, which may be negative.
	Admit(ctx context.Context, purses []Purse, e Estimate) error
	Charge(purses []Purse, tokens int64, cost float64)
	// Spent is the group's use of a budget, as far as the broker knows.
	Spent(p Purse) Spent
	// Opened tells the others that the breaker of b has opened; IsOpen reports whether
	// the breaker is open at another broker.
	Opened(b *Backend)
	IsOpen(provider string) bool
	// Usage is that of the whole group, given this broker's own.
	Usage(ctx context.Context, own []Usage) ([]Usage, error)
}

// Workers are other machines that answer calls.
type Workers interface {
	provider.Provider
	// Offers reports whether any worker offers a model, and Offered lists their models.
	Offers(model string) bool
	Offered() []string
}

// workersTime bounds calls to workers that the configuration does not name.
const workersTime = 10 * time.Minute

// addWorkers adds the model for names that only workers offer.
func (t *table) addWorkers(w Workers, n *metrics) {
	if w == nil {
		return
	}
	i := slices.IndexFunc(t.backends, func(b *backend) bool { return b.Provider == provider.Provider(w) })
	if i < 0 {
		i = len(t.backends)
		t.backends = append(t.backends, newBackend(&Backend{Name: t.unused("workers"), Provider: w, Total: workersTime}, n, t.secrets, t.group))
	}
	t.workers, t.rest = w, &model{name: "workers", routes: []route{{t.backends[i], "", 1}}, turns: make([]int, 1)}
}

// unused returns a name that no backend has.
func (t *table) unused(name string) string {
	for slices.ContainsFunc(t.backends, func(b *backend) bool { return b.Name == name }) {
		name += "-joined"
	}
	return name
}

// withOffered adds the models of workers to names; patterns only if they are wanted.
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

// A Limiter makes calls wait for their turn.
type Limiter interface {
	Wait(ctx context.Context) error
}

// ErrHubLost: the shared state cannot be reached, and the configuration says that calls fail
// then.
var ErrHubLost = &provider.Error{Cause: provider.Overloaded, Err: errors.New("the limits that brokers share cannot be checked: the hub cannot be reached, and on_hub_loss is closed")}

// GroupUsage returns the usage of all brokers of the group, nil without a group.
func (b *Broker) GroupUsage(ctx context.Context) ([]Usage, error) {
	g := b.table.Load().group
	if g == nil {
		return nil, nil
	}
	return g.Usage(ctx, b.Usage())
}

package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/broker"
)

// An amount is a part of a budget.
type amount struct {
	Calls  int64   `json:"calls"`
	Tokens int64   `json:"tokens"`
	Cost   float64 `json:"cost"`
}

func (a *amount) add(b amount, sign int64) {
	a.Calls += sign * b.Calls
	a.Tokens += sign * b.Tokens
	a.Cost += float64(sign) * b.Cost
}

// fits reports whether a is below most in everything that b limits.
func (a amount) fits(most amount, b *broker.Budget) bool {
	return (b.Calls == 0 || a.Calls < most.Calls) && (b.Tokens == 0 || a.Tokens < most.Tokens) && (b.Cost == 0 || a.Cost < most.Cost)
}

// A lease is the part of a budget that a broker may use without asking.
type lease struct {
	Granted amount    `json:"granted"`
	Renewed time.Time `json:"renewed"`
}

// An account is the state of a budget in the bucket.
type account struct {
	Of     string           `json:"of"`
	Since  time.Time        `json:"since"`
	Spent  amount           `json:"spent"` // without the leases
	Leases map[string]lease `json:"leases,omitempty"`
	// Lost is what brokers had leased when they died and, as far as is known, had not used.
	// It is part of Spent, because they may have used it.
	Lost amount `json:"lost"`
}

// total returns what is spent or leased.
func (a *account) total() amount {
	sum := a.Spent
	for _, l := range a.Leases {
		sum.add(l.Granted, 1)
	}
	return sum
}

// A purse is this broker's part of an account.
type purse struct {
	group   *Group
	of, key string

	mu      sync.Mutex
	budget  *broker.Budget
	since   time.Time // the account's, when the lease was granted
	granted amount
	used    amount // since the lease
	spent   amount // of the account, as far as this broker knows, without used
	idle    int    // beats without a call
	// changing is closed when the lease has been changed; nil while it is not being changed.
	changing chan struct{}
	refused  error // the answer until the time that follows
	until    time.Time
}

// Admit implements [broker.Group].
func (g *Group) Admit(ctx context.Context, purses []broker.Purse, e broker.Estimate) error {
	for i, p := range purses {
		err := g.purse(p).take(ctx, p, amount{1, e.Tokens, e.Cost})
		if err == nil {
			continue
		}
		for _, taken := range purses[:i] {
			g.purse(taken).charge(amount{-1, -e.Tokens, -e.Cost})
		}
		return err
	}
	return nil
}

// Charge implements [broker.Group].
func (g *Group) Charge(purses []broker.Purse, tokens int64, cost float64) {
	for _, p := range purses {
		g.purse(p).charge(amount{Tokens: tokens, Cost: cost})
	}
}

// Spent implements [broker.Group].
func (g *Group) Spent(p broker.Purse) broker.Spent {
	q := g.purse(p)
	q.mu.Lock()
	defer q.mu.Unlock()
	sum := q.spent
	sum.add(q.used, 1)
	return broker.Spent{Since: q.since, Calls: sum.Calls, Tokens: sum.Tokens, Cost: sum.Cost}
}

func (g *Group) purse(p broker.Purse) *purse {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.purses[p.Of]
	if q == nil {
		q = &purse{group: g, of: p.Of, key: g.key("budget", p.Of)}
		g.purses[p.Of] = q
	}
	q.mu.Lock()
	q.budget = p.Budget
	q.mu.Unlock()
	return q
}

func (q *purse) charge(a amount) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used.add(a, 1)
	q.idle = 0
}

// take counts a call with its estimate, if the lease has room for it or can be extended.
func (q *purse) take(ctx context.Context, p broker.Purse, call amount) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if err := q.await(ctx); err != nil {
			return err
		}
		now := q.group.now()
		over := q.budget.Per > 0 && now.Sub(q.since) >= q.budget.Per
		if !over && !q.since.IsZero() && q.used.fits(q.granted, q.budget) {
			q.used.add(call, 1)
			q.idle = 0
			return nil
		}
		if now.Before(q.until) {
			return q.refused
		}
		err := errLost
		if q.group.reached() {
			// Others wait for it, too, so it does not end with this call.
			err = q.settle(context.WithoutCancel(ctx), func(a *account, now time.Time) (amount, error) { return a.grant(p, now) })
		}
		switch {
		case err == nil:
		case errors.As(err, new(*broker.BudgetError)):
			q.refused, q.until = err, q.group.now().Add(refusedTime)
			return err
		case q.group.options.Open:
			q.used.add(call, 1)
			return nil
		default:
			return broker.ErrHubLost
		}
	}
}

// refusedTime is how long a broker does not ask again after a budget is used up.
const refusedTime = 100 * time.Millisecond

// await waits until the lease is not being changed. The mutex is held before and after.
func (q *purse) await(ctx context.Context) error {
	for q.changing != nil {
		changing := q.changing
		q.mu.Unlock()
		select {
		case <-changing:
		case <-ctx.Done():
		}
		q.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// blockParts is the part of the rest of a budget that is leased at a time. Leases become
// smaller with the rest, so that little is leased but unused at the end.
const blockParts = 16

// grant returns how much a broker gets, or an error if nothing is left.
func (a *account) grant(p broker.Purse, now time.Time) (got amount, err error) {
	sum, b := a.total(), p.Budget
	if err := p.Left(&broker.Spent{Since: a.Since, Calls: sum.Calls, Tokens: sum.Tokens, Cost: sum.Cost}, now); err != nil {
		return got, err
	}
	if b.Calls > 0 {
		got.Calls = max(1, (b.Calls-sum.Calls)/blockParts)
	}
	if b.Tokens > 0 {
		got.Tokens = max(1, (b.Tokens-sum.Tokens)/blockParts)
	}
	if b.Cost > 0 {
		got.Cost = (b.Cost - sum.Cost) / blockParts
	}
	return got, nil
}

// settle counts what was used as spent, and replaces the lease by what next grants. The
// mutex is held before and after; meanwhile, no call is counted.
func (q *purse) settle(ctx context.Context, next func(*account, time.Time) (amount, error)) error {
	done := make(chan struct{})
	q.changing = done
	used, granted, since, per := q.used, q.granted, q.since, q.budget.Per
	q.mu.Unlock()
	var a account
	var got amount
	var refused error
	var expired []string
	err := q.group.change(ctx, q.key, func(old []byte) ([]byte, error) {
		a, got, refused, expired = account{}, amount{}, nil, nil
		if err := json.Unmarshal(old, &a); err != nil && old != nil {
			return nil, fmt.Errorf("the account %s in the hub's bucket: %w", q.key, err)
		}
		now := q.group.now().Round(0)
		a.endCall(q.group.id, used, granted, since)
		switch {
		case a.Since.IsZero():
			a.Since = now
		case per > 0 && now.Sub(a.Since) >= per:
			a = account{Since: now}
		}
		a.Of = q.of
		expired = a.expire(now, q.group.options.LeaseTime)
		if got, refused = next(&a, now); refused == nil && got != (amount{}) {
			if a.Leases == nil {
				a.Leases = map[string]lease{}
			}
			a.Leases[q.group.id] = lease{got, now}
		}
		return json.Marshal(&a)
	})
	q.mu.Lock()
	q.changing = nil
	close(done)
	if err != nil {
		q.group.miss(err)
		return err
	}
	q.used.add(used, -1) // more may have been charged meanwhile
	q.granted, q.since, q.spent = got, a.Since, a.total()
	q.spent.add(got, -1)
	for _, text := range expired {
		q.group.options.Warn(text)
	}
	return refused
}

// endCall counts what a broker has used, and ends its lease.
func (a *account) endCall(id string, used, granted amount, since time.Time) {
	_, there := a.Leases[id]
	delete(a.Leases, id)
	if !since.IsZero() && !a.Since.Equal(since) {
		return // it was in the last period
	}
	a.Spent.add(used, 1)
	if !there { // it had expired, and counted as spent
		a.Spent.add(granted, -1)
		a.Lost.add(granted, -1)
	}
}

// expire counts leases that were not renewed as spent, and returns a warning for each.
func (a *account) expire(now time.Time, after time.Duration) (warnings []string) {
	for id, l := range a.Leases {
		if now.Sub(l.Renewed) < after {
			continue
		}
		delete(a.Leases, id)
		a.Spent.add(l.Granted, 1)
		a.Lost.add(l.Granted, 1)
		warnings = append(warnings, fmt.Sprintf("the broker %s is gone and has not returned its lease on the budget of the %s: up to %d calls, %d tokens and %v dollars of it are unspent, and count as spent",
			id, a.Of, l.Granted.Calls, l.Granted.Tokens, l.Granted.Cost))
	}
	return warnings
}

// renew reports how much of the lease is used, and keeps the rest. It returns the rest if
// the lease has not been used for a while, or if last is set.
func (q *purse) renew(ctx context.Context, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.await(ctx) != nil || q.granted == (amount{}) && q.used == (amount{}) {
		return
	}
	q.idle++
	var rest amount
	if !last && q.idle <= idleBeats && q.used.fits(q.granted, q.budget) {
		rest = amount{max(0, q.granted.Calls-q.used.Calls), max(0, q.granted.Tokens-q.used.Tokens), max(0, q.granted.Cost-q.used.Cost)}
	}
	since := q.since
	_ = q.settle(ctx, func(a *account, _ time.Time) (amount, error) { // if it fails, the next beat does it
		if !a.Since.Equal(since) {
			return amount{}, nil
		}
		return rest, nil
	})
}

// idleBeats is for how many beats an unused lease is kept.
const idleBeats = 4

// renew renews the leases of all purses.
func (g *Group) renew(ctx context.Context, last bool) {
	g.mu.Lock()
	purses := slices.Collect(maps.Values(g.purses))
	g.mu.Unlock()
	for _, q := range purses {
		q.renew(ctx, last)
	}
}

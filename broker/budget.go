package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/prices"
)

// A Budget limits the use of a client or a model. A limit of 0 means unlimited.
type Budget struct {
	Calls  int64         `json:"calls,omitempty" yaml:"calls"`
	Tokens int64         `json:"tokens,omitempty" yaml:"tokens"`
	Cost   float64       `json:"cost,omitempty" yaml:"cost"` // in dollars
	Per    time.Duration `json:"-" yaml:"per"`               // the time after which it begins anew; 0 is never
}

// Spent is the used part of a budget.
type Spent struct {
	Since  time.Time `json:"since"`
	Calls  int64     `json:"calls"`
	Tokens int64     `json:"tokens"`
	Cost   float64   `json:"cost"`
}

// A BudgetError says that a budget is used up, or that it cannot be enforced.
type BudgetError struct {
	// Of is the owner of the budget, such as "the client alice".
	Of string
	// What is used up.
	What string
	// Wait is the time until the budget begins anew; 0 if it never does.
	Wait time.Duration
	// Unpriced is a model without a price, whose calls cannot be counted against a budget
	// of cost; "" if the budget is used up.
	Unpriced string
}

func (e *BudgetError) Error() string {
	switch {
	case e.Unpriced != "":
		return fmt.Sprintf("No price: %s has a cost budget, and the model %s has no price. Set its price in the configuration, or in prices.yaml", e.Of, e.Unpriced)
	case e.Wait > 0:
		return fmt.Sprintf("Budget used up: %s has used its %s. Try again in %v", e.Of, e.What, e.Wait.Round(time.Second))
	}
	return fmt.Sprintf("Budget used up: %s has used its %s. Raise its budget in the configuration", e.Of, e.What)
}

// A Purse is a budget that pays for a call.
type Purse struct {
	Of     string // such as "client alice"
	Budget *Budget
}

// Left returns an error unless a further call may be made.
func (p Purse) Left(s *Spent, now time.Time) error {
	e := &BudgetError{Of: "the " + p.Of}
	switch b := p.Budget; {
	case b.Calls > 0 && s.Calls >= b.Calls:
		e.What = fmt.Sprintf("%d calls", b.Calls)
	case b.Tokens > 0 && s.Tokens >= b.Tokens:
		e.What = fmt.Sprintf("%d tokens", b.Tokens)
	case b.Cost > 0 && s.Cost >= b.Cost:
		e.What = fmt.Sprintf("%v dollars", b.Cost)
	default:
		return nil
	}
	if p.Budget.Per > 0 {
		e.Wait = max(s.Since.Add(p.Budget.Per).Sub(now), time.Second)
	}
	return e
}

// spending is the used part of all budgets, by owner.
type spending struct {
	mu      sync.Mutex
	of      map[string]*Spent
	changed bool
}

// admit counts a call against budgets, unless one of them is used up.
func (k *spending) admit(purses []Purse) error {
	if len(purses) == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for _, p := range purses {
		s := k.of[p.Of]
		if s == nil || p.Budget.Per > 0 && now.Sub(s.Since) >= p.Budget.Per {
			s = &Spent{Since: now}
			k.of[p.Of] = s
		}
		if err := p.Left(s, now); err != nil {
			return err
		}
	}
	for _, p := range purses {
		k.of[p.Of].Calls++
		k.changed = true
	}
	return nil
}

// charge counts the tokens and the cost of a call.
func (k *spending) charge(purses []Purse, tokens int64, cost float64) {
	if len(purses) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range purses {
		if s := k.of[p.Of]; s != nil {
			s.Tokens += tokens
			s.Cost += cost
		}
	}
	k.changed = true
}

// purses returns the budgets that pay for a call to a model.
func (t *table) purses(account string, m *model) (list []Purse, err error) {
	if b := t.clients[account]; b != nil {
		list = append(list, Purse{"client " + account, b})
	}
	if m.budget != nil {
		list = append(list, Purse{"model " + m.name, m.budget})
	}
	for _, p := range list {
		if p.Budget.Cost > 0 && m.price == nil && !m.composed {
			return nil, &BudgetError{Of: "the " + p.Of, Unpriced: m.name}
		}
	}
	return list, nil
}

// pay counts a call against its budgets. For a fallback, the client's budget has been counted
// already.
func (c *Call) pay(ctx context.Context, m *model) error {
	purses, err := c.table.purses(c.Account, m)
	if err != nil {
		return err
	}
	fresh := purses
	if c.paid && len(purses) > 0 && c.table.clients[c.Account] != nil {
		fresh = purses[1:]
	}
	if c.table.group != nil && len(fresh) > 0 {
		err = c.table.group.Admit(ctx, fresh)
	} else {
		err = c.spending.admit(fresh)
	}
	if err != nil {
		return err
	}
	c.purses, c.price, c.paid, c.composed = purses, m.price, true, m.composed
	return nil
}

// charge counts the tokens and the cost of the call.
func (c *Call) charge() {
	cost := 0.0
	u := c.Completion.Usage
	if c.price != nil {
		cost = c.price.Cost(u.Input, u.Output)
	}
	purses := c.purses
	if c.composed { // the client's budget has paid for its calls
		cost = c.Completion.Cost
		purses = slices.DeleteFunc(slices.Clone(purses), func(p Purse) bool { return strings.HasPrefix(p.Of, "client ") })
	}
	switch {
	case c.table != nil && c.table.group != nil && len(purses) > 0:
		c.table.group.Charge(purses, u.Input+u.Output, cost)
	case c.spending != nil:
		c.spending.charge(purses, u.Input+u.Output, cost)
	}
}

// used is the call's own use: nothing if it consists of other calls.
func (c *Call) used() provider.Usage {
	if c.composed {
		return provider.Usage{}
	}
	return c.Completion.Usage
}

// Budgets reports whether any client or model has a budget.
func (c *Config) Budgets() bool {
	for _, b := range c.Clients {
		if b != nil {
			return true
		}
	}
	return slices.ContainsFunc(c.Models, func(m Model) bool { return m.Budget != nil })
}

// WithoutBudgets returns the configuration without budgets.
func (c Config) WithoutBudgets() Config {
	c.Clients, c.Models = nil, slices.Clone(c.Models)
	for i := range c.Models {
		c.Models[i].Budget = nil
	}
	return c
}

// Spent returns the used part of each budget, by owner, and whether it has changed since the
// last call of Spent.
func (b *Broker) Spent() (spent map[string]Spent, changed bool) {
	k := &b.spending
	k.mu.Lock()
	defer k.mu.Unlock()
	spent = map[string]Spent{}
	for of, s := range k.of {
		spent[of] = *s
	}
	changed, k.changed = k.changed, false
	return spent, changed
}

// Spend restores the used parts of budgets. It must be called before the first call.
func (b *Broker) Spend(spent map[string]Spent) {
	for of, s := range spent {
		b.spending.of[of] = &s
	}
}

// A Price is the price of a model's tokens.
type Price = prices.Price

// A BudgetState is a budget with its used part.
type BudgetState struct {
	Of    string  `json:"of"`
	Limit Budget  `json:"limit"`
	Per   float64 `json:"per_seconds,omitempty"`
	Spent Spent   `json:"spent"`
}

// Budgets returns all budgets, sorted by owner.
func (b *Broker) Budgets() []BudgetState {
	t := b.table.Load()
	list := []BudgetState{}
	add := func(of string, limit *Budget) {
		if limit == nil {
			return
		}
		state := BudgetState{Of: of, Limit: *limit, Per: limit.Per.Seconds()}
		if t.group != nil {
			state.Spent = t.group.Spent(Purse{of, limit})
			list = append(list, state)
			return
		}
		b.spending.mu.Lock()
		defer b.spending.mu.Unlock()
		if s := b.spending.of[of]; s != nil && (limit.Per == 0 || time.Since(s.Since) < limit.Per) {
			state.Spent = *s
		}
		list = append(list, state)
	}
	for name, limit := range t.clients {
		add("client "+name, limit)
	}
	for name, m := range t.models {
		add("model "+name, m.budget)
	}
	slices.SortFunc(list, func(a, b BudgetState) int { return strings.Compare(a.Of, b.Of) })
	return list
}

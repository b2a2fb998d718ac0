package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/broker/mask"
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
	// Reserved says that nothing more is left only as long as other calls are in flight.
	Reserved bool
	// Unpriced is a model without a price, whose calls cannot be counted against a budget
	// of cost; "" if the budget is used up.
	Unpriced string
}

func (e *BudgetError) Error() string {
	switch {
	case e.Unpriced != "":
		return fmt.Sprintf("No price: %s has a cost budget, and the model %s has no price. Set its price in the configuration, or in prices.yaml", e.Of, e.Unpriced)
	case e.Reserved:
		return fmt.Sprintf("Budget reserved: calls in flight may use the rest of the %s of %s. Try again when they have ended", e.What, e.Of)
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

// An Estimate is what a call will probably use. It is reserved until the call has ended.
type Estimate struct {
	Tokens int64
	Cost   float64
}

// Fits returns an error unless a call with an estimate may begin, given what is spent, of which
// a part is only reserved by calls in flight. A call alone may begin if anything is left.
func (p Purse) Fits(s *Spent, reserved, e Estimate, now time.Time) error {
	free := *s
	free.Tokens, free.Cost = s.Tokens-reserved.Tokens, s.Cost-reserved.Cost
	if err := p.Left(&free, now); err != nil || reserved == (Estimate{}) {
		return err
	}
	full := &BudgetError{Of: "the " + p.Of, Wait: time.Second, Reserved: true}
	switch b := p.Budget; {
	case b.Tokens > 0 && s.Tokens+e.Tokens > b.Tokens:
		full.What = fmt.Sprintf("%d tokens", b.Tokens)
	case b.Cost > 0 && s.Cost+e.Cost > b.Cost:
		full.What = fmt.Sprintf("%v dollars", b.Cost)
	default:
		return nil
	}
	return full
}

// spending is the used part of all budgets, by owner, and what calls in flight reserve.
type spending struct {
	mu       sync.Mutex
	of       map[string]*Spent
	reserved map[string]Estimate
	changed  bool
}

// reserve changes what is reserved of a budget.
func (k *spending) reserve(of string, e Estimate, sign int64) {
	r := k.reserved[of]
	r.Tokens, r.Cost = r.Tokens+sign*e.Tokens, r.Cost+float64(sign)*e.Cost
	if k.reserved[of] = r; r.Tokens <= 0 { // every estimate has tokens
		delete(k.reserved, of)
	}
}

// admit counts a call against budgets and reserves its estimate, unless one of them is used up.
func (k *spending) admit(purses []Purse, e Estimate) error {
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
		r := k.reserved[p.Of]
		sum := *s
		sum.Tokens, sum.Cost = s.Tokens+r.Tokens, s.Cost+r.Cost
		if err := p.Fits(&sum, r, e, now); err != nil {
			return err
		}
	}
	for _, p := range purses {
		k.of[p.Of].Calls++
		k.reserve(p.Of, e, 1)
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
	fresh, e := purses, c.estimate(m)
	if c.paid && len(purses) > 0 && c.table.clients[c.Account] != nil {
		fresh = purses[1:]
	}
	if c.table.group != nil && len(fresh) > 0 {
		err = c.table.group.Admit(ctx, fresh, e)
	} else {
		err = c.spending.admit(fresh, e)
	}
	if err != nil {
		return err
	}
	for _, p := range fresh {
		c.holds = append(c.holds, hold{p, e})
	}
	c.purses, c.price, c.paid, c.composed = purses, m.price, true, m.composed
	return nil
}

// A hold is what a call reserves of a budget.
type hold struct {
	Purse
	Estimate
}

// usualOutput is the estimated output of a model that has not answered yet, in tokens, and
// bytesPerToken that of a prompt.
const (
	usualOutput   = 1024
	bytesPerToken = 4
)

// estimate is what the call will probably use: its prompt, and as much output as the model's
// latest answers had, or else the client's limit.
func (c *Call) estimate(m *model) Estimate {
	if m.composed { // its calls are counted separately
		return Estimate{Tokens: 1}
	}
	in, out := int64(len(c.Prompt)+len(c.Body))/bytesPerToken+1, m.output.Load()
	switch {
	case c.ask == embeddings:
		out = 0
	case out == 0:
		out = cmp.Or(c.MaxTokens, usualOutput)
	case c.MaxTokens > 0:
		out = min(out, c.MaxTokens)
	}
	e := Estimate{Tokens: in + out}
	if m.price != nil {
		e.Cost = m.price.Cost(in, out)
	}
	return e
}

// charge counts the tokens and the cost of the call, and ends what it reserved.
func (c *Call) charge() {
	for _, h := range c.holds {
		if c.table.group != nil {
			c.table.group.Charge([]Purse{h.Purse}, -h.Tokens, -h.Cost)
			continue
		}
		c.spending.mu.Lock()
		c.spending.reserve(h.Of, h.Estimate, -1)
		c.spending.mu.Unlock()
	}
	c.holds = nil
	if out := c.Completion.Usage.Output; out > 0 && c.model != nil {
		if old := c.model.output.Load(); old > 0 {
			out = (3*old + out + 3) / 4
		}
		c.model.output.Store(out)
	}
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

// Outcome is how a call ended.
type Outcome uint8

const (
	OK Outcome = iota
	Failed
	Cancelled
	Refused // no such model
)

var outcomeNames = [...]string{OK: "ok", Failed: "error", Cancelled: "cancelled", Refused: "refused"}

func (o Outcome) String() string { return outcomeNames[o] }

// maxAccounts bounds the accounts. Further clients are counted as "other", and further names
// that match a pattern as the pattern.
const maxAccounts = 1000

type accountKey struct{ door, client, model string }

// A ledger keeps the accounts.
type ledger struct {
	mu       sync.Mutex
	accounts map[accountKey]*Usage
}

// addCall counts a call, and returns its model's name in the account.
func (l *ledger) addCall(c *Call, o Outcome, s *mask.Secrets) (model string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.account(accountKey{c.Door, c.Client, cmp.Or(c.Name, "unknown")}, c, s)
	*[...]*int64{OK: &u.OK, Failed: &u.Failed, Cancelled: &u.Cancelled, Refused: &u.Refused}[o]++
	if o == OK {
		u.InputTokens += c.used().Input
		u.OutputTokens += c.used().Output
	}
	u.Seconds += c.Took.Seconds()
	return u.Model
}

// account returns the account of a key, or the shared one if there are too many.
func (l *ledger) account(k accountKey, c *Call, s *mask.Secrets) *Usage {
	if u := l.accounts[k]; u != nil {
		return u
	}
	k.model = string(s.Hide([]byte(k.model))) // a pattern matches any name
	if len(l.accounts) >= maxAccounts && l.accounts[k] == nil {
		if k.client = "other"; c.model != nil {
			k.model = c.model.name
		}
	}
	u := l.accounts[k]
	if u == nil {
		u = &Usage{Door: k.door, Client: k.client, Model: k.model}
		l.accounts[k] = u
	}
	return u
}

// Usage is the use of one model by one client through one door.
type Usage struct {
	Door         string  `json:"door"`
	Client       string  `json:"client"`
	Model        string  `json:"model"`
	OK           int64   `json:"ok"`
	Failed       int64   `json:"failed"`
	Cancelled    int64   `json:"cancelled"`
	Refused      int64   `json:"refused"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Seconds      float64 `json:"seconds"`
}

// Calls returns how many calls there were.
func (u *Usage) Calls() int64 { return u.OK + u.Failed + u.Cancelled + u.Refused }

// Usage returns the usage so far, sorted by model, door and client.
func (b *Broker) Usage() []Usage {
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	list := make([]Usage, 0, len(b.ledger.accounts))
	for _, u := range b.ledger.accounts {
		list = append(list, *u)
	}
	SortUsage(list)
	return list
}

// SortUsage sorts by model, door and client.
func SortUsage(list []Usage) {
	slices.SortFunc(list, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Door, b.Door), cmp.Compare(a.Client, b.Client))
	})
}

// Add adds the counts of another.
func (u *Usage) Add(more *Usage) {
	u.OK += more.OK
	u.Failed += more.Failed
	u.Cancelled += more.Cancelled
	u.Refused += more.Refused
	u.InputTokens += more.InputTokens
	u.OutputTokens += more.OutputTokens
	u.Seconds += more.Seconds
}

// A Report says how a call ended.
type Report struct {
	Outcome Outcome
	Err     error
	// By is the cause of a cancelled call: gone, cancel or shutdown.
	By string
	// Stopped is how far a cancelled call had come: route, before a provider was chosen;
	// queue, before the request was sent; provider, after that.
	Stopped string
}

func outcomeOf(err error) Outcome {
	if err == nil {
		return OK // before the variable of errors.As is allocated
	}
	var unknown *UnknownModelError
	switch {
	case errors.Is(err, ErrGone), errors.Is(err, ErrCancelled), errors.Is(err, ErrShutdown), errors.Is(err, context.Canceled):
		return Cancelled
	case errors.As(err, &unknown):
		return Refused
	}
	return Failed
}

func newReport(c *Call, err error) *Report {
	r := &Report{Outcome: outcomeOf(err), Err: err}
	if r.Outcome != Cancelled {
		return r
	}
	switch {
	case errors.Is(err, ErrGone):
		r.By = "gone"
	case errors.Is(err, ErrShutdown):
		r.By = "shutdown"
	default:
		r.By = "cancel"
	}
	switch n := len(c.Hops); {
	case n == 0:
		r.Stopped = "route"
	case !c.Hops[n-1].Sent:
		r.Stopped = "queue"
	default:
		r.Stopped = "provider"
	}
	return r
}

package broker

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

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

// buckets are the upper bounds of the histogram of durations.
var buckets = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, 60 * time.Second,
}

// maxAccounts bounds how many clients, and names that a pattern takes, are told
// apart; the rest are "other", and the pattern.
const maxAccounts = 1000

type accountKey struct{ door, client, model string }

// An account is what one client used of one model through one door.
type account struct {
	outcomes      [len(outcomeNames)]atomic.Int64
	input, output atomic.Int64
	nanoseconds   atomic.Int64
	durations     [len(buckets) + 1]atomic.Int64
}

// A ledger keeps the accounts.
type ledger struct {
	mu       sync.RWMutex
	accounts map[accountKey]*account
}

func (l *ledger) addCall(c *Call, err error) {
	key := accountKey{c.Door, c.Client, cmp.Or(c.Name, "unknown")}
	if f := &c.found; f.ledger != l || f.key != key {
		f.ledger, f.key, f.account = l, key, l.account(key, c)
	}
	a := c.found.account
	a.outcomes[outcomeOf(err)].Add(1)
	if u := c.Completion.Usage; err == nil {
		a.input.Add(u.Input)
		a.output.Add(u.Output)
	}
	a.nanoseconds.Add(int64(c.Took))
	i := 0
	for i < len(buckets) && c.Took > buckets[i] {
		i++
	}
	a.durations[i].Add(1)
}

// account returns the account of that key, or the one that the call counts to
// where there are too many.
func (l *ledger) account(k accountKey, c *Call) *account {
	if t := c.found.table; t != nil && t.secrets != nil {
		k.model = string(t.secrets.Hide([]byte(k.model))) // a pattern takes any name
	}
	l.mu.RLock()
	a := l.accounts[k]
	l.mu.RUnlock()
	if a != nil {
		return a
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.accounts) >= maxAccounts && l.accounts[k] == nil {
		if k.client = "other"; c.Name != "" {
			k.model = c.found.model.name
		}
	}
	if l.accounts[k] == nil {
		l.accounts[k] = new(account)
	}
	return l.accounts[k]
}

// Usage is what one client used of one model through one door.
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

	durations [len(buckets) + 1]int64
}

// Calls returns how many calls there were.
func (u *Usage) Calls() int64 { return u.OK + u.Failed + u.Cancelled + u.Refused }

// Usage returns what was used so far, sorted by model, door and client.
func (b *Broker) Usage() []Usage {
	b.ledger.mu.RLock()
	defer b.ledger.mu.RUnlock()
	list := make([]Usage, 0, len(b.ledger.accounts))
	for k, a := range b.ledger.accounts {
		u := Usage{
			Door: k.door, Client: k.client, Model: k.model,
			OK: a.outcomes[OK].Load(), Failed: a.outcomes[Failed].Load(),
			Cancelled: a.outcomes[Cancelled].Load(), Refused: a.outcomes[Refused].Load(),
			InputTokens: a.input.Load(), OutputTokens: a.output.Load(),
			Seconds: time.Duration(a.nanoseconds.Load()).Seconds(),
		}
		for i := range a.durations {
			u.durations[i] = a.durations[i].Load()
		}
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Door, b.Door), cmp.Compare(a.Client, b.Client))
	})
	return list
}

package broker

import (
	"cmp"
	"slices"
	"sync"

	"github.com/wirectl/wirectl/broker/mask"
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

package broker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
)

// A costly provider reports ten input and five output tokens for each call. It fails calls
// that ask it to.
type costly struct{}

func (costly) Complete(_ context.Context, r *provider.Request, c *provider.Completion) error {
	c.Text, c.Usage = []byte(`"so"`), provider.Usage{Input: 10, Output: 5}
	if string(r.Prompt) == `"fail"` {
		return &provider.Error{Cause: provider.Overloaded, Status: 500, Err: errors.New("no")}
	}
	return nil
}

func budgeted(t *testing.T, client, model *broker.Budget) *broker.Broker {
	t.Helper()
	routes := []broker.Route{{Backend: &broker.Backend{Name: "p", Provider: costly{}}}}
	b, err := broker.New(broker.Config{
		Models: []broker.Model{
			{Name: "m", Routes: routes, Budget: model, Price: &broker.Price{Input: 100_000, Output: 200_000}, Fallbacks: []string{"other"}},
			{Name: "other", Routes: routes},
		},
		Clients: map[string]*broker.Budget{"alice": client, "bob": nil},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ask(b *broker.Broker, account, model string) string {
	err := b.Do(context.Background(), &broker.Call{Account: account, Model: model, Prompt: []byte(`"q"`)})
	if err != nil {
		return broker.Message(err)
	}
	return ""
}

// A client or a model can spend its budget and no more, whichever limit is reached first.
func TestBudgets(t *testing.T) {
	for _, tt := range []struct {
		name          string
		client, model *broker.Budget
		calls         int // by alice
		want          string
	}{
		{"calls of a client", &broker.Budget{Calls: 2}, nil, 2, "Budget used up: the client alice has used its 2 calls. Raise its budget in the configuration"},
		{"tokens of a client", &broker.Budget{Tokens: 31}, nil, 3, "Budget used up: the client alice has used its 31 tokens. Raise its budget in the configuration"},
		{"cost of a client", &broker.Budget{Cost: 3}, nil, 2, "Budget used up: the client alice has used its 3 dollars. Raise its budget in the configuration"},
		{"calls of a model", &broker.Budget{Calls: 9}, &broker.Budget{Calls: 1}, 1, "Budget used up: the model m has used its 1 calls. Raise its budget in the configuration"},
		{"tokens of a model", nil, &broker.Budget{Tokens: 15}, 1, "Budget used up: the model m has used its 15 tokens. Raise its budget in the configuration"},
	} {
		b := budgeted(t, tt.client, tt.model)
		for range tt.calls {
			if got := ask(b, "alice", "m"); got != "" {
				t.Errorf("%s: %s", tt.name, got)
			}
		}
		if got := ask(b, "alice", "m"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if got := ask(b, "bob", "other"); got != "" {
			t.Errorf("%s: bob has no budget: %s", tt.name, got)
		}
	}
}

// A budget per period starts again, and its error says when.
func TestBudgetBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budgeted(t, &broker.Budget{Calls: 1, Per: time.Hour}, nil)
		time.Sleep(time.Minute)
		if got := ask(b, "alice", "m"); got != "" {
			t.Error(got)
		}
		time.Sleep(20 * time.Minute)
		if got := ask(b, "alice", "m"); got != "Budget used up: the client alice has used its 1 calls. Try again in 40m0s" {
			t.Error(got)
		}
		time.Sleep(40 * time.Minute)
		if got := ask(b, "alice", "m"); got != "" {
			t.Error(got)
		}
	})
}

// Concurrent calls do not exceed a budget.
func TestBudgetAtOnce(t *testing.T) {
	b := budgeted(t, &broker.Budget{Calls: 10}, nil)
	var ok atomic.Int64
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if ask(b, "alice", "m") == "" {
				ok.Add(1)
			}
		})
	}
	group.Wait()
	if ok.Load() != 10 {
		t.Errorf("%d calls were made", ok.Load())
	}
}

// A slow provider answers when the test lets it, and uses a thousand tokens, of a dollar each.
type slow struct{ begun, end chan struct{} }

func (s slow) Complete(_ context.Context, _ *provider.Request, c *provider.Completion) error {
	s.begun <- struct{}{}
	<-s.end
	c.Text, c.Usage = []byte(`"so"`), provider.Usage{Output: 1000}
	return nil
}

// Concurrent calls reserve what they will probably use, so that they exceed a budget by no more
// than the error of their estimates. What is reserved is free again when they have ended.
func TestBudgetIsReserved(t *testing.T) {
	p := slow{make(chan struct{}, 60), make(chan struct{})}
	b, err := broker.New(broker.Config{
		Models:  []broker.Model{{Name: "m", Routes: []broker.Route{{Backend: &broker.Backend{Name: "p", Provider: p}}}, Price: &broker.Price{Output: 1e6}}},
		Clients: map[string]*broker.Budget{"alice": {Cost: 5000}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int64
	var group sync.WaitGroup
	for range 60 {
		group.Go(func() {
			err := b.Do(context.Background(), &broker.Call{Account: "alice", Model: "m", Prompt: []byte(`"q"`), MaxTokens: 1000})
			var spent *broker.BudgetError
			if errors.As(err, &spent) && spent.Reserved {
				refused.Add(1)
			}
			if err != nil {
				p.begun <- struct{}{}
			}
		})
	}
	for range 60 {
		<-p.begun
	}
	close(p.end)
	group.Wait()
	if spent, _ := b.Spent(); refused.Load() != 55 || spent["client alice"].Cost != 5000 {
		t.Errorf("%d calls were refused, spent %+v", refused.Load(), spent["client alice"])
	}
}

// Failed calls are charged for what they used. A call that falls back is one call of its
// client, and is charged to the model that answers. Without a price there is no budget of
// cost.
func TestSpent(t *testing.T) {
	b := budgeted(t, &broker.Budget{Calls: 5}, &broker.Budget{Calls: 5})
	if err := b.Do(t.Context(), &broker.Call{Account: "alice", Model: "m", Prompt: []byte(`"fail"`)}); err == nil {
		t.Error("it did not fail")
	}
	if got := ask(b, "alice", "m"); got != "" {
		t.Error(got)
	}
	spent, changed := b.Spent()
	alice, m := spent["client alice"], spent["model m"]
	if !changed || alice.Calls != 2 || alice.Tokens != 30 || m.Calls != 2 || m.Tokens != 15 || m.Cost != 2 {
		t.Errorf("alice %+v, m %+v", alice, m)
	}
	if _, changed := b.Spent(); changed {
		t.Error("nothing has changed")
	}
	next := budgeted(t, &broker.Budget{Calls: 3}, nil)
	next.Spend(spent)
	if got := ask(next, "alice", "other"); got != "" {
		t.Error(got)
	}
	if got := ask(next, "alice", "other"); got == "" {
		t.Error("what was spent before is forgotten")
	}
	unpriced := budgeted(t, &broker.Budget{Cost: 1}, nil)
	if got := ask(unpriced, "alice", "other"); got != "No price: the client alice has a cost budget, and the model other has no price. Set its price in the configuration, or in prices.yaml" {
		t.Error(got)
	}
}

package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/server"
	"github.com/wirectl/wirectl/hub/share"
)

// With their own tokens, brokers share a budget and workers answer calls.
func TestBrokersAndWorkers(t *testing.T) {
	s := beyond(t)
	warn := func(text string) { t.Error(text) }
	local, err := broker.New(broker.Config{Models: []broker.Model{{Name: "*", Routes: []broker.Route{{Backend: &broker.Backend{Name: "local", Provider: provider.NewMock(provider.MockConfig{})}}}}}}, nil)
	check(t, err)
	w, err := share.Work(share.WorkOptions{URL: s.address(t, "laptop", server.Worker), Broker: local, Models: []string{"llama-*"}, Parallel: 2, Warn: warn})
	check(t, err)
	defer w.Close(context.Background())
	b := joined(t, s.address(t, "one", server.Broker), warn)
	two := joined(t, s.address(t, "two", server.Broker), warn)
	for guard := time.Now().Add(time.Minute); b.Find("llama-3") != nil && time.Now().Before(guard); {
		time.Sleep(10 * time.Millisecond)
	}
	c := &broker.Call{Model: "llama-3", Prompt: []byte(`"hi"`)}
	check(t, b.Do(t.Context(), c))
	if got := c.Completion.Plain(); got != "Echo: hi" {
		t.Errorf("%q", got)
	}
	n := 0
	for _, one := range []*broker.Broker{b, two, b} {
		for one.Do(t.Context(), &broker.Call{Model: "m", Prompt: []byte(`"hi"`)}) == nil {
			n++
		}
	}
	if n > 10 || n < 8 {
		t.Errorf("%d calls of a budget of 10", n)
	}
}

func joined(t *testing.T, address string, warn func(string)) *broker.Broker {
	t.Helper()
	g, err := share.Join(t.Context(), share.Options{URL: address, Warn: warn})
	check(t, err)
	t.Cleanup(g.Close)
	b, err := broker.New(broker.Config{Group: g, Workers: g.Workers(), Models: []broker.Model{{
		Name: "m", Budget: &broker.Budget{Calls: 10}, Routes: []broker.Route{{Backend: &broker.Backend{Name: "mock", Provider: provider.NewMock(provider.MockConfig{})}}},
	}}}, nil)
	check(t, err)
	return b
}

// A worker can access neither budgets nor the calls of other workers. Brokers and workers
// cannot access sessions.
func TestWorkersReachTheirOwn(t *testing.T) {
	s := beyond(t)
	_, shared := hub.Bucket(hub.Shared)
	_, summaries := hub.Bucket(hub.Summaries)
	for right, subjects := range map[server.Right][2][]string{
		server.Worker: {{shared + "main.budget.x", hub.Work + "main.take.x", hub.Work + "main.call.other.x.1", hub.Segments + "main.raw-worker.relay.x"}, {hub.Work + "main.call.other.>", hub.Work + ">", shared + ">"}},
		server.Broker: {{summaries + "main.x.relay.x", hub.Segments + "main.raw-broker.relay.x", hub.Commands + "main.x.relay.x"}, {hub.Work + "main.call.>", hub.Work + "main.take.>"}},
	} {
		nc, _, denied := s.raw(t, right)
		for _, subject := range subjects[0] {
			check(t, nc.Publish(subject, []byte("{}")), nc.Flush())
			awaitDenied(t, denied)
		}
		for _, subject := range subjects[1] {
			_, err := nc.SubscribeSync(subject)
			check(t, err, nc.Flush())
			awaitDenied(t, denied)
		}
	}
}

package share_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	nserver "github.com/nats-io/nats-server/v2/server"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/hub/share"
)

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// natsAt starts a real NATS server without the streams of a hub.
func natsAt(t *testing.T, dir string, port int) *nserver.Server {
	t.Helper()
	s, err := nserver.NewServer(&nserver.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir})
	check(t, err)
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not listen")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

func start(t *testing.T) string {
	t.Helper()
	return natsAt(t, t.TempDir(), nserver.RANDOM_PORT).ClientURL()
}

// A teller records a group's warnings.
type teller struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *teller) warn(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.WriteString(text + "\n")
}

func (w *teller) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// join adds a broker, whose only model is configured by change.
func join(t *testing.T, url string, open bool, w *teller, change func(*broker.Config)) (*broker.Broker, *share.Group) {
	t.Helper()
	return joinAs(t, share.Options{URL: url, Open: open, Warn: w.warn}, change)
}

func joinAs(t *testing.T, o share.Options, change func(*broker.Config)) (*broker.Broker, *share.Group) {
	t.Helper()
	g, err := share.Join(t.Context(), o)
	check(t, err)
	t.Cleanup(g.Close)
	cfg := broker.Config{Group: g, Default: "m", Models: []broker.Model{{Name: "m", Routes: []broker.Route{{Backend: &broker.Backend{Name: "mock", Provider: provider.NewMock(provider.MockConfig{})}}}}}}
	if change != nil {
		change(&cfg)
	}
	b, err := broker.New(cfg, nil)
	check(t, err)
	g.Report(b.Usage)
	return b, g
}

func call() *broker.Call { return &broker.Call{Door: "proxy", Client: "test", Prompt: []byte(`"hi"`)} }

// within calls f until it returns true.
func within(t *testing.T, what string, f func() bool) {
	t.Helper()
	for guard := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(guard) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// Four brokers with 64 clients share one rate limit.
func TestRate(t *testing.T) {
	t.Parallel()
	url := start(t)
	const perSecond, burst, brokers, clients, calls = 400, 20, 4, 16, 12
	var w teller
	var group sync.WaitGroup
	var last atomic.Int64
	var list []*broker.Broker
	for range brokers {
		b, _ := join(t, url, false, &w, func(c *broker.Config) {
			back := c.Models[0].Routes[0].Backend
			back.Rate, back.Burst = perSecond, burst
		})
		list = append(list, b)
	}
	began := time.Now()
	for _, b := range list {
		for range clients {
			group.Go(func() {
				for range calls {
					c := call()
					if err := b.Do(t.Context(), c); err != nil {
						t.Error(err)
					}
					last.Store(max(last.Load(), int64(time.Since(began))))
				}
			})
		}
	}
	group.Wait()
	// At this rate, so many calls take at least this long on any machine.
	const all = brokers * clients * calls
	least := time.Second * (all - burst) * 100 / perSecond / 105
	if took := time.Duration(last.Load()); took < least {
		t.Errorf("%d calls within %v: that is more than the rate; want at least %v", all, took, least)
	}
}

// A budget of calls is never exceeded, and any broker can use up the rest of it.
func TestBudget(t *testing.T) {
	t.Parallel()
	url := start(t)
	const limit, brokers, clients = 500, 4, 16
	var w teller
	var ok atomic.Int64
	var list []*broker.Broker
	for range brokers {
		b, _ := join(t, url, false, &w, func(c *broker.Config) { c.Models[0].Budget = &broker.Budget{Calls: limit} })
		list = append(list, b)
	}
	round := func() {
		var group sync.WaitGroup
		for _, b := range list {
			for range clients {
				group.Go(func() {
					for {
						err := b.Do(t.Context(), call())
						if err == nil {
							ok.Add(1)
							continue
						}
						if _, spent := errors.AsType[*broker.BudgetError](err); !spent {
							t.Error(err)
						}
						return
					}
				})
			}
		}
		group.Wait()
	}
	// A broker returns the unused part of its lease.
	within(t, "the budget is used up", func() bool { round(); return ok.Load() >= limit })
	round()
	if n := ok.Load(); n != limit {
		t.Errorf("%d calls of a budget of %d", n, limit)
	}
	if s := list[0].Budgets()[0].Spent; s.Calls != limit {
		t.Errorf("spent: %+v", s)
	}
}

// Brokers share the state of breakers and the usage.
func TestState(t *testing.T) {
	t.Parallel()
	url := start(t)
	var w teller
	breaks := func(c *broker.Config) {
		back := c.Models[0].Routes[0].Backend
		back.Breaker, back.BreakerDelay = 2, time.Hour
		back.Provider = provider.NewMock(provider.MockConfig{Script: []provider.Line{{When: "fail", Status: 503}, {Say: "fine"}}})
	}
	one, _ := join(t, url, false, &w, breaks)
	two, _ := join(t, url, false, &w, breaks)
	check(t, two.Do(t.Context(), call()))
	for range 2 {
		c := call()
		c.Prompt = []byte(`"fail"`)
		if err := one.Do(t.Context(), c); err == nil {
			t.Fatal("no failure")
		}
	}
	within(t, "the breaker is open at the other broker", func() bool { return errors.Is(two.Do(t.Context(), call()), broker.ErrOpen) })
	within(t, "the usage is told", func() bool {
		list, err := two.GroupUsage(t.Context())
		check(t, err)
		return len(list) == 1 && list[0].OK >= 1 && list[0].Failed >= 3
	})
	// The same goes for the door admin, which wirectl serve usage queries.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	door := web.NewAdmin(two, web.Access{})
	var serving sync.WaitGroup
	serving.Go(func() { check(t, door.Serve(t.Context(), ln)) })
	defer serving.Wait()
	defer door.Shutdown(t.Context())
	list, err := web.Usage(t.Context(), ln.Addr().String(), "")
	http.DefaultClient.CloseIdleConnections()
	if err != nil || len(list) != 1 || list[0].Failed < 3 {
		t.Errorf("%+v, %v", list, err)
	}
}

// The lease of a killed broker is reported by another one, and never spent again.
func TestLeaseExpires(t *testing.T) {
	t.Parallel()
	url := start(t)
	var w teller
	limit := func(c *broker.Config) { c.Models[0].Budget = &broker.Budget{Calls: 160} }
	o := share.Options{URL: url, LeaseTime: time.Second, Warn: w.warn}
	one, g := joinAs(t, o, limit)
	two, _ := joinAs(t, o, limit)
	check(t, one.Do(t.Context(), call()))
	g.Die()
	n := 0
	within(t, "the lease is reported", func() bool {
		if two.Do(t.Context(), call()) == nil {
			n++
		}
		return strings.Contains(w.String(), "has not returned its lease on the budget of the model m: up to ")
	})
	for two.Do(t.Context(), call()) == nil {
		n++
	}
	if n+1 > 160-9+1 || n < 140 {
		t.Errorf("%d calls: want what the broker that was killed had not leased", n)
	}
}

// Without NATS, calls fail or pass as configured.
func TestHubLost(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprint(open), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := natsAt(t, dir, nserver.RANDOM_PORT)
			url := s.ClientURL()
			var port int
			_, err := fmt.Sscanf(url, "nats://127.0.0.1:%d", &port)
			check(t, err)
			var w teller
			b, _ := join(t, url, open, &w, func(c *broker.Config) {
				c.Models[0].Routes[0].Backend.Rate, c.Models[0].Routes[0].Backend.Burst = 1e6, 1e6
				c.Models[0].Budget = &broker.Budget{Calls: 1e6}
			})
			check(t, b.Do(t.Context(), call()))
			s.Shutdown()
			s.WaitForShutdown()
			if open {
				within(t, "told", func() bool { return strings.Contains(w.String(), "enforces its limits alone") })
				for range 1000 {
					check(t, b.Do(t.Context(), call()))
				}
			} else {
				within(t, "calls fail", func() bool { return errors.Is(b.Do(t.Context(), call()), broker.ErrHubLost) })
				if got := broker.Message(broker.ErrHubLost); !strings.Contains(got, "hub") {
					t.Error(got)
				}
			}
			natsAt(t, dir, port)
			within(t, "the hub is back", func() bool {
				return b.Do(t.Context(), call()) == nil && strings.Contains(w.String(), "the hub answers again")
			})
		})
	}
}

// A broker whose hub is unreachable does not start, unless it is allowed to run without
// one.
func TestNoHub(t *testing.T) {
	t.Parallel()
	const nowhere = "nats://127.0.0.1:1"
	if g, err := share.Join(t.Context(), share.Options{URL: nowhere, Warn: func(string) {}}); err == nil || !strings.Contains(err.Error(), "nothing listens there") {
		t.Errorf("%v, %v", g, err)
	}
	var w teller
	b, _ := join(t, nowhere, true, &w, func(c *broker.Config) { c.Models[0].Budget = &broker.Budget{Calls: 10} })
	check(t, b.Do(t.Context(), call()))
}

// A budget of cost is exceeded at most by the cost of the calls running when it ends.
func TestCost(t *testing.T) {
	t.Parallel()
	url := start(t)
	const brokers, limit = 4, 0.1
	var w teller
	var list []*broker.Broker
	for range brokers {
		b, _ := join(t, url, false, &w, func(c *broker.Config) {
			c.Models[0].Budget, c.Models[0].Price = &broker.Budget{Cost: limit}, &broker.Price{Input: 100, Output: 300}
		})
		list = append(list, b)
	}
	var mu sync.Mutex
	var cost, most float64
	var group sync.WaitGroup
	for _, b := range list {
		group.Go(func() {
			for {
				c := call()
				if b.Do(t.Context(), c) != nil {
					return
				}
				u := c.Completion.Usage
				one := (float64(u.Input)*100 + float64(u.Output)*300) / 1e6
				mu.Lock()
				cost, most = cost+one, max(most, one)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if cost < limit*0.5 || cost > limit+brokers*most {
		t.Errorf("%v dollars of a budget of %v, %v a call", cost, limit, most)
	}
}

package share

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/hub"
)

// A breaker is an open breaker of a broker.
type breaker struct {
	Provider string    `json:"provider"`
	By       string    `json:"by"`
	Until    time.Time `json:"until"`
}

// A report is the usage of one broker.
type report struct {
	By    string         `json:"by"`
	Time  time.Time      `json:"time"`
	Usage []broker.Usage `json:"usage"`
}

// keptUsage is how long the usage of a broker counts after its end.
const keptUsage = 30 * 24 * time.Hour

// breakerDelay is how long a breaker is open by default.
const breakerDelay = 10 * time.Second

// Opened implements [broker.Group].
func (g *Group) Opened(b *broker.Backend) {
	g.mu.Lock()
	g.news[b.Name] = breaker{b.Name, g.id, g.now().Add(cmp.Or(b.BreakerDelay, breakerDelay))}
	g.mu.Unlock()
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// IsOpen implements [broker.Group].
func (g *Group) IsOpen(provider string) bool {
	open, ok := (*g.open.Load())[provider]
	return ok && open.By != g.id && g.now().Before(open.Until)
}

// tellState writes the news and the usage of this broker, and so measures the hub's clock.
func (g *Group) tellState(ctx context.Context) {
	g.mu.Lock()
	news, ours := g.news, g.ours
	g.news = map[string]breaker{}
	g.mu.Unlock()
	for _, n := range news {
		if text, err := json.Marshal(n); err != nil || (bucket{g.conn}).put(ctx, g.key("breaker", n.Provider), text, nil) != nil {
			g.mu.Lock()
			g.news[n.Provider] = n // try again at the next beat
			g.mu.Unlock()
		}
	}
	r := report{By: g.id, Time: g.now()}
	if ours != nil {
		r.Usage = ours()
	}
	text, err := json.Marshal(r)
	if err != nil {
		return
	}
	g.measure(ctx, g.key("usage", g.id), text)
}

// measure writes an entry, and compares the time at which it was stored with this clock.
func (g *Group) measure(ctx context.Context, key string, text []byte) {
	began := time.Now()
	if err := (bucket{g.conn}).put(ctx, key, text, nil); err != nil {
		return
	}
	took := time.Since(began)
	e, found, err := bucket{g.conn}.get(ctx, key)
	if err != nil || !found || !bytes.Equal(e.value, text) { // a server of a cluster may be late
		return
	}
	// Half of the round trip is as exact as it can be. If the difference is within the round
	// trip, the offset stays.
	offset := e.stored.Sub(began.Add(took / 2))
	if diff := offset - time.Duration(g.offset.Load()); diff.Abs() > took {
		g.offset.Store(int64(offset))
	}
}

// readBreakers reads the open breakers, and reports whether the hub answers.
func (g *Group) readBreakers(ctx context.Context) bool {
	open := map[string]breaker{}
	err := g.each(ctx, "breaker", func(text []byte) {
		var b breaker
		if json.Unmarshal(text, &b) == nil && g.now().Before(b.Until) {
			open[b.Provider] = b
		}
	})
	if err != nil {
		g.miss(err)
		return false
	}
	g.found()
	g.open.Store(&open)
	return true
}

// each calls f for each entry of a kind.
func (g *Group) each(ctx context.Context, kind string, f func([]byte)) error {
	return g.conn.Entries(ctx, hub.Shared, g.conn.Org()+"."+kind+".>", func(_ string, m *nats.Msg) error {
		f(m.Data)
		return nil
	})
}

// Usage implements [broker.Group].
func (g *Group) Usage(ctx context.Context, own []broker.Usage) ([]broker.Usage, error) {
	sums := map[[3]string]*broker.Usage{}
	add := func(usage []broker.Usage) {
		for _, u := range usage {
			key := [3]string{u.Door, u.Client, u.Model}
			if s := sums[key]; s != nil {
				s.Add(&u)
			} else {
				sums[key] = &u
			}
		}
	}
	add(own)
	err := g.each(ctx, "usage", func(text []byte) {
		var r report
		if json.Unmarshal(text, &r) == nil && r.By != g.id && g.now().Sub(r.Time) < keptUsage {
			add(r.Usage)
		}
	})
	all := make([]broker.Usage, 0, len(sums))
	for _, u := range sums {
		all = append(all, *u)
	}
	broker.SortUsage(all)
	return all, err
}

// Package share joins brokers through NATS. The brokers of an organisation are a [Group]:
// they share limits, budgets, open breakers and usage in a bucket, and pass calls to workers.
package share

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/wait"
)

// Options say how to join a group.
type Options struct {
	// URL is the address of the hub, with the organisation.
	URL string
	// Open lets calls pass while the hub cannot be reached; each broker then keeps to the
	// limits on its own.
	Open bool
	// LeaseTime is how long a lease is valid if it is not renewed; 0 is 10 s.
	LeaseTime time.Duration
	// Warn tells the user what went wrong.
	Warn func(string)
}

const (
	// askTime is how long the hub may take to answer.
	askTime = 2 * time.Second
	// beat is how often a broker renews its leases and reads the breakers of others.
	beat = 500 * time.Millisecond
	// leaseTime is how long a lease is valid, by default.
	leaseTime = 10 * time.Second
)

// A Group is a broker's part in its group. It implements [broker.Group].
type Group struct {
	options Options
	conn    *hub.Conn
	id      string // of this broker among the others
	workers *Workers

	mu       sync.Mutex
	limiters map[string]*limiter
	purses   map[string]*purse
	news     map[string]breaker // to be reported
	ours     func() []broker.Usage

	open   atomic.Pointer[map[string]breaker]
	offset atomic.Int64 // of the hub's clock from this one, in ns
	lost   atomic.Int64 // since when the hub cannot be reached, in ns; 0 if it can

	kick    chan struct{} // wakes keep for news
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Join joins the group at the address. It is an error if the hub cannot be reached, unless
// o.Open is set.
func Join(ctx context.Context, o Options) (*Group, error) {
	o.LeaseTime = cmp.Or(o.LeaseTime, leaseTime)
	conn, err := dial(ctx, o)
	if err != nil {
		return nil, err
	}
	g := &Group{
		options: o, conn: conn, id: conn.Host() + "-" + random(),
		limiters: map[string]*limiter{}, purses: map[string]*purse{}, news: map[string]breaker{}, kick: make(chan struct{}, 1),
	}
	g.open.Store(&map[string]breaker{})
	if g.workers, err = newWorkers(g); err != nil {
		conn.Close()
		return nil, err
	}
	ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.beat(ctx)
	g.running.Go(func() { g.keep(ctx) })
	return g, nil
}

func random() string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// dial connects to the hub, and creates the bucket if there is none.
func dial(ctx context.Context, o Options) (*hub.Conn, error) {
	a, err := hub.ParseAddress(o.URL)
	if err != nil {
		return nil, err
	}
	options := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(beat), nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort()}
	conn, err := hub.Dial(a, options...)
	if errors.Is(err, nats.ErrNoServers) && o.Open {
		o.Warn(fmt.Sprintf("%v; until then each broker enforces its limits alone", err))
		return hub.Dial(a, append(options, nats.RetryOnFailedConnect(true))...)
	}
	if err != nil {
		return nil, err
	}
	if err := makeBucket(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// makeBucket creates the bucket on a server that no wirectl hub has prepared.
func makeBucket(ctx context.Context, conn *hub.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, 10*askTime)
	defer cancel()
	b := bucket{conn}
	_, _, err := b.get(ctx, "-")
	if !errors.Is(err, nats.ErrNoResponders) {
		return err
	}
	js, err := jetstream.New(conn.NATS())
	if err != nil {
		return err
	}
	cluster := conn.NATS().ConnectedClusterName() != ""
	replicas := 1
	if cluster {
		replicas = 3
	}
	if _, err = js.CreateOrUpdateStream(ctx, hub.SharedStream(replicas)); err != nil && cluster {
		_, err = js.CreateOrUpdateStream(ctx, hub.SharedStream(1))
	}
	if err != nil {
		return fmt.Errorf("the server has no bucket for shared limits, and creating it failed: %w; start wirectl hub there, or hub --nats", err)
	}
	for ctx.Err() == nil { // until the servers know the bucket
		if _, _, err = b.get(ctx, "-"); !errors.Is(err, nats.ErrNoResponders) {
			break
		}
		_ = wait.For(ctx, beat/10)
	}
	return err
}

// Workers returns the workers that offer models to the group.
func (g *Group) Workers() broker.Workers { return g.workers }

// Report makes g report the usage that own returns.
func (g *Group) Report(own func() []broker.Usage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ours = own
}

// Close returns the leases and closes the connection.
func (g *Group) Close() {
	g.stop()
	g.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	g.renew(ctx, true)
	g.tellState(ctx)
	g.workers.close()
	g.conn.Close()
}

// now returns the time of the hub's clock, so that brokers with different clocks agree.
func (g *Group) now() time.Time { return time.Now().Add(time.Duration(g.offset.Load())) }

// key returns the key of an entry of the group.
func (g *Group) key(kind, name string) string {
	return strings.Join([]string{g.conn.Org(), kind, encode(name)}, ".")
}

// keep renews leases and reads breakers until ctx ends.
func (g *Group) keep(ctx context.Context) {
	ticks := time.Tick(beat)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		case <-g.kick:
		}
		g.beat(ctx)
	}
}

func (g *Group) beat(ctx context.Context) {
	if !g.conn.NATS().IsConnected() {
		g.miss(nats.ErrDisconnected)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if g.tellState(ctx); g.readBreakers(ctx) {
		g.renew(ctx, false)
	}
}

// miss notes that the hub does not answer, and found that it does.
func (g *Group) miss(err error) {
	if errors.Is(err, context.Canceled) {
		return // this broker is ending
	}
	if g.lost.CompareAndSwap(0, time.Now().UnixNano()) {
		does := "calls that need a shared limit fail"
		if g.options.Open {
			does = "each broker enforces its limits alone"
		}
		g.options.Warn(fmt.Sprintf("the hub does not answer (%v): until it does, %s", err, does))
	}
}

func (g *Group) found() {
	if g.lost.Swap(0) != 0 {
		g.options.Warn("the hub answers again")
	}
}

// reached reports whether the hub answered last time, and is connected.
func (g *Group) reached() bool { return g.lost.Load() == 0 && g.conn.NATS().IsConnected() }

// A bucket has the entries that brokers share. It needs few rights, because it uses no
// consumer, which could have messages delivered to any subject.
type bucket struct{ *hub.Conn }

// encode turns any text into a word of a subject. Different texts become different words.
func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// An entry is a value, and the number by which it can be replaced; 0 if there is no entry.
type entry struct {
	value  []byte
	number uint64
	stored time.Time
}

// get returns an entry. If there is none, the value is nil.
func (b bucket) get(ctx context.Context, key string) (e entry, found bool, err error) {
	stream, subjects := hub.Bucket(hub.Shared)
	body, err := json.Marshal(map[string]string{"last_by_subj": subjects + key})
	if err != nil {
		return e, false, err
	}
	m, err := b.NATS().RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream, body)
	if err != nil {
		return e, false, err
	}
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return e, false, nil
	default:
		return e, false, fmt.Errorf("the hub answers %s %s", status, m.Header.Get("Description"))
	}
	e.value = m.Data
	if e.number, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err != nil {
		return e, false, fmt.Errorf("the hub's answer has no number: %w", err)
	}
	e.stored, err = time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	return e, err == nil, err
}

// errRaced says that another broker has replaced an entry first.
var errRaced = errors.New("another broker changed it first")

// Codes of JetStream's errors.
const (
	codeWrongLast = 10071 // the number is not the last any more
	codeBusy      = 10164 // another value of the entry is being stored
)

// put replaces the entry that has the number; if number is nil, it replaces any entry.
func (b bucket) put(ctx context.Context, key string, value []byte, number *uint64) error {
	js, err := jetstream.New(b.NATS())
	if err != nil {
		return err
	}
	var last []jetstream.PublishOpt
	if number != nil {
		last = append(last, jetstream.WithExpectLastSequencePerSubject(*number))
	}
	_, subjects := hub.Bucket(hub.Shared)
	_, err = js.Publish(ctx, subjects+key, value, last...)
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && (refused.ErrorCode == codeWrongLast || refused.ErrorCode == codeBusy) {
		return errRaced
	}
	return err
}

// change replaces the entry of a key by what f returns for it, and tries again while other
// brokers are faster. If f returns an error, nothing changes.
func (g *Group) change(ctx context.Context, key string, f func(old []byte) ([]byte, error)) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	b := bucket{g.conn}
	for {
		old, _, err := b.get(ctx, key)
		if err != nil {
			return err
		}
		value, err := f(old.value)
		if err != nil {
			return err
		}
		if err := b.put(ctx, key, value, &old.number); !errors.Is(err, errRaced) {
			return err
		}
		_ = wait.For(ctx, mrand.N(2*time.Millisecond))
	}
}

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

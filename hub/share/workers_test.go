package share_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/hub/share"
	"github.com/wirectl/wirectl/llm"
)

// A model is the provider of a worker. It counts running, begun and cancelled calls.
type model struct {
	provider.Provider
	running, begun, cancelled atomic.Int64
	onBegin                   func(*provider.Request) // nil, or called for each call that begins
}

func (m *model) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	m.begun.Add(1)
	m.running.Add(1)
	defer m.running.Add(-1)
	if m.onBegin != nil {
		m.onBegin(r)
	}
	err := m.Provider.Complete(ctx, r, c)
	if ctx.Err() != nil {
		m.cancelled.Add(1)
	}
	return err
}

func echo() *model { return &model{Provider: provider.NewMock(provider.MockConfig{})} }

// slow takes an hour per call, unless it is cancelled.
func slow() *model {
	return &model{Provider: provider.NewMock(provider.MockConfig{Latency: time.Hour})}
}

// work starts a worker.
func work(t *testing.T, url string, m provider.Provider, parallel int, models ...string) *share.Worker {
	t.Helper()
	b, err := broker.New(broker.Config{Models: []broker.Model{{Name: "*", Routes: []broker.Route{{Backend: &broker.Backend{Name: "local", Provider: m}}}}}}, nil)
	check(t, err)
	w, err := share.Work(share.WorkOptions{URL: url, Broker: b, Models: models, Parallel: parallel, Warn: func(text string) { t.Log(text) }})
	check(t, err)
	t.Cleanup(func() { w.Close(context.Background()) })
	return w
}

// using sends all calls to workers.
func using(g **share.Group) func(*broker.Config) {
	return func(c *broker.Config) {
		*g = c.Group.(*share.Group)
		c.Workers = (*g).Workers()
	}
}

// asker joins a broker that uses workers.
func asker(t *testing.T, url string) *broker.Broker {
	t.Helper()
	var g *share.Group
	b, _ := join(t, url, false, new(teller), using(&g))
	return b
}

func llama(prompt string) *broker.Call {
	c := call()
	c.Model, c.Prompt = "llama-3", provider.Quote(prompt)
	return c
}

// known waits until a broker knows of workers.
func known(t *testing.T, b *broker.Broker) {
	t.Helper()
	within(t, "the worker is known", func() bool { return b.Find("llama-3") == nil })
}

// A call reaches a worker and returns, whole and in parts, however large it is.
func TestWorker(t *testing.T) {
	t.Parallel()
	url := start(t)
	m := echo()
	work(t, url, m, 4, "llama-*")
	b := asker(t, url)
	known(t, b)
	large := strings.Repeat(strings.Repeat("long", 10)+" ", 50_000)
	for _, prompt := range []string{"hi", large} {
		c := llama(prompt)
		check(t, b.Do(t.Context(), c))
		if got := c.Completion.Plain(); got != "Echo: "+prompt || c.Completion.Usage.Output == 0 || c.Completion.Finish != "stop" {
			t.Errorf("%.50q, %+v", got, c.Completion.Usage)
		}
		c = llama(prompt)
		var said bytes.Buffer
		c.Emit = func(p provider.Part) error {
			said.WriteString(provider.Unquote(p.Text))
			return nil
		}
		check(t, b.Do(t.Context(), c))
		if said.String() != "Echo: "+prompt {
			t.Errorf("%.50q", said.String())
		}
	}
	if !slices.Contains(b.Models(), "llama-*") {
		t.Error(b.Models())
	}
	if err := b.Do(t.Context(), &broker.Call{Model: "other", Prompt: []byte(`"hi"`)}); broker.ErrorType(err) != "unknown_model" {
		t.Error(err)
	}
}

// A failure of the worker's provider is a failure of the call.
func TestWorkerFails(t *testing.T) {
	t.Parallel()
	url := start(t)
	m := &model{Provider: provider.NewMock(provider.MockConfig{Script: []provider.Line{{Status: 429, RetryAfter: 7 * time.Second}}})}
	work(t, url, m, 1, "llama-*")
	b := asker(t, url)
	known(t, b)
	err := b.Do(t.Context(), llama("hi"))
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Cause != provider.RateLimited || e.Status != 429 || e.RetryAfter != 7*time.Second || !strings.Contains(e.Error(), "worker ") {
		t.Error(err)
	}
}

// A worker is at most one window ahead of a client that does not read.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	url := start(t)
	var emitted atomic.Int64
	many := counted{&emitted, 1000}
	work(t, url, many, 1, "llama-*")
	b := asker(t, url)
	known(t, b)
	c := llama("hi")
	got := 0
	c.Emit = func(provider.Part) error {
		got++
		if ahead := emitted.Load() - int64(got); ahead > 64+1 {
			return fmt.Errorf("%d parts ahead", ahead)
		}
		return nil
	}
	check(t, b.Do(t.Context(), c))
	if got != 1000 {
		t.Errorf("%d parts", got)
	}
}

// counted emits n parts and counts the accepted ones.
type counted struct {
	emitted *atomic.Int64
	n       int
}

func (m counted) Complete(_ context.Context, r *provider.Request, c *provider.Completion) error {
	for range m.n {
		if err := r.Emit(provider.Part{Delta: llm.Delta{Text: []byte(`"x"`)}}); err != nil {
			return err
		}
		m.emitted.Add(1)
	}
	c.Text = []byte(`"x"`)
	return nil
}

// Four brokers, four workers, 64 clients: every call is made once, and each cancel reaches
// its worker.
func TestManyCancels(t *testing.T) {
	t.Parallel()
	url := start(t)
	const brokers, workers, clients, each = 4, 4, 16, 16 // 1,024 calls
	var models []*model
	var begins sync.Map // by prompt, a channel to close
	var prompts atomic.Int64
	for range workers {
		m := slow()
		m.onBegin = func(r *provider.Request) {
			if started, ok := begins.Load(provider.Unquote(r.Prompt)); ok {
				close(started.(chan struct{}))
			}
		}
		models = append(models, m)
		work(t, url, m, clients, "llama-*")
	}
	sum := func(of func(*model) *atomic.Int64) (n int64) {
		for _, m := range models {
			n += of(m).Load()
		}
		return n
	}
	var group sync.WaitGroup
	for range brokers {
		b := asker(t, url)
		known(t, b)
		for range clients {
			group.Go(func() {
				for range each {
					ctx, cancel := context.WithCancelCause(t.Context())
					started := make(chan struct{})
					c := llama(fmt.Sprint("call ", prompts.Add(1)))
					begins.Store(provider.Unquote(c.Prompt), started)
					go func() {
						<-started
						cancel(broker.ErrGone)
					}()
					if err := b.Do(ctx, c); !errors.Is(err, broker.ErrGone) {
						t.Errorf("%v", err)
					}
				}
			})
		}
	}
	group.Wait()
	const all = brokers * clients * each
	within(t, "no call runs at a worker", func() bool { return sum(func(m *model) *atomic.Int64 { return &m.running }) == 0 })
	begun, cancelled := sum(func(m *model) *atomic.Int64 { return &m.begun }), sum(func(m *model) *atomic.Int64 { return &m.cancelled })
	if begun != all || cancelled != all {
		t.Errorf("%d calls: %d begun, %d cancelled at workers", all, begun, cancelled)
	}
}

// notes keeps the notes of a tap.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(r *capture.Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.Kind == capture.Note {
		fmt.Fprintf(&n.text, "%s\n", r.Text)
	}
	return nil
}

// The broker's tap shows each hop of a cancel.
func TestCancelIsShown(t *testing.T) {
	t.Parallel()
	url := start(t)
	m := slow()
	work(t, url, m, 1, "llama-*")
	b := asker(t, url)
	known(t, b)
	var seen notes
	p := observe.NewPublisher(&seen, nil)
	c := llama("hi")
	c.Tap = p.Open("client", "json", "http").Tap()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for m.running.Load() == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel(broker.ErrGone)
	}()
	if err := b.Do(ctx, c); !errors.Is(err, broker.ErrGone) {
		t.Error(err)
	}
	at := 0
	for _, want := range []string{"offered to the workers of llama-*", "claimed by worker", "cancel sent to worker", "stopped its provider local", "the client went away"} {
		i := strings.Index(seen.text.String()[at:], want)
		if i < 0 {
			t.Fatalf("%q is not among the rest of\n%s", want, seen.text.String())
		}
		at += i
	}
}

// A worker without a free slot leaves calls to others. If there are none, the calls wait.
func TestBusy(t *testing.T) {
	t.Parallel()
	url := start(t)
	full, free := slow(), echo()
	work(t, url, full, 1, "llama-*")
	b := asker(t, url)
	known(t, b)
	ctx, cancel := context.WithCancelCause(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel(broker.ErrGone)
	group.Go(func() { _ = b.Do(ctx, llama("hi")) })
	within(t, "the worker is busy", func() bool { return full.running.Load() == 1 })
	waits := make(chan error, 1)
	group.Go(func() { waits <- b.Do(t.Context(), llama("hi")) })
	work(t, url, free, 1, "llama-*")
	check(t, <-waits)
	for range 20 {
		check(t, b.Do(t.Context(), llama("hi")))
	}
	if full.begun.Load() != 1 || free.begun.Load() != 21 {
		t.Errorf("%d and %d calls", full.begun.Load(), free.begun.Load())
	}
}

const workerVariable = "WIRECTL_TEST_WORKER"

// The test program also serves as a worker. Otherwise no goroutine may remain after the tests.
func TestMain(m *testing.M) {
	if text := os.Getenv(workerVariable); text != "" {
		if err := runWorker(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	_ = flag.Set("test.parallel", "4") // most of them wait; the command line comes first
	goleak.VerifyTestMain(m)
}

// A settings configures a worker in a process of its own.
type settings struct {
	URL   string
	Delay time.Duration
}

// runWorker runs a worker until its standard input ends.
func runWorker(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	local := &broker.Backend{Name: "local", Provider: provider.NewMock(provider.MockConfig{Delay: s.Delay})}
	b, err := broker.New(broker.Config{Models: []broker.Model{{Name: "*", Routes: []broker.Route{{Backend: local}}}}}, nil)
	if err != nil {
		return err
	}
	w, err := share.Work(share.WorkOptions{URL: s.URL, Broker: b, Models: []string{"llama-*"}, Parallel: 4, Warn: func(string) {}})
	if err != nil {
		return err
	}
	fmt.Println(w.ID())
	_, err = io.Copy(io.Discard, os.Stdin)
	w.Close(context.Background())
	return err
}

// A worker that is killed in mid-call fails only that call, and the hop says so. The call
// is not retried.
func TestWorkerIsKilled(t *testing.T) {
	t.Parallel()
	url := start(t)
	text, err := json.Marshal(settings{url, time.Hour})
	check(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), workerVariable+"="+string(text)), os.Stderr
	stdin, err := cmd.StdinPipe()
	check(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	check(t, err, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // usually it is killed earlier
	var id string
	_, err = fmt.Fscan(stdout, &id)
	check(t, err)
	b := asker(t, url)
	known(t, b)
	var group sync.WaitGroup
	first := make(chan struct{}, 1)
	failed := make(chan error, 1)
	c := llama("one two three")
	c.Emit = func(provider.Part) error {
		first <- struct{}{}
		return nil
	}
	group.Go(func() { failed <- b.Do(t.Context(), c) })
	<-first
	other := echo()
	work(t, url, other, 8, "llama-*")
	check(t, cmd.Process.Kill())
	_ = cmd.Wait() // it reports that the process was killed
	for range 20 {
		check(t, b.Do(t.Context(), llama("hi"))) // the other worker answers, even calls offered to the dead one
	}
	err = <-failed
	group.Wait()
	if err == nil || !strings.Contains(err.Error(), "worker "+id+" died during the call") {
		t.Errorf("%v", err)
	}
	if len(c.Hops) != 1 || !c.Hops[0].Sent || c.Hops[0].Provider != "workers" || !strings.Contains(fmt.Sprint(c.Hops[0].Err), "died during the call") {
		t.Errorf("%+v", c.Hops)
	}
	if n := other.begun.Load(); n != 20 {
		t.Errorf("%d calls at the other worker: want 20, and none of them twice", n)
	}
}

// When a broker ends, so do its calls at workers. A worker that ends waits for its calls.
func TestEnds(t *testing.T) {
	t.Parallel()
	url := start(t)
	m := slow()
	w := work(t, url, m, 4, "llama-*")
	b := asker(t, url)
	known(t, b)
	failed := make(chan error, 1)
	go func() { failed <- b.Do(t.Context(), llama("hi")) }()
	within(t, "the call runs", func() bool { return m.running.Load() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Close(ctx)
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Error(err)
	}
	within(t, "nobody offers the model", func() bool { return b.Find("llama-3") != nil })
}

// A call that a worker has claimed but not begun is made by another one.
func TestClaimIsLeft(t *testing.T) {
	t.Parallel()
	url := start(t)
	nc, err := nats.Connect(url)
	check(t, err)
	defer nc.Close()
	take := "wirectl.w.main.take." + base64.RawURLEncoding.EncodeToString([]byte("llama-*"))
	var claims atomic.Int64
	_, err = nc.QueueSubscribe(take, "workers", func(m *nats.Msg) {
		claims.Add(1)
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Wirectl-Kind": {"claim"}}, Data: []byte(`{"id":"ghost","subject":"wirectl.w.main.call.ghost.1"}`)})
	})
	check(t, err, nc.Flush())
	m := echo()
	work(t, url, m, 4, "llama-*")
	b := asker(t, url)
	known(t, b)
	n := int64(0)
	for ; claims.Load() < 5; n++ {
		c := llama("hi")
		check(t, b.Do(t.Context(), c))
		if len(c.Hops) != 1 {
			t.Errorf("%+v", c.Hops)
		}
	}
	if m.begun.Load() != n {
		t.Errorf("%d calls, %d of them made", n, m.begun.Load())
	}
}

// A worker cannot make a broker publish to an arbitrary subject.
func TestClaimElsewhere(t *testing.T) {
	t.Parallel()
	url := start(t)
	nc, err := nats.Connect(url)
	check(t, err)
	defer nc.Close()
	stolen, err := nc.SubscribeSync("elsewhere.>")
	check(t, err)
	_, err = nc.Subscribe("wirectl.w.main.take.*", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Wirectl-Kind": {"claim"}}, Data: []byte(`{"id":"thief","subject":"elsewhere.1"}`)})
	})
	check(t, err, nc.Flush())
	work(t, url, echo(), 4, "llama-*")
	b := asker(t, url)
	known(t, b)
	for range 10 {
		check(t, b.Do(t.Context(), llama("hi")))
	}
	check(t, nc.Flush())
	if n, _, _ := stolen.Pending(); n != 0 {
		t.Errorf("%d messages elsewhere", n)
	}
}

// Metrics are valid whatever name the configuration gives to the provider of workers.
func TestMetricsWithWorkers(t *testing.T) {
	t.Parallel()
	url := start(t)
	for _, own := range []bool{false, true} {
		b, _ := join(t, url, false, new(teller), func(c *broker.Config) {
			c.Workers = c.Group.(*share.Group).Workers()
			back := c.Models[0].Routes[0].Backend
			if back.Name = "workers"; own {
				back.Provider = c.Workers
			}
		})
		registry := prometheus.NewRegistry()
		check(t, registry.Register(b))
		_, err := registry.Gather()
		check(t, err)
	}
}

package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A backend answers by a function that gets the number of the call.
type backend func(ctx context.Context, n int64, r *provider.Request) error

func named(name string, calls *[]string, f backend) *broker.Backend {
	var n atomic.Int64
	return &broker.Backend{Name: name, Provider: providerFunc(func(ctx context.Context, r *provider.Request, c *provider.Completion) error {
		if calls != nil {
			*calls = append(*calls, name+":"+r.Model)
		}
		c.Text = provider.Quote(name)
		if f == nil {
			return nil
		}
		return f(ctx, n.Add(1), r)
	})}
}

type providerFunc func(ctx context.Context, r *provider.Request, c *provider.Completion) error

func (f providerFunc) Complete(ctx context.Context, r *provider.Request, c *provider.Completion) error {
	return f(ctx, r, c)
}

func status(code int, after time.Duration) error {
	return provider.StatusError(code, after, errors.New("made up"))
}

func one(name string, b *broker.Backend) broker.Model {
	return broker.Model{Name: name, Routes: []broker.Route{{Backend: b}}}
}

func start(t *testing.T, cfg broker.Config) *broker.Broker {
	t.Helper()
	b, err := broker.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A name matches a model directly, as an alias, or by the longest pattern. The default
// applies only to calls without a name.
func TestNames(t *testing.T) {
	var calls []string
	exact, wide, narrow := named("exact", &calls, nil), named("wide", &calls, nil), named("narrow", &calls, nil)
	b := start(t, broker.Config{
		Default: "quick", Aliases: map[string]string{"quick": "gpt-4", "tiny": "gpt-mini-1"},
		Models: []broker.Model{one("gpt-4", exact), one("gpt-*", wide), one("gpt-mini-*", narrow)},
	})
	for _, tt := range []struct{ asked, want string }{
		{"gpt-4", "exact:gpt-4"},
		{"  gpt-4\n", "exact:gpt-4"},
		{"", "exact:gpt-4"},
		{"quick", "exact:gpt-4"},
		{"gpt-5", "wide:gpt-5"},
		{"gpt-mini-2", "narrow:gpt-mini-2"},
		{"tiny", "narrow:gpt-mini-1"},
	} {
		calls = nil
		if err := b.Do(t.Context(), &broker.Call{Model: tt.asked}); err != nil || !slices.Equal(calls, []string{tt.want}) {
			t.Errorf("%q went to %v (%v), want %s", tt.asked, calls, err, tt.want)
		}
	}
	err := b.Do(t.Context(), &broker.Call{Model: "it's"})
	if want := `Unknown model "it's". Allowed: ['gpt-*', 'gpt-4', 'gpt-mini-*', 'quick', 'tiny']`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if got, want := b.Named(), []string{"gpt-4", "quick", "tiny"}; !slices.Equal(got, want) {
		t.Errorf("%v may be asked for as they are, want %v", got, want)
	}
}

// Routes take turns by weight. A failed call goes to the next route and then to the
// fallbacks, unless the backend rejects the request itself.
func TestRoutes(t *testing.T) {
	var calls []string
	var fail error
	broken := func(context.Context, int64, *provider.Request) error { return fail }
	b := start(t, broker.Config{Models: []broker.Model{
		{Name: "m", Routes: []broker.Route{{Backend: named("a", &calls, nil), Weight: 3}, {Backend: named("b", &calls, nil), Model: "other"}}},
		{Name: "f", Routes: []broker.Route{{Backend: named("x", &calls, broken)}, {Backend: named("y", &calls, broken)}}, Fallbacks: []string{"g", "m"}},
		one("g", named("g", &calls, broken)),
	}})
	for range 8 {
		if err := b.Do(t.Context(), &broker.Call{Model: "m"}); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(calls, " "); strings.Count(got, "a:m") != 6 || strings.Count(got, "b:other") != 2 {
		t.Errorf("3 to 1 came out as %s", got)
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{status(500, 0), "xyga"},
		{status(429, 0), "xyga"},
		{&provider.Error{Cause: provider.TimedOut, Err: errors.New("slow")}, "xyga"},
		{&provider.Error{Cause: provider.Unreachable, Err: errors.New("down"), Began: true}, "x"},
		{status(400, 0), "x"},
		{errors.New("a mistake of ours"), "x"},
	} {
		calls, fail = nil, tt.err
		c := &broker.Call{Model: "f"}
		err := b.Do(t.Context(), c)
		got := ""
		for _, name := range calls {
			got += name[:1]
		}
		got = strings.NewReplacer("yx", "xy", "b", "a").Replace(got) // the first turn may be either's
		if len(tt.want) == 1 {
			got = strings.ReplaceAll(got, "y", "x")
		}
		if got != tt.want || (err == nil) != (len(tt.want) > 1) || len(c.Hops) != len(tt.want) {
			t.Errorf("%v: went to %v, %v", tt.err, calls, err)
		}
	}
}

// A fallback is called with a model that it has: that of its route, or the name in the
// configuration with aliases resolved. Its routes take turns, too.
func TestFallbackNames(t *testing.T) {
	var calls []string
	broken := func(context.Context, int64, *provider.Request) error { return status(503, 0) }
	down, up := named("down", &calls, broken), named("up", &calls, nil)
	b := start(t, broker.Config{
		Aliases: map[string]string{"quick": "claude-5"},
		Models: []broker.Model{
			{Name: "a", Routes: []broker.Route{{Backend: down}}, Fallbacks: []string{"gpt-4"}},
			{Name: "b", Routes: []broker.Route{{Backend: down, Model: "big"}}, Fallbacks: []string{"quick"}},
			{Name: "c-*", Routes: []broker.Route{{Backend: down}}, Fallbacks: []string{"claude-*"}},
			{Name: "d", Routes: []broker.Route{{Backend: down}}, Fallbacks: []string{"turns"}},
			one("gpt-4", up), one("claude-*", up),
			{Name: "turns", Routes: []broker.Route{{Backend: up}, {Backend: up, Model: "other"}}},
		},
	})
	for _, tt := range []struct{ asked, want string }{
		{"a", "down:a up:gpt-4"},
		{"b", "down:big up:claude-5"},
		{"c-1", "down:c-1 up:c-1"},
		{"d", "down:d up:turns"},
		{"d", "down:d up:other"},
	} {
		calls = nil
		c := &broker.Call{Model: tt.asked}
		err := b.Do(t.Context(), c)
		if got := strings.Join(calls, " "); err != nil || got != tt.want || c.Name != tt.asked {
			t.Errorf("%s went to %s as %s (%v), want %s", tt.asked, got, c.Name, err, tt.want)
		}
	}
}

// A retry waits as long as the backend asks for. If that is too long, there is no retry.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			after time.Duration
			want  int64 // calls
			wait  time.Duration
		}{
			{0, 3, 2 * time.Second}, // backoff: between half and all of 100 ms and 200 ms
			{7 * time.Second, 3, 14 * time.Second},
			{time.Hour, 1, 0},
		} {
			var n int64
			k := named("k", nil, func(_ context.Context, i int64, _ *provider.Request) error {
				n = i
				if i < 3 {
					return status(503, tt.after)
				}
				return nil
			})
			k.Retries, k.Backoff, k.MaxWait = 2, 100*time.Millisecond, 10*time.Second
			b := start(t, broker.Config{Models: []broker.Model{one("m", k)}})
			begin := time.Now()
			err := b.Do(t.Context(), &broker.Call{Model: "m"})
			took := time.Since(begin)
			if n != tt.want || (err == nil) != (n == 3) || took > tt.wait || tt.after == 7*time.Second && took != tt.wait {
				t.Errorf("Retry-After %v: %d calls in %v, %v", tt.after, n, took, err)
			}
		}
	})
}

// A stream is not retried once a part has arrived.
func TestNoRetryAfterTheFirstPart(t *testing.T) {
	calls := 0
	k := &broker.Backend{Name: "k", Retries: 5, Provider: providerFunc(func(_ context.Context, r *provider.Request, _ *provider.Completion) error {
		calls++
		_ = r.Emit(provider.Part{Delta: llm.Delta{Text: []byte(`"x"`)}})
		return &provider.Error{Cause: provider.Unreachable, Err: errors.New("cut")}
	})}
	b := start(t, broker.Config{Models: []broker.Model{one("m", k)}})
	err := b.Do(t.Context(), &broker.Call{Model: "m", Emit: func(provider.Part) error { return nil }})
	if calls != 1 || broker.Message(err) != "Connection error" {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// Timeouts, and the limits on concurrency and rate.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		slow := named("slow", nil, func(ctx context.Context, _ int64, _ *provider.Request) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		narrow, hasty := *slow, *slow
		narrow.Name, narrow.Concurrency = "narrow", 2
		hasty.Name, hasty.Total = "hasty", 500*time.Millisecond
		paced := named("paced", nil, nil)
		paced.Rate = 10
		b := start(t, broker.Config{Batch: 8, Models: []broker.Model{one("narrow", &narrow), one("hasty", &hasty), one("paced", paced)}})
		err := b.Do(t.Context(), &broker.Call{Model: "hasty"})
		if broker.Message(err) != "Request timed out" {
			t.Errorf("hasty: %v", err)
		}
		most.Store(0)
		if took := batch(t, b, "narrow", 8); took != 4*time.Second || most.Load() != 2 {
			t.Errorf("narrow: 8 calls took %v, %d at once", took, most.Load())
		}
		if took := batch(t, b, "paced", 6); took.Round(time.Millisecond) != 500*time.Millisecond {
			t.Errorf("paced: 6 calls took %v", took)
		}
	})
}

// A provider that is too slow to begin, or to end, hands its call to the fallback, and each
// limit has its own error. A stream that has begun is not retried elsewhere.
func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := named("slow", nil, func(ctx context.Context, _ int64, r *provider.Request) error {
			for range 3 { // one part per second
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				if r.Emit != nil {
					_ = r.Emit(provider.Part{Delta: llm.Delta{Text: []byte(`"x"`)}})
				}
			}
			return nil
		})
		emit := func(provider.Part) error { return nil }
		for _, tt := range []struct {
			first, total time.Duration
			emit         func(provider.Part) error
			want         string // how the slow provider failed
			took         time.Duration
			fallback     bool
		}{
			{500 * time.Millisecond, 0, emit, "timed_out: no part of the answer arrived within timeouts.first_token", 500 * time.Millisecond, true},
			{1500 * time.Millisecond, 0, emit, "<nil>", 3 * time.Second, false},
			{500 * time.Millisecond, 0, nil, "<nil>", 3 * time.Second, false}, // a whole answer has no parts
			{0, 2 * time.Second, nil, "timed_out: the answer was not complete within timeouts.total", 2 * time.Second, true},
			{0, 2500 * time.Millisecond, emit, "timed_out: the answer was not complete within timeouts.total", 2500 * time.Millisecond, false},
		} {
			limited := *slow
			limited.FirstPart, limited.Total = tt.first, tt.total
			m := one("m", &limited)
			m.Fallbacks = []string{"f"}
			b := start(t, broker.Config{Models: []broker.Model{m, one("f", named("f", nil, nil))}})
			c := &broker.Call{Model: "m", Emit: tt.emit}
			begin := time.Now()
			err := b.Do(t.Context(), c)
			if got := fmt.Sprint(c.Hops[0].Err); got != tt.want || time.Since(begin) != tt.took || (len(c.Hops) == 2) != tt.fallback {
				t.Errorf("%v, %v: %s after %v, hops %v, %v", tt.first, tt.total, got, time.Since(begin), c.Hops, err)
			}
			if (err == nil) != (tt.fallback || tt.want == "<nil>") || err != nil && broker.Message(err) != "Request timed out" {
				t.Errorf("%v, %v: the client is told %v", tt.first, tt.total, err)
			}
		}
	})
}

func batch(t *testing.T, b *broker.Broker, model string, n int) time.Duration {
	begin := time.Now()
	calls := make([]*broker.Call, n)
	for i := range calls {
		calls[i] = &broker.Call{Model: model}
	}
	for i, err := range b.Batch(t.Context(), calls, nil) {
		if err != nil {
			t.Errorf("%s %d: %v", model, i, err)
		}
	}
	return time.Since(begin)
}

// A provider that keeps failing is skipped for a while.
func TestBreaker(t *testing.T) {
	calls := int64(0)
	k := named("k", nil, func(_ context.Context, n int64, _ *provider.Request) error {
		calls = n
		return status(500, 0)
	})
	k.Breaker, k.BreakerDelay = 3, time.Hour
	b := start(t, broker.Config{Models: []broker.Model{one("m", k)}})
	for range 10 {
		if err := b.Do(t.Context(), &broker.Call{Model: "m"}); broker.Message(err) != "Server error: the provider failed" {
			t.Error(err)
		}
	}
	if calls != 3 {
		t.Errorf("the provider was asked %d times", calls)
	}
	if got := metrics(t, b); !strings.Contains(got, `wirectl_provider_breaker_open{provider="k"} 1`) {
		t.Error(got)
	}
}

// Consecutive failures also count if an answer had begun, and if clients disconnected in
// between. A request that the backend rejects resets the count.
func TestBreakerCounts(t *testing.T) {
	cut := &provider.Error{Cause: provider.Unreachable, Began: true, Err: errors.New("cut")}
	for _, tt := range []struct {
		name  string
		calls []error // nil is a client that disconnects
		open  bool
	}{
		{"answers that are cut", []error{cut, cut, cut}, true},
		{"clients that go away", []error{cut, nil, cut, nil, nil, cut}, true},
		{"a mistake of ours", []error{cut, errors.New("ours"), cut, cut}, true},
		{"a request that is wrong", []error{cut, cut, status(400, 0), cut}, false},
		{"clients alone", []error{nil, nil, nil, nil}, false},
	} {
		k := named("k", nil, func(_ context.Context, n int64, _ *provider.Request) error {
			if err := tt.calls[n-1]; err != nil {
				return err
			}
			return broker.ErrGone
		})
		k.Breaker, k.BreakerDelay = 3, time.Hour
		b := start(t, broker.Config{Models: []broker.Model{one("m", k)}})
		for range tt.calls {
			_ = b.Do(t.Context(), &broker.Call{Model: "m"})
		}
		if got := metrics(t, b); strings.Contains(got, `wirectl_provider_breaker_open{provider="k"} 1`) != tt.open {
			t.Errorf("%s: open is not %v\n%s", tt.name, tt.open, got)
		}
	}
}

// An open breaker is less informative than the failure of this backend, or of an earlier
// one, so the failure is reported.
func TestBreakerTellsWhy(t *testing.T) {
	limited := named("limited", nil, func(context.Context, int64, *provider.Request) error { return status(429, 7*time.Second) })
	limited.Breaker, limited.BreakerDelay, limited.Retries, limited.Backoff = 1, time.Hour, 3, time.Nanosecond
	limited.MaxWait = time.Nanosecond // too short for any wait
	broken := named("broken", nil, func(context.Context, int64, *provider.Request) error { return status(503, 0) })
	broken.Breaker, broken.BreakerDelay, broken.Retries, broken.Backoff = 2, time.Hour, 5, time.Nanosecond
	first := one("first", limited)
	first.Fallbacks = []string{"second"}
	b := start(t, broker.Config{Models: []broker.Model{first, one("second", broken)}})
	for i, tt := range []struct {
		model string
		want  int // the status, 0 for an open breaker
	}{{"second", 503}, {"second", 0}, {"first", 429}, {"first", 0}} {
		err := b.Do(t.Context(), &broker.Call{Model: tt.model, Prompt: []byte(`"x"`)})
		var pe *provider.Error
		if !errors.As(err, &pe) || pe.Status != tt.want || errors.Is(err, broker.ErrOpen) != (tt.want == 0) {
			t.Errorf("%d, %s: %v", i, tt.model, err)
		}
	}
}

// A backend without a counterpart for a parameter reports that once, in the client's terms,
// and its health is unaffected. If it was only the fallback of a failed one, the client
// gets that failure, which may be temporary.
func TestUnanswerable(t *testing.T) {
	asked := int64(0)
	cannot := named("cannot", nil, func(_ context.Context, n int64, _ *provider.Request) error {
		asked = n
		return provider.Unanswerable("n", "unsupported_parameter", "No 'n' here.")
	})
	cannot.Retries, cannot.Backoff, cannot.Breaker = 3, time.Nanosecond, 1
	limited := one("limited", named("limited", nil, func(context.Context, int64, *provider.Request) error { return status(429, 0) }))
	limited.Fallbacks = []string{"cannot"}
	refusing := one("cannot", cannot)
	refusing.Fallbacks = []string{"limited"} // not called: the request itself is at fault
	b := start(t, broker.Config{Models: []broker.Model{limited, refusing}})
	for i := int64(1); i <= 3; i++ {
		if err := b.Do(t.Context(), &broker.Call{Model: "cannot"}); broker.Message(err) != "No 'n' here." || broker.ErrorType(err) != "unsupported" || asked != i {
			t.Errorf("%d: %v (%s), asked %d times", i, err, broker.ErrorType(err), asked)
		}
	}
	var pe *provider.Error
	if err := b.Do(t.Context(), &broker.Call{Model: "limited"}); !errors.As(err, &pe) || pe.Status != 429 || asked != 4 {
		t.Errorf("%v, asked %d times", err, asked)
	}
}

// A backend with an open breaker is skipped for a while, and tried again.
func TestBreakerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := int64(0)
		broken := named("broken", nil, func(_ context.Context, n int64, _ *provider.Request) error {
			calls = n
			if n > 3 {
				return nil
			}
			return status(500, 0)
		})
		broken.Breaker, broken.BreakerDelay = 3, time.Hour
		b := start(t, broker.Config{Models: []broker.Model{{Name: "m", Routes: []broker.Route{{Backend: broken}, {Backend: named("sound", nil, nil)}}}}})
		for _, want := range []int64{3, 3, 8} {
			for range 10 {
				if err := b.Do(t.Context(), &broker.Call{Model: "m"}); err != nil {
					t.Error(err)
				}
			}
			if calls != want {
				t.Errorf("the backend was asked %d times, and not %d", calls, want)
			}
			time.Sleep(31 * time.Minute)
		}
	})
}

// A cancel of a queued call stops in the queue, and the report says so.
func TestWhereCancelsStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := named("hold", nil, func(ctx context.Context, _ int64, _ *provider.Request) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		hold.Concurrency = 1
		var w reports
		b, err := broker.New(broker.Config{Models: []broker.Model{one("m", hold)}}, &w)
		if err != nil {
			t.Fatal(err)
		}
		first, stopFirst := context.WithCancelCause(t.Context())
		second, stopSecond := context.WithCancelCause(t.Context())
		done := make(chan struct{}, 2)
		go func() { _ = b.Do(first, &broker.Call{Model: "m"}); done <- struct{}{} }()
		synctest.Wait()
		go func() { _ = b.Do(second, &broker.Call{Model: "m"}); done <- struct{}{} }()
		synctest.Wait()
		stopSecond(broker.ErrCancelled)
		<-done
		stopFirst(broker.ErrGone)
		<-done
		stopped, stop := context.WithCancelCause(t.Context())
		stop(broker.ErrShutdown)
		_ = b.Do(stopped, &broker.Call{Model: "m"})
		if got, want := fmt.Sprint(w), "[cancelled cancel queue cancelled gone provider cancelled shutdown route]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

type reports []string

func (w *reports) Ended(_ *broker.Call, r *broker.Report) {
	*w = append(*w, r.Outcome.String()+" "+r.By+" "+r.Stopped)
}

// A provider's counts continue under its name after a reload, including the calls that were
// running.
func TestCountsOverReload(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	held := named("k", nil, func(context.Context, int64, *provider.Request) error {
		close(began)
		<-release
		return status(400, 0)
	})
	b := start(t, broker.Config{Default: "m", Models: []broker.Model{one("m", held)}})
	done := make(chan error)
	go func() { done <- b.Do(context.Background(), &broker.Call{}) }()
	<-began
	if err := b.Reload(broker.Config{Default: "m", Models: []broker.Model{one("m", named("k", nil, nil)), one("n", named("other", nil, nil))}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Do(t.Context(), &broker.Call{}); err != nil {
		t.Error(err)
	}
	tell := func(wants ...string) {
		t.Helper()
		got := metrics(t, b)
		for _, want := range wants {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("without %s:\n%s", want, got)
			}
		}
	}
	tell(`wirectl_provider_attempts_total{provider="k"} 2`, `wirectl_provider_attempts_total{provider="other"} 0`, `wirectl_provider_running_calls{provider="k"} 1`)
	close(release)
	if err := <-done; err == nil {
		t.Error("the call that was refused succeeded")
	}
	tell(`wirectl_provider_running_calls{provider="k"} 0`, `wirectl_provider_failures_total{cause="refused",provider="k"} 1`)
}

// A reload affects only later calls. An invalid one changes nothing.
func TestReload(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	old := named("old", nil, func(context.Context, int64, *provider.Request) error {
		close(began)
		<-release
		return nil
	})
	b := start(t, broker.Config{Default: "m", Models: []broker.Model{one("m", old)}})
	running := &broker.Call{}
	done := make(chan error)
	go func() { done <- b.Do(context.Background(), running) }()
	<-began
	if err := b.Reload(broker.Config{Default: "m", Models: []broker.Model{one("m", named("new", nil, nil))}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Reload(broker.Config{Default: "none"}); err == nil {
		t.Error("a default without a model was accepted")
	}
	fresh := &broker.Call{}
	if err := b.Do(t.Context(), fresh); err != nil || fresh.Completion.Plain() != "new" {
		t.Errorf("after the reload: %q, %v", fresh.Completion.Plain(), err)
	}
	close(release)
	if err := <-done; err != nil || running.Completion.Plain() != "old" {
		t.Errorf("the call that ran: %q, %v", running.Completion.Plain(), err)
	}
}

// The number of accounts is bounded, however many clients there are and however many names
// match a pattern. Every call is still counted.
func TestAccountsAreBounded(t *testing.T) {
	b := start(t, broker.Config{Models: []broker.Model{one("m-*", named("k", nil, nil))}})
	const calls = 1500
	for i := range calls {
		_ = b.Do(t.Context(), &broker.Call{Door: "d", Client: fmt.Sprint(i % 7), Model: fmt.Sprint("m-", i), Prompt: []byte(`"x"`)})
		_ = b.Do(t.Context(), &broker.Call{Door: "d", Client: fmt.Sprint(i % 7), Model: fmt.Sprint(i), Prompt: []byte(`"x"`)})
	}
	var ok, refused int64
	usage := b.Usage()
	for _, u := range usage {
		ok, refused = ok+u.OK, refused+u.Refused
	}
	if len(usage) > 1002 || ok != calls || refused != calls {
		t.Errorf("%d accounts of %d calls, %d refused", len(usage), ok, refused)
	}
	if i := slices.IndexFunc(usage, func(u broker.Usage) bool { return u.Model == "m-*" }); i < 0 || usage[i].Client != "other" || usage[i].OK == 0 {
		t.Errorf("what is over the bound is not counted to the pattern")
	}
}

// metrics returns the metrics of a broker in Prometheus's format.
func metrics(t *testing.T, b *broker.Broker) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(b)
	families, err := registry.Gather()
	if err != nil {
		t.Error(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Error(err)
		}
	}
	return text.String()
}

// The error for a rejected key names the environment variable that holds it.
func TestRefusedKeyNamesItsVariable(t *testing.T) {
	k := named("k", nil, func(context.Context, int64, *provider.Request) error { return status(401, 0) })
	k.KeyEnv = "SOME_KEY"
	b := start(t, broker.Config{Models: []broker.Model{one("m", k)}})
	if got := broker.Message(b.Do(t.Context(), &broker.Call{Model: "m"})); got != "Authentication failed: check the environment variable SOME_KEY" {
		t.Error(got)
	}
}

// Messages for clients reveal nothing of a provider.
func TestMessages(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{status(401, 0), "Authentication failed: check the key of the provider"},
		{&provider.Error{Cause: provider.Refused, Status: 403, KeyEnv: "SOME_KEY", Err: errors.New("secret")}, "Authentication failed: check the environment variable SOME_KEY"},
		{status(429, 0), "Rate limit exceeded: try again later"},
		{status(404, 0), "Model not found: the provider does not know it"},
		{status(400, 0), "Invalid request: the provider refused it"},
		{status(413, 0), "Context too long: shorten the prompt"},
		{&provider.Error{Cause: provider.Refused, Status: 400, Code: llm.TooLong, Err: errors.New("secret")}, "Context too long: shorten the prompt"},
		{status(408, 0), "Request timed out"},
		{status(500, 0), "Server error: the provider failed"},
		{status(302, 0), "Server error: the provider failed"},
		{broker.ErrOpen, "Server error: the provider failed"},
		{&provider.Error{Cause: provider.Unreachable, Err: errors.New("secret")}, "Connection error"},
		{&provider.Error{Cause: provider.TimedOut, Err: errors.New("secret")}, "Request timed out"},
		{broker.ErrShutdown, "Broker is shutting down"},
		{broker.ErrGone, "Client went away"},
		{errors.New("secret"), "Internal broker error"},
	} {
		if got := broker.Message(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestPyQuote(t *testing.T) {
	for _, tt := range [][2]string{
		{"a", `'a'`}, {"it's", `"it's"`}, {`'"`, `'\'"'`}, {"\n\\\x00\u0085é\u2028\U000e0001", `'\n\\\x00\x85é\u2028\U000e0001'`},
	} {
		if got := broker.PyQuote(tt[0]); got != tt[1] {
			t.Errorf("%q: got %s, want %s", tt[0], got, tt[1])
		}
	}
}

// A valid trace context is passed on unchanged. An invalid one is dropped, because it could
// smuggle headers to a provider.
func TestTraceparentIsPassedOn(t *testing.T) {
	var got string
	k := &broker.Backend{Name: "k", Provider: providerFunc(func(_ context.Context, r *provider.Request, _ *provider.Completion) error {
		got = r.Traceparent
		return nil
	})}
	b := start(t, broker.Config{Models: []broker.Model{one("m", k)}})
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	for parent, want := range map[string]string{good: good, good + "\r\nAuthorization: x": "", "x": "", "": ""} {
		if err := b.Do(t.Context(), &broker.Call{Model: "m", Parent: parent}); err != nil || got != want {
			t.Errorf("%q: %q was passed on (%v), want %q", parent, got, err, want)
		}
	}
}

// With tracing on, each attempt of a call has a context of its own, a child of the call's.
func TestAttemptsAreTraced(t *testing.T) {
	var got []string
	k := &broker.Backend{Name: "k", Retries: 1, Backoff: time.Microsecond, Provider: providerFunc(func(_ context.Context, r *provider.Request, _ *provider.Completion) error {
		got = append(got, r.Traceparent)
		return status(503, 0)
	})}
	b := start(t, broker.Config{Models: []broker.Model{one("m", k)}})
	made := 0
	b.Trace(func(parent string) string {
		made++
		return fmt.Sprintf("%s/%d", parent, made)
	})
	c := &broker.Call{Model: "m"}
	_ = b.Do(t.Context(), c)
	if want := []string{"/1/2", "/1/3"}; !slices.Equal(got, want) || c.Traceparent != "/1" || c.Hops[1].Traceparent != "/1/3" {
		t.Errorf("%q were passed on, want %q", got, want)
	}
}

// The class of an error is one word, whatever its text.
func TestErrorType(t *testing.T) {
	for want, err := range map[string]error{
		"rate_limited": status(429, 0), "timed_out": &provider.Error{Cause: provider.TimedOut}, "internal": errors.New("a long story"),
		"cancelled": broker.ErrGone, "unknown_model": &broker.UnknownModelError{Model: "x"},
	} {
		if got := broker.ErrorType(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// A key that a client sends as the name of a model does not appear in the accounts or the
// metrics.
func TestKeyAsModel(t *testing.T) {
	var secrets mask.Secrets
	secrets.Add("sk-planted")
	b, err := broker.New(broker.Config{
		Secrets: &secrets,
		Models:  []broker.Model{{Name: "*", Routes: []broker.Route{{Backend: &broker.Backend{Name: "m", Provider: provider.NewMock(provider.MockConfig{})}}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Do(t.Context(), &broker.Call{Model: "sk-planted", Prompt: []byte(`"hi"`)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := metrics(t, b); strings.Contains(got, "sk-planted") {
		t.Error(got)
	}
	if u := b.Usage(); len(u) != 1 || u[0].Model != "**********" || u[0].OK != 2 {
		t.Errorf("got %+v", u)
	}
}

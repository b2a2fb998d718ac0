package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/llm"
)

// A backend is a [Backend] at work.
type backend struct {
	*Backend
	secrets *mask.Secrets
	slots   chan struct{}                         // nil without a limit
	limiter Limiter                               // nil without a limit
	group   Group                                 // nil without one
	breaker *gobreaker.TwoStepCircuitBreaker[any] // nil without a threshold
	metrics *metrics
	label   string // of its metrics

	attempts, retries prometheus.Counter
	working           prometheus.Gauge
}

func newBackend(cfg *Backend, n *metrics, s *mask.Secrets, g Group) *backend {
	b := &backend{Backend: cfg, secrets: s, group: g, metrics: n, label: label(cfg.Name)}
	b.attempts, b.retries, b.working = n.attempts.WithLabelValues(b.label), n.retries.WithLabelValues(b.label), n.working.WithLabelValues(b.label)
	if cfg.Concurrency > 0 {
		b.slots = make(chan struct{}, cfg.Concurrency)
	}
	switch {
	case cfg.Rate > 0 && g != nil:
		b.limiter = g.Limiter(cfg.Name, cfg.Rate, max(cfg.Burst, 1))
	case cfg.Rate > 0:
		b.limiter = rate.NewLimiter(rate.Limit(cfg.Rate), max(cfg.Burst, 1))
	}
	if cfg.Breaker > 0 {
		b.breaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= uint32(cfg.Breaker) },
			Timeout:     cmp.Or(cfg.BreakerDelay, 10*time.Second),
			IsExcluded:  func(err error) bool { return errors.Is(err, errNoVerdict) },
			OnStateChange: func(_ string, _, to gobreaker.State) {
				if g != nil && to == gobreaker.StateOpen {
					g.Opened(cfg)
				}
			},
		})
	}
	return b
}

func (b *backend) isOpen() bool {
	return b.breaker != nil && (b.breaker.State() == gobreaker.StateOpen || b.openElsewhere())
}

// openElsewhere reports whether the breaker is open at another broker of the group.
func (b *backend) openElsewhere() bool { return b.group != nil && b.group.IsOpen(b.Name) }

// withRetries makes the call at this route, with the backend's retries. The model's name is name
// unless the route has one.
func (r *route) withRetries(ctx context.Context, c *Call, name string) error {
	backoff := cmp.Or(r.Backoff, 200*time.Millisecond)
	for attempt := 0; ; attempt++ {
		c.Completion = provider.Completion{Answer: llm.Answer{Most: c.Most}}
		started := time.Now()
		c.Hops = append(c.Hops, Hop{Provider: r.Name, Model: cmp.Or(r.model, name), Started: started, Traceparent: c.below(c.Traceparent)})
		hop := &c.Hops[len(c.Hops)-1]
		err := r.withinLimits(ctx, c, hop)
		hop.Took, hop.Err = time.Since(started), err
		if err == nil || attempt >= r.Retries || !again(ctx, err) {
			return err
		}
		pause, ok := r.pause(err, backoff<<attempt)
		if !ok {
			return err
		}
		r.retries.Inc()
		if waited := wait.For(ctx, pause); waited != nil {
			return waited
		}
	}
}

// again reports whether a call that failed with err may be repeated at the same route.
func again(ctx context.Context, err error) bool {
	var e *provider.Error
	return ctx.Err() == nil && errors.As(err, &e) && e.Again()
}

// pause is how long to wait before a retry. It is not ok if that is longer than MaxWait.
func (r *route) pause(err error, backoff time.Duration) (time.Duration, bool) {
	var e *provider.Error
	errors.As(err, &e)
	most := cmp.Or(r.MaxWait, 30*time.Second)
	if errors.Is(err, ErrOpen) || errors.Is(err, ErrHubLost) || e.RetryAfter > most {
		return 0, false
	}
	backoff = min(backoff, most)
	return max(backoff/2+rand.N(backoff/2+1), e.RetryAfter), true
}

// errNoVerdict: the outcome of a call says nothing about the health of its backend.
var errNoVerdict = errors.New("no verdict")

// verdict is what the outcome of a call says about the health of its backend: nil if it is
// healthy, which includes rejecting a request, or else an error, also if it fails in the middle
// of an answer. A client that leaves, a request that was not sent and our own faults say nothing.
func verdict(ctx context.Context, err error) error {
	var e *provider.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || !errors.As(err, &e) || errors.Is(err, ErrHubLost) || e.Cause == provider.Internal || e.Cause == provider.Unsupported:
		return errNoVerdict
	case e.Cause == provider.Refused:
		return nil
	}
	return e
}

// withinLimits sends the call once, unless the breaker is open, when the limits allow it.
func (r *route) withinLimits(ctx context.Context, c *Call, hop *Hop) (err error) {
	if r.breaker != nil {
		if r.openElsewhere() {
			return ErrOpen
		}
		done, refused := r.breaker.Allow()
		if refused != nil {
			return ErrOpen
		}
		defer func() { done(verdict(ctx, err)) }()
	}
	if r.slots != nil {
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if r.limiter != nil {
		if err := r.limiter.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, ErrHubLost) {
				return err
			}
			return &provider.Error{Cause: provider.RateLimited, Err: err}
		}
	}
	hop.Sent = true
	r.attempts.Inc()
	r.working.Inc()
	err = r.send(ctx, c, hop)
	r.working.Dec()
	if err == nil || ctx.Err() != nil {
		return err
	}
	r.metrics.failures.WithLabelValues(r.label, CauseOf(err).String()).Inc()
	var e *provider.Error
	if r.KeyEnv != "" && errors.As(err, &e) && e.KeyRefused() {
		named := *e
		named.KeyEnv = r.KeyEnv
		return &named
	}
	return err
}

// send calls the provider, within the time limits, and publishes the exchange.
func (r *route) send(ctx context.Context, c *Call, hop *Hop) (err error) {
	req := &provider.Request{Model: hop.Model, Prompt: c.Prompt, API: c.API, Body: c.Body, Before: c.Before, Choices: c.Choices, Header: c.Header, Alive: c.Alive, Emit: c.Emit, Traceparent: hop.Traceparent, Client: c.Client, Account: c.Account, Secrets: r.secrets}
	if c.Tap != nil {
		req.Exchange = c.Tap.Provider(c, hop)
		defer func() { req.Exchange.Ended(err) }()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.Total > 0 {
		defer time.AfterFunc(r.Total, func() { cancel(errTotal) }).Stop()
	}
	began := false
	if c.Emit != nil {
		var first *time.Timer
		if r.FirstPart > 0 {
			first = time.AfterFunc(r.FirstPart, func() { cancel(errFirstPart) })
			defer first.Stop()
		}
		req.Emit = func(p provider.Part) error {
			if !began && first != nil {
				first.Stop()
			}
			began = true
			return c.Emit(p)
		}
	}
	switch c.ask {
	case count:
		err = r.Provider.(provider.Counter).CountTokens(ctx, req, &c.Completion)
	case embeddings:
		err = r.Provider.(provider.Embedder).Embed(ctx, req, &c.Completion)
	default:
		err = r.Provider.Complete(ctx, req, &c.Completion)
	}
	var e *provider.Error
	if !began || !errors.As(err, &e) || e.Began {
		return err
	}
	marked := *e
	marked.Began = true // a retry would repeat parts of the answer
	return &marked
}

// PyQuote quotes s as Python's repr does: clients compare error texts.
func PyQuote(s string) string {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b := []byte{quote}
	for _, r := range s {
		b = appendPyRune(b, r, quote)
	}
	return string(append(b, quote))
}

func appendPyRune(b []byte, r rune, quote byte) []byte {
	switch {
	case r == '\n':
		return append(b, `\n`...)
	case r == '\r':
		return append(b, `\r`...)
	case r == '\t':
		return append(b, `\t`...)
	case r == '\\' || r == rune(quote):
		return append(b, '\\', byte(r))
	case r == ' ' || unicode.IsPrint(r):
		return utf8.AppendRune(b, r)
	case r < 0x100:
		return fmt.Appendf(b, `\x%02x`, r)
	case r < 0x10000:
		return fmt.Appendf(b, `\u%04x`, r)
	}
	return fmt.Appendf(b, `\U%08x`, r)
}

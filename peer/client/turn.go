package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// A turnEnd is the end of a turn. The result is JSON.
type turnEnd struct {
	result []byte
	err    error
}

// A turn is the work of an agent on an accepted prompt.
type turn struct {
	out  func(Part)
	over chan turnEnd // has a buffer of one
}

// NewSession opens a session of an agent, for the prompts to come.
func (r *RPC) NewSession(ctx context.Context) (id string, err error) {
	id, err = r.dialect.open(ctx, r)
	r.session = id
	return id, err
}

// Prompt sends a prompt in the session and waits for the end of the turn. Concurrent
// prompts are sent one after the other.
func (r *RPC) Prompt(text string) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		r.turning.Lock()
		defer r.turning.Unlock()
		method, params := r.dialect.prompt(r, text)
		raw := jsonscan.MustMarshal(params)
		t := &turn{out: out, over: make(chan turnEnd, 1)}
		r.setTurn(t, "")
		defer r.setTurn(nil, "")
		asking := ctx
		if r.dialect.named {
			var stop func()
			asking, stop = outliving(ctx, parting)
			defer stop()
		}
		result, err := r.request(asking, method, raw, out)
		if err != nil {
			return err
		}
		if r.dialect.accepted(r, result) {
			end, err := await(ctx, t.over, r.ended, &r.err)
			switch {
			case err != nil && ctx.Err() != nil:
				r.cancelRequest(ctx, "", raw)
				bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), parting)
				defer stop()
				_, _ = await(bounded, t.over, r.ended, &r.err) // so that the record has it
				return err
			case err != nil:
				return err
			case end.err != nil:
				return end.err
			}
			result = end.result
		}
		out(Part{Aside: true, Name: "result", JSON: result})
		return nil
	})
}

// outliving returns a context that ends by later than ctx.
func outliving(ctx context.Context, by time.Duration) (later context.Context, stop func()) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() {
		time.AfterFunc(by, func() { cancel(context.Cause(ctx)) })
	})
	return later, func() {
		unwatch()
		cancel(nil)
	}
}

func (r *RPC) setTurn(t *turn, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn, r.turnID = t, id
}

// endTurn ends the current turn if m says so.
func (r *RPC) endTurn(m *rpcMessage) {
	r.mu.Lock()
	t := r.turn
	r.mu.Unlock()
	if t == nil || r.dialect.turnEnd == nil {
		return
	}
	if end, ok := r.dialect.turnEnd(r, m); ok {
		select {
		case t.over <- end:
		default: // it has ended already
		}
	}
}

// A Timing is the duration of a call.
type Timing struct {
	First time.Duration // until the first part; 0 if there was none
	Total time.Duration
	Parts int
}

func (t Timing) String() string {
	return fmt.Sprintf("first part after %v, end after %v, %s", rounded(t.First), rounded(t.Total), render.Count(int64(t.Parts), "part"))
}

// Timed is c that also fills in t.
func Timed(c Call, t *Timing) Call {
	return func(ctx context.Context, out func(Part)) error {
		begun := time.Now()
		err := c(ctx, func(p Part) {
			if !p.Aside {
				if t.Parts == 0 {
					t.First = time.Since(begun)
				}
				t.Parts++
			}
			out(p)
		})
		t.Total = time.Since(begun)
		return err
	}
}

// A Load is the result of many calls.
type Load struct {
	Calls   int
	Failed  int
	Elapsed time.Duration
	// First and Total are sorted.
	First, Total []time.Duration
	// Err is the first error that a call failed with.
	Err error
}

// Quantile returns the q-quantile of sorted durations.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Run makes n calls, at most atOnce in flight. It stops early when ctx ends, or on an
// error other than a [*PeerError].
func Run(ctx context.Context, n, atOnce int, call Call) *Load {
	l := &Load{}
	begun := time.Now()
	var (
		mu      sync.Mutex
		workers sync.WaitGroup
		given   atomic.Int64
	)
	for range min(n, atOnce) {
		workers.Go(func() {
			for given.Add(1) <= int64(n) && ctx.Err() == nil {
				var t Timing
				err := Timed(call, &t)(ctx, func(Part) {})
				mu.Lock()
				l.add(t, err)
				mu.Unlock()
				if _, answered := errors.AsType[*PeerError](err); err != nil && !answered {
					given.Store(int64(n))
				}
			}
		})
	}
	workers.Wait()
	l.Elapsed = time.Since(begun)
	slices.Sort(l.First)
	slices.Sort(l.Total)
	return l
}

func (l *Load) add(t Timing, err error) {
	l.Calls++
	l.Total = append(l.Total, t.Total)
	if t.Parts > 0 {
		l.First = append(l.First, t.First)
	}
	if err != nil {
		l.Failed++
		if l.Err == nil {
			l.Err = err
		}
	}
}

// WriteText writes the durations of the calls.
func (l *Load) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d requests, %d failed, in %v: %.0f a second\n", l.Calls, l.Failed, rounded(l.Elapsed), float64(l.Calls)/l.Elapsed.Seconds())
	for _, row := range []struct {
		name   string
		sorted []time.Duration
	}{{"first part", l.First}, {"whole", l.Total}} {
		if len(row.sorted) > 0 {
			fmt.Fprintf(&b, "%-10s  p50 %v  p90 %v  p99 %v  max %v\n", row.name,
				rounded(Quantile(row.sorted, 0.5)), rounded(Quantile(row.sorted, 0.9)),
				rounded(Quantile(row.sorted, 0.99)), rounded(Quantile(row.sorted, 1)))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func rounded(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(time.Microsecond)
	}
	return d
}

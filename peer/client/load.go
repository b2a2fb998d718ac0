package client

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Timing is how long a call took.
type Timing struct {
	First time.Duration // until the first part; 0 if there was none
	Total time.Duration
	Parts int
}

// Timed is the call c, whose timing goes to t.
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

// A Load is the outcome of many calls.
type Load struct {
	Calls   int
	Failed  int
	Elapsed time.Duration
	// First and Total are sorted.
	First, Total []time.Duration
	// Err is the first error that a call failed with.
	Err error
}

// Quantile returns the value that a share of q of the sorted durations does not
// exceed.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Run makes n calls, of which at most atOnce are in flight. It stops early when
// ctx ends, or when the peer cannot be spoken to any more.
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
				if err != nil && !goesOn(err) {
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

// goesOn reports whether the next call may succeed though one failed so.
func goesOn(err error) bool {
	_, ok := errorAs[*PeerError](err)
	return ok
}

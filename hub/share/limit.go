package share

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/internal/wait"
)

// A limiter is a rate limit that several brokers share. The bucket has one number: the time
// at which the next call is due if all calls so far came evenly (GCRA). A broker leases a
// block of calls by moving that time on, and makes them without asking again.
type limiter struct {
	group *Group
	key   string
	alone *rate.Limiter // used while the hub is lost, if calls may pass

	mu       sync.Mutex
	interval time.Duration // between two calls
	burst    int
	due      time.Time     // of the next call of the block
	left     int           // calls of the block
	leased   time.Time     // the block
	size     int           // of the block
	waiting  int           // calls without a turn
	leasing  chan struct{} // closed when the current lease ends; nil if there is none
	failed   error         // of the last lease
}

const (
	// blockTime bounds a block, and so what a crash can lose.
	blockTime = 50 * time.Millisecond
	// lapse is how long a block can be used, so that no broker saves up calls.
	lapse = 250 * time.Millisecond
)

// Limiter implements [broker.Group].
func (g *Group) Limiter(provider string, perSecond float64, burst int) broker.Limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.limiters[provider]
	if l == nil {
		l = &limiter{group: g, key: g.key("rate", provider)}
		g.limiters[provider] = l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interval, l.burst, l.left = time.Duration(float64(time.Second)/perSecond), burst, 0
	l.alone = rate.NewLimiter(rate.Limit(perSecond), burst)
	return l
}

// Wait waits until a call may be made.
func (l *limiter) Wait(ctx context.Context) error {
	at, err := l.turn(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && l.group.options.Open:
		return l.alone.Wait(ctx)
	case err != nil:
		return broker.ErrHubLost
	}
	return wait.For(ctx, at.Sub(l.group.now()))
}

// turn returns when the next call may be made.
func (l *limiter) turn(ctx context.Context) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting++
	defer func() { l.waiting-- }()
	for {
		now := l.group.now()
		if l.left > 0 && now.Sub(l.leased) > lapse && now.After(l.due) {
			l.left = 0
		}
		if l.left > 0 {
			at := l.due.Add(-time.Duration(l.burst-1) * l.interval)
			l.due = l.due.Add(l.interval)
			l.left--
			return at, nil
		}
		if !l.group.reached() {
			return time.Time{}, errLost
		}
		if err := l.lease(ctx, now); err != nil {
			return time.Time{}, err
		}
	}
}

var errLost = errors.New("the connection to the hub is lost")

// lease gets a block, or waits for the current lease. The mutex is held before and after.
func (l *limiter) lease(ctx context.Context, now time.Time) error {
	if leasing := l.leasing; leasing != nil {
		l.mu.Unlock()
		select {
		case <-leasing:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return l.failed
	}
	l.leasing = make(chan struct{})
	n, interval, burst := l.blockSize(now), l.interval, l.burst
	l.mu.Unlock()
	// Others wait for it, too, so it does not end with this call.
	due, err := l.group.leaseCalls(context.WithoutCancel(ctx), l.key, n, interval, burst)
	l.mu.Lock()
	if err == nil {
		l.due, l.left, l.leased = due, n, l.group.now()
	}
	l.failed = err
	close(l.leasing)
	l.leasing = nil
	return err
}

// blockSize returns how many calls to lease: at least as many as wait, and twice the last
// block if that was used up at once.
func (l *limiter) blockSize(now time.Time) int {
	if l.size *= 2; now.Sub(l.leased) > 2*blockTime {
		l.size = 1
	}
	l.size = max(1, min(max(l.size, l.waiting), int(blockTime/l.interval)))
	return l.size
}

// leaseCalls moves the time of the next call on by n calls, and returns when the first is
// due.
func (g *Group) leaseCalls(ctx context.Context, key string, n int, interval time.Duration, burst int) (due time.Time, err error) {
	err = g.change(ctx, key, func(old []byte) ([]byte, error) {
		due = g.now()
		if len(old) == 8 {
			// A time that is further ahead than any call waits comes from a wrong clock, or from a
			// lower limit.
			if next := time.Unix(0, int64(binary.BigEndian.Uint64(old))); next.After(due) && next.Sub(due) < maxAhead+time.Duration(burst)*interval {
				due = next
			}
		}
		return binary.BigEndian.AppendUint64(nil, uint64(due.Add(time.Duration(n)*interval).UnixNano())), nil
	})
	if err != nil {
		g.miss(err)
	}
	return due, err
}

// maxAhead is the longest time that a call may wait.
const maxAhead = time.Hour

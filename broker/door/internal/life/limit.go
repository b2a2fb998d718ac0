package life

import (
	"sync"
	"time"
)

// A Limit is a time that each of many may take from its own beginning on. Since
// all have the same, whoever began first is due first, and one timer does for
// them: it is set when it has run out, rather than for each of them, which takes
// other threads out of their sleep.
type Limit struct {
	after time.Duration
	mu    sync.Mutex
	line  Timed // a ring: the next one is due first
	timer *time.Timer
	set   bool
}

// A Timed is one that a limit holds for.
type Timed struct {
	// Due is called when the time is up. It must not block.
	Due func()

	at         time.Time
	prev, next *Timed // nil when its time is not running
}

// NewLimit returns a limit.
func NewLimit(after time.Duration) *Limit {
	l := &Limit{after: after}
	l.line.prev, l.line.next = &l.line, &l.line
	return l
}

// Start begins the time of t.
func (l *Limit) Start(t *Timed) {
	t.at = time.Now().Add(l.after)
	l.mu.Lock()
	defer l.mu.Unlock()
	t.prev, t.next = l.line.prev, &l.line
	t.prev.next, t.next.prev = t, t
	switch {
	case l.set:
	case l.timer == nil:
		l.timer = time.AfterFunc(l.after, l.look)
	default:
		l.timer.Reset(l.after)
	}
	l.set = true
}

// Stop ends the time of t. It reports false if Due has been called, or is about
// to be.
func (l *Limit) Stop(t *Timed) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.next == nil {
		return false
	}
	t.leave()
	return true
}

func (t *Timed) leave() {
	t.prev.next, t.next.prev = t.next, t.prev
	t.prev, t.next = nil, nil
}

// look calls those whose time is up, and sets the timer for the next one.
func (l *Limit) look() {
	for {
		t := l.pop()
		if t == nil {
			return
		}
		t.Due()
	}
}

// pop takes out the first one if its time is up.
func (l *Limit) pop() *Timed {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.line.next
	if t == &l.line {
		l.set = false
		return nil
	}
	if left := time.Until(t.at); left > 0 {
		l.timer.Reset(left)
		return nil
	}
	t.leave()
	return t
}

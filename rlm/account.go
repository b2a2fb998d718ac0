package rlm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
)

// Usage is what each model has used.
type Usage map[string]ModelUsage

// ModelUsage is what one model has used.
type ModelUsage struct {
	Calls int64
	Tokens
}

// Total returns what all models have used together.
func (u Usage) Total() ModelUsage {
	var t ModelUsage
	for _, m := range u {
		t.Calls += m.Calls
		t.Tokens = t.plus(m.Tokens)
	}
	return t
}

func (t Tokens) plus(u Tokens) Tokens {
	return Tokens{Input: t.Input + u.Input, Output: t.Output + u.Output, Cost: t.Cost + u.Cost}
}

// A limitError says that a limit prevents a call.
type limitError struct {
	reason FinishReason
	text   string
}

func (e *limitError) Error() string { return e.text }

// An account bounds what a run and all its children may use. A call is counted before it is
// made, so parallel calls cannot exceed their limit. Tokens and cost are known only after a
// call, so calls in flight may exceed their limits.
type account struct {
	limits Limits
	end    context.CancelCauseFunc // ends the run

	mu      sync.Mutex
	calls   int // sub-calls, and turns of children
	refused bool
	used    Tokens
}

// reserve counts a call, or returns the limit that forbids it. All limits except that of
// calls end the run. The turns of the root are not sub-calls.
func (a *account) reserve(sub bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.limit(sub)
	switch {
	case e == nil && sub:
		a.calls++
	case e == nil:
	case e.reason == Calls:
		a.refused = true
		return e
	default:
		a.end(e)
		return e
	}
	return nil
}

// checkLimits returns the limit that forbids a call; nil if there is none.
func (a *account) checkLimits(sub bool) *limitError {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit(sub)
}

// limit is check while mu is locked.
func (a *account) limit(sub bool) *limitError {
	l := a.limits
	switch used := a.used.Input + a.used.Output; {
	case l.Tokens > 0 && used >= l.Tokens:
		return &limitError{MaxTokens, fmt.Sprintf("the run has used %d of %d tokens", used, l.Tokens)}
	case l.Cost > 0 && a.used.Cost >= l.Cost:
		return &limitError{MaxCost, fmt.Sprintf("the run has cost $%.4f of $%.4f", a.used.Cost, l.Cost)}
	case sub && l.Calls > 0 && a.calls >= l.Calls:
		return &limitError{Calls, fmt.Sprintf("the run has used all of its %d calls: continue without calls", l.Calls)}
	}
	return nil
}

// counts returns how many sub-calls were made, and whether one was refused.
func (a *account) counts() (calls int, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls, a.refused
}

// A meter adds up what a part of the tree has used. A turn counts towards its run, and a
// child run towards the turn that started it.
type meter struct {
	account *account
	up      *meter

	usage Usage // account.mu guards it
}

func (a *account) newMeter(up *meter) *meter {
	return &meter{account: a, up: up, usage: Usage{}}
}

// addTokens counts one call, here and in all meters above. The limits count estimate if t is
// zero.
func (m *meter) addTokens(model string, t, estimate Tokens) {
	m.account.mu.Lock()
	defer m.account.mu.Unlock()
	m.account.used = m.account.used.plus(cmp.Or(t, estimate))
	for ; m != nil; m = m.up {
		u := m.usage[model]
		u.Calls++
		u.Tokens = u.plus(t)
		m.usage[model] = u
	}
}

func (m *meter) read() Usage {
	m.account.mu.Lock()
	defer m.account.mu.Unlock()
	return maps.Clone(m.usage)
}

// complete asks a model once and counts the call, even if it fails.
func (t *tree) complete(ctx context.Context, m *meter, sub bool, r Request) (Completion, error) {
	if ctx.Err() != nil {
		return Completion{}, causeOf(ctx)
	}
	if err := t.account.reserve(sub); err != nil {
		return Completion{}, err
	}
	r.Traceparent = t.traceparent()
	start := t.o.Now()
	c, err := t.o.Model.Complete(ctx, r)
	c.Model = cmp.Or(c.Model, r.Model)
	c.Took = cmp.Or(c.Took, t.o.Now().Sub(start))
	m.addTokens(c.Model, c.Tokens, c.Estimate)
	if err != nil && ctx.Err() != nil {
		err = causeOf(ctx)
	}
	return c, err
}

var errCancelled = errors.New("the run was cancelled")

// causeOf returns why ctx has ended.
func causeOf(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return errCancelled
}

// reasonOf returns the limit that err or the end of ctx comes from; Cancelled if ctx has
// ended for another reason; and "" otherwise.
func reasonOf(ctx context.Context, err error) FinishReason {
	var limit *limitError
	switch {
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &limit), errors.As(err, &limit):
		return limit.reason
	case ctx.Err() != nil:
		return Cancelled
	}
	return ""
}

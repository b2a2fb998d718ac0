// Package life has a context for calls that mostly end by themselves. Those of the
// standard library take memory and a place in a map for each thing that would be
// ended; a [Context] takes neither, and serves one call after the other.
package life

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A Context is a [context.Context] that its owner begins and finishes, again and
// again. Its Err is the cause itself, and so is what [context.Cause] returns.
type Context struct {
	parent context.Context
	hook   Hook // on the parent

	mu    sync.Mutex
	cause error
	done  chan struct{} // nil until somebody asks for it
	told  []Listener
}

// A Listener is told that a context has ended, once, in the goroutine that ends
// it. It must not block.
type Listener interface{ Ended(cause error) }

// Begin makes c a child of parent. It is for a new Context, or for one of which
// Finish returned true.
func (c *Context) Begin(parent context.Context) {
	c.parent, c.cause, c.done, c.told = parent, nil, nil, c.told[:0]
	c.hook = Listen(parent, c)
}

// Finish ends c if nothing else has, and reports whether it may begin anew: it
// may not if somebody could still look at it.
func (c *Context) Finish() bool {
	alone := c.hook.Stop()
	c.mu.Lock()
	alone = alone && c.cause == nil && c.done == nil && len(c.told) == 0
	c.mu.Unlock()
	if !alone {
		c.End(context.Canceled)
	}
	return alone
}

// End ends c for a cause, unless it has ended.
func (c *Context) End(cause error) {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return
	}
	c.cause = cause
	if c.done != nil {
		close(c.done)
	}
	told := c.told
	c.told = nil
	c.mu.Unlock()
	for _, l := range told {
		l.Ended(cause)
	}
}

// Ended ends c because its parent has ended.
func (c *Context) Ended(cause error) { c.End(cause) }

// Deadline returns the parent's.
func (c *Context) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Value returns the parent's.
func (c *Context) Value(key any) any { return c.parent.Value(key) }

// Err returns the cause for which c has ended, nil if it has not.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Done returns a channel that is closed when c ends.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.cause != nil {
			close(c.done)
		}
	}
	return c.done
}

// AfterFunc is what [context.AfterFunc] and the contexts below c use.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	l := &function{f}
	if !c.listen(l) {
		l.Ended(nil)
		return func() bool { return false }
	}
	return func() bool { return c.unlisten(l) }
}

type function struct{ f func() }

func (f *function) Ended(error) { go f.f() }

// listen reports false if c has ended already.
func (c *Context) listen(l Listener) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return false
	}
	c.told = append(c.told, l)
	return true
}

// unlisten reports false if l has been told, or is about to be.
func (c *Context) unlisten(l Listener) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.told, l)
	if i >= 0 {
		c.told = slices.Delete(c.told, i, i+1)
	}
	return i >= 0
}

// A Hook is a listener on a context.
type Hook struct {
	on   *Context
	l    Listener
	stop func() bool // instead, for a context of another kind
}

// Listen has l told when a context of any kind ends. If it has ended, l is told
// before Listen returns.
func Listen(ctx context.Context, l Listener) Hook {
	if c, ok := ctx.(*Context); ok {
		if !c.listen(l) {
			l.Ended(c.Err())
		}
		return Hook{on: c, l: l}
	}
	switch {
	case ctx.Done() == nil:
		return Hook{}
	case ctx.Err() != nil:
		l.Ended(context.Cause(ctx))
		return Hook{stop: func() bool { return false }}
	}
	return Hook{stop: context.AfterFunc(ctx, func() { l.Ended(context.Cause(ctx)) })}
}

// Stop takes the listener off. It reports false if the listener has been told, or
// may be in this moment.
func (h Hook) Stop() bool {
	switch {
	case h.on != nil:
		return h.on.unlisten(h.l)
	case h.stop != nil:
		return h.stop()
	}
	return true
}

package rlm

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Interrupts end parts of a run from outside. The zero value is for one run; a nil one
// ends nothing.
type Interrupts struct {
	mu   sync.Mutex
	live map[string]context.CancelCauseFunc // by Ref
}

var errInterrupted = errors.New("it was interrupted")

// End ends what goes on under a Ref: a run, or a child run by that of its call, as if the
// user had interrupted it; a cell, after which the run goes on; a call, which fails.
func (i *Interrupts) End(ref string) error {
	i.mu.Lock()
	end := i.live[ref]
	i.mu.Unlock()
	if end == nil {
		return fmt.Errorf("nothing that can be interrupted goes on at %q: name a run, a cell or a call in flight", ref)
	}
	end(errInterrupted)
	return nil
}

// begin adds what end ends, until done is called.
func (i *Interrupts) begin(ref string, end context.CancelCauseFunc) (done func()) {
	if i == nil {
		return func() {}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.live == nil {
		i.live = map[string]context.CancelCauseFunc{}
	}
	i.live[ref] = end
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.live, ref)
	}
}

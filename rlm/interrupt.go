package rlm

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Interrupts ends parts of a run from outside. The zero value is for one run; nil ends
// nothing.
type Interrupts struct {
	mu   sync.Mutex
	live map[string]context.CancelCauseFunc // by Ref
}

var errInterrupted = errors.New("it was interrupted")

// Interrupt ends the part of the run with that Ref. A run ends as if the user had interrupted it.
// After the end of a cell, the run goes on. A call, or a child run, fails.
func (i *Interrupts) Interrupt(ref string) error {
	i.mu.Lock()
	end := i.live[ref]
	i.mu.Unlock()
	if end == nil {
		return fmt.Errorf("there is nothing to interrupt at %q: name a run, a cell or a call in flight", ref)
	}
	end(errInterrupted)
	return nil
}

// begin makes a part known until done is called; end ends it.
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

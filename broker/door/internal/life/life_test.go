package life_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker/door/internal/life"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errEnd = errors.New("the end")

type listener struct{ causes []error }

func (l *listener) Ended(cause error) { l.causes = append(l.causes, cause) }

func (l *listener) check(t *testing.T, want ...error) {
	t.Helper()
	if len(l.causes) != len(want) || len(want) == 1 && l.causes[0] != want[0] {
		t.Errorf("was told %v, want %v", l.causes, want)
	}
}

// What ends a context ends all that hang on it, of its own kind and of the
// standard library's, for the same cause.
func TestEnd(t *testing.T) {
	var above, below life.Context
	above.Begin(t.Context())
	below.Begin(&above)
	std, cancel := context.WithCancelCause(&below)
	defer cancel(nil)
	ran := make(chan struct{})
	context.AfterFunc(std, func() { close(ran) })
	var first, gone, late listener
	life.Listen(&below, &first)
	if !life.Listen(&below, &gone).Stop() {
		t.Error("a listener that was not told was said to be")
	}
	above.End(errEnd)
	above.End(errors.New("another"))
	<-below.Done()
	<-std.Done()
	<-ran
	if below.Err() != errEnd || context.Cause(&below) != errEnd || context.Cause(std) != errEnd {
		t.Errorf("ended for %v, %v, %v", below.Err(), context.Cause(&below), context.Cause(std))
	}
	hook := life.Listen(&below, &late)
	first.check(t, errEnd)
	gone.check(t)
	late.check(t, errEnd)
	if hook.Stop() || below.Finish() {
		t.Error("what has ended was stopped, or may begin anew")
	}
}

// A context of the standard library ends those below it for its own cause.
func TestStandardParent(t *testing.T) {
	parent, cancel := context.WithCancelCause(t.Context())
	var c life.Context
	c.Begin(parent)
	cancel(errEnd)
	<-c.Done()
	var second life.Context
	second.Begin(parent)
	if c.Err() != errEnd || second.Err() != errEnd || second.Finish() {
		t.Errorf("ended for %v, %v", c.Err(), second.Err())
	}
}

// A context is used again only if nobody can see that it is.
func TestFinish(t *testing.T) {
	var parent, c life.Context
	parent.Begin(t.Context())
	for range 2 {
		c.Begin(&parent)
		if !life.Listen(&c, &listener{}).Stop() || !c.Finish() {
			t.Fatal("a context that nobody looked at cannot begin anew")
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		c.Begin(&parent)
		life.Listen(&c, nil).Stop()
		c.Finish()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	c.Begin(&parent)
	done := c.Done()
	if c.Finish() {
		t.Error("a context may begin anew though somebody waits for its end")
	}
	<-done
	if c.Err() != context.Canceled {
		t.Errorf("finished for %v", c.Err())
	}
}

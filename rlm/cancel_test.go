package rlm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// busy is a run that does everything: cells, calls, a batch, a failure, children and a
// summary.
func busy() *rule {
	m := &rule{sub: echo, delay: time.Second, window: 1500, tokens: Tokens{Input: 3, Output: 2}}
	m.root = func(n int, messages []Message) string {
		if question(messages) != "why" {
			return code("ask deep\nset x 1") + "FINAL_VAR(x)"
		}
		return []string{
			code("set a 1\nprint a", "batch a|b|c|d"), code("fail bad", "nest child"), code("ask x\nleave\nbest b"),
			code("print none"), code("final end"),
		}[min(n, 5)-1]
	}
	return m
}

// A run can be cancelled at each of its events. It ends at once and closes its providers,
// and its log matches its account.
func TestCancelAtEveryEvent(t *testing.T) {
	total := 0
	synctest.Test(t, func(t *testing.T) {
		log := &memo{}
		out, err := start(t.Context(), busy(), &lab{}, log, sweep)
		if total = len(log.events); err != nil || out.Finish != Stop || out.Answer != "end" || total < 40 {
			t.Fatalf("%q, %s, %v, %d events", out.Answer, out.Finish, err, total)
		}
	})
	for at := range total {
		for _, later := range []time.Duration{0, time.Second / 2} {
			synctest.Test(t, func(t *testing.T) { cancelAt(t, at, later) })
		}
	}
}

func sweep(o *Options) {
	o.Limits = Limits{Iterations: 9, Depth: 2, Calls: 100, Tokens: 1000, Cost: 10, Errors: 3, Timeout: time.Hour}
}

func cancelAt(t *testing.T, at int, later time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m, l, log := busy(), &lab{}, &memo{}
	var cancelled time.Time
	name := ""
	seen, late := 0, make(chan struct{})
	log.observe = func(e Event) {
		if seen++; seen == at+1 {
			name = fmt.Sprintf("event %d, %s of %s (%t), after %v", at, e.Kind, e.Ref, e.Done, later)
			if cancelled = time.Now().Add(later); later == 0 {
				cancel()
				close(late)
				return
			}
			time.AfterFunc(later, func() {
				cancel()
				close(late)
			})
		}
	}
	out, err := start(ctx, m, l, log, sweep)
	ended := time.Now()
	if seen <= at {
		return // calls that are cut short may begin or not, so not every run has the last events
	}
	<-late
	last := log.events[len(log.events)-1]
	over := slices.ContainsFunc(log.events[:at+1], func(e Event) bool { return e.Depth == 0 && e.Done && e.Finish == Stop }) // before the cancel
	switch {
	case err != nil:
		t.Errorf("%s: failed: %v", name, err)
	case out.Finish != Cancelled && !over && !(later > 0 && out.Finish == Stop && !ended.After(cancelled)):
		t.Errorf("%s: ended by %s", name, out.Finish)
	case out.Finish == Cancelled && !ended.Equal(cancelled):
		t.Errorf("%s: ended %v after the cancel", name, ended.Sub(cancelled))
	case last.Kind != EventEnd || last.Ref != out.ID || last.Finish != out.Finish:
		t.Errorf("%s: the last event is %+v", name, last)
	case l.opened != l.closed:
		t.Errorf("%s: %d environments opened, %d closed", name, l.opened, l.closed)
	}
	checkUsage(t, m, out)
	checkLog(t, log, out, err)
	checkEvents(t, log.events)
	if t.Failed() {
		t.Fatal(name)
	}
}

// checkEvents checks that everything that begins also ends, properly nested.
func checkEvents(t *testing.T, events []Event) {
	t.Helper()
	open := map[string]EventKind{}
	for _, e := range events {
		key := string(e.Kind) + " " + e.Ref
		if strings.Contains(e.Error, context.Canceled.Error()) {
			t.Errorf("%s: %q is no word of ours", key, e.Error)
		}
		switch {
		case e.Kind == EventAnswer:
		case e.Kind == EventEnd:
			key = string(EventRun) + " " + e.Ref
			fallthrough
		case e.Done:
			if open[key] == "" {
				t.Errorf("%s ends, but has not begun", key)
			}
			delete(open, key)
		default:
			if open[key] != "" {
				t.Errorf("%s begins twice", key)
			}
			open[key] = e.Kind
		}
	}
	if len(open) > 0 {
		t.Errorf("not ended: %v", open)
	}
}

// The calls that a cell leaves behind are closed when it ends.
func TestCellEndsItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &rule{root: turns(code("leave\nask a"), "FINAL(1)"), sub: echo, delay: time.Second, left: time.Hour}
		log := &memo{}
		out, err := start(t.Context(), m, &lab{}, log, nil)
		if err != nil || out.Finish != Stop || out.Took != 3*time.Second || out.Calls != 2 {
			t.Errorf("%s after %v with %d calls, %v", out.Finish, out.Took, out.Calls, err)
		}
		for _, call := range log.Run.Iterations[0].CodeBlocks[0].Result.Calls {
			if left := string(call.Prompt) == `"left"`; left != (call.FinishReason == string(Cancelled)) || left != (call.Error == errCellEnded.Error()) {
				t.Errorf("call %+v", call)
			}
		}
		checkUsage(t, m, out)
		checkLog(t, log, out, err)
		checkEvents(t, log.events)
	})
}

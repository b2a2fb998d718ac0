package rlm

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A viewer ends a cell, a call, a child run or the run. Only that part ends, at once, and
// the rest continues.
func TestInterrupts(t *testing.T) {
	const run = "0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		name, cells string
		at, end     string // the ref whose event triggers the interrupt, and the ref to end
		finish      FinishReason
		took        time.Duration
		output      string // of the first turn, as shown to the model
	}{
		{"cell", "print before\nask slow\nprint after", "/t1/c1/q1", "/t1/c1", Stop, 2 * time.Second, "before\nError: it was interrupted"},
		{"call", "ask slow\nprint after", "/t1/c1/q1", "/t1/c1/q1", Stop, 2 * time.Second, "Error: it was interrupted\nafter"},
		{"one of a batch", "batch a|b|c", "/t1/c1/q2", "/t1/c1/q2", Stop, 3 * time.Second, "<a>\nError: it was interrupted\n<c>"},
		{"tool", "tool hang {}", "/t1/c1/q1", "/t1/c1/q1", Stop, 2 * time.Second, "The block failed: ToolError: it was interrupted"},
		{"child run", "nest slow\nprint after", "/t1/c1/q1/t1", "/t1/c1/q1", Stop, 2 * time.Second, "Error: it was interrupted\nafter"},
		{"run", "ask slow\nprint after", "/t1/c1/q1", "", Cancelled, time.Second, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &rule{root: turns(code(test.cells), "FINAL(done)"), sub: echo, delay: time.Second}
				stops, log := &Interrupts{}, &memo{}
				log.observe = func(e Event) {
					if e.Ref == run+test.at && !e.Done {
						if err := stops.Interrupt(run + test.end); err != nil {
							t.Error(err)
						}
					}
				}
				begun := time.Now()
				out, err := start(t.Context(), m, &lab{}, log, func(o *Options) {
					o.Interrupts, o.Tools = stops, &kit{}
					o.Limits.Depth = 2
				})
				if took := time.Since(begun); err != nil || out.Finish != test.finish || took != test.took {
					t.Errorf("%s after %v, %v", out.Finish, took, err)
				}
				i := slices.IndexFunc(log.events, func(e Event) bool { return e.Ref == run+"/t1/c1" && e.Done })
				if got := log.events[i].Text; !strings.HasPrefix(got, test.output) {
					t.Errorf("the model sees %q, want %q", got, test.output)
				}
				if len(stops.live) != 0 {
					t.Errorf("left to interrupt: %v", stops.live)
				}
				if err := stops.Interrupt(run); err == nil {
					t.Error("a run that has ended is interrupted")
				}
			})
		})
	}
}

package life_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/broker/door/internal/life"
)

// Each has the same time from its own beginning on, whoever else is there; those
// that end before are left alone.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := life.NewLimit(10 * time.Millisecond)
		begin := time.Now()
		var due []time.Duration
		start := func(after time.Duration) *life.Timed {
			time.Sleep(time.Until(begin.Add(after)))
			one := &life.Timed{Due: func() { due = append(due, time.Since(begin)) }}
			limit.Start(one)
			return one
		}
		first, second, third := start(0), start(4*time.Millisecond), start(5*time.Millisecond)
		if !limit.Stop(second) || limit.Stop(second) {
			t.Error("to end before the time is up did not succeed once")
		}
		last := start(12 * time.Millisecond)
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if want := []time.Duration{10 * time.Millisecond, 15 * time.Millisecond, 22 * time.Millisecond}; !slices.Equal(due, want) {
			t.Errorf("due at %v, want %v", due, want)
		}
		if limit.Stop(first) || limit.Stop(third) || limit.Stop(last) {
			t.Error("one whose time was up could be ended")
		}
		// After a time in which nobody is there it serves again.
		limit.Start(first)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if len(due) != 4 {
			t.Errorf("due at %v", due)
		}
	})
}

package store

import (
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
)

// What is in flight stays so in the time in which nothing passes.
func TestInFlightBetweenFrames(t *testing.T) {
	var s series
	begin := int64(1 << 50)
	for _, f := range []struct {
		after  time.Duration
		flying int64
	}{{0, 3}, {100 * time.Millisecond, 1}, {200 * time.Millisecond, 0}, {300 * time.Millisecond, 0}} {
		s.countFrame(begin+int64(f.after), frame.C2U, 1)
		s.flies(f.flying)
	}
	for _, tt := range []struct {
		at   time.Duration
		want int64
	}{{0, 3}, {50 * time.Millisecond, 3}, {150 * time.Millisecond, 1}, {250 * time.Millisecond, 0}} {
		if got := s.slots[int64(tt.at)/s.slot].InFlight; got != tt.want {
			t.Errorf("%d in flight after %v, want %d", got, tt.at, tt.want)
		}
	}
}

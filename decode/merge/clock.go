package merge

import (
	"fmt"
	"math"
	"time"
)

// A clock says how the clock of the end that is nearer to the unit differs from that of the other.
type clock struct {
	// low and high bound what must be added to its times: no frame arrives before it is sent. sent and received say
	// which of them is known.
	low, high      float64
	sent, received bool
	drift          float64 // nanoseconds gained per nanosecond
	origin         int64   // where drift begins to count
	stepped        bool    // no steady clock explains the times
	clash          float64 // low - high without a drift
}

// A sample is how the times of a pair differ.
type sample struct {
	at   int64 // at the controller's end
	diff int64 // from the time at the unit's end to that
	back bool  // from the unit to the controller
}

const (
	maxDrift   = 500e-6 // how much clocks are thought to differ in speed
	resolution = 10e3   // nanoseconds by which times may be rounded
)

// estimate returns the clock that samples tell.
func estimate(list []sample) clock {
	c := clock{low: math.Inf(-1), high: math.Inf(1)}
	if len(list) == 0 {
		return c
	}
	c.origin = list[0].at
	bounds := func(drift float64) (low, high float64) {
		low, high = math.Inf(-1), math.Inf(1)
		for _, s := range list {
			diff := float64(s.diff) - drift*float64(s.at-c.origin)
			if s.back {
				high = min(high, diff)
			} else {
				low = max(low, diff)
			}
		}
		return low, high
	}
	c.low, c.high = bounds(0)
	c.sent, c.received = !math.IsInf(c.low, 0), !math.IsInf(c.high, 0)
	if c.clash = c.low - c.high; c.clash > 0 && c.clash <= resolution {
		c.low = (c.low + c.high) / 2
		c.high = c.low
	}
	if c.low <= c.high {
		return c
	}
	from, to := -maxDrift, maxDrift // what is in the way is a convex function of the drift
	for range 60 {
		p, q := from+(to-from)/3, to-(to-from)/3
		lowP, highP := bounds(p)
		lowQ, highQ := bounds(q)
		if lowP-highP < lowQ-highQ {
			to = q
		} else {
			from = p
		}
	}
	drift := (from + to) / 2
	if low, high := bounds(drift); low <= high {
		c.low, c.high, c.drift = low, high, drift
	} else {
		c.stepped = true
	}
	return c
}

// isKnown reports whether the offset is known, within an error.
func (c *clock) isKnown() bool { return c.sent && c.received && !c.stepped }

// offset returns what is to be added to a time of the unit's end, and its error.
func (c *clock) offset(at int64) (add, err time.Duration) {
	return time.Duration((c.low+c.high)/2 + c.drift*float64(at-c.origin)), time.Duration(math.Ceil((c.high - c.low) / 2))
}

// held returns how long a frame was at least on its way: as long as it took longer than the fastest one of
// its direction.
func (c *clock) held(s sample) time.Duration {
	diff := float64(s.diff) - c.drift*float64(s.at-c.origin)
	switch {
	case c.stepped:
		return 0
	case s.back && c.received:
		return time.Duration(diff - c.high)
	case !s.back && c.sent:
		return time.Duration(c.low - diff)
	}
	return 0
}

// describe says what is known of the clocks of the controller's end and the unit's end, which have these names.
func (c *clock) describe(near, far string) string {
	switch {
	case c.stepped:
		return fmt.Sprintf("no steady difference between the clocks explains the times (they contradict by %s): one was set meanwhile, or these are not the two ends of the same connections; delays are not judged", brief(time.Duration(c.clash)))
	case !c.sent && !c.received:
		return "the clocks cannot be compared: no frame has its time at both ends"
	case !c.received:
		return fmt.Sprintf("the offset of the clocks cannot be known, because only frames from %s to %s are at both ends: %s", near, far, bound(far, "at most", -c.low))
	case !c.sent:
		return fmt.Sprintf("the offset of the clocks cannot be known, because only frames from %s to %s are at both ends: %s", far, near, bound(far, "at least", -c.high))
	}
	add, err := c.offset(c.origin)
	text := fmt.Sprintf("both clocks show the same time, ± %s", brief(add.Abs()+err))
	switch {
	case add.Abs() <= err:
	case add > 0:
		text = fmt.Sprintf("the clock of %s is %s behind that of %s, ± %s", far, brief(add), near, brief(err))
	default:
		text = fmt.Sprintf("the clock of %s is %s ahead of that of %s, ± %s", far, brief(-add), near, brief(err))
	}
	if c.drift != 0 {
		text += fmt.Sprintf("; they drift apart by %.1f µs per second", math.Abs(c.drift*1e6))
	}
	return text
}

// bound says how far a clock is ahead of the other, in nanoseconds; behind it if that is negative.
func bound(name, how string, ahead float64) string {
	if ahead < 0 {
		return fmt.Sprintf("%s is %s %s behind", name, map[string]string{"at least": "at most", "at most": "at least"}[how], brief(time.Duration(-ahead)))
	}
	return fmt.Sprintf("%s is %s %s ahead", name, how, brief(time.Duration(ahead)))
}

// brief writes a duration with three or four digits.
func brief(d time.Duration) string {
	for unit := time.Duration(1e9); unit >= 1000; unit /= 1000 {
		if d >= unit || -d >= unit {
			return d.Round(unit / 1000).String()
		}
	}
	return d.String()
}

package tap

import (
	"time"

	"github.com/wirectl/wirectl/capture"
)

// A flood is when more comes than a person would ever look at. While nobody looks
// on, history keeps only the newest of it, and what there was before: to move all
// of it through memory that is as large as history costs the relay as much as
// everything else, since no cache holds that.
type flood struct {
	on    bool
	since time.Time
	bytes int64 // since then
}

const (
	floodTime  = 20 * time.Millisecond
	floodBytes = 4 << 20   // in that time; more is a flood
	floodKept  = 512 << 10 // of all floods
)

// take takes note of a run.
func (f *flood) take(r *capture.Run) {
	if passed := r.Shared.Time.Sub(f.since); passed > floodTime {
		f.on = passed < 2*floodTime && f.bytes > floodBytes
		f.since, f.bytes = r.Shared.Time, 0
	}
	for i := range r.Frames {
		f.bytes += int64(len(r.Frames[i].Raw))
	}
	f.on = f.on || f.bytes > floodBytes
}

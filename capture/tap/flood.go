package tap

import "time"

// A flood is more traffic than a person can look at. Without viewers, the history keeps only
// the newest part of a flood. Copying all of it through memory as large as the history, which
// fits in no cache, would double the relay's cost.
type flood struct {
	on            bool
	since         time.Time
	bytes, frames int64 // since then
}

const (
	floodTime   = 20 * time.Millisecond
	floodBytes  = 4 << 20 // per floodTime; more is a flood
	floodFrames = 16 << 10

	floodKept    = 512 << 10 // bytes kept of all floods
	floodRecords = 64        // records kept per run during a flood
)

// countPassed counts traffic at a given time.
func (f *flood) countPassed(at time.Time, bytes, frames int64) {
	passed := at.Sub(f.since)
	if f.on = f.on && passed < 2*floodTime; passed > floodTime {
		f.on = f.on && f.rises()
		f.since, f.bytes, f.frames = at, 0, 0
	}
	f.bytes += bytes
	f.frames += frames
	f.on = f.on || f.rises()
}

func (f *flood) rises() bool { return f.bytes > floodBytes || f.frames > floodFrames }

package tap

import "time"

// A flood is traffic that is too much for a person to look at. Without viewers, the history
// only keeps the newest part of it: moving all of it through memory as large as the history,
// which no cache holds, would double the relay's cost.
type flood struct {
	on            bool
	since         time.Time
	bytes, frames int64 // since then
}

const (
	floodTime   = 20 * time.Millisecond
	floodBytes  = 4 << 20 // in that time; more is a flood
	floodFrames = 16 << 10

	floodKept    = 512 << 10 // bytes of all floods
	floodRecords = 64        // of what comes at once, which are kept of a flood
)

// countPassed counts bytes and frames that passed at a time.
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

package store

import "github.com/wirectl/wirectl/frame"

// A series counts the traffic in slots of time, which double in width when the session
// outlasts them.
type series struct {
	bytes int64
	begin int64
	slot  int64
	slots []Traffic
	last  int64 // the slot of the newest frame
	level int64 // exchanges in flight after it
}

// Traffic is what passed in a slot of time.
type Traffic struct {
	Frames   [3]int64 // by direction
	Bytes    [3]int64
	InFlight int64 // at most
}

const (
	seriesSlots = 1024
	seriesWidth = 1 << 20 // at the beginning: about a millisecond, or frames
)

func (t *series) countFrame(at int64, d frame.Dir, n int64) {
	t.bytes += n
	c := t.at(at)
	c.Frames[d]++
	c.Bytes[d] += n
}

// flies sets how many exchanges are in flight after the newest frame.
func (t *series) flies(n int64) {
	t.level = n
	c := &t.slots[t.last]
	c.InFlight = max(c.InFlight, n)
}

// at returns the slot of a time. Times before the beginning belong to the first slot. The
// number in flight does not change while nothing passes.
func (t *series) at(at int64) *Traffic {
	if t.slot == 0 {
		t.begin, t.slot = at, seriesWidth
		if at < 1<<40 { // a number of a frame
			t.slot = 1
		}
	}
	i := max(at-t.begin, 0) / t.slot
	for i >= seriesSlots {
		t.fold()
		i = max(at-t.begin, 0) / t.slot
	}
	for int64(len(t.slots)) <= i {
		t.slots = append(t.slots, Traffic{InFlight: t.level})
	}
	t.last = i
	return &t.slots[i]
}

func (t *series) fold() {
	for i := range (len(t.slots) + 1) / 2 {
		sum := t.slots[2*i]
		if 2*i+1 < len(t.slots) {
			more := t.slots[2*i+1]
			for d := range sum.Frames {
				sum.Frames[d] += more.Frames[d]
				sum.Bytes[d] += more.Bytes[d]
			}
			sum.InFlight = max(sum.InFlight, more.InFlight)
		}
		t.slots[i] = sum
	}
	t.slots = t.slots[:(len(t.slots)+1)/2]
	t.slot *= 2
}

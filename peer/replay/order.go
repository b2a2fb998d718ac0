package replay

import (
	"time"

	"github.com/wirectl/wirectl/frame"
)

// An order says, for each frame of ours, what has to have happened before it is
// sent.
type order struct {
	// before is the frame of ours that goes before, -1 if there is none.
	before []int
	// needs are the frames of the peer that have to have come, without those
	// that the frames before it need.
	needs [][]int
	// pause is how long after the last of these it was sent in the recording.
	pause []time.Duration
}

func newOrder(n int) order { return order{make([]int, n), make([][]int, n), make([]time.Duration, n)} }

// orderOf returns the order in which a side sends. A controller sends in the
// order of the recording, when all has come that had come then. A unit waits, for
// what it says in one exchange, for that exchange alone: which requests come,
// and in which order, is up to its client.
func (s *Script) orderOf(side frame.Dir) order {
	n := len(s.steps)
	if _, isWeb := s.Protocol.(web); isWeb && side == frame.U2C {
		return s.webOrder()
	}
	o := newOrder(n)
	groups := make([]int, n)
	if side == frame.U2C {
		groups = s.groups(side)
	}
	last := map[int]int{}         // of ours, by group
	needed := map[int][]int{}     // of the peer since then, by group
	latest := map[int]time.Time{} // of either, by group
	for i, st := range s.steps {
		g := groups[i]
		if st.dir != side {
			needed[g] = append(needed[g], i)
			latest[g] = st.time
			continue
		}
		o.before[i] = -1
		if b, ok := last[g]; ok {
			o.before[i] = b
		}
		o.needs[i], needed[g] = needed[g], nil
		if t := latest[g]; !t.IsZero() && st.time.After(t) {
			o.pause[i] = st.time.Sub(t)
		}
		last[g], latest[g] = i, st.time
	}
	return o
}

// groups tells which frames hang together, seen from the unit: the group is the
// number of the peer's frame that began it, from 1, and 0 before there was any.
// What the unit says of itself belongs to the request that was open and came
// last, or else to what came last.
func (s *Script) groups(side frame.Dir) []int {
	groups := make([]int, len(s.steps))
	var open []int // exchanges of the peer
	ended := map[int]bool{}
	last := 0
	for i, st := range s.steps {
		theirs := st.exchange != 0 && s.opened[st.exchange].from != side
		switch {
		case st.opens != 0 && st.dir != side && st.exchange == st.opens:
			groups[i], last = i+1, i+1
			open = append(open, st.exchange)
		case st.exchange != 0 && st.exchange != st.opens:
			groups[i] = groups[s.opened[st.exchange].step]
		case st.dir != side:
			groups[i], last = i+1, i+1
		default:
			groups[i] = last
			if n := len(open); n > 0 {
				groups[i] = groups[s.opened[open[n-1]].step]
			}
		}
		if theirs && st.ends {
			ended[st.exchange] = true
		}
		for len(open) > 0 && ended[open[len(open)-1]] {
			open = open[:len(open)-1]
		}
	}
	return groups
}

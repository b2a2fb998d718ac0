package replay

import (
	"time"

	"github.com/wirectl/wirectl/frame"
)

// An order holds the preconditions for sending each frame of ours.
type order struct {
	// before is the frame of ours that must be sent first; -1 if there is none.
	before []int
	// needs are the frames of the peer that must have arrived, except those that
	// the frames before it need.
	needs [][]int
	// pause is the recorded time between the last of these and the frame.
	pause []time.Duration
}

func newOrder(n int) order { return order{make([]int, n), make([][]int, n), make([]time.Duration, n)} }

// orderOf returns the order in which a side sends. A controller sends in the order of
// the recording, once everything has arrived that had arrived then. A unit only waits for
// the frames of the same exchange: the client chooses the requests and their order.
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

// groups assigns each frame to a group, as the unit sees it: the number of the peer's
// frame that started it, from 1; 0 before the first. A frame that the unit sends on its
// own belongs to the latest open request, or else to the latest frame of the peer.
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

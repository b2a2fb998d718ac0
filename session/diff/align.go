package diff

import (
	"cmp"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A pair is an exchange of each session; one of them is nil if the other has
// no counterpart.
type pair struct {
	a, b *exchange
	of   *Operation // that they belong to, or nil
}

// A match is a pair given by the exchanges' numbers in the sessions; none means nil.
type match struct {
	a, b  int32
	place int32  // in the order of a
	of    *match // of the operations that both belong to, or nil
}

const none = -1

// matches aligns the exchanges of two sessions. Exchanges that the same side opened on the
// same lane are aligned in their order; there is no order between the two sides. If
// the direction of any frame is unknown, directions are ignored.
func matches(a, b *Session) []match {
	type lane struct {
		number int32
		opener frame.Dir
	}
	lanes := make(map[lane]*[2][]int32)
	var order []*[2][]int32
	for i, s := range []*Session{a, b} {
		for n := range s.count {
			e := s.kept(n)
			if e.ignored || e.of != none {
				continue
			}
			of := lane{e.lane, e.opener}
			if a.blind || b.blind {
				of.opener = frame.DirUnknown
			}
			l := lanes[of]
			if l == nil {
				l = new([2][]int32)
				lanes[of] = l
				order = append(order, l)
			}
			l[i] = append(l[i], n)
		}
	}
	all := make([]match, 0, max(a.count, b.count))
	for _, l := range order {
		all = appendLane(all, a, b, l[0], l[1])
	}
	slices.SortStableFunc(all, func(p, q match) int { return cmp.Compare(p.place, q.place) })
	return all
}

// appendLane aligns two lists: first exchanges that begin with the same words; between these,
// exchanges with the same label, such as the name of a tool; and then those of the same kind.
func appendLane(all []match, sa, sb *Session, a, b []int32) []match {
	place := int32(none)
	by := func(of func(*kept) uint64) func(i, j int) bool {
		return func(i, j int) bool { return of(sa.kept(a[i])) == of(sb.kept(b[j])) }
	}
	kind := by(func(k *kept) uint64 { return k.kind })
	align(len(a), len(b), func(a0, a1, b0, b1 int) {
		if a1-a0 == 1 && b1-b0 == 1 && kind(a0, b0) {
			place = a[a0]
			all = append(all, match{a: a[a0], b: b[b0], place: place})
			return
		}
		for _, n := range a[a0:a1] { // without a counterpart
			place = n
			all = append(all, match{a: n, b: none, place: place})
		}
		for _, n := range b[b0:b1] {
			all = append(all, match{a: none, b: n, place: place})
		}
	}, by(func(k *kept) uint64 { return k.words }), by(func(k *kept) uint64 { return k.label }), kind)
	return all
}

// A run is one message of an exchange, or consecutive parts of its answer.
type run []message

// runs cuts the messages of an exchange into runs. Consecutive parts of one kind are one run.
func runs(messages []message) []run {
	var all []run
	for i, m := range messages {
		if i > 0 && m.phase == protocol.Part && m.like(&messages[i-1]) && m.label == messages[i-1].label {
			all[len(all)-1] = append(all[len(all)-1], m)
		} else {
			all = append(all, run{m})
		}
	}
	return all
}

// like reports whether two messages have the same phase and kind.
func (m *message) like(n *message) bool { return m.phase == n.phase && m.kind == n.kind }

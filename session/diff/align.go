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
// same lane are aligned in their order; there is no order between the two sides, nor between
// concurrent requests over HTTP. If
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
		all, l[0], l[1] = appendConcurrent(all, a, b, l[0], l[1])
		all = appendLane(all, a, b, l[0], l[1])
	}
	slices.SortStableFunc(all, func(p, q match) int { return cmp.Compare(p.place, q.place) })
	return all
}

// appendConcurrent pairs concurrent requests over HTTP that begin with the same words but come
// in another order. It returns the other exchanges.
func appendConcurrent(all []match, sa, sb *Session, a, b []int32) (_ []match, restA, restB []int32) {
	if len(a) == 0 || !sa.kept(a[0]).http || len(b) == 0 || !sb.kept(b[0]).http {
		return all, a, b
	}
	moved := make(map[uint64][]int) // of b, by their words
	restA, restB = slices.Clone(a), slices.Clone(b)
	var others []int // of a
	words := func(i, j int) bool { return sa.kept(a[i]).words == sb.kept(b[j]).words }
	Alignments(len(a), len(b), words, func(a0, a1, b0, b1 int) {
		if a1-a0 == 1 && b1-b0 == 1 && words(a0, b0) {
			return
		}
		for i := a0; i < a1; i++ {
			if sa.isConcurrent(a, i) {
				others = append(others, i)
			}
		}
		for j := b0; j < b1; j++ {
			if sb.isConcurrent(b, j) {
				w := sb.kept(b[j]).words
				moved[w] = append(moved[w], j)
			}
		}
	})
	for _, i := range others {
		w := sa.kept(a[i]).words
		if list := moved[w]; len(list) > 0 {
			all = append(all, match{a: a[i], b: b[list[0]], place: a[i]})
			restA[i], restB[list[0]], moved[w] = none, none, list[1:]
		}
	}
	paired := func(n int32) bool { return n == none }
	return all, slices.DeleteFunc(restA, paired), slices.DeleteFunc(restB, paired)
}

// isConcurrent reports whether a request of a list was open together with the one before or
// after it.
func (s *Session) isConcurrent(list []int32, i int) bool {
	overlaps := func(i int) bool {
		if i < 0 || i+1 >= len(list) {
			return false
		}
		k, next := s.kept(list[i]), s.kept(list[i+1])
		return k.asks && next.asks && (k.end == 0 || next.first < k.end)
	}
	return overlaps(i-1) || overlaps(i)
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

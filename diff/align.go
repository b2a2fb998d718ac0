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
	a, b  *exchange
	place int64 // in the order of a
}

// pairs aligns the exchanges of two sessions. Those that the same side opened
// on the same connection are aligned with each other, in their order: what two
// sides say at the same time has none. If a direction is not known, that of no
// frame counts.
func pairs(a, b *Session) []pair {
	type lane struct {
		conn   int
		opener frame.Dir
	}
	lanes := make(map[lane]*[2][]*exchange)
	var order []*[2][]*exchange
	for i, s := range []*Session{a, b} {
		for _, e := range s.exchanges {
			of := lane{e.conn, e.opener}
			if a.blind || b.blind {
				of.opener = frame.DirUnknown
			}
			l := lanes[of]
			if l == nil {
				l = new([2][]*exchange)
				lanes[of] = l
				order = append(order, l)
			}
			l[i] = append(l[i], e)
		}
	}
	var all []pair
	for _, l := range order {
		all = append(all, pairsOf(l[0], l[1])...)
	}
	slices.SortStableFunc(all, func(p, q pair) int { return cmp.Compare(p.place, q.place) })
	return all
}

// pairsOf aligns two lists: first those exchanges that begin with the same
// words, between these those that begin with the same label, such as the name
// of a tool, and then those of the same kind.
func pairsOf(a, b []*exchange) []pair {
	var all []pair
	place := int64(-1)
	kind := func(i, j int) bool { return a[i].kind == b[j].kind }
	label := func(i, j int) bool { return kind(i, j) && a[i].messages[0].label == b[j].messages[0].label }
	words := func(i, j int) bool { return kind(i, j) && a[i].messages[0].digest == b[j].messages[0].digest }
	align(len(a), len(b), func(a0, a1, b0, b1 int) {
		all, place = appendPairs(all, place, a[a0:a1], b[b0:b1])
	}, words, label, kind)
	return all
}

// appendPairs appends an aligned pair, or what only one side has.
func appendPairs(all []pair, place int64, a, b []*exchange) ([]pair, int64) {
	if len(a) == 1 && len(b) == 1 && a[0].kind == b[0].kind {
		place = a[0].first()
		return append(all, pair{a[0], b[0], place}), place
	}
	for _, e := range a {
		place = e.first()
		all = append(all, pair{a: e, place: place})
	}
	for _, e := range b {
		all = append(all, pair{b: e, place: place})
	}
	return all, place
}

// A run is one message of an exchange, or parts of its answer that follow each
// other.
type run []message

// runs cuts the messages of an exchange. Of parts that come one after the other
// those belong together that are of one kind.
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

// like reports whether two messages do the same, whatever they say.
func (m *message) like(n *message) bool { return m.phase == n.phase && m.kind == n.kind }

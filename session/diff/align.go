package diff

import (
	"cmp"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
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

// maxEdits bounds the edits between two aligned lists. Lists that differ more are compared
// index by index.
const maxEdits = 1000

// align is Alignments with several measures: pieces that the first measure cannot match are
// aligned by the next.
func align(n, m int, yield func(a0, a1, b0, b1 int), measures ...func(i, j int) bool) {
	same, looser := measures[0], measures[1:]
	Alignments(n, m, same, func(a0, a1, b0, b1 int) {
		if len(looser) == 0 || a0 == a1 || b0 == b1 || a1-a0 == 1 && b1-b0 == 1 && same(a0, b0) {
			yield(a0, a1, b0, b1)
			return
		}
		var within []func(i, j int) bool
		for _, same := range looser {
			within = append(within, func(i, j int) bool { return same(a0+i, b0+j) })
		}
		align(a1-a0, b1-b0, func(c0, c1, d0, d1 int) { yield(a0+c0, a0+c1, b0+d0, b0+d1) }, within...)
	})
}

// Alignments calls yield for the pieces of two lists of n and m elements, in order: [a0,a1) of
// the first list corresponds to [b0,b1) of the second. Equal elements are yielded one by one,
// and elements without a counterpart between them. The equal elements are a longest common
// subsequence.
func Alignments(n, m int, same func(i, j int) bool, yield func(a0, a1, b0, b1 int)) {
	head := 0
	for head < n && head < m && same(head, head) {
		yield(head, head+1, head, head+1)
		head++
	}
	tail := 0
	for tail < min(n, m)-head && same(n-tail-1, m-tail-1) {
		tail++
	}
	middle(head, n-tail, head, m-tail, same, yield)
	for ; tail > 0; tail-- {
		yield(n-tail, n-tail+1, m-tail, m-tail+1)
	}
}

// middle is Alignments for lists that differ at both ends.
func middle(a0, a1, b0, b1 int, same func(i, j int) bool, yield func(a0, a1, b0, b1 int)) {
	i, j := a0, b0
	for _, s := range snakes(a1-a0, b1-b0, func(i, j int) bool { return same(a0+i, b0+j) }) {
		x, y := a0+s[0], b0+s[1]
		if i < x || j < y {
			yield(i, x, j, y)
		}
		yield(x, x+1, y, y+1)
		i, j = x+1, y+1
	}
	if i < a1 || j < b1 {
		yield(i, a1, j, b1)
	}
}

// snakes returns the pairs of a longest common subsequence, by the greedy algorithm of Myers
// (An O(ND) Difference Algorithm and Its Variations, 1986). Its memory grows with the square of
// the number of edits. Beyond maxEdits, equal elements at the same index are paired.
func snakes(n, m int, same func(i, j int) bool) [][2]int {
	var trace [][]int // how far each round got on each diagonal
	for d := 0; d <= min(n+m, maxEdits); d++ {
		reach := make([]int, 2*d+1)
		for k := -d; k <= d; k += 2 {
			x := start(trace, d, k)
			for x < n && x-k < m && same(x, x-k) {
				x++
			}
			reach[k+d] = x
			if x == n && x-k == m {
				return backtrack(append(trace, reach), n, m)
			}
		}
		trace = append(trace, reach)
	}
	return inPlace(n, m, same)
}

// start returns where round d begins on diagonal k.
func start(trace [][]int, d, k int) int {
	if d == 0 {
		return 0
	}
	reach := trace[d-1]
	from := origin(reach, d, k)
	if from < k {
		return at(reach, from) + 1
	}
	return at(reach, from)
}

// backtrack finds the pairs from the furthest points of all rounds.
func backtrack(trace [][]int, x, y int) [][2]int {
	var found [][2]int
	for d := len(trace) - 1; d >= 0; d-- {
		px, py := 0, 0
		if d > 0 {
			px, py = before(trace[d-1], d, x-y)
		}
		for x > px && y > py {
			x, y = x-1, y-1
			found = append(found, [2]int{x, y})
		}
		x, y = px, py
	}
	slices.Reverse(found)
	return found
}

// before returns the point from which round d reached diagonal k.
func before(reach []int, d, k int) (x, y int) {
	k = origin(reach, d, k)
	x = at(reach, k)
	return x, x - k
}

// origin returns the diagonal next to k from which round d gets furthest.
func origin(reach []int, d, k int) int {
	if k == -d || k != d && at(reach, k-1) < at(reach, k+1) {
		return k + 1
	}
	return k - 1
}

// at returns how far a round got on diagonal k.
func at(reach []int, k int) int { return reach[k+len(reach)/2] }

// inPlace returns the pairs of equal elements at the same index.
func inPlace(n, m int, same func(i, j int) bool) [][2]int {
	var found [][2]int
	for i := range min(n, m) {
		if same(i, i) {
			found = append(found, [2]int{i, i})
		}
	}
	return found
}

// Beside puts the lines of two texts side by side, equal ones together.
func Beside(a, b []string) (rows [][2]string) {
	same := func(i, j int) bool { return a[i] == b[j] }
	Alignments(len(a), len(b), same, func(a0, a1, b0, b1 int) {
		from := len(rows)
		rows = append(rows, make([][2]string, max(a1-a0, b1-b0))...)
		for i, line := range a[a0:a1] {
			rows[from+i][0] = line
		}
		for i, line := range b[b0:b1] {
			rows[from+i][1] = line
		}
	})
	return rows
}

// side describes an exchange as a whole in a report.
func (e *exchange) side() *Side {
	return &Side{ID: render.Clip(e.id, maxValue), Opened: e.first(), Frames: run(e.messages).frames()}
}

// sideOf describes one message of an exchange in a report, or its absence if m is nil.
func (e *exchange) sideOf(m *message) *Side {
	s := &Side{ID: render.Clip(e.id, maxValue), Opened: e.first()}
	if m != nil {
		s.Frames = []int64{m.seq}
	}
	return s
}

// maxFrames bounds the frames that a side lists.
const maxFrames = 16

// frames returns the numbers of the first frames.
func (r run) frames() []int64 {
	var list []int64
	for _, m := range r[:min(len(r), maxFrames)] {
		list = append(list, m.seq)
	}
	return list
}

// maxValue bounds the values that reports keep, in bytes.
const maxValue = 200

package merge

import (
	"cmp"
	"math"
	"slices"

	"github.com/wirectl/wirectl/frame"
)

// An entry is what is kept of a frame while two captures are aligned: hashes, and its place.
type entry struct {
	seq int64 // number in its capture
	at  int64 // nanoseconds since 1970; 0 if unknown
	// exact is the hash of the payload as written, and bare that of its value without ids; of HTTP without ids
	// with the request line. kind is that of the kind of message, and id that of its ids, 0 if it has none.
	exact, bare, kind, id uint64
	request               int32 // index of the entry that it answers, from 1; 0 if none
	lane                  int32
	dir                   frame.Dir
	own                   bool // of a carrier, which each end may have or not
	asks                  bool // a request over HTTP without a body
	vague                 bool // the payload was not recorded, or parts of it are masked
}

// A side is one of the two captures.
type side struct {
	entries    []entry
	lanes      int   // connections, sessions over HTTP, and all other HTTP
	begin, end int64 // when the capture began and ended; 0 if unknown
}

// An alignment pairs the entries of two captures. Each entry has at most one other.
type alignment struct {
	sides   [2]*side
	other   [2][]int32         // index in the other capture, from 1; 0 for none
	sure    []bool             // of the entries of the first: nothing else could be the other one
	groups  [2][]int32         // of lanes that share frames, from 1
	renamed []bool             // by group: ids differ between the captures
	again   [2][]bool          // the same frame was paired before
	twice   [2]map[uint64]bool // what entries say that repeat another
	shift   [3]int64           // by direction: the usual time in the first capture minus that in the second
	timed   [3]bool
	offset  int64           // between the clocks, if frames of both directions tell it
	due     map[int32]int64 // when requests of the first capture that are left were answered
}

// align pairs frames: first those with equal bytes, then those with equal values, whatever their ids, then those
// with the same id or place whose content has changed. Answers are paired within their requests.
func align(a, b *side) *alignment {
	x := &alignment{sides: [2]*side{a, b}, sure: make([]bool, len(a.entries))}
	for s, of := range x.sides {
		x.other[s], x.again[s] = make([]int32, len(of.entries)), make([]bool, len(of.entries))
	}
	x.group()
	opening := func(key func(e *entry) uint64) func(s, i int) uint64 {
		return func(s, i int) uint64 {
			e := &x.sides[s].entries[i]
			if e.request > 0 || x.again[s][i] {
				return 0
			}
			k := key(e)
			if k == 0 {
				return 0
			}
			return mix(k, uint64(x.groups[s][e.lane]), uint64(e.dir))
		}
	}
	x.level(opening(func(e *entry) uint64 { return mix(e.exact, e.kind) }))
	x.level(opening(func(e *entry) uint64 { return mix(e.bare, e.kind, e.id) }))
	x.markAgain()
	x.level(opening(func(e *entry) uint64 { return mix(e.bare, e.kind) }))
	x.level(opening(func(e *entry) uint64 {
		if e.id == 0 {
			return 0
		}
		return mix(e.kind, e.id)
	}))
	x.markAgain()
	answering := func(key func(e *entry) uint64) func(s, i int) uint64 {
		return func(s, i int) uint64 {
			e := &x.sides[s].entries[i]
			if e.request == 0 {
				return 0
			}
			request := e.request
			if s == 0 {
				request = x.other[0][request-1]
			} else if x.other[1][request-1] == 0 {
				request = 0
			}
			if request == 0 {
				return 0
			}
			return mix(key(e), uint64(request), uint64(e.dir))
		}
	}
	x.level(answering(func(e *entry) uint64 { return mix(e.bare, e.kind) })) // which also tells how the clocks differ
	x.bracket()
	x.levelOf(true, opening(func(e *entry) uint64 { // over HTTP, the order tells nothing
		if e.own || e.id != 0 {
			return 0
		}
		return e.kind
	}))
	x.level(answering(func(e *entry) uint64 { return mix(e.bare, e.kind) }))
	x.markAgain()
	x.level(func(s, i int) uint64 { // answers to a request that came twice
		e := &x.sides[s].entries[i]
		if e.request > 0 && !x.cameTwice(s, e.request-1) {
			return 0
		}
		return mix(e.exact, e.kind, uint64(x.groups[s][e.lane]), uint64(e.dir))
	})
	x.level(answering(func(e *entry) uint64 { return 1 + uint64(btoi(e.own)) }))
	x.markAgain()
	return x
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mix returns a hash of numbers, which is never 0.
func mix(list ...uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, n := range list {
		h ^= n
		h *= 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return max(h, 1)
}

// maxWeighed bounds the pairs of lanes for which one content counts: one that so many lanes have tells
// nothing.
const maxWeighed = 1 << 10

// group joins the lanes that share frames, because a gateway may join or split connections.
func (x *alignment) group() {
	type at struct {
		bare uint64
		lane int32
	}
	var lists [2][]at
	for s, of := range x.sides {
		for i := range of.entries {
			if e := &of.entries[i]; !e.own {
				lists[s] = append(lists[s], at{mix(e.bare, e.kind), e.lane})
			}
		}
		slices.SortFunc(lists[s], func(p, q at) int { return cmp.Or(cmp.Compare(p.bare, q.bare), cmp.Compare(p.lane, q.lane)) })
		lists[s] = slices.Compact(lists[s])
	}
	weights := map[[2]int32]float64{}
	for a, b := lists[0], lists[1]; len(a) > 0 && len(b) > 0; {
		na, nb := 1, 1
		for na < len(a) && a[na].bare == a[0].bare {
			na++
		}
		for nb < len(b) && b[nb].bare == b[0].bare {
			nb++
		}
		switch c := cmp.Compare(a[0].bare, b[0].bare); {
		case c < 0:
			a = a[na:]
			continue
		case c > 0:
			b = b[nb:]
			continue
		case na*nb <= maxWeighed:
			for _, p := range a[:na] {
				for _, q := range b[:nb] {
					weights[[2]int32{p.lane, q.lane}] += 1 / float64(na*nb)
				}
			}
		}
		a, b = a[na:], b[nb:]
	}
	x.joinLanes(weights)
}

// joinLanes pairs lanes one to one by their weights, equal ones in their order, and adds each other lane to
// the group of the one that it shares most with.
func (x *alignment) joinLanes(weights map[[2]int32]float64) {
	type pair struct {
		lanes  [2]int32
		weight float64
	}
	var pairs []pair
	for lanes, weight := range weights {
		pairs = append(pairs, pair{lanes, weight})
	}
	apart := func(p pair) int32 { return max(p.lanes[0]-p.lanes[1], p.lanes[1]-p.lanes[0]) }
	slices.SortFunc(pairs, func(p, q pair) int {
		return cmp.Or(cmp.Compare(q.weight, p.weight), cmp.Compare(apart(p), apart(q)), cmp.Compare(p.lanes[0], q.lanes[0]), cmp.Compare(p.lanes[1], q.lanes[1]))
	})
	groups := int32(0)
	x.groups = [2][]int32{make([]int32, x.sides[0].lanes), make([]int32, x.sides[1].lanes)}
	of := func(p pair, s int) *int32 { return &x.groups[s][p.lanes[s]] }
	for _, p := range pairs {
		if *of(p, 0) == 0 && *of(p, 1) == 0 {
			groups++
			*of(p, 0), *of(p, 1) = groups, groups
		}
	}
	for _, p := range pairs {
		for s := range 2 {
			if *of(p, s) == 0 {
				*of(p, s) = *of(p, 1-s)
			}
		}
	}
	if x.sides[0].lanes == 1 && x.sides[1].lanes == 1 {
		groups = 1
		x.groups[0][0], x.groups[1][0] = 1, 1
	}
	for s := range 2 {
		for lane := range x.groups[s] {
			if x.groups[s][lane] == 0 {
				groups++
				x.groups[s][lane] = groups
			}
		}
	}
	x.renamed = make([]bool, groups+1)
}

// A ref is an entry with the key by which it is paired.
type ref struct {
	key  uint64
	side uint8
	i    int32
}

// level pairs entries that are not paired yet and have the same key, which is not 0: first where a key has one
// entry in each capture, then the others by their times.
func (x *alignment) level(key func(s, i int) uint64) { x.levelOf(false, key) }

// levelOf is level, or only the first half of it.
func (x *alignment) levelOf(single bool, key func(s, i int) uint64) {
	var refs []ref
	for s, of := range x.sides {
		for i := range of.entries {
			if x.other[s][i] == 0 {
				if k := key(s, i); k != 0 {
					refs = append(refs, ref{k, uint8(s), int32(i)})
				}
			}
		}
	}
	slices.SortFunc(refs, func(p, q ref) int {
		return cmp.Or(cmp.Compare(p.key, q.key), cmp.Compare(p.side, q.side), cmp.Compare(p.i, q.i))
	})
	each := func(found func(a, b []ref)) {
		for rest := refs; len(rest) > 0; {
			na, n := 0, 0
			for n < len(rest) && rest[n].key == rest[0].key {
				if n++; rest[n-1].side == 0 {
					na = n
				}
			}
			if na > 0 && n > na {
				found(rest[:na], rest[na:n])
			}
			rest = rest[n:]
		}
	}
	each(func(a, b []ref) {
		if len(a) == 1 && len(b) == 1 {
			x.pair(a[0].i, b[0].i)
			request := x.sides[0].entries[a[0].i].request
			x.sure[a[0].i] = request == 0 || x.sure[request-1]
		}
	})
	x.usual()
	if single {
		return
	}
	each(func(a, b []ref) {
		if len(a) > 1 || len(b) > 1 {
			x.choose(a, b)
		}
	})
}

// pair pairs the entries with these indexes.
func (x *alignment) pair(a, b int32) {
	x.other[0][a], x.other[1][b] = b+1, a+1
	e, f := &x.sides[0].entries[a], &x.sides[1].entries[b]
	if e.id != f.id && e.id != 0 && f.id != 0 && e.request == 0 {
		x.renamed[x.groups[0][e.lane]] = true
	}
}

// usual computes how the times of the two captures usually differ, in each direction.
func (x *alignment) usual() {
	var diffs [3][]int64
	for i, b := range x.other[0] {
		if b == 0 || !x.sure[i] {
			continue
		}
		if e, f := &x.sides[0].entries[i], &x.sides[1].entries[b-1]; e.at != 0 && f.at != 0 {
			diffs[e.dir] = append(diffs[e.dir], e.at-f.at)
		}
	}
	for dir, list := range diffs {
		if x.timed[dir] = len(list) > 0; x.timed[dir] {
			slices.Sort(list)
			x.shift[dir] = list[len(list)/2]
		}
	}
	if sent, back := diffs[frame.C2U], diffs[frame.U2C]; len(sent) > 0 && len(back) > 0 {
		if x.offset = (sent[len(sent)-1] + back[0]) / 2; sent[len(sent)-1] > back[0] { // seen from the unit
			x.offset = (sent[0] + back[len(back)-1]) / 2
		}
	}
	for dir := range diffs { // one direction stands for another without frames
		for from := range diffs {
			if !x.timed[dir] && len(diffs[from]) > 0 {
				x.shift[dir], x.timed[dir] = x.shift[from], true
			}
		}
	}
}

// expected returns when an entry would be at the other end; false if that is unknown.
func (x *alignment) expected(s int, e *entry) (int64, bool) {
	if e.at == 0 || !x.timed[e.dir] {
		return 0, false
	}
	if s == 0 {
		return e.at - x.shift[e.dir], true
	}
	return e.at + x.shift[e.dir], true
}

const (
	never     = 1e24    // the cost of what cannot be
	slack     = 250e6   // nanoseconds by which times may be off where equal frames are told apart
	maxMatrix = 4 << 20 // pairs of equal frames that are compared
)

// choose pairs as many of several equal entries as there are in both captures, in order, so that they come
// closest to the expected times.
func (x *alignment) choose(a, b []ref) {
	if covered := [2][]ref{x.within(a), x.within(b)}; len(covered[0]) > 0 && len(covered[1]) > 0 {
		a, b = covered[0], covered[1]
	}
	swapped := len(a) > len(b)
	if swapped {
		a, b = b, a
	}
	join := func(i, j int) {
		if swapped {
			x.pair(b[j].i, a[i].i)
		} else {
			x.pair(a[i].i, b[j].i)
		}
	}
	if len(a) == len(b) || len(a)*len(b) > maxMatrix {
		for i := range a {
			join(i, i)
		}
		return
	}
	cost := func(i, j int) float64 {
		e, f := &x.sides[a[i].side].entries[a[i].i], &x.sides[b[j].side].entries[b[j].i]
		at, ok := x.expected(int(a[i].side), e)
		switch {
		case !ok || f.at == 0:
			return 0
		case swapped && x.isLate(b[j].i, e.at), !swapped && x.isLate(a[i].i, f.at):
			return never
		}
		return math.Abs(float64(at - f.at))
	}
	width := len(b) + 1
	took := make([]bool, (len(a)+1)*width)
	before, now := make([]float64, width), make([]float64, width)
	for i := 1; i <= len(a); i++ {
		for j := range now {
			now[j] = math.Inf(1)
			if j < i {
				continue
			}
			now[j] = before[j-1] + cost(i-1, j-1)
			took[i*width+j] = true
			if j > i && now[j-1] <= now[j] {
				now[j], took[i*width+j] = now[j-1], false
			}
		}
		before, now = now, before
	}
	for i, j := len(a), len(b); i > 0; j-- {
		if took[i*width+j] {
			if cost(i-1, j-1) < never {
				join(i-1, j-1)
			}
			i--
		}
	}
}

// isLate reports whether a request had its answer in the first capture before a time in the second one.
func (x *alignment) isLate(i int32, at int64) bool {
	due, answered := x.due[i]
	return answered && x.offset != 0 && at+x.offset > due
}

// within returns the entries whose time the other capture covers.
func (x *alignment) within(list []ref) (kept []ref) {
	for _, r := range list {
		if at, ok := x.expected(int(r.side), &x.sides[r.side].entries[r.i]); !ok || !x.sides[1-r.side].misses(at-slack) || !x.sides[1-r.side].misses(at+slack) {
			kept = append(kept, r)
		}
	}
	return kept
}

// misses reports whether a time is before the capture began or after it ended.
func (s *side) misses(at int64) bool {
	return s.begin != 0 && at < s.begin || s.end != 0 && at > s.end
}

// markAgain marks the entries without another that repeat one that has another.
func (x *alignment) markAgain() {
	for s, of := range x.sides {
		left := map[uint64]bool{}
		for i := range of.entries {
			if x.other[s][i] == 0 {
				left[x.said(s, i)] = false
			}
		}
		for i := range of.entries {
			k := x.said(s, i)
			if _, is := left[k]; is && x.other[s][i] != 0 {
				left[k] = true
			}
		}
		for i := range of.entries {
			x.again[s][i] = x.other[s][i] == 0 && left[x.said(s, i)]
		}
		x.twice[s] = left
	}
}

// said returns the hash of what an entry says, and where.
func (x *alignment) said(s, i int) uint64 {
	e := &x.sides[s].entries[i]
	return mix(e.exact, e.kind, uint64(x.groups[s][e.lane]), uint64(e.dir), uint64(e.request))
}

// cameTwice reports whether a capture has a request more often than the other one. Which of them was paired tells
// nothing of its answers.
func (x *alignment) cameTwice(s int, i int32) bool {
	other := x.other[s][i]
	return x.twice[s][x.said(s, int(i))] || other != 0 && x.twice[1-s][x.said(1-s, int(other-1))]
}

// bracket pairs what has changed so much that only its place is left: entries of one kind between the same two
// pairs. Where ids are kept, they would have been paired by those.
func (x *alignment) bracket() {
	places := [2][]uint64{x.places(0), x.places(1)}
	x.due = map[int32]int64{}
	for i, e := range slices.Backward(x.sides[0].entries) {
		if x.other[0][i] == 0 && e.request > 0 && x.other[0][e.request-1] == 0 && e.at != 0 {
			x.due[e.request-1] = e.at
		}
	}
	x.level(func(s, i int) uint64 {
		e := &x.sides[s].entries[i]
		group := x.groups[s][e.lane]
		if x.again[s][i] || e.request != 0 || e.own || e.id != 0 && !x.renamed[group] {
			return 0
		}
		return mix(e.kind, uint64(group), uint64(e.dir), places[s][i])
	})
}

// places returns for each entry the pairs before and after it, in its direction of its lane.
func (x *alignment) places(s int) []uint64 {
	type way struct {
		lane int32
		dir  frame.Dir
	}
	entries := x.sides[s].entries
	pair := func(i int) uint64 { // by the index in the second capture
		switch {
		case x.other[s][i] == 0:
			return 0
		case s == 0:
			return uint64(x.other[s][i])
		}
		return uint64(i + 1)
	}
	next, list := map[way]uint64{}, make([]uint64, len(entries))
	for i, e := range slices.Backward(entries) {
		at := way{e.lane, e.dir}
		if list[i] = next[at]; pair(i) != 0 {
			next[at] = pair(i)
		}
	}
	last := map[way]uint64{}
	for i := range entries {
		at := way{entries[i].lane, entries[i].dir}
		if list[i] = mix(list[i], last[at]); pair(i) != 0 {
			last[at] = pair(i)
		}
	}
	return list
}

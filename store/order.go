package store

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/wirectl/wirectl/session"
)

// An order is a list of exchanges, and of headings if they are in groups.
type order interface {
	len() int
	at(i int) Spot
	index(at Spot) int
}

// natural is the order with exchanges in flight first, and the newest first in each part, or else
// with the oldest first. It is computed when needed, because few are in flight.
type natural struct {
	*Store
	openOnly, oldest bool
}

func (o *natural) len() int {
	if o.openOnly {
		return len(o.rows.open)
	}
	return int(o.rows.n)
}

func (o *natural) at(i int) Spot {
	open := o.rows.open
	switch {
	case o.oldest && o.openOnly:
		return Spot{Number: open[i]}
	case o.oldest:
		return Spot{Number: uint32(o.rows.base) + 1 + uint32(i)}
	case i < len(open):
		return Spot{Number: open[len(open)-1-i]}
	}
	// The closed exchange that is preceded by i-len(open) closed ones. Every open one that is
	// newer shifts it by one.
	mark := uint32(o.rows.base+o.rows.n) - uint32(i-len(open))
	for j := len(open) - 1; j >= 0 && open[j] >= mark; j-- {
		mark--
	}
	return Spot{Number: mark}
}

func (o *natural) index(at Spot) int {
	open := o.rows.open
	i, found := slices.BinarySearch(open, at.Number)
	switch {
	case o.oldest && o.openOnly && found:
		return i
	case o.oldest && !o.openOnly && !at.Heading:
		return int(int64(at.Number) - 1 - o.rows.base)
	case found:
		return len(open) - 1 - i
	case o.openOnly || at.Heading:
		return 0
	}
	above := int(int64(o.rows.base+o.rows.n) - int64(at.Number))
	return len(open) + above - (len(open) - i)
}

// sorted is a computed order that is kept while it is valid.
type sorted struct {
	*Store
	query   IDsQuery
	version int64
	filter  *Filter
	made    time.Time
	took    time.Duration
	stale   bool // something has changed since it was made
	spots   []Spot
	groups  map[uint32]*Group
	least   uint32              // mark
	below   map[uint32][]uint32 // the listed members of operations
	lower   int                 // the number of these
	nodes   []node              // of the tree of runs, one for each spot
	keys    []sortKey
	spare   []sortKey // of the same length, for sorting
}

func (o *sorted) len() int      { return len(o.spots) }
func (o *sorted) at(i int) Spot { return o.spots[i] }

// index returns the index of a spot. For an exchange that is folded away it returns that of its
// operation, or else of the heading of its group.
func (o *sorted) index(at Spot) int {
	i := slices.Index(o.spots, at)
	r := o.rows.of(at.Number)
	if i >= 0 || at.Heading || r == nil {
		return max(i, 0)
	}
	if o.query.Group == GroupRun {
		return o.above(r)
	}
	op := o.rows.operation(r)
	if i = slices.Index(o.spots, Spot{Number: op.mark}); i < 0 && o.query.Group != Ungrouped {
		i = slices.Index(o.spots, Spot{o.query.Group.of(op), true})
	}
	return max(i, 0)
}

// sort returns the order for a query. It is computed again after changes, but only so often that
// this takes a small part of the time.
func (s *Store) sort(q IDsQuery) order {
	o := &s.sorted
	same := o.spots != nil && o.filter == s.filter && o.query.sameOrder(&q)
	o.stale = o.version != s.version.Load()
	fresh := !o.stale || len(o.spots) > shortOrder && time.Since(o.made) < 20*o.took
	if same && fresh && int64(o.least) > s.rows.base { // no row in it was dropped
		return o
	}
	start := time.Now()
	o.Store, o.query, o.filter, o.version = s, q, s.filter, s.version.Load()
	o.query.Folds, o.query.Unfolded, o.query.Cut = q.Folds.Clone(), q.Unfolded.Clone(), q.Cut.Clone()
	if q.Group == GroupRun {
		o.joinWires()
		o.grow()
	} else {
		o.collect()
		o.arrange()
		o.lay()
	}
	o.made, o.stale = time.Now(), false
	o.took = o.made.Sub(start)
	return o
}

// shortOrder is the length up to which an order is computed again after every change.
const shortOrder = 10_000

// lay makes the list from the sorted keys, below the headings of the groups. A folded group has
// a heading, too.
func (o *sorted) lay() {
	for i := range o.keys {
		o.least = min(o.least, o.keys[i].mark)
	}
	if o.query.Group == Ungrouped {
		o.spots = slices.Grow(o.spots[:0], len(o.keys)+o.lower+1)
		for i := range o.keys {
			o.spots = o.appendSpots(o.spots, o.keys[i].mark)
		}
		return
	}
	// Each group has a range of the list, which is filled in the order of the keys.
	place, n := map[uint32]*int{}, 0
	o.spots = slices.Grow(o.spots[:0], len(o.keys)+o.lower+len(o.groups))[:len(o.keys)+o.lower+len(o.groups)]
	for _, group := range slices.Sorted(maps.Keys(o.groups)) {
		o.spots[n] = Spot{group, true}
		at := n + 1
		place[group] = &at
		n = at + o.groups[group].listed
	}
	var group uint32
	at := new(int)
	for i := range o.keys {
		k := &o.keys[i]
		if k.group != group || i == 0 {
			group, at = k.group, place[k.group]
		}
		*at = len(o.appendSpots(o.spots[:*at], k.mark))
	}
}

// appendSpots appends an operation and its listed members.
func (o *sorted) appendSpots(spots []Spot, mark uint32) []Spot {
	spots = append(spots, Spot{Number: mark})
	for _, m := range o.below[mark] {
		spots = append(spots, Spot{Number: m})
	}
	return spots
}

type sortKey struct {
	key   uint64 // the least comes first
	group uint32
	mark  uint32
}

// arrange sorts by key, and is stable. It is a radix sort, so that a key press does not wait long
// for the order of a million exchanges.
func (o *sorted) arrange() {
	keys := o.keys
	to := slices.Grow(o.spare[:0], len(keys))[:len(keys)]
	for shift := 0; shift < 64; shift += 16 {
		var n [1 << 16]uint32
		for i := range keys {
			n[uint16(keys[i].key>>shift)]++
		}
		if len(keys) == 0 || n[uint16(keys[0].key>>shift)] == uint32(len(keys)) {
			continue // all have the same digit
		}
		at := uint32(0)
		for i, of := range n {
			n[i], at = at, at+of
		}
		for i := range keys {
			x := &n[uint16(keys[i].key>>shift)]
			to[*x] = keys[i]
			*x++
		}
		keys, to = to, keys
	}
	o.keys, o.spare = keys, to
}

// collect collects the keys of the operations to list, the newest first, and counts the members
// of each group, listed or not.
func (o *sorted) collect() {
	q := &o.query
	o.keys, o.groups = slices.Grow(o.keys[:0], int(o.rows.n)), map[uint32]*Group{}
	o.below, o.lower, o.least = map[uint32][]uint32{}, 0, math.MaxUint32
	var g *Group
	for i := o.rows.n - 1; i >= 0; i-- {
		r := &o.rows.chunks[i/chunk][i%chunk]
		if o.filter != nil && !r.hit && !r.hitBelow || !o.isOnTop(r) {
			continue
		}
		n := q.Group.of(r)
		if q.Group != Ungrouped {
			if g == nil || g.Number != n {
				g = o.group(n)
			}
			g.count(r)
		}
		if q.OpenOnly && r.outcome != uint8(session.Open) || g != nil && g.Folded {
			continue
		}
		if r.joined > 0 && q.Unfolded.Has(r.mark) {
			o.unfold(r)
		}
		if g != nil {
			g.listed += 1 + len(o.below[r.mark])
		}
		o.keys = append(o.keys, sortKey{1<<63 - uint64(o.key(r, q.Sort)), n, r.mark})
	}
}

// isOnTop reports whether r is not listed below another: it is an operation, or only open
// exchanges are listed and its operation is over.
func (o *sorted) isOnTop(r *row) bool {
	op := o.rows.operation(r)
	return op == r || o.query.OpenOnly && op.outcome != uint8(session.Open)
}

// unfold lists the members of an operation below it.
func (o *sorted) unfold(op *row) {
	for _, mark := range o.rows.below(op) {
		r := o.rows.of(mark)
		if (o.filter == nil || r.hit) && (!o.query.OpenOnly || r.outcome == uint8(session.Open)) {
			o.below[op.mark] = append(o.below[op.mark], mark)
			o.least = min(o.least, mark)
			o.lower++
		}
	}
}

// group returns the group of that number.
func (o *sorted) group(n uint32) *Group {
	g := o.groups[n]
	if g == nil {
		g = &Group{Number: n, Folded: o.query.Folds.Has(n)}
		switch o.query.Group {
		case GroupKind:
			g.Name = o.kinds.list[n]
		case GroupConn:
			g.Name = fmt.Sprintf("connection %d", n)
			if p := o.peers[int(n)]; p != nil {
				g.Name = o.label(p)
			}
		case GroupRun:
			switch g.Name = "no run"; {
			case o.trackers.Joins && n == 0 && len(o.runs.heads) == 0:
				g.Name = "calls"
			case o.trackers.Joins && n == 0:
				g.Name = "other calls"
			case o.trackers.Joins:
				g.Name, g.Head = o.runs.names[n-1], &o.runs.heads[n-1]
			case n != 0:
				g.Run = o.runs.names[n-1]
				g.Name = "run " + g.Run[:8]
			}
		}
		o.groups[n] = g
	}
	return g
}

func (g *Group) count(r *row) {
	g.Total++
	g.Bytes += r.in + r.out
	g.Found += int64(r.found)
	if r.class > 0 {
		g.Cancelled++
	}
	switch o := session.Outcome(r.outcome); {
	case o == session.Open:
		g.Open++
	case o.Failed():
		g.Failed++
	}
}

// key returns what an exchange is sorted by, the greatest first.
func (s *Store) key(r *row, by Sort) int64 {
	switch by {
	case BySlowest:
		end := r.over()
		if end == 0 {
			end = s.last
		}
		return end - r.opened
	case ByBytes:
		return r.in + r.out
	case ByParts:
		return int64(r.parts)
	case ByTrouble:
		key := int64(r.found) * 8
		if r.class > 0 {
			key += 4 + int64(min(r.class, 3))
		} else if o := session.Outcome(r.outcome); o.Failed() || o == session.Abandoned {
			key += 2
		}
		return key
	case ByArrival:
		return -int64(r.mark)
	}
	if r.outcome == uint8(session.Open) {
		return 1
	}
	return 0
}

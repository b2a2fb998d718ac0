package store

import (
	"math"

	"github.com/wirectl/wirectl/session"
)

// A node is a place in the tree of runs.
type node struct {
	level  int
	parent bool // it has children
}

// parent returns the mark of an exchange's parent in its run, or else of its operation.
func (r *row) parent() uint32 {
	if r.run != 0 {
		return r.under
	}
	return r.of
}

// grow lists runs as trees: below each exchange its children, the oldest first. An exchange is
// listed with all its ancestors.
func (o *sorted) grow() {
	q := &o.query
	o.keys, o.below, o.groups, o.least = o.keys[:0], nil, map[uint32]*Group{}, math.MaxUint32
	// By index of the row: its oldest child, and its next sibling.
	child, next := make([]uint32, o.rows.n), make([]uint32, o.rows.n)
	tops := map[uint32]uint32{} // by group
	for i := o.rows.n - 1; i >= 0; i-- {
		r := &o.rows.chunks[i/chunk][i%chunk]
		if child[i] == 0 && (o.filter != nil && !r.hit || q.OpenOnly && r.outcome != uint8(session.Open)) {
			continue
		}
		g := o.group(r.run)
		g.count(r)
		above := int64(r.parent()) - 1 - o.rows.base
		if above >= 0 && above < i {
			child[above], next[i] = r.mark, child[above]
		} else {
			next[i], tops[r.run] = tops[r.run], r.mark
		}
	}
	o.spots, o.nodes = o.spots[:0], o.nodes[:0]
	var list func(mark uint32, level int)
	list = func(mark uint32, level int) {
		for mark != 0 {
			i := int64(mark) - 1 - o.rows.base
			o.spots, o.nodes = append(o.spots, Spot{Number: mark}), append(o.nodes, node{level, child[i] != 0})
			o.least = min(o.least, mark)
			if !q.Cut.Has(mark) {
				list(child[i], level+1)
			}
			mark = next[i]
		}
	}
	for n := range uint32(len(o.runs.names) + 1) {
		run := (n + 1) % uint32(len(o.runs.names)+1) // exchanges without a run come last
		if o.groups[run] == nil {
			continue
		}
		o.spots, o.nodes = append(o.spots, Spot{run, true}), append(o.nodes, node{})
		if !o.groups[run].Folded {
			list(tops[run], 0)
		}
	}
}

// above returns the index of the nearest listed ancestor of r, or of its heading.
func (o *sorted) above(r *row) int {
	at := map[Spot]int{}
	for i, spot := range o.spots {
		at[spot] = i
	}
	group := r.run
	for r = o.rows.of(r.parent()); r != nil; r = o.rows.of(r.parent()) {
		if i, ok := at[Spot{Number: r.mark}]; ok {
			return i
		}
	}
	return at[Spot{group, true}]
}

package join

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
)

// A Step is a part of a critical path: from From to To, the turn waited for Call and for nothing below it.
type Step struct {
	Call     *calls.Call
	From, To time.Time
}

// CriticalPath returns what made the turns in a tree that [Tree] has returned take so long: their steps
// in the order of time. Of a time between two steps of a turn, no wire tells what it was needed for: the
// agent worked, or waited for its user.
//
// The path of a turn is found from its end. Its last step is the call that ended last. What is before a
// call is that of the following which ended last, but not after the call began:
//
//   - of a call that another one made, that one, and what else it made; if that one had not ended by
//     then, it is that one, up to this time;
//   - of any other call of a turn or an agent, all calls of that turn or agent;
//   - of the first of them, what is before the agent.
//
// A call that lies within the time of the one that made it is a part of it: the path of the outer one
// goes through the calls within it in the same way, and what they leave of its time is its own. So do
// agents. A call that goes on ends with the latest time in the tree. On no path are calls outside of
// turns, those that an agent makes for itself, and commands that go on: they may run in the background.
func CriticalPath(tree []*calls.Call) (steps []Step) {
	var now time.Time
	for _, c := range tree {
		if now.Before(endOf(c)) {
			now = endOf(c)
		}
	}
	for i := 0; i < len(tree); {
		end := i + 1
		for end < len(tree) && tree[end].Place.Depth > 0 {
			end++
		}
		if top := tree[i]; top.Place.Turn || top.Model != "" && top.Place.Own == "" {
			steps = append(steps, pathOf(tree[i:end], now)...)
		}
		i = end
	}
	return steps
}

// A span is a row of a turn, on the time line.
type span struct {
	*calls.Call
	i          int // in the turn
	start, end time.Time
	parent     *span
	within     *span   // the row in whose time it lies
	inner      []*span // the rows that lie within its own, in the order of their ends
	made       []*span // those of them that it made but that do not lie within its time, in the same order
}

// isHead reports whether a row stands for others.
func (s *span) isHead() bool { return s.Call == nil || s.Place.Turn || s.Place.Agent }

// pathOf returns the path of a turn, whose row is the first of rows.
func pathOf(rows []*calls.Call, now time.Time) []Step {
	root := &span{end: now}
	above := []*span{root}
	spans := append(make([]*span, 0, len(rows)+1), root)
	for i, c := range rows {
		depth := min(c.Place.Depth, len(above)-1)
		if c.Outcome == session.Open && specOf(c).Rules.NoWire {
			above = above[:depth+1]
			continue
		}
		if c.Place.Prompt { // what is below it is of its turn
			above = append(above[:depth+1], above[depth])
			continue
		}
		s := &span{Call: c, i: i, start: c.Start, end: endOf(c), parent: above[depth]}
		if c.Outcome == session.Open && s.end.Before(now) {
			s.end = now
		}
		if s.within = s.parent; !s.parent.isHead() && (s.start.Before(s.parent.start) || s.end.After(s.parent.end)) {
			s.within = s.parent.within
			s.parent.made = append(s.parent.made, s)
		}
		s.within.inner = append(s.within.inner, s)
		above, spans = append(above[:depth+1], s), append(spans, s)
	}
	for _, s := range spans {
		for _, list := range [][]*span{s.inner, s.made} {
			slices.SortFunc(list, func(a, b *span) int { return cmp.Or(a.end.Compare(b.end), cmp.Compare(a.i, b.i)) })
		}
	}
	var p path
	p.through(root, now)
	slices.Reverse(p)
	return p
}

// A path is its steps, the last one first.
type path []Step

// through adds the path through a row until a time.
func (p *path) through(s *span, until time.Time) {
	for c, end := s.endsBy(until); c != nil; c, end = c.before() {
		if end.Before(until) {
			p.extend(s, end, until)
		}
		p.through(c, end)
		until = c.start
	}
	p.extend(s, s.start, until)
}

// extend adds a step, unless the row stands for others.
func (p *path) extend(s *span, from, to time.Time) {
	if !s.isHead() {
		*p = append(*p, Step{s.Call, from, to})
	}
}

// endsBy returns the row within s that ended last by a time, and when; nil if there is none.
func (s *span) endsBy(at time.Time) (c *span, end time.Time) {
	if c = lastOf(s.inner, at, math.MaxInt); c != nil {
		end = c.end
	}
	return c, end
}

// before returns what is before a row on the path, and when that ends; nil if there is nothing.
func (s *span) before() (c *span, end time.Time) {
	if s.within == s.parent {
		c = lastOf(s.within.inner, s.start, s.i)
	} else if c = lastOf(s.parent.made, s.start, s.i); !s.parent.start.After(s.start) && (c == nil || c.end.Before(s.parent.end)) {
		if c = s.parent; c.end.After(s.start) {
			return c, s.start
		}
	}
	if c != nil {
		end = c.end
	}
	return c, end
}

// lastOf returns the row of a list that ended last by a time, and at that time is before the row i; nil
// if there is none.
func lastOf(list []*span, at time.Time, i int) *span {
	n := sort.Search(len(list), func(n int) bool { return cmp.Or(list[n].end.Compare(at), cmp.Compare(list[n].i, i)) >= 0 })
	if n == 0 {
		return nil
	}
	return list[n-1]
}

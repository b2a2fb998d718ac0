package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/wirectl/wirectl/session"
)

// A Sort is an order of exchanges.
type Sort uint8

const (
	ByTime     Sort = iota // in flight first, then the newest
	BySlowest              // the longest first
	ByBytes                // the largest first
	ByParts                // those with most parts first
	ByTrouble              // findings and cancels first
	ByConn                 // connection by connection
	ByKind                 // kind by kind
	ByArrival              // the oldest first
	numOfSorts             //
)

var sortNames = [numOfSorts]string{"in flight", "slowest", "bytes", "parts", "trouble", "connection", "kind", "oldest"}

// String returns what people call the order.
func (s Sort) String() string { return sortNames[s%numOfSorts] }

// Next returns the order after this one.
func (s Sort) Next() Sort { return (s + 1) % numOfSorts }

// Groups reports whether exchanges that belong together stand together.
func (s Sort) Groups() bool { return s == ByConn || s == ByKind }

// IDsQuery asks for exchanges.
type IDsQuery struct {
	Sort     Sort
	OpenOnly bool   // without those that are over
	At       uint32 // the mark of the one that is selected; 0 is the first
	Move     int    // that many further
	Line     int    // the line of the screen that it is on, where it stays
	N        int    // as many as fit
}

// IDs are some exchanges in the order asked for.
type IDs struct {
	List  []Exchange
	Top   int // the index of the first
	Total int // in the order
	Index int // of the one that is selected
	At    uint32
}

// IDs returns the exchanges that fit on a screen, the selected one among them.
func (s *Store) IDs(q IDsQuery) IDs {
	s.mu.Lock()
	defer s.mu.Unlock()
	var o order
	if q.Sort == ByTime && s.filter == nil {
		o = &natural{s, q.OpenOnly}
	} else {
		o = s.sort(q)
	}
	out := IDs{Total: o.len()}
	if out.Total == 0 {
		return out
	}
	if q.At != 0 {
		out.Index = o.index(q.At)
	}
	out.Top = max(0, min(out.Index-q.Line, out.Total-q.N))
	out.Index = max(0, min(out.Index+q.Move, out.Total-1))
	out.Top = min(out.Top, out.Index)
	out.Top = max(out.Top, out.Index-q.N+1)
	for i := out.Top; i < min(out.Top+q.N, out.Total); i++ {
		out.List = append(out.List, s.exchange(s.rows.of(o.at(i))))
	}
	out.At = o.at(out.Index)
	return out
}

// An order is a list of marks.
type order interface {
	len() int
	at(i int) uint32
	index(mark uint32) int
}

// natural is the order in which those in flight come first, and then the others,
// each with the newest first. It is not kept anywhere: those in flight are few.
type natural struct {
	*Store
	openOnly bool
}

func (o *natural) len() int {
	if o.openOnly {
		return len(o.rows.open)
	}
	return int(o.rows.n)
}

func (o *natural) at(i int) uint32 {
	open := o.rows.open
	if i < len(open) {
		return open[len(open)-1-i]
	}
	// The closed one with i-len(open) closed ones above it: every open one
	// above it moves it down by one.
	mark := uint32(o.rows.base+o.rows.n) - uint32(i-len(open))
	for j := len(open) - 1; j >= 0 && open[j] >= mark; j-- {
		mark--
	}
	return mark
}

func (o *natural) index(mark uint32) int {
	open := o.rows.open
	i, found := slices.BinarySearch(open, mark)
	switch {
	case found:
		return len(open) - 1 - i
	case o.openOnly:
		return 0
	}
	above := int(int64(o.rows.base+o.rows.n) - int64(mark))
	return len(open) + above - (len(open) - i)
}

// sorted is an order that was made, for as long as it is good.
type sorted struct {
	query   IDsQuery
	version int64
	filter  *Filter
	made    time.Time
	took    time.Duration
	marks   []uint32
}

func (o *sorted) len() int              { return len(o.marks) }
func (o *sorted) at(i int) uint32       { return o.marks[i] }
func (o *sorted) index(mark uint32) int { return max(0, slices.Index(o.marks, mark)) }

// sort returns the order asked for. It is made anew when something has changed,
// but only so often that it takes a small part of the time.
func (s *Store) sort(q IDsQuery) order {
	o := &s.sorted
	same := o.query.Sort == q.Sort && o.query.OpenOnly == q.OpenOnly && o.filter == s.filter && o.marks != nil
	if same && (o.version == s.version.Load() || time.Since(o.made) < 20*o.took) && o.fits(s) {
		return o
	}
	start := time.Now()
	keys := s.keys(q)
	slices.SortFunc(keys, func(a, b sortKey) int {
		return cmp.Or(cmp.Compare(b.key, a.key), cmp.Compare(b.mark, a.mark))
	})
	o.marks = o.marks[:0]
	if o.marks == nil {
		o.marks = []uint32{}
	}
	for _, k := range keys {
		o.marks = append(o.marks, k.mark)
	}
	o.query, o.filter, o.version = q, s.filter, s.version.Load()
	o.made = time.Now()
	o.took = o.made.Sub(start)
	return o
}

// fits reports whether all that is in the order is still there.
func (o *sorted) fits(s *Store) bool {
	return len(o.marks) == 0 || int64(slices.Min(o.marks)) > s.rows.base
}

type sortKey struct {
	key  int64
	mark uint32
}

func (s *Store) keys(q IDsQuery) []sortKey {
	keys := make([]sortKey, 0, s.rows.n)
	for i := range s.rows.n {
		r := &s.rows.chunks[i/chunk][i%chunk]
		if q.OpenOnly && r.outcome != uint8(session.Open) || s.filter != nil && !r.hit {
			continue
		}
		keys = append(keys, sortKey{s.key(r, q.Sort), r.mark})
	}
	return keys
}

// key returns what an exchange is sorted by, the greatest first.
func (s *Store) key(r *row, by Sort) int64 {
	switch by {
	case BySlowest:
		end := r.closed
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
		} else if r.outcome == uint8(session.Failed) || r.outcome == uint8(session.Abandoned) {
			key += 2
		}
		return key
	case ByConn:
		return -int64(r.conn)
	case ByKind:
		return -int64(r.kind)
	case ByArrival:
		return -int64(r.mark)
	}
	if r.outcome == uint8(session.Open) {
		return 1
	}
	return 0
}

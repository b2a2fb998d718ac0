package store

import (
	"maps"
	"slices"

	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/join"
)

// A Sort is an order of exchanges.
type Sort uint8

const (
	ByTime     Sort = iota // in flight first, then the newest
	BySlowest              // the longest first
	ByBytes                // the largest first
	ByParts                // those with most parts first
	ByTrouble              // findings and cancels first
	ByArrival              // the oldest first
	numOfSorts             //
)

// ParseSort returns the order of that name.
func ParseSort(name string) (Sort, bool) {
	i := slices.Index(sortNames[:], name)
	return Sort(max(i, 0)), i >= 0
}

var sortNames = [numOfSorts]string{"in flight", "slowest", "largest", "most parts", "trouble", "oldest"}

// String returns the name of the order.
func (s Sort) String() string { return sortNames[s%numOfSorts] }

// Next returns the order after this one.
func (s Sort) Next() Sort { return (s + 1) % numOfSorts }

// A Grouping groups exchanges below headings.
type Grouping uint8

const (
	Ungrouped Grouping = iota
	GroupKind
	GroupConn
	GroupRun // as a tree: turns, cells, calls, child runs; in the order of time
	numOfGroupings
)

var groupingNames = [numOfGroupings]string{"nothing", "kind", "connection", "run"}

// String returns the name of the grouping.
func (g Grouping) String() string { return groupingNames[g%numOfGroupings] }

// Next returns the grouping after this one.
func (g Grouping) Next() Grouping { return (g + 1) % numOfGroupings }

// of returns the number of an exchange's group.
func (g Grouping) of(r *row) uint32 {
	switch g {
	case GroupKind:
		return uint32(r.kind)
	case GroupConn:
		return r.on
	case GroupRun:
		return r.run
	}
	return 0
}

// A Spot is a row of the list: an exchange, by its mark, or the heading of a group, by its
// number.
type Spot struct {
	Number  uint32
	Heading bool
}

// Spot returns the row's place in the list.
func (x *Exchange) Spot() Spot {
	if x.Group != nil {
		return Spot{x.Group.Number, true}
	}
	return Spot{Number: x.Mark}
}

// A Group is a heading, with counts of the exchanges below it.
type Group struct {
	Number                  uint32
	Name                    string
	Run                     string // the id, if it is a run
	Head                    *Head  // of the tree of an agent's run; else nil
	Folded                  bool
	Total                   int64
	Open, Cancelled, Failed int64
	Found                   int64 // findings
	Bytes                   int64
	listed                  int
}

// Folds are a set of groups or operations: none or all, with exceptions.
type Folds struct {
	All bool
	But map[uint32]bool
}

// Has reports whether a group or an operation is in the set.
func (f *Folds) Has(number uint32) bool { return f.All != f.But[number] }

// Turn adds a group or an operation to the set, or removes it.
func (f *Folds) Turn(number uint32) {
	if f.But == nil {
		f.But = map[uint32]bool{}
	}
	if f.But[number] = !f.But[number]; !f.But[number] {
		delete(f.But, number)
	}
}

// same reports whether they are the same.
func (f *Folds) same(as *Folds) bool { return f.All == as.All && maps.Equal(f.But, as.But) }

// Clone returns a copy.
func (f *Folds) Clone() Folds { return Folds{f.All, maps.Clone(f.But)} }

// IDsQuery asks for exchanges.
type IDsQuery struct {
	Sort     Sort
	Group    Grouping
	Folds    Folds // groups that are folded to their heading
	Unfolded Folds // operations whose members are listed, by mark
	Cut      Folds // grouped by run: exchanges whose children are not listed, by mark
	OpenOnly bool  // only those in flight
	At       Spot  // the selected row; the zero Spot is the first
	Move     int   // that many further
	Line     int   // the line of the screen that it is on, where it stays
	N        int   // as many as fit
}

// sameOrder reports whether two queries ask for the same list.
func (q *IDsQuery) sameOrder(as *IDsQuery) bool {
	return q.Sort == as.Sort && q.Group == as.Group && q.OpenOnly == as.OpenOnly && q.Folds.same(&as.Folds) && q.Cut.same(&as.Cut) && q.Unfolded.same(&as.Unfolded)
}

// IDs are some rows of the list.
type IDs struct {
	List  []Exchange
	Top   int // the index of the first
	Total int // in the order
	Index int // of the selected row
	At    Spot
	Stale bool // the order is about to be computed again
}

// IDs returns the rows that fit on a screen, including the selected one.
func (s *Store) IDs(q IDsQuery) IDs {
	s.mu.Lock()
	defer s.mu.Unlock()
	var o order
	stale := false
	if (q.Sort == ByTime || q.Sort == ByArrival) && q.Group == Ungrouped && s.filter == nil && s.rows.joined == 0 {
		o = &natural{s, q.OpenOnly, q.Sort == ByArrival}
	} else {
		o = s.sort(q)
		stale = s.sorted.stale
	}
	out := IDs{Total: o.len(), Stale: stale}
	if out.Total == 0 {
		return out
	}
	if q.At != (Spot{}) {
		out.Index = o.index(q.At)
	}
	out.Top = max(0, min(out.Index-q.Line, out.Total-q.N))
	out.Index = max(0, min(out.Index+q.Move, out.Total-1))
	out.Top = min(out.Top, out.Index)
	out.Top = max(out.Top, out.Index-q.N+1)
	for i := out.Top; i < min(out.Top+q.N, out.Total); i++ {
		if at := o.at(i); at.Heading {
			out.List = append(out.List, Exchange{Group: s.sorted.groups[at.Number]})
			if q.Group == GroupRun {
				out.List[len(out.List)-1].Level = s.sorted.nodes[i].level
			}
		} else {
			r := s.rows.of(at.Number)
			x := s.exchange(r)
			x.Within = q.Group.of(s.rows.operation(r))
			if q.Group == GroupRun {
				x.Level, x.Parent = s.sorted.nodes[i].level, s.sorted.nodes[i].parent
			}
			out.List = append(out.List, x)
		}
	}
	out.At = o.at(out.Index)
	return out
}

// A Finding is a broken rule, with the mark of the exchange that broke it, if any.
type Finding struct {
	session.Finding
	Time int64 // stamp of its last frame
	Mark uint32
	Do   string // what to do about it
}

// found keeps the last findings.
type found struct {
	list   []Finding
	total  int64
	advice map[string]string
}

const maxFindings = 20_000

func newFound() found {
	f := found{advice: map[string]string{}}
	for _, list := range [][]session.Rule{session.Findings[:], join.Rules[:]} {
		for _, r := range list {
			f.advice[r.Name] = r.Do
		}
	}
	return f
}

func (fs *found) addFinding(s *Store, f session.Finding) {
	fs.total++
	x := Finding{Finding: f, Do: fs.advice[f.Name], Time: s.last}
	for i, seq := range f.Frames {
		e := s.frames.at(seq)
		if e == nil {
			continue
		}
		e.flags |= finding
		x.Time = e.time
		if r := s.rows.of(e.of); r != nil && (x.Mark == 0 || i == 0) {
			x.Mark = e.of
		}
	}
	if r := s.rows.of(x.Mark); r != nil {
		r.own().found++
		s.rows.touch(r)
		if op := s.rows.operation(r); op != r {
			op.own().found++
			s.rows.touch(op)
		}
	}
	fs.list = append(fs.list, x)
	if len(fs.list) > maxFindings {
		fs.list = append(fs.list[:0], fs.list[maxFindings/10:]...)
	}
}

// Findings are some findings of the list, the newest last. A finding keeps its index when
// older ones are dropped.
type Findings struct {
	First, From, Total int // indices of the oldest finding and of the first one of these, and that after the newest
	List               []Finding
}

// Findings returns n findings, starting at that index.
func (s *Store) Findings(from, n int) Findings {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := int(s.findings.total)
	first := total - len(s.findings.list)
	from = max(first, min(from, total-n))
	return Findings{first, from, total, slices.Clone(s.findings.list[from-first : min(from+n, total)-first])}
}

// findingsOf returns the findings about a frame or an exchange.
func (s *Store) findingsOf(seq int64, mark uint32) (list []Finding) {
	for _, f := range s.findings.list {
		if mark != 0 && f.Mark == mark || slices.Contains(f.Frames, seq) {
			list = append(list, f)
		}
	}
	return list
}

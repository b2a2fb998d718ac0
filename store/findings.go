package store

import (
	"slices"

	"github.com/wirectl/wirectl/session"
)

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
	for _, r := range session.Findings {
		f.advice[r.Name] = r.Do
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
		r.found++
		s.rows.touch(r)
		if op := s.rows.operation(r); op != r {
			op.found++
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

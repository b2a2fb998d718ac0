package store

import "github.com/wirectl/wirectl/session"

// A Finding is a rule that was broken, and the exchange that it is about if it
// is about one.
type Finding struct {
	session.Finding
	Time int64 // stamp of its last frame
	Mark uint32
	Do   string // what to do about it
}

// found keeps the last findings.
type found struct {
	list          []Finding
	total, errors int64
	advice        map[string]string
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
	if f.Severity == session.Error {
		fs.errors++
	}
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

// Findings are some of those in the list, the newest last.
type Findings struct {
	From, Total int // of those that are kept
	List        []Finding
}

// Findings returns n findings from the one of that number on.
func (s *Store) Findings(from, n int) Findings {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := len(s.findings.list)
	from = max(0, min(from, total-n))
	return Findings{from, total, append([]Finding(nil), s.findings.list[from:min(from+n, total)]...)}
}

// findingsOf returns what was found about a frame or an exchange.
func (s *Store) findingsOf(seq int64, mark uint32) (list []Finding) {
	for _, f := range s.findings.list {
		about := mark != 0 && f.Mark == mark
		for _, n := range f.Frames {
			about = about || n == seq
		}
		if about {
			list = append(list, f)
		}
	}
	return list
}

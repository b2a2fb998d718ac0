package store

import (
	"github.com/wirectl/wirectl/session"
)

// watcher hears from the trackers, which are fed with the lock held.
type watcher struct{ *Store }

// Changed keeps the row of an exchange.
func (w watcher) Changed(e *session.Exchange, seq int64) {
	s := w.Store
	r := s.rows.of(e.Mark)
	if r == nil {
		if e.Mark != 0 {
			return // dropped
		}
		if r, e.Mark = s.rows.addRow(); r == nil {
			return
		}
		s.openRow(r, e)
	}
	at := s.last
	if f := s.frames.at(seq); f != nil {
		at = f.time
		f.of = e.Mark
		if back := seq - r.last; back > 0 && back < 1<<32 {
			f.before = uint32(back)
		}
		r.last = seq
		r.hit = r.hit || s.filter != nil && s.hits.has(seq)
	} else if s.timed && !e.Closed.IsZero() {
		at = e.Closed.UnixNano() // with its connection
	}
	s.progress(r, e, at)
}

// openRow fills r with a new exchange.
func (s *Store) openRow(r *row, e *session.Exchange) {
	r.conn, r.first, r.last = uint32(e.Conn), e.First, e.Last
	r.opener = uint8(e.Opener)
	r.kind = s.kinds.of([]byte(e.Kind))
	r.id = s.rows.text(e.ID.Text)
	r.opened = s.stamp(e.First)
	if f := s.frames.at(e.First); f != nil {
		r.label = f.label
	}
	if text := s.noted[r.first]; text != "" {
		s.note(r, text)
	}
}

// progress notes what has become of an exchange at a time.
func (s *Store) progress(r *row, e *session.Exchange, at int64) {
	if e.Parts > int64(r.parts) {
		if r.parts == 0 {
			r.firstPart = at
		}
		r.parts, r.lastPart = uint32(e.Parts), at
		s.rows.tick(r, at)
		if r.asked != 0 {
			r.after++
		}
	}
	if r.answered == 0 && e.BytesIn > 0 {
		r.answered = at
	}
	switch was := session.Outcome(r.outcome); {
	case was != e.Outcome:
		if was == session.Open {
			s.rows.closeRow(r.mark)
		}
		r.outcome, r.closed = uint8(e.Outcome), at
	case was != session.Open && e.BytesIn > r.in: // an answer that did not have to come
		r.closed = at
	}
	r.out, r.in = e.BytesOut, e.BytesIn
	r.heldBack = int64(e.HeldBack)
}

// Asked notes a cancel in the row of its target.
func (w watcher) Asked(c *session.Cancel) {
	s := w.Store
	f := s.frames.at(c.TargetSeq)
	if f == nil {
		return
	}
	r := s.rows.of(f.of)
	if r == nil {
		return
	}
	r.asked, r.cancel = s.stamp(c.Seq), c.Seq
	r.class = uint8(c.Class) + 1
	r.after = uint32(c.Parts)
	if c.Class == session.Confirmed {
		r.confirmed = s.last
	}
}

// Found keeps a finding.
func (w watcher) Found(f session.Finding) { w.findings.addFinding(w.Store, f) }

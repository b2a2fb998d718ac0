package store

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

// watcher is the [session.Watcher] of the trackers, which are fed with the lock held.
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
	s.rows.touch(r)
	r.assumed = e.Assumed
	if e.Of != 0 && r.of == 0 {
		if op := s.rows.of(e.Operation().Mark); op != nil && op != r {
			s.rows.join(op, r)
		}
		r.guessed = e.Guessed
	} else if e.Of == 0 && r.of != 0 {
		if op := s.rows.of(r.of); op != nil {
			s.rows.leave(op, r)
		}
	}
	at := s.last
	if f := s.frames.at(seq); f != nil {
		at = f.time
		if r.outcome == uint8(session.Open) && e.Outcome.Stopped() {
			r.cut = s.timed && e.Closed.IsZero() || !s.timed && f.dir() == e.Opener
		}
		f.of = e.Mark
		op := s.rows.operation(r)
		if back := seq - op.last; back > 0 && back < 1<<32 {
			f.before = uint32(back)
		}
		r.last, op.last = seq, max(op.last, seq)
		if s.filter != nil && s.hits.has(seq) {
			s.rows.matched(r)
		}
	} else if s.timed && !e.Closed.IsZero() {
		at = e.Closed.UnixNano() // it ended with its connection
	}
	s.offer.Changed(e, seq)
	s.progress(r, e, at)
	// An exchange that ends by a cancel has no time, and one that ends with its connection has
	// no frame.
	r.ended = r.ended || !e.Closed.IsZero() && (seq != 0 || e.Outcome == session.Failed) && e.Outcome != session.Abandoned
	if e.Usage != (protocol.Usage{}) {
		s.rows.use(r.mark, e.Usage)
	}
	if e.Model != "" {
		s.rows.setAnswer(r.mark, e)
		s.rows.longest = max(s.rows.longest, utf8.RuneCountInString(e.Name)+spoken)
	}
}

// spoken is how many characters of a model's answer should fit.
const spoken = 28

// openRow fills r with a new exchange.
func (s *Store) openRow(r *row, e *session.Exchange) {
	r.conn, r.first, r.last = uint32(e.Conn), e.First, e.Last
	r.opener = uint8(e.Opener)
	r.kind = s.kinds.of([]byte(e.Kind))
	r.id = s.rows.keepText(e.ID.Text)
	r.opened = s.stamp(e.First)
	r.spoken = s.spokenOf(e.Protocol)
	r.version = s.versions.of([]byte(e.Version))
	s.placeRow(r, e)
	s.rows.longest = max(s.rows.longest, utf8.RuneCountInString(cmp.Or(e.Name, e.Kind)))
}

// spokenOf returns the number of a protocol.
func (s *Store) spokenOf(p protocol.Protocol) uint8 {
	i := slices.Index(s.spoken, p)
	if i < 0 {
		i = len(s.spoken)
		s.spoken = append(s.spoken, p)
	}
	return uint8(i)
}

// failures returns 1 for the outcome of a failed exchange, and else 0.
func failures(o session.Outcome) int64 {
	if o.Failed() {
		return 1
	}
	return 0
}

// progress updates the row of an exchange that changed at a time.
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
	if e.Reason != "" && r.reason == 0 {
		r.reason = s.rows.keepText([]byte(e.Reason)) + 1
	}
	switch was := session.Outcome(r.outcome); {
	case was != e.Outcome:
		if was == session.Open {
			s.rows.closeRow(r.mark)
		}
		if s.rows.operation(r) == r {
			s.rows.failed += failures(e.Outcome) - failures(was)
		}
		r.outcome, r.closed = uint8(e.Outcome), at
	case was != session.Open && e.BytesIn > r.in && (!s.timed || e.Closed.UnixNano() >= at): // an answer that did not have to come
		r.closed = at
	}
	if r.name == 0 && e.Name != "" {
		r.name = s.rows.keepText([]byte(e.Name)) + 1
	}
	r.out, r.in = e.BytesOut, e.BytesIn
}

// Asked notes a cancel in the row of its target.
func (w watcher) Asked(c *session.Cancel) {
	s := w.Store
	f := s.frames.at(c.TargetSeq)
	if f == nil {
		return
	}
	r := s.rows.of(f.of)
	if r == nil || r.class == uint8(session.Confirmed)+1 {
		return // it was cancelled before: another cancel changes nothing
	}
	s.rows.touch(r)
	r.asked, r.cancel = s.stamp(c.Seq), c.Seq
	r.class = uint8(c.Class) + 1
	r.after = uint32(c.Parts)
	if c.Reason != "" && r.reason == 0 {
		r.reason = s.rows.keepText([]byte(c.Reason)) + 1
	}
	if c.Class == session.Confirmed {
		r.confirmed = s.last
	}
}

// Found keeps a finding.
func (w watcher) Found(f session.Finding) { w.findings.addFinding(w.Store, f) }

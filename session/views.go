package session

import (
	"iter"
	"time"
)

// Exchanges yields the exchanges of the history, in the order in which they
// were settled, and then those that are open, in the order of opening.
func (t *Tracker) Exchanges() iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		_ = t.settled.all(yield) && t.live.all(yield)
	}
}

// Cancels yields the ledger of cancellations in the order of asking, as far
// back as the history goes.
func (t *Tracker) Cancels() iter.Seq[*Cancel] {
	return func(yield func(*Cancel) bool) { t.cancels.all(yield) }
}

// Overdue yields the open exchanges without a sign of life since a time, each once. Those
// that need no end are left out.
func (t *Tracker) Overdue(since time.Time) iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		if t.base.Streamed {
			return
		}
		for n := t.live.first; n != nil && !n.of.Opened.After(since); n = n.next {
			e := n.of
			if t.rules = e.rules; e.overdue || e.Opened.IsZero() || !e.Accepted.IsZero() || e.Answered.After(since) || e.LastPart.After(since) || t.isEndless(e) {
				continue
			}
			e.overdue = true
			if !yield(e) {
				return
			}
		}
	}
}

// Findings yields the findings, the oldest first, as far back as the history goes.
func (t *Tracker) Findings() iter.Seq[Finding] { return t.findings.all }

// Stats returns the counts so far. The kinds are the tracker's own and valid
// until the next Feed or End.
func (t *Tracker) Stats() Stats {
	t.countModel()
	s := Stats{
		Frames: t.frames, Bytes: t.bytes,
		Opened: t.opened, InFlight: int64(t.live.len), Forgotten: t.forgotten,
		Usage: t.used, Cancels: t.classes, Findings: make(map[string]int64), Kinds: t.kindOrder, Models: t.models,
	}
	for r, n := range t.found {
		if n > 0 {
			s.Findings[Findings[r].Name] = n
		}
	}
	for n := t.cancels.first; n != nil; n = n.next {
		if n.of.Class == Pending {
			s.Cancels[Pending]++
		}
	}
	return s
}

package session

import (
	"iter"
	"time"
)

// Exchanges yields the exchanges of the history in the order in which they were settled, then
// the open ones in the order of opening.
func (t *Tracker) Exchanges() iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		_ = t.settled.all(yield) && t.live.all(yield)
	}
}

// Cancels yields the ledger of cancellations in the order of asking, limited to the history.
func (t *Tracker) Cancels() iter.Seq[*Cancel] {
	return func(yield func(*Cancel) bool) { t.cancels.all(yield) }
}

// Overdue yields the open exchanges with no activity since a time, each only once. It omits
// those that need no end.
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

// InFlight returns how many exchanges are open.
func (t *Tracker) InFlight() int { return t.live.len }

// Findings yields the findings, oldest first, limited to the history.
func (t *Tracker) Findings() iter.Seq[Finding] { return t.findings.all }

// Stats returns the counts so far. The kinds belong to the tracker and are valid until the next
// Feed or End.
func (t *Tracker) Stats() Stats {
	t.countModel()
	s := Stats{
		Frames: t.frames, Bytes: t.bytes,
		Opened: t.opened, InFlight: int64(t.InFlight()), Forgotten: t.forgotten,
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

package session

import "iter"

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

// Findings yields what was found, the oldest first, as far back as the history
// goes.
func (t *Tracker) Findings() iter.Seq[Finding] { return t.findings.all }

// Stats returns the counts so far. The kinds are the tracker's own and valid
// until the next Feed or End.
func (t *Tracker) Stats() Stats {
	s := Stats{
		Frames: t.frames, Bytes: t.bytes,
		Opened: t.opened, InFlight: int64(t.live.len), Forgotten: t.forgotten,
		Cancels: t.classes, Findings: make(map[string]int64), Kinds: t.kindOrder,
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

package session

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
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

// A Snapshot is what a tracker knew at one time. It shares nothing with the
// tracker, so that another goroutine may read it.
type Snapshot struct {
	Stats     Stats
	Exchanges []*Exchange // in the order of their first frames
	Cancels   []*Cancel
	Findings  []Finding
}

// Snapshot copies everything that the tracker keeps.
func (t *Tracker) Snapshot() *Snapshot {
	s := &Snapshot{Stats: t.Stats(), Findings: slices.Collect(t.Findings())}
	s.Stats.Kinds = nil
	for _, k := range t.kindOrder {
		c := *k
		s.Stats.Kinds = append(s.Stats.Kinds, &c)
	}
	for e := range t.Exchanges() {
		s.Exchanges = append(s.Exchanges, e.Clone())
	}
	slices.SortStableFunc(s.Exchanges, func(a, b *Exchange) int { return cmp.Compare(a.First, b.First) })
	for c := range t.Cancels() {
		s.Cancels = append(s.Cancels, c.clone())
	}
	return s
}

func (c *Cancel) clone() *Cancel {
	k := *c
	k.Target.Text = bytes.Clone(c.Target.Text)
	k.kind, k.of, k.node = nil, nil, node[Cancel]{}
	return &k
}

package session

import "github.com/wirectl/wirectl/protocol"

// A spending is what a message says was used since the last one that said it.
type spending struct {
	usage protocol.Usage
	cost  int64
}

// maxSpent bounds how many sessions and threads are remembered of which it is known what
// they have used.
const maxSpent = 1 << 12

// spendingOf returns what a message says was used. Totals are compared with those of the
// message before.
func (t *Tracker) spendingOf(ev *event) spending {
	m := ev.m
	now := m.Spent
	if now.Of.IsZero() {
		return spending{usage: m.Usage}
	}
	at := t.keyOf(ev.scope, ev.from, now.Of)
	if now.Anew {
		delete(t.spent, at)
		return spending{}
	}
	before := t.spent[at]
	s := spending{usage: m.Usage}
	switch {
	case now.Usage == protocol.Usage{}:
		now.Usage = before.Usage
	case before.Usage != protocol.Usage{}:
		s.usage = protocol.Usage{
			Input:  max(0, now.Usage.Input-before.Usage.Input),
			Cached: max(0, now.Usage.Cached-before.Usage.Cached),
			Output: max(0, now.Usage.Output-before.Usage.Output),
		}
	}
	if now.Cost == 0 {
		now.Cost = before.Cost
	}
	s.cost = max(0, now.Cost-before.Cost)
	if t.rules.Totals && (now.Cost < before.Cost || now.Usage.Input < before.Usage.Input || now.Usage.Output < before.Usage.Output) {
		t.report(totalFalls, ev.f, nil, "%s tells less than was used before", ev.kind.Name)
	}
	if t.spent == nil || len(t.spent) >= maxSpent {
		t.spent = make(map[key]protocol.Spent)
	}
	now.Of.Text = nil // it borrows
	t.spent[at] = now
	return s
}

// use adds what was used to an operation, and to all that was.
func (t *Tracker) use(op *Exchange, s spending) {
	for _, u := range []*protocol.Usage{&op.Usage, &t.used} {
		u.Input += s.usage.Input
		u.Cached += s.usage.Cached
		u.Output += s.usage.Output
	}
	op.Cost += s.cost
}

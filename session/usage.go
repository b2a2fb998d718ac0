package session

import "github.com/wirectl/wirectl/protocol"

// maxSpent bounds for how many sessions and threads the usage is remembered.
const maxSpent = 1 << 12

// usageOf returns the usage since the last message that reported it. A total is compared with
// that of the message before.
func (t *Tracker) usageOf(ev *event) protocol.Usage {
	if ev.m.Spent.Of.IsZero() {
		return ev.m.Usage
	}
	used, all := ev.m.Usage, ev.m.Spent.Usage
	at := t.keyOf(ev.scope, ev.from, ev.m.Spent.Of)
	if ev.m.Spent.Anew {
		delete(t.spent, at)
		return protocol.Usage{}
	}
	before := t.spent[at]
	if all.Cost == 0 {
		all.Cost = before.Cost
	}
	since := all.Minus(before)
	switch {
	case all == protocol.Usage{Cost: all.Cost}: // no tokens reported
		all.Input, all.Cached, all.Output = before.Input, before.Cached, before.Output
		used.Cost = since.Cost
	case before == protocol.Usage{Cost: before.Cost}: // none reported before
		if used.Cost == 0 {
			used.Cost = since.Cost
		}
	default:
		used = since
	}
	if t.rules.Totals && (all.Cost < before.Cost || all.Input < before.Input || all.Output < before.Output) {
		t.report(totalFalls, ev.f, nil, "%s reports less usage than before", ev.kind.Name)
	}
	if t.spent == nil || len(t.spent) >= maxSpent {
		t.spent = make(map[key]protocol.Usage)
	}
	t.spent[at] = all
	return used
}

// use adds a usage to an operation and to the total.
func (t *Tracker) use(op *Exchange, u protocol.Usage) {
	if u == (protocol.Usage{}) {
		return
	}
	op.Usage, t.used = op.Usage.Plus(u), t.used.Plus(u)
	if op.settled && op != t.uncounted && u != (protocol.Usage{}) {
		if m := t.modelOf(op); m != nil {
			m.Usage = m.Usage.Plus(u)
		}
	}
}

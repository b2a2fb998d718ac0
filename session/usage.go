package session

import "github.com/wirectl/wirectl/protocol"

// maxSpent bounds for how many sessions and threads the usage is remembered.
const maxSpent = 1 << 12

// usageOf returns the usage since the last message that reported it. A total is compared with
// that of the message before.
func (t *Tracker) usageOf(ev *event) protocol.Usage {
	if ev.m.Spent.Of.IsZero() {
		return t.counted(ev)
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
	t.spend(at, all)
	return used
}

// counted returns the usage of a message that may count all of its session so far. If that is
// unclear, only the growth since the last message is certain.
func (t *Tracker) counted(ev *event) protocol.Usage {
	u := ev.m.Usage
	switch ev.m.Counts {
	case protocol.PeerCountsTurn, protocol.PeerCountsSession:
		ev.scope.counts = ev.m.Counts
	case protocol.CountsAsAgreed:
		if at, ok := t.sessionOf(ev); ok && ev.scope.counts != protocol.PeerCountsTurn && u != (protocol.Usage{}) {
			return t.grown(ev.scope, at, u)
		}
	}
	return u
}

// grown returns how much the usage of a session has grown to u, and how much more its last turn
// may have used. A usage that falls cannot be that of a session.
func (t *Tracker) grown(s *scope, at key, u protocol.Usage) protocol.Usage {
	before, known := t.spent[at]
	t.spend(at, u)
	grown := u.Minus(before)
	switch {
	case !known: // nobody knows what the session had used before
		grown = protocol.Usage{}
	case s.counts == protocol.PeerCountsSession:
		return grown
	case u.Input < before.Input || u.Output < before.Output:
		s.counts = protocol.PeerCountsTurn
		return u
	}
	more := u.Minus(grown)
	grown.Perhaps = protocol.Tokens{Input: more.Input, Cached: more.Cached, Output: more.Output}
	return grown
}

// sessionOf returns the name of the session of a message, or of the request that it answers.
func (t *Tracker) sessionOf(ev *event) (at key, ok bool) {
	if ev.m.Ref.Space == protocol.SpaceSession {
		return t.keyOf(ev.scope, ev.from.Opposite(), ev.m.Ref), true
	}
	e := t.findExchange(ev.scope, ev.from.Opposite(), ev.m.ID)
	if e == nil || e.bindings[bySecond].queue == nil {
		return key{}, false
	}
	return e.bindings[bySecond].queue.key, true
}

// spend notes what a session or thread has used.
func (t *Tracker) spend(at key, u protocol.Usage) {
	if t.spent == nil || len(t.spent) >= maxSpent {
		t.spent = make(map[key]protocol.Usage)
	}
	t.spent[at] = u
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

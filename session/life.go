package session

import (
	"time"

	"github.com/wirectl/wirectl/frame"
)

func (t *Tracker) openExchange(ev *event) *Exchange {
	f, m := ev.f, ev.m
	e := t.newExchange()
	t.serial++
	t.opened++
	e.Conn, e.Stream, e.Opener = f.Conn, f.Stream, ev.from
	e.ID.Space, e.ID.Text = m.ID.Space, append(e.ID.Text, clip(m.ID.Text, maxText)...)
	e.Kind, e.kind = ev.kind.Name, t.lastKind // ev.kind; taken from ev, all of it would escape
	e.Opened, e.BytesOut, e.First = f.Time, int64(f.Size), f.Seq
	e.serial, e.count = t.serial, m.Count
	e.saw(f)
	e.kind.Outcomes[Open]++
	t.live.push(&e.node, e)
	t.name(ev, e)
	if t.live.len > t.inFlight {
		t.forget(t.live.oldest())
	}
	return e
}

// more handles more of the request of an exchange that is open, and returns
// that.
func (t *Tracker) more(ev *event) *Exchange {
	e := t.findExchange(ev.scope, ev.from, ev.m.ID)
	if e == nil || e.settled {
		return nil
	}
	e.saw(ev.f)
	e.BytesOut += int64(ev.f.Size)
	return e
}

// name binds the names of e to it.
func (t *Tracker) name(ev *event, e *Exchange) {
	t.table.bind(&e.bindings[0], e, t.anonymousKey(ev.scope, ev.from), nil)
	if !ev.m.ID.IsZero() {
		k := t.keyOf(ev.scope, ev.from, ev.m.ID)
		q := t.table.bind(&e.bindings[1], e, k, ev.m.ID.Text)
		if q.exchanges.len > 1 && t.rules.UniqueIDs {
			first := q.exchanges.oldest()
			t.report(duplicateID, ev.f, []int64{first.First}, "%s %s is still open as a %s", e.Kind, quote(e.ID), first.Kind)
		}
	}
	if !ev.m.Bind.IsZero() {
		t.table.bind(&e.bindings[2], e, t.keyOf(ev.scope, ev.from, ev.m.Bind), ev.m.Bind.Text)
	}
}

// settle moves an open exchange into the history. Its names stay bound, so that late
// messages are recognized, unless open exchanges have them too.
func (t *Tracker) settle(e *Exchange) {
	e.node.remove()
	e.settled = true
	if e.cancel != nil {
		t.waiting++
	}
	for i := range e.bindings {
		if q := e.bindings[i].queue; q != nil && q.exchanges.len > 1 {
			t.table.unbind(&e.bindings[i])
		}
	}
	t.settled.push(&e.node, e)
	if t.settled.len > t.history {
		t.retire(t.settled.oldest())
	}
}

// retire drops an exchange from the history, for use again.
func (t *Tracker) retire(e *Exchange) {
	t.silence(e)
	for i := range e.bindings {
		t.table.unbind(&e.bindings[i])
	}
	e.node.remove()
	e.reset()
	t.free.push(&e.node, e)
}

// newExchange returns an empty exchange, reusing the memory of a settled one if there is
// any.
func (t *Tracker) newExchange() *Exchange {
	e := t.free.oldest()
	if e == nil {
		return new(Exchange)
	}
	e.node.remove()
	return e
}

// forget gives up the exchange that has been open longest. Nothing more will be reported
// about it.
func (t *Tracker) forget(e *Exchange) {
	t.forgotten++
	if e.cancel != nil {
		t.classify(e.cancel, Silent)
	}
	e.become(Abandoned)
	e.kind.streamed(e)
	t.settle(e)
	t.changed(e, 0)
}

// abandon ends an exchange with its connection, whose direction first ended first.
func (t *Tracker) abandon(e *Exchange, first frame.Dir, at time.Time) {
	e.Closed = at
	outcome := Abandoned
	switch {
	case t.silence(e):
	case t.rules.LeavingCancels && first != frame.DirUnknown && first == e.Opener:
		outcome = Cancelled
	case t.judges() && !t.isSubscription(e):
		t.reportUnanswered(e, first)
	}
	e.become(outcome)
	e.kind.streamed(e)
	t.settle(e)
	t.changed(e, 0)
}

func (t *Tracker) reportUnanswered(e *Exchange, first frame.Dir) {
	r, severity := unanswered, Error
	switch {
	case t.rules.Final:
		r = noFinal
	case t.rules.MayLeave, t.rules.MayHangUp && (first == frame.DirUnknown || first == e.Opener):
		severity = Note
	}
	t.addFinding(r, severity, e.Conn, []int64{e.First}, e.Kind+" "+quote(e.ID)+" was open when the connection ended")
}

// endWaiting settles the cancels of a connection that has ended.
func (t *Tracker) endWaiting(conn int) {
	for n := t.settled.first; n != nil; n = n.next {
		if n.of.Conn == conn {
			t.silence(n.of)
		}
	}
}

package session

import (
	"bytes"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

func (t *Tracker) openExchange(ev *event) *Exchange {
	f, m := ev.f, ev.m
	if t.live.len >= t.inFlight {
		t.forget(t.live.oldest())
	}
	e := t.newExchange()
	t.serial++
	t.opened++
	e.Protocol = t.protocol
	e.Conn, e.Stream, e.Opener = f.Conn, f.Stream, ev.from
	e.ID.Space, e.ID.Text = m.ID.Space, append(e.ID.Text, clip(m.ID.Text, maxText)...)
	e.Kind, e.kind = ev.kind.Name, t.lastKind // lastKind is ev.kind; using ev here would make it escape
	e.Opened, e.BytesOut, e.First = f.Time, int64(f.Size), f.Seq
	e.serial, e.count, e.rules, e.batch = t.serial, m.Count, t.rules, f.batch
	if f.Stated != nil && f.Version == "" && t.rules.StatesVersion {
		t.report(unstatedVersion, f, nil, "the headers of %s do not state version %s", e.Kind, m.Version)
	}
	e.about = !m.Operation.Of.IsZero()
	e.own, e.empties = m.Queue.Own != nil, m.Queue.Empties
	if t.isTurn(m.ID) && m.Queue.Own == nil {
		t.settleAnswered(ev.scope, f.Time, false)
	}
	if contains(t.rules.Streams, m.Kind) {
		e.stream = &stream{open: true}
	}
	e.carried, e.endless, e.cut = f.Framing == nil, f.Endless, f.cut
	e.Version = ev.scope.version
	if len(m.Version) > 0 {
		e.Version = t.version
	}
	e.saw(f)
	e.ofModel(f, m)
	e.Prompt = f.Prompt
	e.kind.Outcomes[Open]++
	t.setName(e, m.Label, f.Size)
	t.live.push(&e.node, e)
	t.name(ev, e)
	t.retrying(ev, e)
	return e
}

// setName sets the name of an open exchange. The request has the given size.
func (t *Tracker) setName(e *Exchange, label []byte, size int) {
	label = clip(t.unescaped(label), maxText)
	if e.named = t.nameOf(e.kind, label); e.named == nil {
		e.Name = string(label) // too many names to count
		return
	}
	e.Name = e.named.Name
	e.named.Outcomes[Open]++
	e.named.Frames++
	e.named.Bytes += int64(size)
}

// more handles another part of the request of an open exchange, and returns the exchange.
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
	ev.scope.age(ev.from).bind(&e.bindings[byAge], e)
	if !ev.m.ID.IsZero() {
		k := t.keyWithin(ev, ev.from)
		q := t.table.bind(&e.bindings[byID], e, k, ev.m.ID.Text)
		if first := q.exchanges.oldest(); first != e && t.rules.UniqueIDs && len(q.text) > 0 && first.Accepted.IsZero() {
			t.report(duplicateID, ev.f, []int64{first.First}, "%s %s is still open as a %s", e.Kind, quote(e.ID), first.Kind)
		}
	}
	if !ev.m.Within.IsZero() {
		t.nameWithin(ev, e)
	}
	if !ev.m.Bind.IsZero() {
		t.table.bind(&e.bindings[bySecond], e, t.keyOf(ev.scope, ev.from, ev.m.Bind), ev.m.Bind.Text)
	}
}

// settle moves an open exchange into the history. Its names stay bound, so that late messages
// are recognized, unless open exchanges also have them.
func (t *Tracker) settle(e *Exchange) {
	t.live.remove(&e.node)
	e.settled = true
	if e.cancel != nil {
		t.waiting++
	}
	for i := range e.bindings {
		if q := e.bindings[i].queue; q != nil && q.exchanges.len > 1 {
			t.table.unbind(&e.bindings[i])
		}
	}
	t.countModel()
	t.uncounted, e.Said = e, nil
	t.settled.push(&e.node, e)
}

// retire drops an exchange from the history.
func (t *Tracker) retire(e *Exchange) {
	t.silence(e)
	for i := range e.bindings {
		t.table.unbind(&e.bindings[i])
	}
	t.settled.remove(&e.node)
}

// newExchange returns an empty exchange. If the history is full, that is its oldest one.
func (t *Tracker) newExchange() *Exchange {
	if t.settled.len <= t.history {
		return new(Exchange)
	}
	e := t.settled.oldest()
	t.retire(e)
	e.reset()
	return e
}

// forget drops the exchange that has been open longest. Nothing more is reported about it.
func (t *Tracker) forget(e *Exchange) {
	t.forgotten++
	if e.cancel != nil {
		t.classify(e.cancel, Silent)
	}
	e.become(Abandoned)
	e.over()
	t.settle(e)
	t.changed(e, 0)
}

// unescaped returns a label without the JSON escapes with which it was written.
func (t *Tracker) unescaped(label []byte) []byte {
	if t.protocol.Encoding() != protocol.JSON || bytes.IndexByte(label, '\\') < 0 {
		return label
	}
	text, _ := jsonscan.Unquote(slices.Concat([]byte(`"`), label, []byte(`"`)))
	return text
}

// Miss records that a message in a direction of a connection could not be read. It may have
// answered any open exchange, so none of them is reported as unanswered or cancelled when the
// connection ends.
func (t *Tracker) Miss(conn int, dir frame.Dir) {
	scopes := t.conns[conn]
	if scopes == nil {
		return
	}
	for n := scopes.first; n != nil; n = n.next {
		for e := range t.inFlightOf(n.of, dir.Opposite()) {
			e.missed = true
		}
	}
}

// isEndless reports whether an exchange need not have an end.
func (t *Tracker) isEndless(e *Exchange) bool {
	return e.endless || t.isSubscription(e) || slices.Contains(t.rules.Endless, e.Kind)
}

// abandon ends an exchange of s whose connection has ended.
func (t *Tracker) abandon(s *scope, e *Exchange, d *death, at time.Time) {
	first := d.First
	left := e.streams() && e.answers > 0 && first != e.Opener.Opposite() // the reader of a stream may leave it
	died := !left && !e.missed && e.Reason != Garbled && d.ends(t, s, e)
	e.endStream()
	e.Closed = at
	outcome := Abandoned
	switch {
	case e.lacking != nil && !t.rules.Polls:
		t.lack(s, e, e.lacking)
		return
	case !d.exited() && t.outlives(e):
		return
	case t.silence(e):
	case e.Reason == Garbled:
		outcome = Failed
	case e.missed:
		e.Reason = MaybeOverLimit
	case !e.Accepted.IsZero() && !contains(t.rules.Accepted, []byte(e.Kind)): // nobody continued it
	case t.rules.LeavingCancels && first != frame.DirUnknown && first == e.Opener:
		outcome = e.cancelled()
	case !t.judges() || t.isEndless(e) || left || t.endsOpen(s, d):
	case died && !t.rules.Final && !t.rules.Streamed: // otherwise its final message, or the rest of its stream, is missing
		d.addOpen(e)
	default:
		t.reportUnanswered(e, first)
	}
	if died {
		if outcome = Died; t.rules.Streamed {
			e.Reason = "the unit closed the connection"
		}
	}
	e.become(outcome)
	e.over()
	t.settle(e)
	t.changed(e, 0)
}

func (t *Tracker) reportUnanswered(e *Exchange, first frame.Dir) {
	r, severity := unanswered, Error
	switch {
	case t.rules.Streamed && !t.rules.Final && first == e.Opener.Opposite(): // it broke the stream off
	case t.rules.Final:
		r = noFinal
		if first == e.Opener && first != frame.DirUnknown || t.rules.MayHangUp && first == frame.DirUnknown { // the requester did not wait for it
			severity = Note
		}
	case t.rules.MayLeave, t.rules.MayHangUp && (first == frame.DirUnknown || first == e.Opener):
		severity = Note
	}
	t.addFinding(r, severity, e.Conn, []int64{e.First}, e.Kind+" "+quote(e.ID)+" was open when the connection ended")
}

// endWaiting settles the pending cancels of a connection that has ended.
func (t *Tracker) endWaiting(conn int) {
	for n := t.settled.first; n != nil; n = n.next {
		if n.of.Conn == conn {
			t.silence(n.of)
		}
	}
}

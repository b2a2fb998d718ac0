package session

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
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
	e.Absent = f.Absent
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
	e.Context, e.Mask = f.Context, t.mask
	if t.keeps {
		e.Arguments = append(e.Arguments, Arguments(m)...)
	}
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

// Miss records that a message in a direction of a connection could not be read, and why. It may
// have answered any open exchange, so none of them is reported as unanswered or cancelled when the
// connection ends.
func (t *Tracker) Miss(conn int, dir frame.Dir, why string) {
	scopes := t.conns[conn]
	if scopes == nil {
		return
	}
	for n := scopes.first; n != nil; n = n.next {
		for e := range t.inFlightOf(n.of, dir.Opposite()) {
			e.missed = why
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
	died := !left && e.missed == "" && e.Reason != Garbled && d.ends(t, s, e)
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
	case e.missed != "":
		e.Reason = e.missed
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

// An Ending describes how a connection ended.
type Ending struct {
	// First is the direction that ended first, if known.
	First frame.Dir
	// Died means that the unit ended the connection by itself, so that nothing can be
	// answered any more. How describes how the unit ended, such as "exited with status 3";
	// "" if only its end is known. Stderr has the last lines that it wrote to standard
	// error.
	Died   bool
	How    string
	Stderr []string
	// Shared means that answers can come on other connections, unless the protocol binds
	// them to this one.
	Shared bool
}

// mostCalls bounds how many open calls a finding names.
const mostCalls = 8

// A death collects the exchanges that a unit left open.
type death struct {
	*Ending
	open   int
	frames []int64
	calls  []string
}

// ends reports whether the open exchange e ends because the unit that should answer it died. An
// exchange that waits for a retry waits for the controller. A unit may begin turns of its own.
func (d *death) ends(t *Tracker, s *scope, e *Exchange) bool {
	owed := e.Opener == frame.C2U || t.rules.OneSided || t.isTurn(e.ID)
	return d.Died && (t.rules.Streamed || !d.Shared) && !s.dismissed && !t.endsOpen(s, d) && owed && !t.isEndless(e) && !e.goesOnAs(protocol.SpaceRetry)
}

// endsOpen reports whether a connection ends with its session, in which requests may be open.
func (t *Tracker) endsOpen(s *scope, d *death) bool {
	return t.rules.EndsOpen && (s.dismissed || d.Died && d.How == "")
}

// exited reports whether the process of the unit is known to have exited, so that all of its
// work ended too.
func (d *death) exited() bool { return d.Died && d.How != "" }

// addOpen adds a request that was left open.
func (d *death) addOpen(e *Exchange) {
	if d.open++; len(d.calls) < mostCalls {
		d.calls = append(d.calls, e.Title())
		d.frames = append(d.frames, e.First)
	}
}

// reportDeath reports the exchanges that a unit left open, if there are any.
func (t *Tracker) reportDeath(d *death, conn int) {
	if d.open == 0 {
		return
	}
	how := d.How
	if how == "" {
		how = "ended the connection"
	}
	requests := "a request was open"
	if d.open > 1 {
		requests = fmt.Sprintf("%d requests were open", d.open)
	}
	message := fmt.Sprintf("the unit %s while %s: %s", how, requests, strings.Join(d.calls, ", "))
	if more := d.open - len(d.calls); more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	for i, line := range d.Stderr {
		if i == 0 {
			message += "; its last lines on standard error: "
		} else {
			message += ", "
		}
		message += fmt.Sprintf("%q", line)
	}
	t.addFinding(diedWithOpenRequests, Findings[diedWithOpenRequests].Severity, conn, d.frames, message)
}

// Unstarted records why the unit of a connection did not start, or could not be reached. Views
// show that as a failed exchange, because the connection has no other.
func (t *Tracker) Unstarted(conn int, reason string, at time.Time) {
	f := Frame{Conn: conn, Dir: frame.C2U, Time: at}
	m := protocol.Message{Kind: kindStart, Phase: protocol.Open, Seq: -1}
	e := t.openExchange(&event{f: &f, m: &m, scope: t.scopeOf(&f), from: f.Dir, kind: t.kindOf(m.Kind)})
	e.Closed, e.Reason, e.Frames = at, reason, nil
	e.become(Failed)
	e.ended()
	t.settle(e)
	t.changed(e, 0)
	t.addFinding(notStarted, Findings[notStarted].Severity, conn, []int64{}, reason)
}

var kindStart = []byte("start")

// Linger records that the unit's process keeps running after the end of its standard input, as
// message says. That breaks a rule of some protocols, unless the unit is working on a request.
func (t *Tracker) Linger(conn int, message string) {
	scopes := t.conns[conn]
	if !t.base.EndsWithInput || !t.judges() || scopes == nil {
		return
	}
	var last int64
	for n := scopes.first; n != nil; n = n.next {
		for e := range t.inFlightOf(n.of, frame.C2U) {
			if !t.isEndless(e) && !e.goesOnAs(protocol.SpaceRetry) {
				return
			}
		}
		last = max(last, n.of.last)
	}
	t.addFinding(ignoresEOF, Findings[ignoresEOF].Severity, conn, []int64{last}, message)
}

// EndBy is End for a connection whose ending is known. In some protocols a side that leaves
// before the answer thereby cancels its requests.
func (t *Tracker) EndBy(conn int, how Ending, at time.Time) {
	d := &death{Ending: &how}
	for scopes := t.conns[conn]; scopes != nil && scopes.len > 0; {
		s := scopes.oldest()
		t.checkLingering(s, how.First, at)
		t.settleAnswered(s, at, how.First == frame.C2U)
		t.endScope(s, func(e *Exchange) { t.abandon(s, e, d, at) })
	}
	t.reportDeath(d, conn)
	if t.waiting > 0 {
		t.endWaiting(conn)
	}
}

// feed handles one message.
func (t *Tracker) feed(f *Frame, s *scope, m *protocol.Message) {
	if s.failing.op != nil {
		t.endFailing(s, m)
	}
	ev := event{f: f, m: m, scope: s}
	t.countMessage(&ev)
	if !f.cut {
		t.checkRules(&ev)
	}
	ev.used = t.usageOf(&ev)
	if t.rules.Steps && m.Step.Does != protocol.Note {
		t.step(&ev)
	}
	if !m.Begins.IsZero() {
		t.beginTurn(&ev)
	}
	if m.Queue.Does != protocol.Note {
		t.queue(&ev)
	}
	var e *Exchange
	switch {
	case m.Phase == protocol.Open:
		e = t.openExchange(&ev)
	case m.Phase == protocol.Cancel:
		t.cancelled(&ev)
	case t.rules.Streamed && m.Phase == protocol.Note && !m.ID.IsZero():
		e = t.more(&ev)
	case m.Phase != protocol.Note || t.isAck(&ev):
		e = t.trackAnswer(&ev)
	case m.Faults&protocol.UnknownKind != 0:
		s.unreadable[ev.from]++
	}
	if !m.Within.IsZero() || !m.Gone.IsZero() {
		t.followPart(&ev, e)
	}
	if !f.cut {
		t.judge(&ev, m, e)
	}
	if f.Session.Stream != 0 && m.Phase == protocol.Close {
		t.adopt(f, s)
	}
	if e != nil {
		if t.rules.Session != nil && m.Phase == protocol.Close && !f.cut {
			if id := t.rules.Session(e.Kind, m, f.Payload); id != nil { // it has used nothing yet
				t.spend(t.keyOf(s, e.Opener, protocol.Token{Space: protocol.SpaceSession, Text: id}), protocol.Usage{})
			}
		}
		if t.rules.Options != nil && !f.cut {
			t.checkOptions(f, e, m.Phase, t.rules.Options(e.Kind, m, f.Payload))
		}
		if m.Operation.Of.IsZero() || !t.isEndless(e) { // otherwise it belongs to the operation
			t.use(e.Operation(), ev.used)
		}
		if t.base.NoWire {
			t.countAnswer(&ev)
			if e.Operation() != e { // the turn of a sub-agent
				e.Usage = e.Usage.Plus(ev.used)
			}
		}
		t.countModel()
	}
	if e != nil && e.Operation() != e {
		t.changed(e.Operation(), f.Seq)
	}
	if m.Failing && e != nil {
		e.failing = true
	}
	if !m.Settles.IsZero() {
		t.settleQuestion(&ev)
	}
	if m.Waiting.Does.Ends() && m.Waiting.Of.IsZero() {
		t.wait(&ev, nil)
	}
	if m.Operation.Does != protocol.Note {
		t.operate(&ev, e)
	}
	if t.rules.Waits && (m.Phase == protocol.Open || !m.Waiting.Of.IsZero()) || m.Waiting.Does == protocol.Part {
		t.wait(&ev, e)
	}
	s.lanes[ev.from].pass(f, e)
	if e != nil {
		t.changed(e, f.Seq)
	}
}

// countMessage counts a message and sets its origin and kind.
func (t *Tracker) countMessage(ev *event) {
	ev.from = ev.f.Dir
	if ev.from == frame.DirUnknown || t.rules.OneSided {
		ev.from = ev.m.From
	}
	ev.kind = t.kindOf(ev.m.Kind)
	if !ev.f.Again {
		ev.kind.Frames++
		ev.kind.Bytes += int64(ev.f.Size)
	}
}

// sides returns the sides to search for an opener: both if side is unknown.
func sides(side frame.Dir) []frame.Dir {
	switch side {
	case frame.C2U:
		return []frame.Dir{frame.C2U, frame.DirUnknown}
	case frame.U2C:
		return []frame.Dir{frame.U2C, frame.DirUnknown}
	}
	return []frame.Dir{frame.DirUnknown, frame.C2U, frame.U2C}
}

func (t *Tracker) keyOf(s *scope, side frame.Dir, token protocol.Token) key {
	serial := s.serial
	if t.rules.Shared != nil && t.rules.IsShared(token.Space) {
		serial = 0
	}
	return t.table.key(serial, side, token)
}

// findExchange returns the exchange that a token names: the oldest open one, or else the
// one settled last, or nil. The zero token names the oldest exchange of its scope and
// side.
func (t *Tracker) findExchange(s *scope, side frame.Dir, token protocol.Token) *Exchange {
	if t.isTurn(token) && side != frame.U2C {
		if e := t.currentTurn(s); e != nil {
			return e
		}
	}
	for _, side := range sides(side) {
		if token.IsZero() {
			if e := s.oldest(side); e != nil {
				return e
			}
		} else if q := t.table.findQueue(t.keyOf(s, side, token), token.Text); q != nil {
			return oldestOf(q, token.Space)
		}
	}
	return nil
}

// judges reports whether a missing message can be detected.
func (t *Tracker) judges() bool { return !t.oneWay && t.forgotten == 0 }

package session

import (
	"iter"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// A turn that the unit takes by itself is an operation of its own. Where prompts are
// [protocol.Rules.Queued], the unit takes one turn after another. A turn answers the oldest
// prompt, several of them, or none. A prompt that is dropped from the queue has no turn.

// kindTurn is the kind of operations that nobody on the wire has requested.
var kindTurn = []byte("turn")

// turnToken names the current turn, and all prompts.
var turnToken = protocol.Token{Space: protocol.SpaceTurn}

// turns is the state of the queue of a scope.
type turns struct {
	running  exchangeRef // the prompt whose turn is known to have begun
	last     exchangeRef // the one whose turn ended last
	ended    time.Time   // when it ended
	previous time.Time   // when it had begun; zero if unknown
	answered []*Exchange // the prompts that the last result names
	// turnFrame is the frame with which a turn began after that, and begunAt its time; 0 if none did.
	turnFrame int64
	begunAt   time.Time
}

// An exchangeRef refers to an exchange, whose memory may have been reused since.
type exchangeRef struct {
	e      *Exchange
	serial uint64
}

func refTo(e *Exchange) exchangeRef { return exchangeRef{e, e.serial} }

// get returns the exchange, or nil if it is forgotten.
func (r exchangeRef) get() *Exchange {
	if r.e == nil || r.e.serial != r.serial {
		return nil
	}
	return r.e
}

// unsettled returns the exchange if it is open, or nil.
func (r exchangeRef) unsettled() *Exchange {
	if e := r.get(); e != nil && !e.settled {
		return e
	}
	return nil
}

// isTurn reports whether a token names the current turn.
func (t *Tracker) isTurn(token protocol.Token) bool {
	return t.rules.Queued && token.Space == protocol.SpaceTurn && len(token.Text) == 0
}

// maxPrompts bounds how many prompts of a queue are looked at for a message.
const maxPrompts = 1 << 10

// prompts yields the oldest open prompts of a scope and the open turns of its unit, in the order
// of opening. The caller may end them during the iteration.
func (t *Tracker) prompts(s *scope) iter.Seq[*Exchange] { return t.openNamed(s, turnToken) }

// openNamed yields the oldest open exchanges of the client with a name.
func (t *Tracker) openNamed(s *scope, token protocol.Token) iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		for _, side := range sides(frame.C2U) {
			q := t.table.findQueue(t.keyOf(s, side, token), token.Text)
			if q == nil {
				continue
			}
			n := q.exchanges.first
			for i := 0; n != nil && i < maxPrompts; i++ {
				e := n.of
				n = n.next
				if !e.settled && !yield(e) {
					return
				}
			}
		}
	}
}

// uuid returns the id that the client gave to a prompt; nil if it gave none.
func (e *Exchange) uuid() []byte {
	if q := e.bindings[bySecond].queue; q != nil {
		return q.text
	}
	return nil
}

// promptsNamed returns the open prompts that a message names.
func (t *Tracker) promptsNamed(ev *event) (list []*Exchange) {
	add := func(id []byte) {
		e := t.findExchange(ev.scope, frame.C2U, protocol.Token{Space: protocol.SpaceTurn, Text: id})
		if len(id) > 0 && e != nil && !e.settled && !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	var s jsonscan.Scanner
	s.Init(ev.m.Queue.Names)
	if s.Peek() != jsonscan.Array {
		add(ev.m.Queue.Names)
	}
	for ok := s.Array(); ok && len(list) < maxPrompts && s.Elem(); {
		add(s.Value())
	}
	return list
}

// next returns the oldest prompt that may have its turn next: one that is not reported to wait.
// It returns nil if there is none. isOwn says whether its origin must be another than the user.
func (t *Tracker) next(s *scope, isOwn bool) *Exchange {
	for e := range t.prompts(s) {
		if !e.waits && e.own == isOwn {
			return e
		}
	}
	return nil
}

// currentTurn returns the prompt whose turn it is, as far as that is known.
func (t *Tracker) currentTurn(s *scope) *Exchange {
	if e := s.turns.running.unsettled(); e != nil {
		return e
	}
	return t.next(s, false)
}

// queue follows what a message says about the queue.
func (t *Tracker) queue(ev *event) {
	s, q := &ev.scope.turns, ev.m.Queue
	var e *Exchange
	if !q.Of.IsZero() {
		if e = t.findExchange(ev.scope, frame.C2U, q.Of); e == nil || e.settled {
			return
		}
		e.waits = q.Does == protocol.Open
	}
	switch {
	case q.Does.Ends():
		hasBegun := s.turnFrame != 0 || s.last.get() == nil
		if e == nil || e == s.running.unsettled() || q.Does == protocol.Close && hasBegun && e == t.currentTurn(ev.scope) { // its turn has a result
			return
		}
		switch q.Does {
		case protocol.Close: // as a part of the current turn, or of the last one
			op := s.running.unsettled()
			if op == nil {
				op = s.last.get()
			}
			t.leaveQueue(ev.f, e, Done, op)
		case protocol.Fail:
			t.leaveQueue(ev.f, e, Failed, nil)
		default:
			t.leaveQueue(ev.f, e, Cancelled, nil)
		}
		return
	case q.Does == protocol.Note || q.Does == protocol.Open && e != nil:
		return
	case s.turnFrame == 0:
		s.turnFrame, s.begunAt = ev.f.Seq, ev.f.Time
	}
	if q.Does != protocol.Part || s.running.unsettled() != nil {
		return
	}
	if e == nil {
		e = t.next(ev.scope, false)
	}
	if e == nil {
		e = t.openTurn(ev)
	}
	s.running = refTo(e)
}

// openTurn opens an operation for a turn of the unit itself.
func (t *Tracker) openTurn(ev *event) *Exchange {
	s := &ev.scope.turns
	f := Frame{
		Seq: ev.f.Seq, Time: ev.f.Time, Conn: ev.f.Conn, Stream: ev.f.Stream, Dir: frame.C2U, Framing: ev.f.Framing,
	}
	if s.turnFrame != 0 {
		f.Seq, f.Time = s.turnFrame, s.begunAt
	}
	m := protocol.Message{Kind: kindTurn, Phase: protocol.Open, Bind: ev.m.Begins, Seq: -1}
	if m.Bind.Space == protocol.SpaceKind { // the turn is no request of that kind
		m.Bind = protocol.Token{}
	}
	if m.Queue.Own = kindTurn; t.rules.Queued {
		m.ID = turnToken
	}
	return t.openExchange(&event{f: &f, m: &m, scope: ev.scope, from: frame.C2U, kind: t.kindOf(kindTurn)})
}

// A waiting is a request that waits in an operation, with the id that its answer has given to it.
type waiting struct {
	of exchangeRef
	id string
}

// wait follows which requests wait in an operation.
func (t *Tracker) wait(ev *event, e *Exchange) {
	w, id := ev.m.Waiting, string(clip(ev.m.Waiting.Of.Text, maxText))
	switch {
	case w.Does == protocol.Part:
		op := t.named(ev, ev.m.Ref)
		if op == nil {
			return
		}
		at := slices.IndexFunc(op.prompts, func(p waiting) bool { return p.id == id })
		if at < 0 { // an older unit gives no ids
			at = slices.IndexFunc(op.prompts, func(p waiting) bool { return p.id == "" || id == "" })
		}
		if at >= 0 {
			op.prompts = slices.Delete(op.prompts, at, at+1)
		}
	case w.Does == protocol.Cancelled:
		if op := t.named(ev, ev.m.Ref); op != nil {
			t.dropWaiting(ev, op)
		}
	case e != nil && contains(t.rules.Accepted, []byte(e.Kind)):
		op := e.Operation()
		at := slices.IndexFunc(op.prompts, func(p waiting) bool { return p.of.get() == e })
		switch {
		case at >= 0:
			op.prompts[at].id = id
		case ev.m.Phase == protocol.Open && len(op.prompts) < maxWaiting:
			op.prompts = append(op.prompts, waiting{refTo(e), id})
		}
	}
}

// maxWaiting bounds how many requests wait in an operation.
const maxWaiting = 64

// dropWaiting makes requests that wait in an operation operations of their own, which are cancelled.
func (t *Tracker) dropWaiting(ev *event, op *Exchange) {
	for _, p := range op.prompts {
		e := p.of.get()
		if e == nil || e == op || e.Operation() != op {
			continue
		}
		e.leave()
		if !e.settled { // the answer is still to come
			e.decided = protocol.Cancelled
			continue
		}
		e.saw(ev.f)
		e.Closed = ev.f.Time
		e.become(Cancelled)
		t.changed(e, ev.f.Seq)
	}
	op.prompts = nil
}

// beginTurn gives the turn that ev begins to the request that waits for it. A turn that nobody
// requested is an operation of its own, unless it is a part of another turn of the same thread.
func (t *Tracker) beginTurn(ev *event) {
	m, turn := ev.m, ev.m.Ref
	if turn.IsZero() {
		turn = m.Operation.Of
	}
	isSession := turn.Space == protocol.SpaceSession // which goes on after the turn
	if op := t.named(ev, turn); turn.IsZero() || op != nil && !(isSession && op.settled) {
		return
	}
	root := t.named(ev, m.Bind)
	var waits *Exchange
	for e := range t.openNamed(ev.scope, m.Begins) {
		switch {
		case e == root:
			return
		case waits == nil && e.Of == 0 && e.bindings[byOperation].queue == nil:
			waits = e
		}
	}
	switch {
	case waits != nil && isSession: // its answer, or the session, makes it the operation
		return
	case waits == nil:
		waits = t.openTurn(ev)
		if !isSession {
			waits.ID = protocol.Token{Space: protocol.SpaceTurn, Text: append(waits.ID.Text[:0], clip(turn.Text, maxText)...)}
		}
		if waits.Accepted = ev.f.Time; ev.f.Time.IsZero() {
			waits.Accepted = unknownTime
		}
	}
	t.table.bind(&waits.bindings[byOperation], waits, t.keyOf(ev.scope, frame.C2U, turn), turn.Text)
}

// findTurn returns the operation that a result ends. If the result is not for a prompt, that is
// a turn of the unit itself. The other prompts that the result names belong to the operation.
func (t *Tracker) findTurn(ev *event) *Exchange {
	named := t.promptsNamed(ev)
	op := t.turnOf(ev, named)
	if op.Name == "" && op.Kind == string(kindTurn) {
		t.setName(op, ev.m.Queue.Own, 0)
	}
	for _, e := range named {
		e.join(op)
	}
	ev.scope.turns.answered = named
	return op
}

// turnOf returns the operation that a result ends. It names some prompts.
func (t *Tracker) turnOf(ev *event, named []*Exchange) *Exchange {
	running, isOwn := ev.scope.turns.running.unsettled(), ev.m.Queue.Own != nil
	switch {
	case len(named) > 0 && (running == nil || running.uuid() != nil && !slices.Contains(named, running)):
		return named[0]
	case running != nil && (len(named) > 0 || running.own || !isOwn):
		return running
	}
	if e := t.next(ev.scope, isOwn); e != nil {
		return e
	}
	own := t.openTurn(ev)
	if c := (*Cancel)(nil); running != nil && running.cancel != nil && ev.m.Phase == protocol.Cancelled {
		c, running.cancel = running.cancel, nil // it was this turn that was cancelled
		own.cancel, c.of, c.kind, c.TargetKind, c.TargetSeq = c, own, own.kind, own.Kind, own.First
	}
	return own
}

// endTurn records that a result has ended the turn of e, and so the prompts that it answers.
func (t *Tracker) endTurn(ev *event, e *Exchange) {
	s := &ev.scope.turns
	for _, other := range s.answered {
		if !other.settled {
			t.leaveQueue(ev.f, other, e.Outcome, nil)
		}
	}
	*s = turns{last: refTo(e), ended: ev.f.Time, previous: s.begunAt}
}

// leaveQueue ends a prompt that has no result of its own. op is the operation of which it was a
// part, if that is not known yet, or nil.
func (t *Tracker) leaveQueue(f *Frame, e *Exchange, o Outcome, op *Exchange) {
	if op != nil {
		e.join(op)
	}
	e.saw(f)
	e.Closed = f.Time
	phase := protocol.Close
	if o.Stopped() {
		phase = protocol.Cancelled
	}
	t.endCancel(e, phase, f)
	e.become(o)
	e.ended()
	t.settle(e)
	t.changed(e, f.Seq)
}

// dropPrompts ends the prompts that the good answer ev to the request e drops from the queue.
func (t *Tracker) dropPrompts(ev *event, e *Exchange) {
	q, current := ev.m.Queue, t.currentTurn(ev.scope)
	if target := e.Operation(); q.Does == protocol.Cancelled && e.cancels && target != e && !target.settled && target != current {
		t.leaveQueue(ev.f, target, Cancelled, nil)
	}
	if q.Names == nil && !e.empties {
		return
	}
	kept := t.promptsNamed(ev)
	for p := range t.prompts(ev.scope) {
		isListed := q.Names != nil && p.uuid() != nil // if it is still there
		if p != current && p.First < e.First && (e.empties || isListed) && !slices.Contains(kept, p) {
			t.leaveQueue(ev.f, p, Cancelled, nil)
		}
	}
}

// settleAnswered ends the prompts before the last result that no result has named: it probably
// answered them, too, which nothing on the wire says. A prompt that waits has its turn as soon as another ends, so that they did not wait if
// nothing has begun by now. In a session that ended cleanly, nor did those wait that were sent
// before the last turn began.
func (t *Tracker) settleAnswered(s *scope, now time.Time, clean bool) {
	op := s.turns.last.get()
	if op == nil || s.turns.turnFrame != 0 || s.turns.ended.IsZero() {
		return
	}
	before := s.turns.ended
	if since(now, before) <= crossing {
		if before = s.turns.previous; !clean {
			return
		}
	}
	for e := range t.prompts(s) {
		if !e.Opened.Before(before) {
			return
		}
		if !e.waits && !e.own {
			e.Assumed = true
			t.leaveQueue(&Frame{Seq: op.Last, Time: s.turns.ended}, e, op.Outcome, nil)
		}
	}
}

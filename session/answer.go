package session

import (
	"cmp"
	"iter"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// trackAnswer handles a message that answers an exchange, and returns the exchange.
func (t *Tracker) trackAnswer(ev *event) *Exchange {
	m := ev.m
	token := m.Ref
	if token.IsZero() {
		token = m.ID
	}
	switch {
	case !token.IsZero():
	case m.Faults&protocol.NullID != 0:
		return nil
	case m.Phase == protocol.Part && m.Faults&protocol.MissingField != 0:
		return nil // it should have named its exchange
	case m.Phase == protocol.Fail && ev.scope.answersUnreadable(ev.from.Opposite()):
		return t.answerOversized(ev)
	}
	e := t.findAnswered(ev, token)
	if e != nil {
		t.rules = e.rules
		if e.Version != "" {
			t.setVersion(e.Version)
		}
		if t.rules.OneVersion || e.tooLate {
			t.checkAnswer(ev, e)
		}
	}
	if t.isNewer && m.Phase == protocol.Close && !slices.Contains(t.newer, t.version) {
		t.newer = append(t.newer, t.version)
		t.report(unknownVersion, ev.f, nil, "version %q is newer than %s, whose rules are used", t.version, t.base.Newest)
	}
	if e != nil && e.settled && token.IsZero() && m.Phase == protocol.Fail {
		e = nil
	}
	if m.Phase == protocol.Fail && t.rules.LoneFailures && (e == nil || e.settled) {
		request := *m
		request.Phase, request.ID, request.Ref = protocol.Open, token, protocol.Token{}
		e = t.openExchange(&event{f: ev.f, m: &request, scope: ev.scope, from: ev.from, kind: ev.kind})
		e.BytesOut, e.Absent = 0, true
	}
	switch {
	case e == nil:
		t.missed(ev, token)
	case e.streams():
		t.streamEvent(ev, e)
	case e.settled, token.Space == protocol.SpaceID && !e.Accepted.IsZero():
		t.answerLate(ev, e)
	default:
		t.answerOpen(ev, e)
		switch {
		case !t.rules.Queued || !m.Phase.Ends():
		case t.isTurn(token):
			t.endTurn(ev, e)
		case m.Phase == protocol.Close:
			t.dropPrompts(ev, e)
		}
	}
	return e
}

// answersUnreadable reports whether an answer to no known exchange can answer an unreadable
// message of that side. If so, that message counts as answered.
func (s *scope) answersUnreadable(side frame.Dir) bool {
	for _, side := range sides(side) {
		if s.unreadable[side] > 0 {
			s.unreadable[side]--
			return true
		}
	}
	return false
}

// answerOversized ends the request over the limit that an error without an id can answer, and
// returns it; nil if there is none, or if its end was not seen yet.
func (t *Tracker) answerOversized(ev *event) *Exchange {
	for _, side := range sides(ev.from.Opposite()) {
		if l := ev.scope.over[side]; l != nil && l.refusal == nil {
			f := *ev.f
			f.Payload, l.refusal = nil, &f
			return nil
		}
		for e := range t.inFlightOf(ev.scope, side) {
			if e.cut {
				t.answerOpen(ev, e)
				return e
			}
		}
	}
	return nil
}

// A batch is the messages of one frame.
type batch struct {
	first    int64 // the frame
	answered bool  // one of them was
}

// refusedBatch returns the batch that an error without an id can refuse as a whole; nil if there
// is none. Other messages with an id are answered under it.
func (t *Tracker) refusedBatch(f *Frame, s *scope, m *protocol.Message) *batch {
	if m.Phase != protocol.Fail || !m.ID.IsZero() || !m.Ref.IsZero() || m.Faults&protocol.NullID != 0 {
		return nil
	}
	for _, side := range sides(f.Dir.Opposite()) {
		if s.unreadable[side] > 0 {
			return nil
		}
		for e := range t.inFlightOf(s, side) {
			if e.batch != nil && !e.batch.answered {
				return e.batch
			}
		}
	}
	return nil
}

// refuse handles a message that ends all requests of a frame.
func (t *Tracker) refuse(f *Frame, s *scope, m *protocol.Message, asked int64) {
	side := f.Dir.Opposite()
	if !m.ID.IsZero() && t.findExchange(s, side, m.ID) != nil {
		t.feed(f, s, m)
		return
	}
	said, part := *m, *f
	said.Faults &^= protocol.MissingField | protocol.NullID // no id is needed
	ev := event{f: &part, m: &said, scope: s, refused: true}
	t.countMessage(&ev)
	t.checkRules(&ev)
	if !m.ID.IsZero() {
		t.missed(&ev, m.ID)
	}
	var last *Exchange
	for e := range t.inFlightOf(s, side) {
		if e.First != asked {
			continue
		}
		t.answerOpen(&ev, e)
		t.changed(e, f.Seq)
		last, part.Size = e, 0 // the first counts the bytes of all
	}
	if last == nil {
		s.answersUnreadable(side)
	}
	s.lanes[ev.from].pass(f, last)
}

// inFlightOf yields the open exchanges of a scope and side, in the order of opening. The caller
// may end them during the iteration.
func (t *Tracker) inFlightOf(s *scope, side frame.Dir) iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		q := s.byAge[side]
		if q == nil {
			return
		}
		for n := q.exchanges.first; n != nil; {
			e := n.of
			n = n.next
			if !e.settled && !yield(e) {
				return
			}
		}
	}
}

// missed reports an answer to no known exchange.
func (t *Tracker) missed(ev *event, token protocol.Token) {
	loose := t.rules.LooseRefs && ev.m.ID.IsZero() && (ev.m.Phase == protocol.Part || token.Space == protocol.SpaceTurn)
	if !t.judges() || loose || t.rules.Streamed || t.strays(ev) {
		return
	}
	side := ev.from.Opposite()
	if token.IsZero() && ev.m.Phase == protocol.Fail && len(ev.scope.nameless[side]) < maxNameless {
		ev.scope.nameless[side] = append(ev.scope.nameless[side], orphaned{ev.f.Seq, ev.kind.Name})
		return
	}
	switch e := t.otherSpelling(ev.scope, side, token); {
	case e != nil:
		t.report(orphan, ev.f, nil, "%s has the id %s for %s, that of %s: answer with the id as it was sent", ev.kind.Name, quote(token), quote(e.ID), e.Title())
	case !ev.scope.answersUnreadable(side):
		t.report(orphan, ev.f, nil, "%s %s answers nothing", ev.kind.Name, quote(token))
	}
}

// An orphaned message is an error without an id that answers no known exchange.
type orphaned struct {
	seq  int64
	kind string
}

// maxNameless bounds how many orphaned messages are kept.
const maxNameless = 16

// settleOrphans reports the errors without an id to a side once that side has sent another
// message or ended. It omits those that answer an unreadable message, because such messages may
// be answered before their end is seen.
func (t *Tracker) settleOrphans(s *scope, side frame.Dir) {
	for _, o := range s.nameless[side] {
		if !s.answersUnreadable(side) && t.judges() {
			t.addFinding(orphan, Findings[orphan].Severity, s.key.conn, []int64{o.seq}, o.kind+" without an id answers nothing")
		}
	}
	s.nameless[side] = s.nameless[side][:0]
}

// answerOpen handles an answer to an open exchange.
func (t *Tracker) answerOpen(ev *event, e *Exchange) {
	f, m := ev.f, ev.m
	if t.rules.Ack != "" && e.answers == 0 && !t.isAck(ev) {
		t.report(missingAck, f, []int64{e.First}, "%s comes before the %s to %s %s", ev.kind.Name, t.rules.Ack, e.Kind, quote(e.ID))
	}
	if t.rules.EndlessAck != "" && e.answers == 0 && m.Phase != protocol.Fail && contains(t.rules.Endless, []byte(e.Kind)) && ev.kind.Name != t.rules.EndlessAck {
		t.report(missingAck, f, []int64{e.First}, "%s comes before the %s of %s", ev.kind.Name, t.rules.EndlessAck, e.Title())
	}
	e.answered(f)
	e.Status = cmp.Or(f.Status, e.Status)
	e.ofModel(f, m)
	switch {
	case t.isAck(ev), m.Empty:
		t.afterCancel(e, f, false)
	case m.Phase == protocol.Part || t.isUpdate(ev, e):
		t.part(ev, e)
		if t.said && e.Model != "" {
			e.say(t.unescaped(m.Text))
		}
		t.afterCancel(e, f, true)
	default:
		t.closeExchange(ev, e)
	}
}

// isAck reports whether a message only acknowledges that a request has arrived.
func (t *Tracker) isAck(ev *event) bool {
	return t.rules.Ack != "" && ev.kind.Name == t.rules.Ack
}

// isUpdate reports whether a message that closes other exchanges is only a part of a
// subscription.
func (t *Tracker) isUpdate(ev *event, e *Exchange) bool {
	return t.isSubscription(e) && ev.kind.Name == t.rules.Update
}

func (t *Tracker) isSubscription(e *Exchange) bool {
	return t.rules.Subscribe != "" && e.Kind == t.rules.Subscribe
}

// part handles a part of an answer.
func (t *Tracker) part(ev *event, e *Exchange) {
	e.part(ev.f)
	if !t.rules.Sequenced || ev.m.Seq < 0 {
		return
	}
	switch {
	case ev.m.Seq > e.sequence:
		t.report(sequenceGap, ev.f, []int64{e.First}, "part %d of %s %s arrived where %d was expected", ev.m.Seq, e.Kind, quote(e.ID), e.sequence)
	case ev.m.Seq < e.sequence:
		t.report(sequenceRepeat, ev.f, []int64{e.First}, "part %d of %s %s arrived where %d was expected", ev.m.Seq, e.Kind, quote(e.ID), e.sequence)
		return
	}
	e.sequence = ev.m.Seq + 1
}

func (t *Tracker) afterCancel(e *Exchange, f *Frame, part bool) {
	if e.cancel != nil {
		e.cancel.after(f, part)
	}
}

// closeExchange handles the message that ends an open exchange.
func (t *Tracker) closeExchange(ev *event, e *Exchange) {
	m := ev.m
	if t.goesOn(ev, e) {
		return
	}
	if t.said && e.Model != "" && m.Phase == protocol.Close && len(e.Said) == 0 && len(m.Text) > 0 { // it came as a whole
		e.say(t.unescaped(m.Text))
		t.changed(e, ev.f.Seq)
	}
	e.endStream()
	if t.rules.Counted && m.Phase == protocol.Close && m.Count != e.count && !ev.f.cut {
		t.report(resultCount, ev.f, []int64{e.First}, "%d results for %d prompts of %s %s", m.Count, e.count, e.Kind, quote(e.ID))
	}
	if m.Operation.Does.Ends() && !m.Bind.IsZero() && !e.about && t.named(ev, m.Bind) == nil {
		t.bindOperation(ev, e) // so that its end is reported with its name
	}
	if e.unknown && m.Phase == protocol.Close && !m.Stops && m.Bind.IsZero() {
		t.addFinding(cancelUnknown, Findings[cancelUnknown].Severity, e.Conn, []int64{e.First}, e.Kind+" "+quote(e.ID)+" names what was never opened")
	}
	unsubscribes := t.isSubscription(e) && m.Phase == protocol.Close
	t.settleOutcome(ev, e)
	t.settle(e)
	if unsubscribes {
		t.endSubscriptions(ev)
	}
}

// settleOutcome records how an exchange ended.
func (t *Tracker) settleOutcome(ev *event, e *Exchange) {
	phase := ev.m.Phase
	switch op := ev.m.Operation; {
	case op.Does.Ends() && (op.Of.IsZero() || t.findOperation(ev.scope, op.Of) == e):
		phase = op.Does
	case e.decided != protocol.Note:
		phase = e.decided
	case ev.m.Stops && !e.cancels, ev.m.Failing && phase == protocol.Fail && e.cancel != nil:
		phase = protocol.Cancelled
	}
	e.Closed = ev.f.Time
	t.endCancel(e, phase, ev.f)
	switch {
	case e.Outcome == TimedOut: // nobody was waiting for it
		e.become(TimedOut)
	case phase == protocol.Fail && ev.f.Cut:
		e.become(Died)
	case phase == protocol.Fail && t.rules.IsProbe != nil && t.rules.IsProbe(e.Kind, string(ev.m.Kind), string(ev.m.Label), ev.scope.declared):
		e.become(Probe)
	case phase == protocol.Fail:
		e.become(Failed)
	case phase == protocol.Cancelled:
		e.become(e.cancelled())
	case ev.m.ToolError && ev.m.Operation.Does == protocol.Note:
		e.become(ToolError)
	default:
		e.become(Done)
	}
	t.noteFailure(ev, e)
	if why := clip(t.unescaped(ev.m.Reason), maxText); len(why) > 0 && e.Outcome.Failed() {
		e.Reason = string(why)
	}
	if ev.f.cut && e.Reason == "" {
		if e.Reason = OverLimit; ev.f.Fault != nil {
			e.Reason = NotUTF8
		}
	}
	e.ended()
	t.endRetried(ev, e)
	t.failed(ev, e)
}

// endSubscriptions ends all subscriptions of the side that ev answers.
func (t *Tracker) endSubscriptions(ev *event) {
	for _, side := range sides(ev.from.Opposite()) {
		for e := range t.inFlightOf(ev.scope, side) {
			if t.isSubscription(e) {
				e.saw(ev.f)
				t.settleOutcome(ev, e)
				t.settle(e)
				t.changed(e, ev.f.Seq)
			}
		}
	}
}

// answerLate handles an answer to a settled exchange.
func (t *Tracker) answerLate(ev *event, e *Exchange) {
	f, m := ev.f, ev.m
	switch {
	case e.cancel != nil && m.Phase == protocol.Part:
		e.answered(f)
		t.part(ev, e)
		t.afterCancel(e, f, true)
	case e.cancel != nil || e.optional && m.Phase != protocol.Part:
		e.optional = false
		e.answered(f)
		t.settleOutcome(ev, e)
	case t.rules.Reset != "" && ev.kind.Name == t.rules.Reset:
		e.saw(f)
	case m.Phase == protocol.Part && m.ID.IsZero() && !m.Ref.IsZero():
		if !t.rules.LooseRefs {
			t.report(latePart, f, []int64{e.First, e.Last}, "%s for %s %s, which is %v", ev.kind.Name, e.Kind, quote(e.ID), e.Outcome)
		}
	default:
		t.report(afterEnd, f, []int64{e.First, e.Last}, "%s for %s %s, which is %v", ev.kind.Name, e.Kind, quote(e.ID), e.Outcome)
	}
}

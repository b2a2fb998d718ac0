package session

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A stream is an exchange answered by events, as [protocol.Rules.Streams] describes. It ends
// with its carrier, or with an event that ends its operation. The operation may end earlier,
// through an event of another stream, and goes on if the stream is closed. All streams of an
// operation carry the same events, so only the parts of one stream are counted.

type stream struct {
	open bool // more events are expected
	// leader is the serial number of the stream whose parts are counted for the operation
	// while its own stream is closed; 0 if there is none.
	leader uint64
	// pieces are the products of which pieces have arrived; unsure means that there are
	// others.
	pieces []piece
	unsure bool
	// context is the hash of the conversation that the operation belongs to, or 0.
	context uint64
}

// streams reports whether more events of e are expected.
func (e *Exchange) streams() bool { return e.stream != nil && e.stream.open }

// sharedStream returns the state that the streams of an operation share.
func (op *Exchange) sharedStream() *stream {
	if op.stream == nil {
		op.stream = &stream{}
	}
	return op.stream
}

// streamEvent handles an event of an open stream, whose operation may have ended already.
func (t *Tracker) streamEvent(ev *event, e *Exchange) {
	m := ev.m
	goesOn := m.Phase == protocol.Part || m.Phase == protocol.Close && m.GoesOn
	if goesOn && e.answers == 0 && m.Phase == protocol.Part && t.rules.Announced && !e.about {
		t.report(missingAck, ev.f, []int64{e.First}, "the first event of %s is part of an operation that was not named before", e.Title())
	}
	e.answered(ev.f)
	if !m.Bind.IsZero() {
		t.bindStream(ev, e)
	}
	switch {
	case m.Phase == protocol.Part:
		t.part(ev, e)
		t.checkPiece(ev, e)
		t.afterCancel(e, ev.f, true)
	case goesOn:
		e.stream.unsure = e.stream.unsure || m.Count > 0
	case e.settled: // another stream has ended its operation
		e.stream.open = false
		ev.scope.linger(e, ev.f)
	case m.Phase == protocol.Fail && !e.Accepted.IsZero():
		t.leaveStream(e, ev.f.Time)
	default:
		t.closeExchange(ev, e)
		ev.scope.linger(e, ev.f)
	}
}

// A lingering stream has delivered its last event but has not been ended by its carrier yet.
type lingering struct {
	first, last int64 // the frames of the request and of the event; 0 for none
	title       string
	since       time.Time
}

// patience is how long the end of a stream may be in flight when its client leaves.
const patience = time.Second

// linger records that the carrier should end a stream now, if it can.
func (s *scope) linger(e *Exchange, f *Frame) {
	if f.Stream != 0 && f.Framing == nil {
		s.lingers = lingering{e.First, f.Seq, e.Title(), f.Time}
	}
}

// checkLingering reports a stream that its client had to end.
func (t *Tracker) checkLingering(s *scope, first frame.Dir, at time.Time) {
	if l := s.lingers; l.first != 0 && first == frame.C2U && since(at, l.since) > patience {
		t.addFinding(openStream, Findings[openStream].Severity, s.key.conn, []int64{l.first, l.last},
			"the stream of "+l.title+" was open for "+since(at, l.since).Round(time.Millisecond).String()+" after its last event")
	}
}

// bindStream attaches a stream to the operation that its event names, or begins that operation
// with the stream.
func (t *Tracker) bindStream(ev *event, e *Exchange) {
	op, other := e.Operation(), t.named(ev, ev.m.Bind)
	switch begun := e != op || !e.Accepted.IsZero(); {
	case other == nil && !begun:
		t.bindOperation(ev, e)
		if e.Accepted = ev.f.Time; e.Accepted.IsZero() {
			e.Accepted = unknownTime
		}
		op = e
	case !begun:
		e.join(other)
		op = other
	case other != op:
		t.report(otherOperation, ev.f, []int64{e.First}, "an event of %s is about %s, and those before it are not", e.Title(), quote(ev.m.Bind))
		return
	}
	if ev.m.Context.IsZero() {
		return
	}
	context := maphash.Bytes(t.table.seed, ev.m.Context.Text) | 1
	told := op.sharedStream()
	if told.context == 0 {
		told.context = context
	}
	if told.context != context {
		t.report(otherOperation, ev.f, []int64{op.First}, "%s is of the conversation %s, and was of another before", quote(ev.m.Bind), quote(ev.m.Context))
	}
}

// counts reports whether to count a part that e delivers for an operation. The parts of one
// stream are counted as long as it is open.
func (op *Exchange) counts(e *Exchange) bool {
	if e == nil || !e.streams() {
		return true
	}
	told := op.sharedStream()
	if told.open || told.leader != 0 && told.leader != e.serial {
		return false
	}
	told.leader = e.serial
	return true
}

// endStream records that no more events of e are expected.
func (e *Exchange) endStream() {
	if e.stream == nil {
		return
	}
	e.stream.open = false
	if told := e.Operation().sharedStream(); told.leader == e.serial {
		told.leader = 0
	}
}

// leaveStream ends an open stream, but not the operation that it began.
func (t *Tracker) leaveStream(e *Exchange, at time.Time) {
	e.endStream()
	if e.settled || t.outlives(e) {
		return
	}
	e.Closed = at
	e.become(Done)
	e.ended()
	t.settle(e)
	t.changed(e, 0)
}

// A Response is the end of a carrier's response, such as one of HTTP, to the requests of a
// frame.
type Response struct {
	Conn, Stream int   // of the requests
	Request, Seq int64 // the numbers of their frame, and of the one that ends the response; 0 if unknown
	At           time.Time
	// How describes the response in a few words, such as "200 text/html".
	How string
	// Cut means that the unit broke the response off, and Left that the controller did.
	Cut, Left bool
	// Accepted means that the response leaves the answer to another one, and Resumable that
	// another one can bring the rest, if the protocol has that.
	Accepted, Resumable bool
	// Unread is why the answer may be in bytes that could not be read; "" if it is not.
	Unread string
}

// EndResponse records the end of a response. It ends the streams of events that were the
// answer. A request without an answer has failed, unless the answer may still come.
func (t *Tracker) EndResponse(r Response) {
	s := t.scopes[scopeKey{r.Conn, r.Stream}]
	if s == nil {
		return
	}
	s.lingers = lingering{}
	for _, side := range []frame.Dir{frame.C2U, frame.DirUnknown} {
		for e := range t.inFlightOf(s, side) {
			switch t.rules = e.rules; {
			case e.streams() && e.answers > 0:
				t.leaveStream(e, r.At)
			case r.Request != 0 && r.Request != e.First, !e.Accepted.IsZero():
			case t.isCancelled(e), r.Left && t.rules.LeavingCancels:
				t.endBy(s, e, &r, protocol.Cancelled)
			case r.Left:
			case t.isEndless(e) && e.answers > 0:
				if !r.Cut {
					t.leaveStream(e, r.At)
				}
			case r.Accepted && t.rules.Elsewhere:
			case r.Resumable && t.rules.Elsewhere:
				e.lacking = &r
			case r.Unread != "":
				if !r.Cut {
					e.Reason = r.Unread
					t.endBy(s, e, &r, protocol.Close)
				}
			default:
				t.lack(s, e, &r)
			}
		}
	}
}

// isCancelled reports whether a message of another scope has cancelled a request by its id.
func (t *Tracker) isCancelled(e *Exchange) bool {
	for n := t.cancels.last; n != nil && n.of.Seq > e.First; n = n.prev {
		if n.of.Class == UnknownTarget && bytes.Equal(n.of.Target.Text, e.ID.Text) {
			return true
		}
	}
	return false
}

// lack ends an exchange whose response ended without the answer.
func (t *Tracker) lack(s *scope, e *Exchange, r *Response) {
	if e.cancel == nil && t.judges() {
		frames := []int64{e.First}
		if r.Seq != 0 {
			frames = append(frames, r.Seq)
		}
		t.addFinding(unanswered, Error, e.Conn, frames, e.Title()+" has no answer in "+r.How)
	}
	t.endBy(s, e, r, protocol.Fail)
}

// endBy ends an exchange because its response has ended. An answer that comes in spite of
// that still counts.
func (t *Tracker) endBy(s *scope, e *Exchange, r *Response, phase protocol.Phase) {
	e.endStream()
	t.silence(e)
	e.lacking, e.optional = nil, true
	f := Frame{Seq: r.Seq, Time: r.At, Conn: r.Conn, Stream: r.Stream, Dir: frame.U2C, Cut: r.Cut}
	if r.Seq != 0 {
		e.saw(&f)
	}
	t.settleOutcome(&event{f: &f, m: &protocol.Message{Phase: phase, Reason: []byte("no answer in " + r.How)}, scope: s}, e)
	t.settle(e)
	t.changed(e, r.Seq)
}

type piece struct {
	hash uint64
	last bool // no more may follow
}

// maxPieces bounds how many products of a stream are distinguished.
const maxPieces = 64

// checkPiece checks a piece of a product, if the whole operation was received on the stream.
func (t *Tracker) checkPiece(ev *event, e *Exchange) {
	p := ev.m.Piece
	if p.Of == nil || e.about || e.stream.unsure || !t.judges() {
		return
	}
	hash := maphash.Bytes(t.table.seed, p.Of)
	at := slices.IndexFunc(e.stream.pieces, func(p piece) bool { return p.hash == hash })
	name := plain(strings.Trim(string(clip(p.Of, 64)), `"`))
	switch {
	case at >= 0 && p.Appends && e.stream.pieces[at].last:
		t.report(sequenceRepeat, ev.f, []int64{e.First}, "a chunk of %s follows its last one", name)
	case at >= 0:
		e.stream.pieces[at].last = p.Last
	case p.Appends:
		t.report(sequenceGap, ev.f, []int64{e.First}, "a chunk of %s follows none", name)
		e.stream.unsure = true
	case len(e.stream.pieces) >= maxPieces:
		e.stream.unsure = true
	default:
		e.stream.pieces = append(e.stream.pieces, piece{hash, p.Last})
	}
}

// checkAnswer reports an answer in the form of another version, and an answer that accepts e
// into an operation that has ended.
func (t *Tracker) checkAnswer(ev *event, e *Exchange) {
	if t.rules.OneVersion && len(ev.m.Version) > 0 && e.Version != "" && !t.isNewer && major(string(ev.m.Version)) != major(e.Version) {
		t.report(mixedVersions, ev.f, []int64{e.First}, "%s is of version %s, and is answered in the form of %s", e.Title(), e.Version, quote(protocol.Token{Text: ev.m.Version}))
	}
	if e.tooLate && ev.m.Phase != protocol.Fail {
		if op := t.named(ev, ev.m.Bind); op != nil && op.settled {
			e.tooLate = false
			t.report(afterEnd, ev.f, []int64{op.First, op.Last, e.First}, "%s is accepted by %s, which is %v", e.Title(), quote(ev.m.Bind), op.Outcome)
		}
	}
}

// major returns the number of a version before its first dot.
func major(version string) string {
	number, _, _ := strings.Cut(version, ".")
	return number
}

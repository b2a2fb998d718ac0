// Package session says what the messages of a session mean together: which
// exchanges they form, what became of each cancel, how answers streamed, and
// which rules were broken.
//
// A [Tracker] is fed with one message after the other and keeps, for every
// protocol, the same model: [Exchange], [Cancel], [Finding] and [Stats]. How
// protocols differ it knows from [protocol.Rules]. It reads no stream and no
// clock: frames come with the time at which they were read.
package session

import (
	"bytes"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

// A Tracker follows the exchanges of one protocol, on any number of
// connections. It has one owner: no two of its methods may run at once. Its
// memory is bounded by what is in flight, 65,536 exchanges at most, and by its
// history; counts go on when neither has room.
type Tracker struct {
	protocol protocol.Protocol
	rules    *protocol.Rules
	history  int
	inFlight int
	oneWay   bool
	partial  bool
	watch    Watcher // or nil

	frames, bytes, opened, forgotten int64
	serial                           uint64 // of scopes and exchanges

	scopes     map[scopeKey]*scope
	conns      map[int]*list[scope] // the scopes of each connection
	scopeOrder list[scope]          // the one that was in use longest ago first
	lastScope  *scope

	table   table
	live    list[Exchange] // open, in the order of opening
	settled list[Exchange] // the history, in the order of settling
	cancels list[Cancel]   // the ledger, in the order of asking
	waiting int            // settled exchanges whose cancel is pending
	free    list[Exchange] // for use again

	findings ring[Finding]
	found    [numRules]int64
	classes  [numClasses]int64

	kinds     map[string]*Kind
	kindOrder []*Kind
	lastKind  *Kind
}

// Options are how a tracker differs from the usual one.
type Options struct {
	// History is how many settled exchanges, cancels and findings are kept of
	// each; 0 is 4096. Of an exchange beyond it a late answer cannot be told
	// from one that nobody asked for.
	History int
	// InFlight is how many exchanges and scopes may be open; 0 is 65,536. Beyond
	// it the oldest exchange is given up, and the scope that was in use longest ago.
	InFlight int
	// OneWay says that one direction is all there is to be fed, so that no
	// request is missed for an answer and no answer for a request.
	OneWay bool
	// Partial says that what is fed is not all that the unit is asked: what a cancel
	// names may have been opened on other connections.
	Partial bool
	// Watcher, if not nil, is told of everything as it happens.
	Watcher Watcher
}

// New returns a tracker for sessions of p.
func New(p protocol.Protocol, o Options) *Tracker {
	if o.History <= 0 {
		o.History = 4096
	}
	if o.InFlight <= 0 {
		o.InFlight = 1 << 16
	}
	return &Tracker{
		protocol: p, rules: all.Rules(p), history: o.History, inFlight: o.InFlight, oneWay: o.OneWay, partial: o.Partial, watch: o.Watcher,
		scopes: make(map[scopeKey]*scope), conns: make(map[int]*list[scope]), kinds: make(map[string]*Kind),
		table: newTable(), findings: ring[Finding]{size: o.History},
	}
}

// A Frame is what the tracker wants to know of the frame that carried a
// message. It is not kept.
type Frame struct {
	// Seq is the number of the frame in its session, for findings.
	Seq int64
	// Time is when the last byte was read; zero if that is unknown.
	Time time.Time
	// Conn and Stream are the scope of its ids: the connection, and where one
	// connection carries independent streams, the stream. Where ids belong to
	// something wider, such as an MCP session over HTTP, Conn is its number.
	Conn, Stream int
	// Dir is the direction of travel, if it is known. If not, the kind of the
	// message may tell.
	Dir frame.Dir
	// Size is that of the payload in bytes, or of a gap.
	Size int
	// Payload is the payload, or the bytes of a gap; it may be nil. A batch of
	// JSON-RPC is taken apart by it, and what is no message recognized.
	Payload []byte
	// Fault is what is wrong: with the frame or with what is deep in its message,
	// if it carries one, or with a gap; and else with its payload. Gap says that it
	// is no frame but bytes that were skipped.
	Fault error
	Gap   bool
}

// An event is one message on its way through the tracker.
type event struct {
	f     *Frame
	m     *protocol.Message
	scope *scope
	from  frame.Dir // where it comes from, if that is known
	kind  *Kind
}

// Feed takes in a frame and its message, which is nil if the frame carries
// none: a gap, or a payload that does not parse. Neither is kept.
func (t *Tracker) Feed(f Frame, m *protocol.Message) {
	s := t.count(&f, m)
	switch {
	case m == nil:
	case isBatch(m) && len(f.Payload) > 0:
		t.feedBatch(&f, s)
	default:
		t.feed(&f, s, m)
	}
}

// count counts a frame and reports its fault. It returns the frame's scope.
func (t *Tracker) count(f *Frame, m *protocol.Message) *scope {
	if f.Dir > frame.U2C {
		f.Dir = frame.DirUnknown
	}
	s := t.scopeOf(f)
	t.frames++
	t.bytes += int64(f.Size)
	fresh := s.fresh(f) && f.Fault != nil
	if fresh {
		t.report(t.ruleOf(f, m), f, nil, "%v", f.Fault)
	}
	if fresh && m == nil {
		s.unreadable[f.Dir]++
	}
	t.settleOrphans(s, f.Dir)
	return s
}

// Refuse is Feed for a frame whose carrier says what it answers: what was asked in
// the frame of the number asked. m, whose phase is Fail, fails all of that, unless
// it names one exchange. It may be no message of the protocol, but say how the
// carrier refuses such.
func (t *Tracker) Refuse(f Frame, m *protocol.Message, asked int64) {
	t.refuse(&f, t.count(&f, m), m, asked)
}

// End takes in that a connection has ended, with all of its streams: what is
// open stays unanswered.
func (t *Tracker) End(conn int, at time.Time) { t.EndBy(conn, frame.DirUnknown, at) }

// EndBy is End where it is known which direction ended first. Who does not stay to
// hear the answer cancels with that what it asked, if the protocol has it so.
func (t *Tracker) EndBy(conn int, first frame.Dir, at time.Time) {
	abandon := func(e *Exchange) { t.abandon(e, first, at) }
	for scopes := t.conns[conn]; scopes != nil && scopes.len > 0; {
		t.endScope(scopes.oldest(), abandon)
	}
	if t.waiting > 0 {
		t.endWaiting(conn)
	}
}

// Reject takes in that the unit closed a connection because of what was asked on it:
// runs that are open and were not even acknowledged have failed by that.
func (t *Tracker) Reject(conn int, at time.Time) {
	scopes := t.conns[conn]
	if !t.rules.Final || scopes == nil {
		return
	}
	for n := scopes.first; n != nil; n = n.next {
		for e := range t.inFlightOf(n.of, frame.C2U) {
			if e.answers > 0 {
				continue
			}
			if e.Closed = at; e.cancel != nil {
				t.classify(e.cancel, Crossed)
			}
			e.become(Failed)
			e.kind.ended(e)
			t.settle(e)
			t.changed(e, 0)
		}
	}
}

var kindBatch = []byte("batch")

// isBatch reports whether m is a batch, which counts its messages: a method of
// that name counts nothing.
func isBatch(m *protocol.Message) bool { return m.Count > 0 && bytes.Equal(m.Kind, kindBatch) }

// feedBatch takes in the messages of a batch one by one. The first of them
// stands for the bytes of all.
func (t *Tracker) feedBatch(f *Frame, s *scope) {
	part := *f
	for payload := range jsonrpc.Items(f.Payload) {
		var m protocol.Message
		if err := t.protocol.Parse(payload, &m); err == nil {
			t.feed(&part, s, &m)
		}
		part.Size = 0
	}
}

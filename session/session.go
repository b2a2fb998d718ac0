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

// A Tracker follows the exchanges of one protocol, on any number of connections. It has one
// owner: no two of its methods may run at once. Its memory is bounded by the exchanges in
// flight, 65,536 at most, and by its history; counts go on when both are full.
type Tracker struct {
	protocol protocol.Protocol
	base     *protocol.Rules // of the protocol
	rules    *protocol.Rules // by which frames are judged
	version  string          // of those rules; "" if unknown
	isNewer  bool            // than all versions that are known
	judged   protocol.Judged
	history  int
	inFlight int
	oneWay   bool
	partial  bool
	said     bool
	watch    Watcher // or nil

	frames, bytes, opened, forgotten int64
	used                             protocol.Usage
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
	names     int       // of all kinds
	models    []*Model  // in the order in which they were first seen
	uncounted *Exchange // of a model that is over, but may have used more in the message that ended it; or nil
	newer     []string  // unknown versions that were reported
	versions  map[string]string
	steps     map[key]bool           // begun, and whether they have ended
	gone      map[key]gonePart       // parts of connections that have ended
	spent     map[key]protocol.Usage // by session or thread: its last total
}

// Options are how a tracker differs from the usual one.
type Options struct {
	// History is how many settled exchanges, cancels and findings are kept of each; 0 is
	// 4096. Beyond it, a late answer looks like one that nobody asked for.
	History int
	// InFlight is how many exchanges and scopes may be open; 0 is 65,536. Beyond it the
	// oldest exchange is given up, or the scope that has been unused for longest.
	InFlight int
	// OneWay says that only one direction is fed, so that no request is missed for an
	// answer and no answer for a request.
	OneWay bool
	// Partial says that not all requests to the unit are fed: the target of a cancel may
	// have been opened on other connections.
	Partial bool
	// Said says that the texts of the answers of models are kept while they come.
	Said bool
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
		protocol: p, base: all.Rules(p), rules: all.Rules(p), history: o.History, inFlight: o.InFlight, oneWay: o.OneWay, partial: o.Partial, said: o.Said, watch: o.Watcher,
		scopes: make(map[scopeKey]*scope), conns: make(map[int]*list[scope]), kinds: make(map[string]*Kind),
		table: newTable(), findings: ring[Finding]{size: o.History},
	}
}

// A Frame describes the frame that carried a message, for the tracker. It is not kept.
type Frame struct {
	// Seq is the number of the frame in its session, for findings.
	Seq int64
	// Time is when the last byte was read; zero if that is unknown.
	Time time.Time
	// Conn and Stream are the scope of its ids: the connection, and the stream if one
	// connection carries independent streams. If ids belong to something wider, such as an
	// MCP session over HTTP, Conn is its number.
	Conn, Stream int
	// Dir is the direction of travel, if it is known. If not, the kind of the
	// message may tell.
	Dir frame.Dir
	// Size is that of the payload in bytes, or of a gap.
	Size int
	// Framing is that of a plain stream; nil in a carrier, or if it is unknown.
	Framing frame.Framing
	// Payload is the payload, or the bytes of a gap; it may be nil. It is used to split a
	// batch of JSON-RPC, and to recognize payloads that are no messages.
	Payload []byte
	// Inner says that it is inside a frame that was counted already.
	Inner bool
	// Again says that the frame was fed before, and its message was counted.
	Again bool
	// Version is the version of the protocol that the carrier states for the message, as
	// written; "" if it states none.
	Version string
	// Stated is what the head of a request over HTTP says about the message; nil if there
	// is no head.
	Stated *protocol.Stated
	// ToolCalls are the names of the tools that the model calls with this frame.
	ToolCalls []string
	// Prompt is the input of a model in a request; nil if unknown.
	Prompt *Prompt
	// Broken are rules that the message is known to break besides.
	Broken []protocol.Broken
	// Fault is that of the frame, or of a value deep in its message, if it carries one;
	// that of a gap; or else that of its payload. Gap says that it is not a frame but bytes
	// that were skipped.
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
	used  protocol.Usage
}

// Feed handles a frame and its message, which is nil if the frame carries none: a gap, or a
// payload that does not parse. Neither is kept.
func (t *Tracker) Feed(f Frame, m *protocol.Message) {
	s := t.count(&f, m)
	switch {
	case m == nil:
	case isBatch(m) && len(f.Payload) > 0:
		t.judge(&event{f: &f, m: m, scope: s, from: f.Dir}, m, nil)
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
	t.chooseRules(f, s, m)
	if !f.Inner && !f.Again {
		t.frames++
		t.bytes += int64(f.Size)
	}
	if f.Framing != nil && m != nil {
		t.checkFraming(f, s)
	}
	fresh := s.fresh(f) && f.Fault != nil
	if fresh {
		t.reportFault(f, m)
	}
	if fresh && m == nil {
		s.unreadable[f.Dir]++
	}
	t.settleOrphans(s, f.Dir)
	return s
}

// Refuse is Feed for a frame whose carrier says that it answers the requests in the frame
// of the number asked. m, whose phase is Fail, fails all of them, unless it names one
// exchange. It may be no message of the protocol, but the refusal of the carrier.
func (t *Tracker) Refuse(f Frame, m *protocol.Message, asked int64) {
	t.refuse(&f, t.count(&f, m), m, asked)
}

// End notes that a connection has ended, with all of its streams: open exchanges stay
// unanswered.
func (t *Tracker) End(conn int, at time.Time) { t.EndBy(conn, Ending{}, at) }

// Forget gives up everything that is open, because messages are missing from here on: they
// may have opened, answered or ended anything, so nothing is missed any more.
func (t *Tracker) Forget() {
	t.forgotten++
	for e := t.live.oldest(); e != nil; e = t.live.oldest() {
		t.forget(e)
	}
	for e := t.settled.oldest(); e != nil; e = t.settled.oldest() {
		t.retire(e)
	}
}

// Reject notes that the unit closed a connection because of the requests on it: open runs
// that were not even acknowledged have failed.
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
			e.ended()
			t.settle(e)
			t.changed(e, 0)
		}
	}
}

var kindBatch = []byte("batch")

// isBatch reports whether m is a batch, which counts its messages: a method of
// that name counts nothing.
func isBatch(m *protocol.Message) bool { return m.Count > 0 && bytes.Equal(m.Kind, kindBatch) }

// feedBatch handles the messages of a batch one by one. The first one has the bytes of all.
func (t *Tracker) feedBatch(f *Frame, s *scope) {
	part := *f
	part.Stated = nil
	for payload := range jsonrpc.Items(f.Payload) {
		var m protocol.Message
		part.Payload = payload
		if err := t.protocol.Parse(payload, &m); err == nil {
			t.feed(&part, s, &m)
		}
		part.Size = 0
	}
}

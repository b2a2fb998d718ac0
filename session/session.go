// Package session interprets the messages of a session together: which exchanges they form, how
// each cancel turned out, how answers were streamed, and which rules were broken.
//
// A [Tracker] is fed one message at a time and maintains the same model for every protocol:
// [Exchange], [Cancel], [Finding] and [Stats]. [protocol.Rules] describes how protocols differ.
// The tracker reads no stream and no clock: frames carry the time at which they were read.
package session

import (
	"bytes"
	"iter"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session/context"
)

// A Tracker follows the exchanges of one protocol, on any number of connections. It is not safe
// for concurrent use. Its memory is bounded by the exchanges in flight, 65,536 at most, and by
// its history. Counting continues when both are full.
type Tracker struct {
	protocol protocol.Protocol
	base     *protocol.Rules // of the protocol
	rules    *protocol.Rules // applied to the current frame
	version  string          // of those rules; "" if unknown
	isNewer  bool            // newer than all known versions
	judged   protocol.Judged
	history  int
	inFlight int
	oneWay   bool
	partial  bool
	said     bool
	keeps    bool // arguments
	mask     func(text string) string
	masked   bool    // see Frame
	blank    bool    // see Frame
	faithful bool    // see Frame
	watch    Watcher // or nil

	frames, bytes, opened, forgotten int64
	used                             protocol.Usage
	serial                           uint64 // of scopes and exchanges

	scopes     map[scopeKey]*scope
	conns      map[int]*list[scope] // the scopes of each connection
	scopeOrder list[scope]          // least recently used first
	lastScope  *scope

	table   table
	live    list[Exchange] // open, in the order of opening
	settled list[Exchange] // the history, in the order of settling
	cancels list[Cancel]   // the ledger, in the order of asking
	waiting int            // settled exchanges whose cancel is pending
	refused bool           // a request was refused, and may be repeated

	findings ring[Finding]
	found    [numRules]int64
	classes  [numClasses]int64

	kinds      map[string]*Kind
	kindOrder  []*Kind
	lastKind   *Kind
	names      int       // of all kinds
	models     []*Model  // in the order in which they were first seen
	uncounted  *Exchange // a finished exchange of a model whose last message may still add usage, or nil
	newer      []string  // unknown versions that were reported
	versions   map[string]string
	steps      map[key]bool           // steps that began, and whether they have ended
	endedParts map[key]gonePart       // parts of connections that have ended
	spent      map[key]protocol.Usage // by session or thread: its last total
}

// Options configure a tracker.
type Options struct {
	// History is how many cancels and findings are kept, and how many settled exchanges at
	// least; 0 means 4096. A settled exchange beyond it is dropped when another begins. From
	// then on, a late answer to it looks like an answer to an unknown request.
	History int
	// InFlight is how many exchanges and scopes may be open; 0 means 65,536. Beyond it the
	// tracker drops the oldest exchange, or the least recently used scope.
	InFlight int
	// OneWay means that only one direction is fed. Answers without requests, and requests
	// without answers, are then not reported.
	OneWay bool
	// Partial means that not all requests to the unit are fed: the target of a cancel may
	// have been opened on another connection.
	Partial bool
	// Said means that the text of a model's answer is kept while it is being received, and Arguments
	// that the beginning of those of each request is kept.
	Said, Arguments bool
	// Mask, if not nil, takes secrets out of a text.
	Mask func(text string) string
	// Watcher, if not nil, is notified of everything as it happens.
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
		protocol: p, base: all.Rules(p), rules: all.Rules(p), history: o.History, inFlight: o.InFlight, oneWay: o.OneWay, partial: o.Partial, said: o.Said, keeps: o.Arguments, mask: o.Mask, watch: o.Watcher,
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
	// Framing is the framing of a plain stream; nil in a carrier, or if unknown.
	Framing frame.Framing
	// Payload is the payload, or the bytes of a gap; it may be nil. It is used to split a
	// JSON-RPC batch, and to recognize payloads that are not messages.
	Payload []byte
	batch   *batch // nil unless the payload is a message of one

	// Inner means that the frame is inside a frame that was already counted.
	Inner bool
	// Masked means that values in the payload are masked, as in a record of metadata, and
	// Blank that all of it is. From then on, rules that need them are not judged.
	// Faithful that messages mean the same as before.
	Masked, Blank, Faithful bool
	// Absent means that the message was not recorded, so that its size is unknown.
	Absent bool
	// Again means that the frame was fed before, and its message counted.
	Again bool
	// Version is the version of the protocol that the carrier states for the message, as
	// written; "" if it states none.
	Version string
	// Status is the status of the response over HTTP that the frame belongs to; "" if there is none.
	Status string
	// Stated is what the headers of an HTTP request say about the message; nil if there are
	// none.
	Stated *protocol.Stated
	// Response is what the frame says about a response over HTTP; nil for messages.
	Response *protocol.Response
	// Session is the scope of the session that the answer in the frame begins; zero if it
	// begins none.
	Session struct{ Conn, Stream int }
	// ToolCalls are the names of the tools that the model calls with this frame.
	ToolCalls []string
	// Links are what the message has in common with others of a run.
	Links []protocol.Link
	// Context is what a request gives to a model; nil if unknown.
	Context *context.Call
	// Broken lists additional rules that the message is known to break.
	Broken []protocol.Broken
	// Endless means that the request it opens need not be answered before the connection
	// ends.
	Endless bool
	// Cut means that the unit broke the answer off, so a failure is that the unit died.
	Cut bool
	// Fault is the fault of the frame, or of a value deep in its message, if it carries
	// one; of a gap; or of the payload. Gap means that this is not a frame but skipped
	// bytes.
	Fault error
	Gap   bool
	cut   bool // only the beginning and the end of the message are known
}

// An Event is something that happens to a connection besides its frames: its beginning, an end, the
// end of the unit's process, a line of standard error.
type Event struct {
	// Kind is "connected", "closed", "exited", "not started", "lingering" or "stderr". Text describes it: the name of
	// the connection, who has closed it, how the process ended, the line. Wire is the name of the wire in a run.
	Kind, Text, Wire string
	Conn             int
	Time             time.Time
}

// An event is one message on its way through the tracker.
type event struct {
	f     *Frame
	m     *protocol.Message
	scope *scope
	from  frame.Dir // the side it comes from, if known
	kind  *Kind
	used  protocol.Usage

	refused bool // it refuses whole requests, whatever they ask for
	several bool // it cancels one of several exchanges
}

// Feed handles a frame and its message, which is nil if the frame carries none: a gap, or a
// payload that does not parse. Neither is kept.
func (t *Tracker) Feed(f Frame, m *protocol.Message) {
	s := t.count(&f, m)
	switch {
	case m == nil:
	case s.torn[f.Dir] != nil && f.Framing == frame.Line && t.joins(&f, s): // a value on a line of its own
	case isBatch(m) && len(f.Payload) > 0:
		t.judge(&event{f: &f, m: m, scope: s, from: f.Dir}, m, nil)
		t.feedBatch(&f, s)
	default:
		if b := t.refusedBatch(&f, s, m); b != nil {
			t.refuse(&f, s, m, b.first)
			return
		}
		t.feed(&f, s, m)
	}
}

// count counts a frame and reports its fault. It returns the frame's scope.
func (t *Tracker) count(f *Frame, m *protocol.Message) *scope {
	if f.Dir > frame.U2C {
		f.Dir = frame.DirUnknown
	}
	if t.base.NoWire {
		f.Size = 0
	}
	s := t.scopeOf(f)
	s.last = f.Seq
	t.masked, t.blank, t.faithful = t.masked || f.Masked, t.blank || f.Blank, f.Faithful
	t.chooseRules(f, s, m)
	if !f.Inner && !f.Again {
		t.frames++
		t.bytes += int64(f.Size)
	}
	if f.Framing != nil && m != nil {
		t.checkFraming(f, s)
	}
	if m != nil && m.Faults&protocol.UnknownKind == 0 && t.protocol != opaque.JSON { // any value is JSON
		t.settleTorn(s, f.Dir)
	}
	t.keepGap(f, s)
	if f.Fault == nil {
		s.gap[f.Dir] = nil
	} else if s.fresh(f) && (m != nil || !t.mend(f, s)) {
		t.reportFault(f, m)
		if m == nil {
			s.unreadable[f.Dir]++
			t.salvage(f, s)
		}
	}
	if len(s.nameless[f.Dir]) > 0 {
		t.settleOrphans(s, f.Dir)
	}
	return s
}

// Refuse is Feed for a frame that, according to its carrier, answers the requests in the frame
// numbered asked. m, whose phase is Fail, fails all of these requests unless it names one
// exchange. It may be the refusal of the carrier instead of a protocol message.
func (t *Tracker) Refuse(f Frame, m *protocol.Message, asked int64) {
	t.refuse(&f, t.count(&f, m), m, asked)
}

// End records that a connection has ended with all its streams. Open exchanges stay unanswered.
func (t *Tracker) End(conn int, at time.Time) { t.EndBy(conn, Ending{}, at) }

// Forget drops everything that is open, because messages are missing from here on. They may
// have opened, answered or ended anything, so nothing is reported as missing any more.
func (t *Tracker) Forget() {
	t.forgotten++
	for e := t.live.oldest(); e != nil; e = t.live.oldest() {
		t.forget(e)
	}
	for e := t.settled.oldest(); e != nil; e = t.settled.oldest() {
		t.retire(e)
	}
}

// Reject records that the unit closed a connection because of the requests on it. Open runs
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

// isBatch reports whether m is a batch, whose Count is the number of its messages. A method
// named like a batch has no count.
func isBatch(m *protocol.Message) bool { return m.Count > 0 && bytes.Equal(m.Kind, kindBatch) }

// feedBatch handles the messages of a batch one by one. The first one has the bytes of all.
func (t *Tracker) feedBatch(f *Frame, s *scope) {
	part := *f
	part.Stated, part.Broken = nil, nil
	part.batch = &batch{first: f.Seq}
	for payload := range protocol.Items(f.Payload) {
		var m protocol.Message
		part.Payload = payload
		if err := t.protocol.Parse(payload, &m); err == nil {
			t.feed(&part, s, &m)
		}
		part.Size = 0
	}
}

// A Watcher is notified of everything that its tracker learns, so that a live view need not
// search all of it. The arguments are only valid during the call. A Watcher must not call the
// tracker.
type Watcher interface {
	// Changed reports that frame seq (0 for none) belongs to e or changed its state.
	Changed(e *Exchange, seq int64)
	// Asked reports that c was added to the ledger, or that its class is now known.
	Asked(c *Cancel)
	// Found reports that a rule was broken.
	Found(f Finding)
}

// A Bystander is a Watcher of changes alone: embedded, it ignores cancels and findings.
type Bystander struct{}

// Asked implements [Watcher].
func (Bystander) Asked(*Cancel) {}

// Found implements [Watcher].
func (Bystander) Found(Finding) {}

func (t *Tracker) changed(e *Exchange, seq int64) {
	if t.watch != nil {
		t.watch.Changed(e, seq)
	}
}

func (t *Tracker) watchCancel(c *Cancel) {
	if t.watch != nil {
		t.watch.Asked(c)
	}
}

// Exchanges yields the exchanges of the history in the order in which they were settled, then
// the open ones in the order of opening.
func (t *Tracker) Exchanges() iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		_ = t.settled.all(yield) && t.live.all(yield)
	}
}

// Cancels yields the ledger of cancellations in the order of asking, limited to the history.
func (t *Tracker) Cancels() iter.Seq[*Cancel] {
	return func(yield func(*Cancel) bool) { t.cancels.all(yield) }
}

// Overdue yields the open exchanges with no activity since a time, each only once. It omits
// those that need no end.
func (t *Tracker) Overdue(since time.Time) iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		if t.base.Streamed {
			return
		}
		for n := t.live.first; n != nil && !n.of.Opened.After(since); n = n.next {
			e := n.of
			if t.rules = e.rules; e.overdue || e.Opened.IsZero() || !e.Accepted.IsZero() || e.Answered.After(since) || e.LastPart.After(since) || t.isEndless(e) {
				continue
			}
			e.overdue = true
			if !yield(e) {
				return
			}
		}
	}
}

// InFlight returns how many exchanges are open.
func (t *Tracker) InFlight() int { return t.live.len }

// Findings yields the findings, oldest first, limited to the history.
func (t *Tracker) Findings() iter.Seq[Finding] { return t.findings.all }

// Stats returns the counts so far. The kinds belong to the tracker and are valid until the next
// Feed or End.
func (t *Tracker) Stats() Stats {
	t.countModel()
	s := Stats{
		Frames: t.frames, Bytes: t.bytes,
		Opened: t.opened, InFlight: int64(t.InFlight()), Forgotten: t.forgotten,
		Usage: t.used, Cancels: t.classes, Findings: make(map[string]int64), Kinds: t.kindOrder, Models: t.models,
	}
	for r, n := range t.found {
		if n > 0 {
			s.Findings[Findings[r].Name] = n
		}
	}
	for n := t.cancels.first; n != nil; n = n.next {
		if n.of.Class == Pending {
			s.Cancels[Pending]++
		}
	}
	return s
}

// A list is an intrusive doubly linked list: its nodes are fields of the elements, so nothing
// is allocated. The zero list is empty.
type list[T any] struct {
	first, last *node[T]
	len         int
}

// A node is in at most one list.
type node[T any] struct {
	prev, next *node[T]
	of         *T
}

// push appends n, a field of v, which must not be in a list.
func (l *list[T]) push(n *node[T], v *T) {
	*n = node[T]{prev: l.last, of: v}
	if l.last != nil {
		l.last.next = n
	} else {
		l.first = n
	}
	l.last = n
	l.len++
}

// remove removes n, which must be in l.
func (l *list[T]) remove(n *node[T]) {
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.last = n.prev
	}
	l.len--
	*n = node[T]{}
}

// oldest returns the element that was pushed first, or nil.
func (l *list[T]) oldest() *T {
	if l.first == nil {
		return nil
	}
	return l.first.of
}

// all yields the elements until yield returns false, and returns false in that case.
func (l *list[T]) all(yield func(*T) bool) bool {
	for n := l.first; n != nil; n = n.next {
		if !yield(n.of) {
			return false
		}
	}
	return true
}

// A Model holds the counts of the exchanges that a model has answered, or was asked to answer.
type Model struct {
	Name string
	// Calls counts the exchanges that are over, and Failed those that failed.
	Calls, Failed int64
	Usage         protocol.Usage
	// FirstPart is the time from request to first part: the time to the first token.
	FirstPart Histogram
	// Streamed counts the tokens between the first part and the end, and Streaming is the
	// time between these.
	Streamed  int64
	Streaming time.Duration
	// StopReasons and ToolCalls hold counts by name.
	StopReasons, ToolCalls map[string]int64
}

// maxNamesOfModel bounds how many stop reasons and tools of a model are distinguished.
const maxNamesOfModel = 256

// TokensPerSecond returns the speed of the model; 0 if unknown.
func (m *Model) TokensPerSecond() float64 { return perSecond(m.Streamed, m.Streaming) }

func perSecond(n int64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// streamed returns how many tokens of the answer came after its beginning, and how long
// that took: from the first part, or from the request if there are no parts.
func (e *Exchange) streamed() (tokens int64, took time.Duration) {
	if e.Outcome != Done || e.Model == "" || e.rules != nil && e.rules.NoWire {
		return 0, 0
	}
	start := e.FirstPart
	if e.Parts == 0 {
		start = e.Opened
	}
	if took = since(e.Closed, start); took == 0 {
		return 0, 0
	}
	return e.Usage.Output, took
}

// TokensPerSecond returns the speed of the answer, from the first part to the end; 0 if
// unknown.
func (e *Exchange) TokensPerSecond() float64 { return perSecond(e.streamed()) }

// modelNamed returns the model of that name, or nil if it is "" or there are too many.
func (t *Tracker) modelNamed(name string) *Model {
	if name == "" {
		return nil
	}
	at := slices.IndexFunc(t.models, func(m *Model) bool { return m.Name == name })
	if at < 0 {
		if len(t.models) == maxNamesOfModel {
			return nil
		}
		at = len(t.models)
		t.models = append(t.models, &Model{Name: name, StopReasons: map[string]int64{}, ToolCalls: map[string]int64{}})
	}
	return t.models[at]
}

// countAnswer counts a message of a model in a session that was on no wire: one exchange has the
// answers of several calls, which can be of several models.
func (t *Tracker) countAnswer(ev *event) {
	if m := t.modelNamed(string(clip(ev.m.Model, maxText))); m != nil {
		m.Calls += int64(ev.m.Count)
		m.Usage = m.Usage.Plus(ev.used)
		if why := clip(ev.m.StopReason, maxText); len(why) > 0 && ev.m.Count > 0 {
			countName(m.StopReasons, string(why))
		}
	}
}

// countModel counts the finished exchange that was not counted yet.
func (t *Tracker) countModel() {
	e := t.uncounted
	if t.uncounted = nil; e == nil || t.base.NoWire {
		return
	}
	if m := t.modelNamed(e.Model); m != nil {
		m.addExchange(e)
	}
}

// addExchange counts a finished exchange.
func (m *Model) addExchange(e *Exchange) {
	m.Calls++
	if e.Outcome.Failed() {
		m.Failed++
	}
	m.Usage = m.Usage.Plus(e.Usage)
	if first := e.TimeToFirstPart(); first > 0 {
		m.FirstPart.Add(first)
	}
	tokens, took := e.streamed()
	m.Streamed += tokens
	m.Streaming += took
	if e.StopReason != "" {
		countName(m.StopReasons, e.StopReason)
	}
	for _, name := range e.ToolCalls {
		countName(m.ToolCalls, name)
	}
}

func countName(counts map[string]int64, name string) {
	if _, known := counts[name]; known || len(counts) < maxNamesOfModel {
		counts[name]++
	}
}

// maxSaid bounds how much of the text of an answer is kept.
const maxSaid = 256 << 10

// say appends a piece to the text of the answer, and keeps only the end.
func (e *Exchange) say(piece []byte) {
	piece = piece[max(0, len(piece)-maxSaid/2):]
	if len(e.Said)+len(piece) > maxSaid {
		n := copy(e.Said, e.Said[len(e.Said)-(maxSaid/2):])
		e.Said = e.Said[:n]
	}
	if need := len(e.Said) + len(piece); need > cap(e.Said) {
		e.Said = append(make([]byte, 0, min(max(2*cap(e.Said), need, 256), maxSaid)), e.Said...)
	}
	e.Said = append(e.Said, piece...)
}

// Package track feeds the trackers of package session with the items of package decode. It
// chooses the rules for each connection.
package track

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/context"
)

// Trackers holds the trackers of one or more sessions, one for each protocol.
type Trackers struct {
	List   []Tracker
	OneWay bool // judge as if a direction were missing
	Forms  bool // check the whole JSON form of messages; see decode.Item.CheckForm
	Timed  bool // some frames have times
	Said   bool // keep the text of models' answers while they arrive
	Asked  bool // keep the arguments of requests
	Joins  bool // keep what messages have in common with other wires, and the names of connections
	OfRun  bool // a session is that of a run, which sets Joins
	Whole  bool // with Joins: keep the arguments of the tool calls that models make
	// Apart says that sessions do not share connection numbers.
	Apart   bool
	Watcher session.Watcher // gets what they learn, if not nil
	// Contexts keeps what models are given, if not nil. Unjudged means that nobody wants to know what is
	// wrong with that.
	Contexts *context.Log
	Unjudged bool

	// Wires are the names of connections, and of sessions of MCP over HTTP by their Conn and Stream;
	// for a connection, Stream is 0. They are kept with Joins.
	Wires map[[2]int]string

	// Event, if not nil, gets what happens besides frames.
	Event func(session.Event)

	masking sync.Mutex
	mask    func(text string) string
	conns   int  // connections of the sessions so far
	lossy   bool // messages are missing
}

// A Tracker tracks one protocol.
type Tracker struct {
	*session.Tracker
	Protocol protocol.Protocol
	oneWay   bool // it judges as if a direction were missing
}

// Hide takes secrets out of a text. Calls that are over may be printed aside.
func (ts *Trackers) Hide(text string) string {
	ts.masking.Lock()
	defer ts.masking.Unlock()
	if ts.mask == nil {
		ts.mask = capture.Secrets().Text()
	}
	return ts.mask(text)
}

// of returns the tracker of a protocol.
func (ts *Trackers) of(p protocol.Protocol, oneWay bool) *session.Tracker {
	oneWay = oneWay || ts.OneWay
	for _, t := range ts.List {
		if t.Protocol == p && t.oneWay == oneWay {
			return t.Tracker
		}
	}
	t := session.New(p, session.Options{OneWay: oneWay, Said: ts.Said, Arguments: ts.Asked, Mask: ts.Hide, Watcher: ts.Watcher})
	if ts.lossy {
		t.Forget()
	}
	ts.List = append(ts.List, Tracker{t, p, oneWay})
	return t
}

// A Follower feeds trackers with one session. It holds frames back until it knows their
// tracker. The first messages of a JSON-RPC connection may not show which rules it follows.
// The records of a capture may all have one direction, in which nothing is answered.
type Follower struct {
	trackers *Trackers
	named    bool              // the protocol is given
	protocol protocol.Protocol // of a session without frames
	stream   bool              // the session is a stream of one direction
	settled  bool              // it is known whether the session has one direction
	seen     [3]bool
	base     int // added to the numbers of connections
	wires    map[int]*followed
	last     *followed   // the wire used last
	order    []*followed // the wires in the order of their first frames
	scopes   session.Scopes
	web      exchanges
	over     *exchange // whose response ends with the current item, or nil
	deleted  []int     // streams of sessions that their clients have deleted
	// endpoints are the paths to which messages are posted.
	endpoints map[string]bool
	sessions  map[int]*endedSession
	older     map[string]bool // kinds of requests that the older transport of MCP answers elsewhere
	apis      all.APIs
	payments  payments
	runs      map[*protocol.Spec]protocol.Runs
	coding    coding
	lives     map[int]*liveSession // by connection
	contexts  *context.Log
	schemas   schemas
	prices    prices.Book
	conns     map[int]bool      // connections whose frames came in a carrier
	halves    map[int]frame.Dir // the direction of a connection that ended first
	closers   map[int]frame.Dir // the direction of the first Close frame of a WebSocket
	units     map[int]*unit     // units with events, such as stderr or an exit status
	held      int               // bytes held back
	tooLarge  [3]string         // by direction: the fault of the last head whose body is over the limit
	unended   bool              // connections go on after the last record
	Last      time.Time         // when the last frame was read
	seq       int64             // its number, and
	at        int               // its wire
}

// A session's HTTP is all on one wire, because a client may use many connections to one
// server.
const httpWire = -1

// wireOf returns the number of an item's wire.
func wireOf(it *decode.Item) int {
	if isHTTP(it.Frame) {
		return httpWire
	}
	return it.Frame.Conn
}

// A followed wire is a connection, on which one protocol is spoken.
type followed struct {
	conn       int
	protocol   protocol.Protocol
	sawRequest bool              // a JSON-RPC request or notification was seen
	evident    protocol.Protocol // the protocol that the first of them shows, or nil
	tracker    *session.Tracker  // nil while frames are held back
	held       []heldFrame
	message    protocol.Message
	nested     *nested                               // the sessions inside it, or nil
	inner      func(payload []byte) *protocol.Nested // of the protocol; nil if its messages have no others inside
}

// A heldFrame owns its payload.
type heldFrame struct {
	session.Frame
	well bool // it was parsed as a message of some protocol
	// binary is a message of bytes, beside those of any protocol in JSON.
	binary bool
	no     refusal
	then   func(*session.Tracker) // not a frame: what follows the frames before it; or nil
}

const (
	maxHeld  = 4 << 20 // bytes of held frames
	heldSize = 256     // bytes of a frame besides its payload
	// maxUntold limits the held frames of a wire that show only that it is JSON-RPC.
	maxUntold = 64
)

// NewFollower returns the follower of a session that is read from in. The trackers may have
// followed other sessions before.
func NewFollower(ts *Trackers, in decode.Input, cfg decode.Config) *Follower {
	f := &Follower{
		trackers: ts, named: cfg.Protocol != nil, protocol: cmp.Or(cfg.Protocol, opaque.Bytes),
		stream: in.Capture == nil, settled: in.Capture == nil, prices: cfg.Prices,
		wires: map[int]*followed{}, runs: map[*protocol.Spec]protocol.Runs{}, lives: map[int]*liveSession{},
		conns: map[int]bool{}, halves: map[int]frame.Dir{}, closers: map[int]frame.Dir{}, units: map[int]*unit{},
	}
	if f.contexts = ts.Contexts; f.contexts == nil {
		f.contexts = &context.Log{}
	} else if f.contexts.Mask == nil {
		f.contexts.Mask = capture.Secrets().Text()
	}
	ts.Joins, ts.OfRun = ts.Joins || in.OfRun || in.Joins, ts.OfRun || in.OfRun
	if !ts.Apart {
		f.base = ts.conns
	}
	return f
}

// View handles an item and shows nothing.
func (f *Follower) View(dst []byte, it *decode.Item) ([]byte, error) {
	f.seq, f.at = it.Seq, wireOf(it)
	f.see(it)
	if e := f.over; e != nil { // only now, because the item can be the answer
		f.over = nil
		f.endResponse(e, it, it.Time)
	}
	return dst, nil
}

// see handles an item.
func (f *Follower) see(it *decode.Item) {
	if it.Frame.Gap && it.Frame.Meta != nil && it.Err == nil {
		return // the carrier's own data, without a fault
	}
	if it.Frame.Meta != nil && errors.Is(it.Frame.Flaw, frame.ErrTooLarge) {
		if of := it.Frame; of.Gap && whereOf(it.Err) == f.tooLarge[of.Dir] {
			return // the rest of a body whose head was evidence
		} else if !of.Gap {
			f.tooLarge[of.Dir] = whereOf(it.Err)
		}
	}
	if it.Frame.Gap && it.Frame.Meta != nil && errors.Is(it.Frame.Flaw, frame.ErrTooLarge) {
		f.miss(it.Frame.Conn, it.Frame.Dir, session.MaybeOverLimit)
	}
	if m := it.Frame.Meta; m != nil && m.Signal == frame.Close && f.closers[it.Frame.Conn] == frame.DirUnknown {
		f.closers[it.Frame.Conn] = it.Frame.Dir
	}
	switch {
	case carrier.Refuses(it.Frame):
		f.rejected(it)
		return
	case f.cutByClient(it.Frame):
		return
	}
	if !f.named && f.api(it) || f.live(it) {
		return
	}
	var no refusal
	if isHTTP(it.Frame) {
		var taken bool
		if no, taken = f.exchange(it); taken {
			return
		}
	}
	if no.status == "" && it.Frame.Meta != nil && (carried.Of(it.Frame) != nil || carried.IsOfCall(it.Frame, it.Protocol, all.Of(it.Protocol))) {
		f.call(it)
		return
	}
	well := !it.Frame.Gap && (it.Err == nil || it.Err == it.Frame.Flaw)
	if f.trackers.Forms && well {
		it.CheckForm()
	}
	w := f.wire(wireOf(it))
	if w.tracker == nil && no.status == "" {
		w.learn(it, well)
	}
	fr := w.frame(it)
	if it.Frame.Meta != nil {
		f.place(&fr, it.Frame)
	}
	f.learn(&fr)
	var m *protocol.Message
	if it.Protocol == w.protocol {
		m = &it.Message
		if m.Usage != (protocol.Usage{}) && m.Usage.Cost == 0 && all.Rules(it.Protocol).NoWire {
			if price, known := f.prices.Of(string(m.Model)); known {
				decode.Charge(&m.Usage, price, prices.Band(m.Usage.Input))
			}
		}
		if well && all.Rules(it.Protocol).NoWire {
			f.contexts.Told(fr.Seq, fr.Time, fr.Conn, m)
		}
	}
	if well {
		fr.Links = f.linksOf(it)
	}
	f.hand(w, &heldFrame{Frame: fr, well: well, no: no, binary: well && it.Protocol == opaque.Bytes && decode.IsBinary(it.Frame, it.Payload)}, m)
	if w.inner != nil && well && it.Protocol == w.protocol {
		f.nest(w, w.inner(it.Payload), fr)
	}
}

// whereOf returns the text of a fault without the number of its frame.
func whereOf(fault error) string {
	_, text, _ := strings.Cut(fault.Error(), " at byte ")
	return text
}

// call handles the parts of a gRPC call: its heads, its reset, and messages without exchanges
// of their own. No other data of a carrier itself is an exchange.
func (f *Follower) call(it *decode.Item) {
	fr := f.carried(it)
	m := &it.Message
	switch {
	case it.Err == nil && (m.Phase == protocol.Note && m.ID.IsZero() || f.isOther(it.Frame)):
		return
	case it.Err != nil && it.Err != it.Frame.Flaw:
		m = nil
	}
	f.feed(carried.GRPC, fr, m)
}

// rejected notes that the unit closes a WebSocket because of its messages.
func (f *Follower) rejected(it *decode.Item) {
	fr := f.carried(it)
	if w := f.wires[fr.Conn]; w != nil {
		f.hand(w, &heldFrame{then: func(t *session.Tracker) { t.Reject(fr.Conn, fr.Time) }}, nil)
	}
}

// isOther reports whether a frame resets something other than a gRPC call, because no such
// call was seen.
func (f *Follower) isOther(of *frame.Frame) bool {
	return of.Meta.Signal == frame.Reset && !slices.ContainsFunc(f.trackers.List, func(t Tracker) bool { return t.Protocol == carried.GRPC })
}

// carried returns an item of a carrier as trackers get it.
func (f *Follower) carried(it *decode.Item) session.Frame {
	fr := (&followed{}).frame(it)
	f.place(&fr, it.Frame)
	f.learn(&fr)
	return fr
}

// place sets the scope of the ids in a frame of a carrier.
func (f *Follower) place(fr *session.Frame, of *frame.Frame) {
	conn, stream := f.scopes.Of(of)
	fr.Conn, fr.Stream = conn+f.base, stream
	if ts := f.trackers; ts.Joins && stream < 0 {
		ts.name([2]int{fr.Conn, stream}, ts.Wires[[2]int{of.Conn + f.base}])
	}
	if h := of.Meta.Head; h != nil {
		fr.Version, fr.Absent, fr.Status = decode.StatedVersion(h), h.IsAbsent(), h.Status()
		fr.Stated = f.stated(of, h)
		fr.Broken = f.revived(of, stream, fr.Time)
	} else if e := cmp.Or(f.web.of(of), f.over); e != nil && of.Dir == frame.C2U && of.Meta.Signal == frame.NoSignal { // in HTTP/2
		fr.Version, fr.Stated, fr.Broken = e.request.Version, e.request.Stated, e.request.Broken
	} else if e != nil {
		fr.Status = e.status
	}
	if begins := f.scopes.Begins(of); begins != 0 && of.Dir == frame.U2C {
		fr.Session.Conn, fr.Session.Stream = f.base, begins
		delete(f.sessions, begins)
	}
	f.conns[fr.Conn] = true
	f.trackers.conns = max(f.trackers.conns, of.Conn+f.base+1)
}

// stated returns MCP's headers about the message from the head of a request, or nil if f is
// not such a head.
func (f *Follower) stated(of *frame.Frame, h *frame.Head) *protocol.Stated {
	if h.Method() == "" || capture.IsOutline(h) {
		return nil
	}
	s := &protocol.Stated{
		Verb: h.Method(), Version: h.Get("Mcp-Protocol-Version"), Method: h.Get("Mcp-Method"), Name: h.Get("Mcp-Name"),
		Sessionless: f.scopes.Lacks(of), Older: session.IsOlder(h) || f.older[string(carried.Asked(h))],
	}
	for _, field := range h.Fields {
		if len(field.Name) > len(argumentHeader) && strings.EqualFold(field.Name[:len(argumentHeader)], argumentHeader) {
			s.Arguments = append(s.Arguments, [2]string{field.Name, field.Value})
		}
	}
	return s
}

// argumentHeader begins the names of headers that repeat an argument of a tool.
const argumentHeader = "Mcp-Param-"

// wire returns the wire of a connection.
func (f *Follower) wire(conn int) *followed {
	conn += f.base
	if w := f.last; w != nil && w.conn == conn {
		return w
	}
	w := f.wires[conn]
	if w == nil {
		w = &followed{conn: conn}
		f.wires[conn] = w
		f.order = append(f.order, w)
		f.trackers.conns = max(f.trackers.conns, conn+1)
	}
	f.last = w
	return w
}

// learn records the protocol of an item unless it is known. The first request in a JSON-RPC
// dialect may show it before decoding does.
func (w *followed) learn(it *decode.Item, well bool) {
	w.protocol = it.Protocol
	if all.Depth(w.protocol) != all.RPC {
		return
	}
	if well && !w.sawRequest {
		w.evident, w.sawRequest = all.First(it.Payload)
	}
	if w.evident != nil {
		w.protocol = w.evident
	}
}

// frame returns an item as trackers get it.
func (w *followed) frame(it *decode.Item) session.Frame {
	fr := session.Frame{
		Seq: it.Seq, Time: it.Time, Conn: w.conn, Dir: it.Frame.Dir,
		Size: it.Frame.Size(), Payload: it.Payload, Fault: it.Err, Gap: it.Frame.Gap,
		Faithful: it.Outlined, Masked: it.Outlined || it.Redacted && capture.IsOutlined(it.Payload),
	}
	fr.Blank = fr.Masked && it.Protocol.Encoding() == protocol.Protobuf && capture.IsOutlined(it.Payload) // only asterisks
	if it.Frame.Meta == nil {
		fr.Framing = it.Framing
	}
	if fr.Gap {
		fr.Payload, fr.Size = it.Frame.Raw, len(it.Frame.Raw)
	}
	return fr
}

// learn notes whether a session has both directions. A capture with times was recorded where
// both pass. One without times has both only if it has frames of both.
func (f *Follower) learn(fr *session.Frame) {
	if !fr.Time.IsZero() {
		f.Last, f.trackers.Timed = fr.Time, true
	}
	f.seen[fr.Dir] = true
	if !f.settled && (!fr.Time.IsZero() || f.bothWays()) {
		f.settled = true
		f.start(f.tells)
	}
}

func (f *Follower) bothWays() bool { return f.seen[frame.C2U] && f.seen[frame.U2C] }

// oneWay reports whether the session seems to have only one direction.
func (f *Follower) oneWay() bool { return f.stream || f.Last.IsZero() && !f.bothWays() }

// hand passes a frame to the tracker of its wire, as [followed.pass] does, or holds it back
// until the tracker is chosen.
func (f *Follower) hand(w *followed, h *heldFrame, m *protocol.Message) {
	if w.tracker == nil {
		f.hold(w, *h)
	} else {
		w.pass(h, m)
	}
}

// hold holds a frame back. It releases all frames if this one makes the choice possible.
func (f *Follower) hold(w *followed, h heldFrame) {
	h.Payload = slices.Clone(h.Payload)
	w.held = append(w.held, h)
	f.held += len(h.Payload) + heldSize
	if f.held > maxHeld {
		f.Release()
	} else if f.settled && f.tells(w) {
		f.chooseTracker(w)
	}
}

// tells reports whether the protocol of a wire is known.
func (f *Follower) tells(w *followed) bool {
	switch all.Depth(w.protocol) {
	case all.RPC:
		return f.named || w.evident != nil || len(w.held) >= maxUntold
	case all.JSON, all.Bytes:
		return f.named
	}
	return true
}

// Release decides all open choices with the frames so far, and holds back no more frames.
func (f *Follower) Release() {
	f.settled = true
	f.start(func(*followed) bool { return true })
}

// miss notes that a message in a direction of a connection could not be read.
func (f *Follower) miss(conn int, dir frame.Dir, why string) {
	for _, t := range f.trackers.List {
		t.Miss(conn+f.base, dir, why)
	}
	for _, e := range f.web.ofConn[conn] {
		if dir == frame.U2C {
			e.unread = cmp.Or(e.unread, why)
		}
	}
}

// Lose notes that items are missing here. Open exchanges may have ended in them.
func (f *Follower) Lose() {
	f.Release()
	f.web = exchanges{}
	clear(f.lives)
	f.trackers.lossy = true
	for _, t := range f.trackers.List {
		t.Forget()
	}
}

// start begins with the wires for which ready holds.
func (f *Follower) start(ready func(*followed) bool) {
	for _, w := range f.order {
		if w.tracker == nil && ready(w) {
			f.chooseTracker(w)
		}
	}
}

// chooseTracker chooses the tracker of a wire and feeds it the held frames.
func (f *Follower) chooseTracker(w *followed) {
	w.tracker, w.inner = f.trackers.of(w.protocol, f.oneWay()), all.Of(w.protocol).Nested
	for i := range w.held {
		f.held -= len(w.held[i].Payload) + heldSize
		w.pass(&w.held[i], nil)
	}
	w.held = nil
}

// pass hands a frame to the tracker. m is the message in its payload. If m is nil, pass parses
// the payload by the wire's protocol.
func (w *followed) pass(h *heldFrame, m *protocol.Message) {
	switch {
	case h.then != nil:
		h.then(w.tracker)
		return
	case h.binary && w.protocol.Encoding() == protocol.JSON:
		return
	case h.no.status != "":
		m = &protocol.Message{Kind: []byte(h.no.status), Phase: protocol.Fail, Seq: -1}
		h.Dir = frame.U2C // the unit rejected it, even if the controller cut the connection
	case !h.well:
		m = nil
	case m == nil:
		m = &w.message
		if err := w.protocol.Parse(h.Payload, m); err != nil {
			h.Fault, m = fmt.Errorf("not %s: %w", w.protocol.Name(), err), nil
		}
	}
	if h.no.how != "" && m != nil && m.Phase == protocol.Close { // clients look at the status first
		failed := *m
		failed.Phase, failed.Reason, m = protocol.Fail, []byte("a result in "+h.no.how), &failed
	}
	if h.no.request != 0 && m != nil && m.Phase == protocol.Fail {
		w.tracker.Refuse(h.Frame, m, h.no.request)
	} else {
		w.tracker.Feed(h.Frame, m)
	}
}

// ended notes that a direction of a connection has ended. Once both have, its open exchanges
// stay unanswered, or the side that left cancelled them.
func (f *Follower) ended(conn int, dir frame.Dir, at time.Time) {
	first, half := f.halves[conn]
	if !half {
		f.halves[conn] = dir
		return
	}
	if first == dir {
		return
	}
	how := f.units[conn].ending(cmp.Or(f.closers[conn], first))
	delete(f.halves, conn)
	delete(f.closers, conn)
	delete(f.units, conn)
	for _, e := range f.web.removeConn(conn) {
		f.tellUnended(e)
		if how.Died {
			f.endResponse(e, nil, at)
		}
	}
	f.endLive(conn)
	if !f.settled {
		return
	}
	conn += f.base
	if w := f.wires[conn]; w == nil {
		how.Shared = true // HTTP may answer on other connections
	} else {
		if w.tracker == nil {
			f.chooseTracker(w) // no more frames will come
		}
		f.forget(w)
	}
	delete(f.conns, conn)
	for _, t := range f.trackers.List {
		t.EndBy(conn, how, at)
	}
}

// forget drops an ended wire, because a long-running relay has any number of wires.
func (f *Follower) forget(w *followed) {
	delete(f.wires, w.conn)
	f.order = slices.DeleteFunc(f.order, func(o *followed) bool { return o == w })
	if f.last == w {
		f.last = nil
	}
}

// End handles the end of the session and of all its connections, unless these go on.
func (f *Follower) End() {
	if f.Release(); f.unended {
		return
	}
	for _, conn := range slices.Sorted(maps.Keys(f.lives)) {
		f.endLive(conn)
	}
	for _, conn := range slices.Sorted(maps.Keys(f.web.ofConn)) {
		for _, e := range f.web.removeConn(conn) {
			f.tellUnended(e)
		}
	}
	for _, w := range f.order {
		conn := w.conn - f.base
		how := f.units[conn].ending(cmp.Or(f.closers[conn], f.halves[conn]))
		how.Died = how.Died && how.How != "" // the other direction may be missing because the recorder was killed
		w.tracker.EndBy(w.conn, how, f.Last)
	}
	for _, conn := range slices.Sorted(maps.Keys(f.conns)) {
		for _, t := range f.trackers.List {
			t.EndBy(conn, session.Ending{First: f.closers[conn-f.base], Shared: true}, f.Last)
		}
	}
	if !f.trackers.Apart {
		for _, t := range f.trackers.List {
			t.Abandon(f.Last)
		}
	}
}

// Package track feeds the trackers of package session with the items of package decode. It
// chooses the rules by which each connection is judged.
package track

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/agui"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session"
)

// Trackers are those of one or more sessions, one for each protocol.
type Trackers struct {
	List   []Tracker
	OneWay bool // all are to judge as if a direction were missing
	Forms  bool // messages are looked into as deep as their JSON form goes; see decode.Item.CheckForm
	Timed  bool // the times of some frames are known
	Said   bool // the texts of the answers of models are kept while they come
	// Apart says that no connection of one session has the number of one of another.
	Apart   bool
	Watcher session.Watcher // told what they learn, if it is not nil

	conns int  // connections of the sessions so far
	lossy bool // messages were missing
}

// A Tracker is that of one protocol.
type Tracker struct {
	*session.Tracker
	Protocol protocol.Protocol
	oneWay   bool // it judges as if a direction were missing
}

// of returns the tracker of a protocol.
func (ts *Trackers) of(p protocol.Protocol, oneWay bool) *session.Tracker {
	oneWay = oneWay || ts.OneWay
	for _, t := range ts.List {
		if t.Protocol == p && t.oneWay == oneWay {
			return t.Tracker
		}
	}
	t := session.New(p, session.Options{OneWay: oneWay, Said: ts.Said, Watcher: ts.Watcher})
	if ts.lossy {
		t.Forget()
	}
	ts.List = append(ts.List, Tracker{t, p, oneWay})
	return t
}

// A Follower feeds trackers with one session. It holds frames back until it knows which
// tracker they are for: the first messages of a JSON-RPC connection do not tell which rules
// it follows, and the records of a capture may all be of one direction, in which nothing is
// ever answered.
type Follower struct {
	trackers *Trackers
	named    bool // the protocol is given
	stream   bool // the session is a stream, of one direction
	settled  bool // it is known whether the session has one direction
	seen     [3]bool
	base     int // added to the numbers of connections
	wires    map[int]*followed
	last     *followed   // of the wires
	order    []*followed // the same, in the order of their first frames
	scopes   session.Scopes
	web      exchanges
	agents   a2a.Routes
	payments payments
	threads  agui.Threads
	coding   coding
	lives    map[int]*liveSession // by connection
	talks    session.Conversations
	schemas  schemas
	prices   prices.List
	conns    map[int]bool      // of frames that came in a carrier
	halves   map[int]frame.Dir // the direction in which a connection has ended
	units    map[int]*unit     // of which more is known than their frames
	held     int               // bytes
	Last     time.Time         // when the last frame was read
}

// All HTTP of a session is on one wire, because a client may use many connections to one
// server.
const httpWire = -1

// wireOf returns the number of the wire that an item travelled on.
func wireOf(it *decode.Item) int {
	if isHTTP(it.Frame) {
		return httpWire
	}
	return it.Frame.Conn
}

// A followed wire is a connection, on which one protocol is spoken.
type followed struct {
	conn     int
	protocol protocol.Protocol
	asked    bool              // a request or notification of JSON-RPC was seen
	told     protocol.Protocol // by the first of them, or nil
	tracker  *session.Tracker  // nil as long as frames are held back
	held     []heldFrame
	message  protocol.Message
	nested   *nested // the sessions of MCP inside it, or nil
}

// A heldFrame has a payload of its own.
type heldFrame struct {
	session.Frame
	well   bool // it was read as a message of some protocol
	no     refusal
	ends   bool // it is no message, but closes the connection because of those before
	stream bool // it is no message, but ends the answer to the request on its stream
}

const (
	maxHeld  = 4 << 20 // bytes of the frames that are held back
	heldSize = 256     // bytes that a frame takes besides its payload
	// maxUntold bounds the frames of a wire that are held back because they tell no more
	// than JSON-RPC.
	maxUntold = 64
)

// NewFollower returns the follower of a session that is read from in. The trackers may have
// followed others before.
func NewFollower(ts *Trackers, in decode.Input, cfg decode.Config) *Follower {
	f := &Follower{
		trackers: ts, named: cfg.Protocol != nil,
		stream: in.Capture == nil, settled: in.Capture == nil, prices: cfg.Prices,
		wires: map[int]*followed{}, lives: map[int]*liveSession{},
		conns: map[int]bool{}, halves: map[int]frame.Dir{}, units: map[int]*unit{},
	}
	if !ts.Apart {
		f.base = ts.conns
	}
	return f
}

// View handles an item and shows nothing.
func (f *Follower) View(dst []byte, it *decode.Item) ([]byte, error) {
	if it.Frame.Gap && it.Frame.Meta != nil && it.Err == nil {
		return dst, nil // the carrier's own, and no fault
	}
	if carrier.Refuses(it.Frame) {
		f.rejected(it)
		return dst, nil
	}
	if !f.named && f.api(it) || f.live(it) {
		return dst, nil
	}
	var no refusal
	if isHTTP(it.Frame) {
		var taken bool
		if no, taken = f.exchange(it); taken {
			return dst, nil
		}
	}
	if no.status == "" && (carried.Of(it.Frame) != nil || carried.IsOfCall(it.Frame, it.Protocol)) {
		f.call(it)
		return dst, nil
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
	}
	f.hand(w, &heldFrame{Frame: fr, well: well, no: no}, m)
	if well && it.Protocol == claude.Protocol {
		f.nest(w, it, fr)
	}
	return dst, nil
}

// call handles the parts of a gRPC call: its heads, its reset, and messages that have no
// exchanges of their own. Nothing else that a carrier sends for itself is an exchange.
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
	h := heldFrame{Frame: f.carried(it), ends: true}
	if w := f.wires[h.Conn]; w != nil {
		f.hand(w, &h, nil)
	}
}

// isOther reports whether a frame resets something other than a call of gRPC, because no
// such call was seen.
func (f *Follower) isOther(of *frame.Frame) bool {
	return of.Meta.Signal == frame.Reset && !slices.ContainsFunc(f.trackers.List, func(t Tracker) bool { return t.Protocol == carried.GRPC })
}

// carried returns what trackers are told about an item that came in a carrier.
func (f *Follower) carried(it *decode.Item) session.Frame {
	fr := (&followed{}).frame(it)
	f.place(&fr, it.Frame)
	f.learn(&fr)
	return fr
}

// place notes, for a frame that came in a carrier, where its ids mean something.
func (f *Follower) place(fr *session.Frame, of *frame.Frame) {
	conn, stream := f.scopes.Of(of)
	fr.Conn, fr.Stream = conn+f.base, stream
	if h := of.Meta.Head; h != nil {
		fr.Version = decode.StatedVersion(h)
		fr.Stated = f.stated(of, h)
	} else if e := f.web.of(of); e != nil && of.Dir == frame.C2U && of.Meta.Signal == frame.NoSignal { // in HTTP/2
		fr.Version, fr.Stated = e.request.Version, e.request.Stated
	}
	f.conns[fr.Conn] = true
	f.trackers.conns = max(f.trackers.conns, of.Conn+f.base+1)
}

// stated returns what the head of a request says about its message, as MCP defines it; nil
// if it is not the head of a request.
func (f *Follower) stated(of *frame.Frame, h *frame.Head) *protocol.Stated {
	if h.Method() == "" {
		return nil
	}
	s := &protocol.Stated{
		Verb: h.Method(), Version: h.Get("Mcp-Protocol-Version"), Method: h.Get("Mcp-Method"), Name: h.Get("Mcp-Name"),
		Sessionless: f.scopes.Lacks(of),
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

// learn records the protocol of an item if it is not settled. The first request in a
// dialect of JSON-RPC may settle it before decoding does.
func (w *followed) learn(it *decode.Item, well bool) {
	w.protocol = it.Protocol
	if w.protocol != protocol.Protocol(jsonrpc.Plain) {
		return
	}
	if well && !w.asked {
		w.told, w.asked = all.First(it.Payload)
	}
	if w.told != nil {
		w.protocol = w.told
	}
}

// frame returns what trackers are told about an item.
func (w *followed) frame(it *decode.Item) session.Frame {
	fr := session.Frame{
		Seq: it.Seq, Time: it.Time, Conn: w.conn, Dir: it.Frame.Dir,
		Size: it.Frame.Size(), Payload: it.Payload, Fault: it.Err, Gap: it.Frame.Gap,
	}
	if it.Frame.Meta == nil {
		fr.Framing = it.Framing
	}
	if fr.Gap {
		fr.Payload, fr.Size = it.Frame.Raw, len(it.Frame.Raw)
	}
	return fr
}

// learn notes what a frame tells about its session. A capture with times was recorded where
// both directions pass; one without them may be of one direction, unless it has frames of
// both.
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

// oneWay reports whether the session has one direction, as far as is known.
func (f *Follower) oneWay() bool { return f.stream || f.Last.IsZero() && !f.bothWays() }

// hand passes a frame to the tracker of its wire, as [followed.pass] does, or holds it back
// as long as that is not chosen.
func (f *Follower) hand(w *followed, h *heldFrame, m *protocol.Message) {
	if w.tracker == nil {
		f.hold(w, *h)
	} else {
		w.pass(h, m)
	}
}

// hold holds a frame back. It lets all frames go if this one makes the choice possible.
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

// tells reports whether it is known which protocol is spoken on a wire.
func (f *Follower) tells(w *followed) bool {
	switch w.protocol {
	case protocol.Protocol(jsonrpc.Plain):
		return f.named || w.told != nil || len(w.held) >= maxUntold
	case protocol.Protocol(opaque.JSON), protocol.Protocol(opaque.Bytes):
		return f.named
	}
	return true
}

// Release settles every open question with what is known, and holds no more frames back.
func (f *Follower) Release() {
	f.settled = true
	f.start(func(*followed) bool { return true })
}

// Lose notes that items are missing from here on: what is open may have ended in them.
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

// chooseTracker chooses the tracker of a wire and feeds it the frames that were held back.
func (f *Follower) chooseTracker(w *followed) {
	w.tracker = f.trackers.of(w.protocol, f.oneWay())
	for i := range w.held {
		f.held -= len(w.held[i].Payload) + heldSize
		w.pass(&w.held[i], nil)
	}
	w.held = nil
}

// pass hands a frame to the tracker. If its payload is a message, that is m, or if m is nil
// one that the wire's protocol has yet to read.
func (w *followed) pass(h *heldFrame, m *protocol.Message) {
	switch {
	case h.ends:
		w.tracker.Reject(h.Conn, h.Time)
		return
	case h.stream:
		w.tracker.EndStream(h.Conn, h.Stream, h.Time)
		return
	case h.no.status != "":
		m = &protocol.Message{Kind: []byte(h.no.status), Phase: protocol.Fail, Seq: -1}
		h.Dir = frame.U2C // the unit said so, even where the controller broke off the rest
	case !h.well:
		m = nil
	case m == nil:
		m = &w.message
		if err := w.protocol.Parse(h.Payload, m); err != nil {
			h.Fault, m = fmt.Errorf("not %s: %w", w.protocol.Name(), err), nil
		}
	}
	if h.no.asked != 0 && m != nil && m.Phase == protocol.Fail {
		w.tracker.Refuse(h.Frame, m, h.no.asked)
	} else {
		w.tracker.Feed(h.Frame, m)
	}
}

// ended notes that a direction of a connection has ended. When both have, the exchanges
// that are open on it stay unanswered, or were cancelled by the side that left.
func (f *Follower) ended(conn int, dir frame.Dir, at time.Time) {
	first, half := f.halves[conn]
	if !half {
		f.halves[conn] = dir
		return
	}
	if first == dir {
		return
	}
	how := f.units[conn].ending(first)
	delete(f.halves, conn)
	delete(f.units, conn)
	f.web.forgetConn(conn)
	f.endLive(conn)
	if !f.settled {
		return
	}
	conn += f.base
	if w := f.wires[conn]; w == nil {
		how.Died = false // HTTP has its answers on any number of connections
	} else {
		if w.tracker == nil {
			f.chooseTracker(w) // nothing more will tell
		}
		f.forget(w)
	}
	delete(f.conns, conn)
	for _, t := range f.trackers.List {
		t.EndBy(conn, how, at)
	}
}

// forget drops a wire that has ended: a relay has any number of them in its life.
func (f *Follower) forget(w *followed) {
	delete(f.wires, w.conn)
	f.order = slices.DeleteFunc(f.order, func(o *followed) bool { return o == w })
	if f.last == w {
		f.last = nil
	}
}

// End handles the end of the session, and with it that of every connection.
func (f *Follower) End() {
	f.Release()
	for _, conn := range slices.Sorted(maps.Keys(f.lives)) {
		f.endLive(conn)
	}
	for _, w := range f.order {
		conn := w.conn - f.base
		how := f.units[conn].ending(f.halves[conn])
		how.Died = how.Died && how.How != "" // the other direction may be missing because the recorder was killed
		w.tracker.EndBy(w.conn, how, f.Last)
	}
	for _, conn := range slices.Sorted(maps.Keys(f.conns)) {
		for _, t := range f.trackers.List {
			t.End(conn, f.Last)
		}
	}
	if !f.trackers.Apart {
		for _, t := range f.trackers.List {
			t.Abandon(f.Last)
		}
	}
}

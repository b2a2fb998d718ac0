package track

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/session"
)

// An exchange is an HTTP request and the state of its answer. The HTTP tracker learns about
// it unless it carries messages of a protocol with exchanges of its own. Requests to models, for
// example, are plain JSON without such exchanges.
type exchange struct {
	request session.Frame // without its payload
	id      protocol.Token
	method  string
	kind    []byte // see [carried.Asked]
	// late means that only the answer shows whether it carries such messages, and mcp that
	// it belongs to the transport of MCP.
	late, mcp bool
	// conn and stream are the scope of the ids of its messages.
	conn, stream int
	tracked      bool // the HTTP tracker knows the request
	// called is the number of the frame in which the request or its answer contains messages
	// of a protocol with exchanges of its own, or 0, and asks that the request asks by them.
	called int64
	asks   bool
	// listens means that it is a GET for the events of MCP, and older that its session is in
	// the address, as in the older transport.
	listens, older bool
	// These describe the answer once its head was seen.
	answered bool
	status   string
	media    string // its content type, without parameters
	failed   bool   // by its status
	events   bool   // it is an event stream
	ids      bool   // its events have ids, so a client can ask for the rest of them
	missed   bool   // the answer has an unknown encoding
	unread   string // why the answer may be in a frame that cannot be read, or ""
	// untilClose means that only the end of the connection ends the answer.
	untilClose bool

	head       *frame.Head // of the request, if it is kept
	call       apiCall     // nil if the request calls no API
	apiTracked bool        // the API's tracker knows the request
}

// begin begins the exchange of a request.
func (f *Follower) begin(it *decode.Item, request session.Frame) *exchange {
	e := f.newExchange(it)
	e.request = request
	e.request.Payload = nil
	return e
}

func (f *Follower) newExchange(it *decode.Item) *exchange {
	head := it.Frame.Meta.Head
	e := &exchange{method: head.Method(), kind: carried.Asked(head), id: carried.Token(it.Frame), late: isLate(it.Frame), mcp: hasHeadOfMCP(head)}
	e.conn, e.stream = f.scopes.Of(it.Frame)
	e.conn += f.base
	if f.trackers.Joins || f.contexts.Keep {
		e.head = head
	}
	e.older = e.stream < 0 && head.Get("Mcp-Session-Id") == ""
	e.listens = e.method == "GET" && (e.mcp || f.endpoints[e.path()] && asksEvents(head))
	f.web.set(it.Frame, e)
	return e
}

// isLate reports whether only the answer to a request shows what it carries.
func isLate(of *frame.Frame) bool {
	head := of.Meta.Head
	return bodyFollows(of) || head.Get("Upgrade") != "" || head.Method() == "CONNECT" || hasHeadOfMCP(head) || asksEvents(head)
}

func hasHeadOfMCP(head *frame.Head) bool {
	return head.Get("Mcp-Session-Id") != "" || head.Get("Mcp-Protocol-Version") != ""
}

// asksEvents reports whether a request asks for a stream of events, which need not end.
func asksEvents(head *frame.Head) bool {
	return head.Method() == "GET" && strings.Contains(strings.ToLower(head.Get("Accept")), "text/event-stream")
}

// bodyFollows reports whether the body of a request may come in a frame of its own.
func bodyFollows(f *frame.Frame) bool {
	head := f.Meta.Head
	return f.Meta.Signal != frame.NoSignal && head.Method() == "POST" && strings.Contains(head.Start, "HTTP/2")
}

// request returns the request of e, with its body if the item contains it.
func (f *Follower) request(e *exchange, it *decode.Item) (fr session.Frame, hasBody bool) {
	if it.Frame.Dir == frame.U2C || it.Frame.Meta.Signal != frame.NoSignal {
		return e.request, false
	}
	fr = f.carried(it)
	fr.Time, fr.Version, fr.Stated = e.request.Time, e.request.Version, e.request.Stated
	return fr, true
}

// feed feeds the tracker of p.
func (f *Follower) feed(p protocol.Protocol, fr session.Frame, m *protocol.Message) {
	f.trackers.of(p, f.stream).Feed(fr, m)
}

// feedCall feeds the tracker of p. It reports a fault of the body first, because the head is
// enough for the exchange.
func (f *Follower) feedCall(p protocol.Protocol, fr session.Frame, m *protocol.Message) {
	if fr.Fault != nil {
		f.feed(p, fr, nil)
		fr.Fault, fr.Size = nil, 0
	}
	f.feed(p, fr, m)
}

// exchanges are the open exchanges, by connection and stream.
type exchanges struct {
	ofConn map[int]map[int64]*exchange
	open   int // on all connections
}

// maxExchanges limits the open exchanges: in a capture of one direction, requests are never
// answered.
const maxExchanges = 1 << 16

func (es *exchanges) of(f *frame.Frame) *exchange { return es.ofConn[f.Conn][f.Stream] }

func (es *exchanges) set(f *frame.Frame, e *exchange) {
	if es.ofConn == nil || es.open >= maxExchanges {
		es.ofConn, es.open = map[int]map[int64]*exchange{}, 0
	}
	ofConn := es.ofConn[f.Conn]
	if ofConn == nil {
		ofConn = map[int64]*exchange{}
		es.ofConn[f.Conn] = ofConn
	}
	before := len(ofConn)
	ofConn[f.Stream] = e
	es.open += len(ofConn) - before
}

func (es *exchanges) remove(f *frame.Frame) {
	ofConn := es.ofConn[f.Conn]
	before := len(ofConn)
	delete(ofConn, f.Stream)
	es.open -= before - len(ofConn)
	if len(ofConn) == 0 {
		delete(es.ofConn, f.Conn)
	}
}

// removeConn removes and returns the exchanges of a connection, oldest first.
func (es *exchanges) removeConn(conn int) (list []*exchange) {
	ofConn := es.ofConn[conn]
	es.open -= len(ofConn)
	delete(es.ofConn, conn)
	for _, stream := range slices.Sorted(maps.Keys(ofConn)) {
		list = append(list, ofConn[stream])
	}
	return list
}

// maxDeleted limits the remembered sessions that their clients have deleted.
const maxDeleted = 64

// maxEndpoints limits the remembered addresses.
const maxEndpoints = 1 << 10

func (e *exchange) path() string {
	_, path, _ := strings.Cut(string(e.kind), " ")
	return path
}

// noteOlder notes the address that the stream of e, of the older transport of MCP, gives for
// requests. Their answers are events of that stream.
func (f *Follower) noteOlder(e *exchange, address string) {
	e.mcp = true
	base, err := url.Parse(e.path())
	if err != nil {
		return
	}
	if base, err = base.Parse(strings.TrimSpace(address)); err != nil {
		return
	}
	if f.older == nil || len(f.older) >= maxEndpoints {
		f.older = map[string]bool{}
	}
	f.older["POST "+base.EscapedPath()] = true
}

// cutByClient reports whether a frame ends a response that ends with its connection, which the
// client has left before.
func (f *Follower) cutByClient(of *frame.Frame) bool {
	if of.Meta == nil || of.Meta.Signal != frame.End || !f.isLeft(of) {
		return false
	}
	e := f.web.of(of)
	return e != nil && e.untilClose
}

// isLeft reports whether the client of a connection has ended its side.
func (f *Follower) isLeft(of *frame.Frame) bool { return f.halves[of.Conn] == frame.C2U }

func isHTTP(f *frame.Frame) bool {
	return !f.Gap && f.Meta != nil && f.Meta.Framing == frame.HTTP
}

// isPlain reports whether an item has content that is not a message of a protocol with
// exchanges of its own.
func isPlain(it *decode.Item) bool {
	return it.Frame.Meta.Signal == frame.NoSignal && slices.Contains(plain, it.Protocol.Name())
}

var plain = []string{opaque.JSON.Name(), opaque.Bytes.Name(), protobuf.Schemaless{}.Name()}

// A refusal is an HTTP answer that rejects its whole request.
type refusal struct {
	request int64  // the number of the request's frame; 0 if nothing is rejected
	status  string // "" if the answer is an error of the protocol
	how     string // what a client sees of the answer, even if it is a result; "" if it may be one
}

// exchange handles an HTTP item. It returns false for items that other code handles: a
// message of a protocol, a part of a gRPC call, or the rejection of a request in such a
// message.
func (f *Follower) exchange(it *decode.Item) (no refusal, taken bool) {
	of, isPlain := it.Frame, isPlain(it)
	head := of.Meta.Head
	e := f.web.of(of)
	if e != nil && of.Meta.EventID != "" {
		e.ids = true
	}
	if of.Meta.Event == "endpoint" && e != nil {
		f.noteOlder(e, string(of.Payload()))
	}
	if e != nil && head.Status() != "" {
		f.scopes.Of(of) // it may begin a session, and have no message
	}
	if e != nil && of.Dir != frame.C2U && (e.called != 0 || e.listens) && !e.older && !f.older[string(e.kind)] {
		f.judgeResponse(e, it, isPlain)
	}
	isCall := carried.Of(of) == nil && !isPlain
	switch {
	case carried.IsGRPC(head):
		return no, false
	case isCall && (head.Method() != "" || of.Dir == frame.C2U):
		f.calls(e, it)
		return no, false
	case head.Method() != "":
		f.requested(it, isPlain)
		return no, true
	case e == nil:
		if isPlain = isPlain || isNameless(&it.Message); isPlain { // the request was not seen or not readable
			f.feedBody(it)
		}
		return no, isPlain
	case isCall && !e.tracked:
		e.called = cmp.Or(e.called, e.request.Seq)
		return f.callAnswered(e, it), false
	case isCall && e.events && !isNameless(&it.Message): // in a stream that continues
		return no, false
	case e.called != 0:
		no = f.callAnswered(e, it)
		return no, no.request == 0
	}
	f.answered(e, it, isPlain || isCall)
	return no, true
}

// calls handles a request that contains messages of a protocol. In HTTP/2, its head was an
// earlier item.
func (f *Follower) calls(e *exchange, it *decode.Item) {
	if e == nil || it.Frame.Meta.Head != nil {
		e = f.newExchange(it)
	}
	e.called, e.asks = it.Seq, it.Message.Phase == protocol.Open || all.Asks(it.Payload)
	if f.endpoints == nil || len(f.endpoints) >= maxEndpoints {
		f.endpoints = map[string]bool{}
	}
	f.endpoints[e.path()] = true
}

// judgeResponse has the transport of MCP judged by an item of a response, and notes that a
// session has ended.
func (f *Follower) judgeResponse(e *exchange, it *decode.Item, isPlain bool) {
	of, head := it.Frame, it.Frame.Meta.Head
	r := &protocol.Response{Request: cmp.Or(e.called, e.request.Seq), Verb: e.method, Asks: e.asks, Session: e.stream < 0 && !e.older, Status: e.status, Media: e.media}
	isHead, isEvent := head.Status() != "", e.events && isPlain || of.Meta.Signal == frame.Event
	if isHead {
		r.Status, r.Media = head.Status(), carrier.MediaType(head)
	}
	switch r.Body = it.Frame.Size() > 0 && !isEvent; {
	case isHead && r.Status == "404" && e.method == "POST" && e.stream < 0 && string(it.Message.Label) != methodNotFound:
		f.endSession(e.stream, it)
		return
	case !strings.HasPrefix(r.Status, "2"):
		return
	case isHead:
	case isEvent:
		if name := of.Meta.Event; it.Frame.Size() == 0 || name != "" && name != "message" {
			return // clients ignore it
		}
		r.Event = true
	case e.asks || r.Status != "202" || !r.Body: // the head was judged
		return
	}
	fr := session.Frame{Seq: it.Seq, Time: it.Time, Conn: e.conn, Stream: e.stream, Dir: frame.U2C, Version: e.request.Version, Response: r}
	f.hand(f.wire(httpWire), &heldFrame{then: func(t *session.Tracker) { t.Judge(fr) }}, nil)
}

// methodNotFound is the code of an error that a server may send with 404 in a session that
// goes on.
const methodNotFound = "-32601"

// An endedSession is an MCP session for which a request was answered by 404.
type endedSession struct {
	seq      int64
	conn     int
	at       time.Time
	reported bool
}

// inFlight is how long after the 404 another request may have been on its way already.
const inFlight = 250 * time.Millisecond

func (f *Follower) endSession(stream int, it *decode.Item) {
	if f.sessions == nil || len(f.sessions) >= maxEndpoints {
		f.sessions = map[int]*endedSession{}
	}
	if f.sessions[stream] == nil {
		f.sessions[stream] = &endedSession{seq: it.Seq, conn: it.Frame.Conn, at: it.Time}
	}
}

// revived returns the broken rule if the head of a request uses an ended session, once for
// each session.
func (f *Follower) revived(of *frame.Frame, stream int, at time.Time) []protocol.Broken {
	s := f.sessions[stream]
	method := of.Meta.Head.Method()
	if s == nil || s.reported || method != "POST" && method != "GET" || s.conn != of.Conn && at.Sub(s.at) <= inFlight {
		return nil
	}
	s.reported = true
	return []protocol.Broken{{Finding: "ended-session", How: "the request has the id of a session for which another was answered by 404", Frames: []int64{s.seq}}}
}

// callAnswered handles the answer to such a request and returns what it rejects. A status or
// an error without an id can reject the request.
func (f *Follower) callAnswered(e *exchange, it *decode.Item) (no refusal) {
	of := it.Frame
	isCall := carried.Of(of) == nil && !isPlain(it)
	if isCall && e.events && !isNameless(&it.Message) {
		return no
	}
	m := e.message(of)
	ends := m.Phase.Ends() || m.Phase == protocol.Cancel
	if ends {
		f.web.remove(of)
		f.over = e
	}
	switch {
	case isCall && (e.failed || isNameless(&it.Message)):
		if no.request = e.called; e.failed {
			no.how = e.how()
		}
	case isCall:
	case ends && e.status >= "300": // a redirected client asks again
		no = refusal{request: e.called, status: e.status}
	case it.Err != nil:
		f.trackers.of(carried.HTTP, f.stream).Feed(f.ofHTTP(it), &m)
	case isPlain(it):
		f.feedBody(it)
	}
	return no
}

// endResponse tells the tracker of the messages over HTTP that the response of e has ended: with
// an item or, if that is nil, with the connection.
func (f *Follower) endResponse(e *exchange, it *decode.Item, at time.Time) {
	r := e.response(it, at)
	r.Accepted = r.Accepted || f.older[string(e.kind)]
	r.Left = r.Left || slices.Contains(f.deleted, e.stream) || it != nil && f.isLeft(it.Frame)
	if c, ok := e.call.(*agentCall); ok {
		f.trackers.of(c.Spec.Protocol, f.stream).EndResponse(r)
	} else if e.called != 0 && !e.missed {
		f.hand(f.wire(httpWire), &heldFrame{then: func(t *session.Tracker) { t.EndResponse(r) }}, nil)
	}
}

// response describes the end of the response of e.
func (e *exchange) response(it *decode.Item, at time.Time) session.Response {
	r := session.Response{
		Conn: e.conn, Stream: e.stream, Request: e.called, At: at, How: e.how(),
		Cut: it == nil || it.Frame.Meta.Signal == frame.Reset, Accepted: e.status == "202", Resumable: e.ids, Unread: e.unread,
	}
	if it != nil {
		r.Seq, r.Left = it.Seq, r.Cut && it.Frame.Dir == frame.C2U
	}
	if r.Cut && e.answered {
		r.How += ", which was cut"
	}
	return r
}

// how describes the response of e.
func (e *exchange) how() string {
	if !e.answered {
		return "a response of HTTP"
	}
	return "HTTP " + strings.TrimSpace(e.status+" "+e.media)
}

// isNameless reports whether a message is an error without the id of a request.
func isNameless(m *protocol.Message) bool { return m.Phase == protocol.Fail && m.ID.IsZero() }

// feedBody handles JSON that belongs to no HTTP exchange.
func (f *Follower) feedBody(it *decode.Item) {
	f.trackers.of(carried.HTTP, f.stream).Feed(f.ofHTTP(it), &protocol.Message{Kind: kindBody, Seq: -1})
}

func (f *Follower) requested(it *decode.Item, isPlain bool) {
	e := f.begin(it, f.ofHTTP(it))
	if e.method == "DELETE" && e.stream < 0 {
		f.deleted = append(f.deleted[max(0, len(f.deleted)+1-maxDeleted):], e.stream)
	}
	if w := f.wires[httpWire+f.base]; w != nil && w.tracker != nil && e.method != "POST" {
		w.tracker.Judge(e.request)
		e.request.Broken = nil
	}
	e.late = e.late || e.method != "POST" && f.endpoints[e.path()]
	e.request.Endless = asksEvents(it.Frame.Meta.Head)
	if isPlain || e.request.Fault != nil || !e.late {
		f.addRequest(e)
	}
}

// answered handles an item after a request. If it has content, or ends the answer, the request
// becomes an exchange.
func (f *Follower) answered(e *exchange, it *decode.Item, holds bool) {
	m, fr := e.message(it.Frame), f.ofHTTP(it)
	ends := m.Phase.Ends() || m.Phase == protocol.Cancel
	if holds || ends && !f.isTransport(e) {
		f.addRequest(e)
	}
	if e.tracked || fr.Fault != nil {
		f.feed(carried.HTTP, fr, &m)
	}
	if ends || it.Frame.Meta.Head.Status() == "101" {
		f.web.remove(it.Frame)
	}
}

// isTransport reports whether a request only serves the transport of messages: a tunnel, or at
// the address of MCP a stream of events, the end of a session, or the answer that the server has
// neither.
func (f *Follower) isTransport(e *exchange) bool {
	switch {
	case e.method == "CONNECT":
		return !e.failed
	case e.method == "POST" || !e.mcp && !f.endpoints[e.path()]:
		return false
	}
	return !e.failed || e.status == "405"
}

// tellUnended passes the request of an ended connection to the HTTP tracker, if it is an exchange.
func (f *Follower) tellUnended(e *exchange) {
	if e.call == nil && e.called == 0 && !f.isTransport(e) {
		f.addRequest(e)
	}
}

// ofHTTP returns an item as the HTTP tracker gets it: its scope is its request.
func (f *Follower) ofHTTP(it *decode.Item) session.Frame {
	fr := f.carried(it)
	fr.Conn, fr.Stream = it.Frame.Conn+f.base, int(it.Frame.Stream)
	f.conns[fr.Conn] = true
	return fr
}

// addRequest passes a request to the HTTP tracker once.
func (f *Follower) addRequest(e *exchange) {
	if e.tracked {
		return
	}
	e.tracked = true
	m := protocol.Message{Kind: e.kind, Phase: protocol.Open, Seq: -1, ID: e.id}
	f.feed(carried.HTTP, e.request, &m)
}

var (
	kindBody  = []byte("body")
	kindEvent = []byte("event")
)

// message returns the meaning of a frame that follows the request of e.
func (e *exchange) message(f *frame.Frame) (m protocol.Message) {
	carried.Parse(f, &m)
	signal, status := f.Meta.Signal, f.Meta.Head.Status()
	switch {
	case strings.HasPrefix(status, "1"):
		return m
	case signal == frame.Reset:
		switch { // even without an error, it does not end the answer
		case m.Phase != protocol.Note:
		case f.Dir == frame.C2U:
			m.Ref, m.Phase = carried.Token(f), protocol.Cancel
		default:
			m.ID, m.Phase = carried.Token(f), protocol.Fail
		}
		if m.Phase == protocol.Fail {
			m.Reason = append([]byte(frame.Reset+" "), m.Label...)
		}
		return m
	case status != "":
		e.answered, e.status, e.failed = true, status, carried.Failed(status)
		e.media = carrier.MediaType(f.Meta.Head)
		e.missed = !carrier.Decodes(f.Meta.Head)
		if errors.Is(f.Flaw, frame.ErrTooLarge) {
			e.unread = session.OverLimit
		}
		size, _ := carrier.SizeOf(f.Meta.Head)
		e.untilClose = strings.HasPrefix(f.Meta.Head.Start, "HTTP/1") && !size.Chunked && size.Length < 0
		e.events = carrier.HasEvents(f.Meta.Head)
	}
	switch {
	case f.Dir == frame.C2U:
		m.Kind, m.ID = kindBody, carried.Token(f) // in HTTP/2 the body is a separate frame
	case signal == frame.NoSignal && (e.events || !e.answered):
		m.Kind, m.ID, m.Phase = kindEvent, carried.Token(f), protocol.Part
	case signal == frame.Event:
	case status == "", e.isWhole(f.Meta.Head):
		m.ID, m.Phase, m.Label = carried.Token(f), e.lastPhase(), []byte(e.status)
	}
	switch {
	case signal != frame.NoSignal:
	case m.Phase == protocol.Part && f.Meta.Event != "":
		m.Kind = []byte(f.Meta.Event)
	case m.Phase == protocol.Part:
	case status != "":
		m.Kind = []byte(status)
	default:
		m.Kind = kindBody
	}
	return m
}

func (e *exchange) lastPhase() protocol.Phase {
	if e.failed {
		return protocol.Fail
	}
	return protocol.Close
}

// isWhole reports whether an answer consists of this head alone. In HTTP/1.1 the body is in
// the same frame, unless it is an event stream. In HTTP/2 a separate end follows each head
// that leaves the stream open, even if there is no body.
func (e *exchange) isWhole(head *frame.Head) bool {
	if e.method == "HEAD" || !carrier.LeavesBody(head) {
		return true
	}
	return !e.events && !strings.HasPrefix(head.Start, "HTTP/2")
}

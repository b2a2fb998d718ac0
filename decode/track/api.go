package track

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/session"
)

// An apiCall is a request to an API and the state of its answer. Its exchange is the HTTP
// stream.
type apiCall interface {
	// ask passes the request of e to the tracker. The item may contain the body.
	ask(f *Follower, e *exchange, it *decode.Item)
	// answer handles an item of the answer, or a reset of the stream by either side. It
	// returns false if the call turns out not to be one of this API.
	answer(f *Follower, e *exchange, it *decode.Item) bool
}

// api handles an item of a call to an API. It reports whether it belongs to one.
func (f *Follower) api(it *decode.Item) bool {
	of := it.Frame
	if of.Gap || of.Meta == nil {
		return false
	}
	if of.Meta.Head.Method() != "" {
		call, whole := f.apiCall(of)
		if call == nil {
			return false
		}
		e := f.begin(it, f.carried(it))
		e.call = call
		if whole {
			f.ask(e, it)
		}
		return true
	}
	e := f.web.of(of)
	switch {
	case e == nil || e.call == nil:
		return false
	case of.Dir != frame.C2U || of.Meta.Signal == frame.Reset:
		return e.call.answer(f, e, it)
	case of.Meta.Signal == frame.NoSignal:
		f.ask(e, it)
	}
	return true
}

// apiCall returns the call that a head begins, or nil if it calls no API, and whether its
// whole request is known.
func (f *Follower) apiCall(of *frame.Frame) (_ apiCall, whole bool) {
	c := f.apis.Call(of)
	if c == nil {
		return nil, false
	}
	head := of.Meta.Head
	switch api := c.Spec.API; {
	case api.Fail != nil:
		return &agentCall{Call: c}, of.Meta.Signal == frame.NoSignal || !c.GRPC && (c.Bare || !strings.Contains(head.Start, "HTTP/2"))
	case api.IsEvent != nil:
		return &codingCall{c}, !c.Listens && !bodyFollows(of)
	}
	call := &modelCall{Call: c, to: head.Get("Host") + head.Get(":authority") + " " + head.Target()}
	if runs := c.Spec.API.Runs; runs != nil {
		if f.runs[c.Spec] == nil {
			f.runs[c.Spec] = runs()
		}
		call.runs = f.runs[c.Spec]
		call.event = call.runs.Begin()
	}
	return call, !bodyFollows(of)
}

// ask passes the request of e to the tracker once.
func (f *Follower) ask(e *exchange, it *decode.Item) {
	if !e.apiTracked {
		e.apiTracked = true
		e.call.ask(f, e, it)
	}
}

// An agentCall is a request about tasks over REST or gRPC. It shares the tracker of the JSON-RPC
// binding, because one binding can start a task and another can cancel it.
type agentCall struct {
	*protocol.Call
	settled bool // the tracker knows an answer
}

func (c *agentCall) ask(f *Follower, e *exchange, it *decode.Item) {
	fr, hasBody := f.request(e, it)
	var m protocol.Message
	var body []byte
	if hasBody {
		body = it.Payload
	}
	c.Begin(body, &m)
	m.ID, m.Text = carried.Token(it.Frame), body
	f.feedCall(c.Spec.Protocol, fr, &m)
}

func (c *agentCall) answer(f *Follower, e *exchange, it *decode.Item) bool {
	switch {
	case it.Frame.Meta.Signal == frame.Reset:
		c.leave(f, e, it)
	case c.GRPC:
		c.called(f, e, it)
	default:
		c.answered(f, e, it)
	}
	return true
}

// tell passes an answer to the tracker.
func (c *agentCall) tell(f *Follower, e *exchange, it *decode.Item, m *protocol.Message) {
	f.ask(e, it)
	fr := f.carried(it)
	fr.Dir = frame.U2C
	m.ID = carried.Token(it.Frame)
	c.settled = true
	f.feedCall(c.Spec.Protocol, fr, m)
}

// called handles an item from a gRPC server.
func (c *agentCall) called(f *Follower, e *exchange, it *decode.Item) {
	var m protocol.Message
	if it.Frame.Meta.Signal == frame.NoSignal {
		c.Spec.API.Answer(c.Call, it.Payload, &m, false)
		c.tell(f, e, it, &m)
		return
	}
	switch status := it.Frame.Meta.Head.Get("Grpc-Status"); {
	case status == "": // the head
		return
	case status != "0" && !c.settled:
		c.Spec.API.Fail(nil, []byte(status), &m)
		m.Text = carried.Unescaped(it.Frame.Meta.Head.Get("Grpc-Message"))
		c.tell(f, e, it, &m)
	default:
		f.endResponse(e, it, it.Time)
	}
	f.web.remove(it.Frame)
}

// answered handles an item from a REST server.
func (c *agentCall) answered(f *Follower, e *exchange, it *decode.Item) {
	of := it.Frame
	said := e.message(of)
	ends := said.Phase.Ends()
	var m protocol.Message
	switch {
	case ends && e.failed && !c.settled:
		c.Spec.API.Fail(it.Payload, []byte(e.status), &m)
		c.tell(f, e, it, &m)
	case of.Meta.Event == "error":
		c.Spec.API.Fail(it.Payload, nil, &m)
		c.tell(f, e, it, &m)
	case of.Meta.Signal == frame.NoSignal && (ends || said.Phase == protocol.Part):
		c.Spec.API.Answer(c.Call, it.Payload, &m, false)
		c.tell(f, e, it, &m)
	case ends && e.events:
		f.endResponse(e, it, it.Time)
	case ends && !c.settled: // an answer without a body
		c.Spec.API.Answer(c.Call, nil, &m, false)
		c.tell(f, e, it, &m)
	}
	if ends {
		f.web.remove(of)
	}
}

// leave handles a reset. It closes a stream. Any other call fails, or its client cancelled it.
func (c *agentCall) leave(f *Follower, e *exchange, it *decode.Item) {
	f.web.remove(it.Frame)
	if c.settled {
		f.endResponse(e, it, it.Time)
		return
	}
	m := protocol.Message{Kind: []byte(frame.Reset), Phase: protocol.Fail, Seq: -1}
	if it.Frame.Dir == frame.C2U {
		m.Phase = protocol.Cancelled
	}
	c.tell(f, e, it, &m)
}

// A codingCall is a request to an agent whose events, on any stream, report on its turns.
type codingCall struct{ *protocol.Call }

// coding remembers the sessions of such agents.
type coding struct {
	questions map[string]bool // unanswered ones
	spent     map[string]bool // sessions whose events report usage
}

// maxCoding limits the remembered questions and sessions.
const maxCoding = 1 << 12

func remember(set *map[string]bool, name []byte) {
	if *set == nil || len(*set) >= maxCoding {
		*set = map[string]bool{}
	}
	(*set)[string(name)] = true
}

// beginsEvents handles the answer to a request for events up to the first event, which shows
// whether the server is of this protocol.
func (c *codingCall) beginsEvents(f *Follower, e *exchange, it *decode.Item) bool {
	isBody := it.Frame.Meta.Signal == frame.NoSignal
	switch {
	case isBody && c.Spec.API.IsEvent(it.Payload):
		c.answered(f, e, it)
	case isBody, e.message(it.Frame).Phase != protocol.Note:
		e.call = nil
		return false
	}
	return true
}

func (c *codingCall) ask(f *Follower, e *exchange, it *decode.Item) {
	m := protocol.Message{Seq: -1}
	fr, hasBody := f.request(e, it)
	if hasBody && it.Err == nil {
		_ = c.Spec.Protocol.Parse(it.Payload, &m) // it is JSON
	}
	said := m.Label
	c.Begin(nil, &m)
	m.ID = carried.Token(it.Frame)
	f.feedCall(c.Spec.Protocol, fr, &m)
	if q := c.Question; f.coding.questions[string(q.Text)] {
		delete(f.coding.questions, string(q.Text))
		fr.Inner, fr.Size = true, 0
		f.feed(c.Spec.Protocol, fr, &protocol.Message{Kind: []byte("reply"), Phase: protocol.Close, From: frame.C2U, ID: q, Seq: -1, Label: said})
	}
}

func (c *codingCall) answer(f *Follower, e *exchange, it *decode.Item) bool {
	if c.Listens && !e.apiTracked && it.Frame.Dir != frame.C2U {
		return c.beginsEvents(f, e, it)
	}
	c.answered(f, e, it)
	return true
}

func (c *codingCall) answered(f *Follower, e *exchange, it *decode.Item) {
	of := it.Frame
	said, fr := e.message(of), f.carried(it)
	isBody := of.Meta.Signal == frame.NoSignal && it.Err == nil
	ends := said.Phase.Ends()
	m := said
	switch {
	case said.Phase == protocol.Cancel, of.Meta.Signal == frame.Reset:
	case isBody && c.Spec.Protocol.Parse(it.Payload, &m) == nil:
		if ends {
			c.Spec.API.Answer(c.Call, nil, &m, e.failed)
			m.Kind = said.Kind
		}
	case ends && !e.events:
		c.Spec.API.Answer(c.Call, nil, &m, e.failed)
	case ends:
	default:
		return // a head
	}
	f.ask(e, it)
	switch {
	case m.Phase == protocol.Cancel && m.From != frame.U2C: // the client disconnects
		m.ID, m.Ref = protocol.Token{}, carried.Token(of)
	case m.Phase == protocol.Open:
		remember(&f.coding.questions, m.ID.Text)
	case m.Phase != protocol.Note && m.Phase != protocol.Cancel:
		m.ID = carried.Token(of)
	}
	f.spent(c, &m)
	f.feedCall(c.Spec.Protocol, fr, &m)
	if ends || said.Phase == protocol.Cancel {
		f.web.remove(of)
	}
}

// spent removes usage from m that events have already reported: the answer to a prompt
// repeats the usage of its last step.
func (f *Follower) spent(c *codingCall, m *protocol.Message) {
	switch used := m.Usage != (protocol.Usage{}); {
	case !used:
	case m.Operation.Of.Space == protocol.SpaceSession:
		remember(&f.coding.spent, m.Operation.Of.Text)
	case f.coding.spent[string(c.Session.Text)] || !c.Prompts:
		m.Usage = protocol.Usage{}
	}
}

// A nested session is one inside another: the client of the outer one runs the server, and the
// unit is the client of that server.
type nested struct {
	servers  map[string]int  // server streams, by name
	awaiting map[string]bool // outer requests whose message expects an answer
	stream   int             // of the last request
}

// maxNested limits the remembered servers and requests.
const maxNested = 1 << 10

// nest feeds a tracker with the message inside a message.
func (f *Follower) nest(w *followed, n *protocol.Nested, fr session.Frame) {
	if n == nil || w.tracker == nil {
		return
	}
	if w.nested == nil {
		w.nested = &nested{servers: map[string]int{}, awaiting: map[string]bool{}}
	}
	if !w.nested.passes(n) {
		return
	}
	fr.Stream, fr.Inner, fr.Framing = w.nested.stream, true, nil
	fr.Payload, fr.Size = n.Message, len(n.Message)
	fr.Dir = fr.Dir.Opposite()
	var m protocol.Message
	if n.Protocol.Parse(n.Message, &m) != nil {
		return // the fault of the whole message was reported already
	}
	fr.Blank = fr.Masked && bytes.HasPrefix(m.Kind, []byte("*")) // early outlines kept nothing so deep
	f.trackers.of(n.Protocol, f.oneWay()).Feed(fr, &m)
}

// passes reports whether a message contains another, and notes its ids. The answer to an
// outer request with a notification contains none.
func (s *nested) passes(n *protocol.Nested) bool {
	if n.Answer {
		asked := s.awaiting[string(n.Request)]
		delete(s.awaiting, string(n.Request))
		return asked && n.Message != nil
	}
	stream := s.servers[string(n.Server)]
	if stream == 0 {
		if len(s.servers) >= maxNested {
			return false
		}
		stream = -len(s.servers) - 1
		s.servers[string(n.Server)] = stream
	}
	s.stream = stream
	if n.Asks {
		if len(s.awaiting) >= maxNested {
			clear(s.awaiting)
		}
		s.awaiting[string(n.Request)] = true
	}
	return true
}

// A unit holds what records other than frames say about a connection's unit.
type unit struct {
	stderr       []byte // the end of its standard error
	exit         string // how its process ended; "" if unknown
	endRequested bool   // it was asked to end
}

const (
	maxUnits    = 1 << 12 // remembered units
	maxStderr   = 4 << 10 // kept bytes of standard error
	stderrLines = 5       // shown lines
	maxLine     = 200     // columns of a shown line
)

// ofWire matches the name of a connection after that of its wire, as in a capture of several wires of an agent:
// that of wirectl demo.
var ofWire = regexp.MustCompile(`^[\w.-]+: .`)

// Event notes a record that is not a frame; see [decode.Config].
func (f *Follower) Event(rec *capture.Record) {
	defer f.tell(rec)
	switch rec.Kind {
	case capture.Opened:
		f.trackers.Joins = f.trackers.Joins || ofWire.Match(rec.Text)
		if f.trackers.Joins {
			f.trackers.name([2]int{rec.Conn + f.base}, string(rec.Text))
		}
	case capture.Note:
		if b, ok := capture.ParseBetween(rec); ok {
			f.between(rec.Conn+f.base, b)
			return
		}
		switch n, ok := tap.ParseNote(rec); {
		case ok && n.Tap == tap.Unended:
			f.unended = true
		case !ok || n.Tap != tap.Lost:
		case rec.Conn > 0: // only there
			for _, dir := range []frame.Dir{frame.C2U, frame.U2C} {
				f.miss(rec.Conn, dir, session.NotRecorded)
			}
		default:
			f.Lose()
		}
	case capture.HalfClosed:
		f.ended(rec.Conn, rec.Dir, rec.Time)
	case capture.Stderr:
		if u := f.unit(rec.Conn); u != nil {
			u.stderr = append(u.stderr, rec.Text...)
			if n := len(u.stderr); n > maxStderr {
				u.stderr = append(u.stderr[:0], u.stderr[n-maxStderr:]...)
			}
		}
	case capture.Lingering:
		if w, message := f.wires[rec.Conn+f.base], string(rec.Text); w != nil {
			f.hand(w, &heldFrame{then: func(t *session.Tracker) { t.Linger(w.conn, message) }}, nil)
		}
	case capture.Exited:
		if len(rec.Text) > 0 {
			f.trackers.of(f.protocol, false).Unstarted(rec.Conn+f.base, string(rec.Text), rec.Time)
			f.conns[rec.Conn+f.base] = true
			return
		}
		f.exited(rec, fmt.Sprintf("ended with status %d", rec.Status))
	case capture.Signalled:
		f.exited(rec, fmt.Sprintf("was ended by signal %d (%s)", rec.Status, rec.Text))
	}
}

// between reports what happened to the last frame between the ends of a merged session.
func (f *Follower) between(conn int, b capture.Between) {
	seq := f.seq
	report := func(t *session.Tracker) { t.Between(b.Between, conn, seq, b.Text) }
	switch w := f.wires[f.at+f.base]; {
	case w != nil:
		f.hand(w, &heldFrame{then: report}, nil)
	case len(f.trackers.List) > 0:
		report(f.trackers.List[0].Tracker)
	default:
		report(f.trackers.of(f.protocol, false))
	}
}

// tell passes an event on, each line of standard error as one.
func (f *Follower) tell(rec *capture.Record) {
	if f.trackers.Event == nil {
		return
	}
	e := session.Event{Conn: rec.Conn + f.base, Time: rec.Time}
	if name, _, ok := strings.Cut(f.trackers.Wires[[2]int{e.Conn}], ": "); ok {
		e.Wire = name
	}
	line := func(text []byte) string { return f.trackers.Hide(session.OneLine(text)) }
	switch rec.Kind {
	case capture.Stderr:
		e.Kind = "stderr"
		for text := range bytes.Lines(rec.Text) {
			if e.Text = line(text); e.Text != "" {
				f.trackers.Event(e)
			}
		}
		return
	case capture.Opened:
		e.Kind, e.Text = "connected", line(rec.Text)
	case capture.HalfClosed:
		if e.Kind, e.Text = "closed", "by the unit"; rec.Dir == frame.C2U {
			e.Text = "by the controller"
		}
	case capture.Lingering:
		e.Kind, e.Text = "lingering", string(rec.Text)
	case capture.Exited:
		if e.Kind, e.Text = "exited", fmt.Sprintf("with status %d", rec.Status); len(rec.Text) > 0 {
			e.Kind, e.Text = "not started", line(rec.Text)
		}
	case capture.Signalled:
		e.Kind, e.Text = "exited", fmt.Sprintf("by signal %d (%s)", rec.Status, rec.Text)
	default:
		return
	}
	f.trackers.Event(e)
}

func (f *Follower) exited(rec *capture.Record, how string) {
	if u := f.unit(rec.Conn); u != nil {
		u.exit, u.endRequested = how, rec.Dir == frame.C2U
	}
}

// unit returns the unit of a connection, or nil if there are too many.
func (f *Follower) unit(conn int) *unit {
	u := f.units[conn]
	if u == nil && len(f.units) < maxUnits {
		u = &unit{}
		f.units[conn] = u
	}
	return u
}

// ending returns how a connection ended whose direction first ended before the other one. u
// may be nil.
func (u *unit) ending(first frame.Dir) session.Ending {
	how := session.Ending{First: first, Died: first == frame.U2C}
	switch {
	case u == nil:
	case u.endRequested:
		how.First, how.Died = frame.C2U, false
	default:
		how.How, how.Stderr = u.exit, u.lastLines()
	}
	return how
}

// lastLines returns the last lines of standard error, without blank lines.
func (u *unit) lastLines() (lines []string) {
	text := strings.ToValidUTF8(string(u.stderr), "\uFFFD")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		lines = append(lines, render.Shorten(line, maxLine))
	}
	return lines[max(0, len(lines)-stderrLines):]
}

package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// gRPC calls are played as lines of HTTP. The first message of a call is in the line of its
// request, unless its method streams requests: then every message has a line of its own.
// Messages are in their JSON form, if their schema is known.

// callStatus begins the end of a call that has a status of gRPC.
const callStatus = "grpc-status "

// kindHalfClose is the end of the client's messages. The recording does not show it.
const kindHalfClose = "half-close"

// kindHead is the head of an answer. A server that fails at once may send none.
const kindHead = "head"

// A callMethod holds what the recording, or a schema, tells about a method.
type callMethod struct {
	request, answer protocol.Protocol // nil if unknown
	streams         bool              // the client sends any number of messages
}

// callMethods are the methods by path.
type callMethods struct{ known map[string]*callMethod }

func (c *callMethods) of(path string) callMethod {
	if m := c.known[path]; m != nil {
		return *m
	}
	request, answer, _ := a2a.Messages(path)
	return callMethod{request: request, answer: answer}
}

// A callShape is what a recorded call has on the client's side.
type callShape struct {
	method   *callMethod
	messages int
	left     bool // the client cancelled it
}

// survey returns the recorded methods, and the shape of each call.
func survey(records []Record) (*callMethods, map[line]*callShape) {
	methods, shapes := &callMethods{map[string]*callMethod{}}, map[line]*callShape{}
	for _, r := range records {
		f := r.Frame
		at := line{f.Conn, f.Stream}
		if path := f.Meta.Head.Target(); path != "" {
			m := methods.known[path]
			if m == nil {
				m = new(callMethod)
				methods.known[path] = m
			}
			shapes[at] = &callShape{method: m}
			continue
		}
		c := shapes[at]
		switch {
		case c == nil:
		case f.Dir == frame.C2U && f.Meta.Signal == frame.Reset:
			c.left = true
		case f.Meta.Signal != frame.NoSignal:
		case f.Dir == frame.C2U:
			c.messages++
			c.method.request = r.Protocol
		default:
			c.method.answer = r.Protocol
		}
	}
	for _, c := range shapes {
		c.method.streams = c.method.streams || c.messages > 1 || c.messages == 0 && !c.left
	}
	return methods, shapes
}

// A callTalk turns the frames of recorded calls into lines.
type callTalk struct {
	webTalk
	side  frame.Dir // ours
	calls map[line]*webCall
}

// A webCall is a call and its state.
type webCall struct {
	webStream
	*callShape
	sent int
}

// callScript returns the script of all gRPC calls.
func (s *Session) callScript(side frame.Dir) *Script {
	methods, shapes := survey(s.calls)
	t := callTalk{side: side, calls: make(map[line]*webCall)}
	w := web{Protocol: opaque.JSON, grpc: methods}
	t.script = &Script{Conn: s.calls[0].Frame.Conn, Framing: frame.Line, ignore: append(slices.Clone(webIgnored), jsondiff.Path{"last"})}
	for _, r := range s.calls {
		t.addRecord(r, shapes)
	}
	if t.rest {
		w.Protocol, w.rest = jsonrpc.A2A, true
		t.script.undigested = []jsondiff.Path{{"body", "message", "messageId"}}
	}
	t.script.Protocol = w
	return t.script
}

func (t *callTalk) addRecord(r Record, shapes map[line]*callShape) {
	f := r.Frame
	at := line{f.Conn, f.Stream}
	if head := f.Meta.Head; head.Method() != "" {
		l := &webLine{Request: head.Method()}
		l.setTarget(head.Target())
		l.setHead(head)
		l.setCall(t.routes.Call(head))
		t.rest = t.rest || l.Call != ""
		c := &webCall{webStream: webStream{asks: l, record: r, call: l.Call, version: l.Version}, callShape: shapes[at]}
		if t.calls[at] = c; c.method.streams {
			l.Last = c.messages == 0
			t.addRequest(c, r)
		}
		return
	}
	switch c := t.calls[at]; {
	case c == nil || c.ended:
	case f.Dir == frame.C2U && f.Meta.Signal == frame.NoSignal:
		t.addMessage(c, r)
	case c.asks != nil: // it ended before its message
		c.ended = true
	case f.Dir == frame.C2U && f.Meta.Signal == frame.Reset:
		t.leave(&c.webStream, r)
	case f.Dir == frame.U2C:
		t.addAnswer(c, r)
	}
}

// addRequest adds the line of the request.
func (t *callTalk) addRequest(c *webCall, r Record) {
	t.last++
	c.id, c.asks.ID = t.last, t.last
	t.say(r, frame.C2U, c.asks)
	c.asks = nil
}

// addMessage adds a message of the client. The half-close, which the recording does not show,
// follows the last one, unless the client cancelled a stream.
func (t *callTalk) addMessage(c *webCall, r Record) {
	l := c.asks
	if l == nil {
		l = &webLine{ID: c.id, More: true}
	}
	c.sent++
	l.setMessage(c.method.request, r.Frame.Payload(), frame.C2U, t.side)
	l.Last = c.sent == c.messages && !(c.left && c.method.streams)
	if c.asks != nil {
		t.addRequest(c, r)
		return
	}
	t.say(r, frame.C2U, l)
}

// addAnswer adds a frame of the server.
func (t *callTalk) addAnswer(c *webCall, r Record) {
	f, l := r.Frame, &webLine{ID: c.id, Call: c.call, Version: c.version}
	head := f.Meta.Head
	switch status := head.Status(); {
	case f.Meta.Signal == frame.NoSignal:
		l.Event = new(string)
		l.setMessage(c.method.answer, f.Payload(), frame.U2C, t.side)
	case f.Meta.Signal == frame.Reset:
		l.End, c.ended = endCut, true
	case strings.HasPrefix(status, "1"):
		return
	default:
		l.setHead(head)
		l.setStatus(status)
		c.ended = l.End != ""
	}
	t.say(r, frame.U2C, l)
}

// setStatus makes l the line of a head with a status of HTTP, or of trailers. Its fields are
// set.
func (l *webLine) setStatus(status string) {
	code := l.Head["Grpc-Status"]
	switch {
	case code != "":
		l.End = callStatus + code
		l.Text = l.Head["Grpc-Message"]
		if text, err := url.PathUnescape(l.Text); err == nil {
			l.Text = text
		}
	case status == "200":
		l.Status, l.Events = http.StatusOK, true
	case status != "":
		l.End = "status " + status
	default:
		l.End = endCut
	}
	delete(l.Head, "Grpc-Status")
	delete(l.Head, "Grpc-Message")
}

// maxUntyped bounds messages without a schema that are shown by their fields.
const maxUntyped = 64 << 10

// setMessage sets the body of a line to the JSON form of a message. One of ours is kept as
// bytes if that form does not restore them.
func (l *webLine) setMessage(p protocol.Protocol, message []byte, from, side frame.Dir) {
	t, ok := p.(protocol.Transcoder)
	if p == protocol.Protocol(protobuf.Schemaless{}) && len(message) > maxUntyped {
		ok = false
	}
	if ok {
		if form, exact, err := t.AppendJSON(nil, message); err == nil && (exact || from != side) && isJSON(form) {
			l.setContent(form, from, false)
			return
		}
	}
	l.Bytes = message
}

// messageAt returns the frame of the message in a line, for a unit with that origin.
func (l *webLine) messageAt(p protocol.Protocol, origin string) (message []byte, err error) {
	message = l.Bytes
	if t, ok := p.(protocol.Transcoder); ok && l.Body != nil {
		if message, err = t.AppendPayload(nil, l.contentAt(origin)); err != nil {
			return nil, err
		}
	}
	return frame.Append(nil, frame.GRPC, message)
}

// callMessages yields the messages of a body. After the last one it returns io.EOF.
type callMessages struct {
	scanner  *frame.Scanner
	encoding string
}

func newCallMessages(body io.Reader, h http.Header) *callMessages {
	s := frame.NewScanner(body, frame.GRPC)
	s.SetLimit(maxWebBody)
	return &callMessages{s, h.Get("Grpc-Encoding")}
}

func (c *callMessages) next() ([]byte, error) {
	if !c.scanner.Scan() {
		if err := c.scanner.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	f := c.scanner.Frame()
	switch {
	case f.Gap:
		return nil, fmt.Errorf("the body is not gRPC: %w", f.Flaw)
	case !f.Compressed:
		return bytes.Clone(f.Payload()), nil
	}
	plain, err := inflate.Open(c.encoding, bytes.NewReader(f.Payload()))
	if err != nil {
		return nil, fmt.Errorf("a message cannot be decompressed: %w", err)
	}
	defer plain.Close()
	return inflate.ReadAll(plain, maxWebBody, errWebBody)
}

// parseCall sets the properties of a line of a gRPC call.
func (l *webLine) parseCall(m *protocol.Message) {
	m.From, m.Phase = frame.U2C, protocol.Part
	switch {
	case l.Request != "":
		m.Kind, m.Phase, m.From = []byte(l.name()), protocol.Open, frame.C2U
	case l.More:
		m.Kind, m.From = []byte("message"), frame.C2U
	case l.Last:
		m.Kind, m.Phase, m.From = []byte(kindHalfClose), protocol.Note, frame.C2U
	case l.End == callStatus+"0":
		m.Kind, m.Phase = []byte(l.End), protocol.Close
	case l.End != "":
		m.Kind, m.Phase, m.Text = []byte(l.End), protocol.Fail, []byte(l.Text)
	case l.Event != nil:
		m.Kind = []byte("message")
	default:
		m.Kind = []byte(kindHead)
	}
}

// isCallTo reports whether a frame belongs to a gRPC call, given whether its stream was one.
func isCallTo(f *frame.Frame, known bool) bool {
	if f.Gap || f.Meta == nil || f.Meta.Signal == frame.Damaged {
		return false
	}
	return known || f.Meta.Head.Method() != "" && carrier.IsGRPC(f.Meta.Head) && carried.IsGRPC(f.Meta.Head)
}

// GRPCScripts returns the scripts for a peer over gRPC. A session of latis has one for each
// call, in len32 framing, which the transport carries. The calls of any other services are one
// script.
func (s *Session) GRPCScripts(side frame.Dir) []*Script {
	others := false
	for _, c := range s.conns {
		others = others || c.Framing == frame.GRPC && !all.Of(c.Protocol).Rewrapped
	}
	if others {
		s.conns = slices.DeleteFunc(s.conns, func(c *Script) bool { return c.Framing == frame.GRPC || c.isHTTP })
		s.conns = append([]*Script{s.callScript(side)}, s.conns...)
		s.web, s.bare, s.said = nil, nil, nil
	}
	for _, c := range s.conns {
		if c.Framing != frame.GRPC {
			continue
		}
		c.Framing = frame.Len32
		for _, st := range c.steps {
			if !st.frame.Gap {
				st.frame = framed(&st.frame, c.Framing, st.frame.Payload())
			}
		}
	}
	return s.Scripts(side)
}

// A webOpen is an open request of ours.
type webOpen struct {
	leave context.CancelFunc
	body  *io.PipeWriter // of a gRPC call, or nil
	path  string
}

// begin registers a request of ours, and starts it. For a gRPC call it returns the body to
// write to.
func (c *webConn) begin(l *webLine) *webOpen {
	ctx, cancel := context.WithCancel(c.alive)
	of := &webOpen{leave: cancel, path: l.path()}
	play := c.exchange
	if c.grpc != nil {
		var body *io.PipeReader
		body, of.body = io.Pipe()
		of.leave = func() { // the client of net/http notices the cancel with the end of the body
			cancel()
			_ = of.body.CloseWithError(context.Canceled) // it never fails
		}
		play = func(ctx context.Context, l *webLine) error { return c.playCall(ctx, l, body) }
	}
	c.open[l.ID] = of
	c.work.Go(func() {
		defer cancel()
		if err := play(ctx, l); err != nil && ctx.Err() == nil {
			c.out.CloseWithError(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, l.ID)
	})
	return of
}

// sendMessage writes the message in a line to a call, which may have ended.
func (c *webConn) sendMessage(of *webOpen, l *webLine) error {
	method := c.grpc.of(of.path)
	if l.More || l.Request != "" && !method.streams {
		message, err := l.messageAt(method.request, "")
		if err != nil {
			return err
		}
		_, _ = of.body.Write(message)
		_, _ = of.body.Write(nil) // until the transport asks for more: it has then sent the message
	}
	if l.Last || l.Request != "" && !method.streams {
		return of.body.Close()
	}
	return nil
}

// playCall makes a gRPC call and writes its answers as lines.
func (c *webConn) playCall(ctx context.Context, l *webLine, body *io.PipeReader) error {
	defer body.Close()
	req, err := c.request(ctx, l, body)
	if err != nil {
		return err
	}
	req.Header.Set("Te", "trailers")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	line := func(h http.Header, status string) *webLine {
		l := webLine{ID: l.ID, Call: l.Call, Version: l.Version, Head: map[string]string{}}
		for name := range h {
			l.Head[name] = h.Get(name)
		}
		l.setStatus(status)
		return &l
	}
	head := line(resp.Header, strconv.Itoa(resp.StatusCode))
	if err := c.tell(head); err != nil || head.End != "" {
		return err
	}
	method := c.grpc.of(l.path())
	messages := newCallMessages(resp.Body, resp.Header)
	for {
		message, err := messages.next()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF):
			return c.tell(line(resp.Trailer, ""))
		case err != nil:
			return c.tell(&webLine{ID: l.ID, Call: l.Call, Version: l.Version, End: endCut, Text: err.Error()})
		}
		answer := webLine{ID: l.ID, Call: l.Call, Version: l.Version, Event: new(string)}
		answer.setMessage(method.answer, message, frame.U2C, frame.C2U)
		if err := c.tell(&answer); err != nil {
			return err
		}
	}
}

// serveCall writes a gRPC call as lines, and answers it.
func (v *webVisit) serveCall(w http.ResponseWriter, r *http.Request) {
	l := &webLine{Request: r.Method}
	l.setTarget(r.RequestURI)
	if v.listener.rest {
		l.setCall(v.callOf(r))
	}
	method := v.listener.grpc.of(l.path())
	messages := newCallMessages(r.Body, r.Header)
	if !method.streams {
		message, err := messages.next()
		if err != nil && !errors.Is(err, io.EOF) {
			failCall(w, codes.InvalidArgument, err.Error())
			return
		}
		l.setMessage(method.request, message, frame.C2U, frame.U2C)
	}
	of := newWebRequest()
	defer close(of.gone)
	id := v.register(l, of)
	defer v.forget(id)
	if _, err := v.out.Write(l.bytes()); err != nil {
		notRecorded(w, r)
		return
	}
	if method.streams {
		defer of.reading.Wait()
		defer r.Body.Close()
		of.reading.Go(func() { v.readCall(messages, method, id) })
	}
	begun := false
	v.writeAnswer(w, r, id, of, func(l *webLine) bool {
		more := l.writeCall(w, method, r.Host, begun)
		begun = true
		return more
	})
}

// readCall writes the messages of a streamed request as lines.
func (v *webVisit) readCall(messages *callMessages, method callMethod, id int64) {
	for {
		message, err := messages.next()
		l := webLine{ID: id, More: err == nil, Last: errors.Is(err, io.EOF)}
		if err != nil && !l.Last {
			return // the client left
		}
		if l.More {
			l.setMessage(method.request, message, frame.C2U, frame.U2C)
		}
		if _, err := v.out.Write(l.bytes()); err != nil || l.Last {
			return
		}
	}
}

// writeCall writes the part of an answer to a call that a line has. A status before anything
// else is in the head. It reports whether more follows.
func (l *webLine) writeCall(w http.ResponseWriter, method callMethod, host string, begun bool) bool {
	code, isStatus := strings.CutPrefix(l.End, callStatus)
	switch {
	case l.End == endCut:
		panic(http.ErrAbortHandler)
	case isStatus:
		place := http.TrailerPrefix
		if !begun {
			place = ""
			w.Header().Set("Content-Type", "application/grpc")
		}
		for name, value := range l.Head {
			w.Header().Set(place+name, value)
		}
		w.Header().Set(place+"Grpc-Status", code)
		w.Header().Set(place+"Grpc-Message", url.PathEscape(l.Text))
		return false
	case l.End != "":
		status, _ := strconv.Atoi(strings.TrimPrefix(l.End, "status "))
		w.WriteHeader(status)
		return false
	case l.Event != nil:
		message, err := l.messageAt(method.answer, "http://"+host)
		if err != nil {
			failed := failedCall(codes.Internal, err.Error())
			return failed.writeCall(w, method, host, begun)
		}
		_, _ = w.Write(message) // the context ends if the client has left
	default:
		for name, value := range l.Head {
			w.Header().Set(name, value)
		}
	}
	_ = http.NewResponseController(w).Flush()
	return true
}

// failCall ends a call with an error.
func failCall(w http.ResponseWriter, code codes.Code, text string) {
	l := failedCall(code, text)
	l.writeCall(w, callMethod{}, "", false)
}

// failedCall returns the line of that end.
func failedCall(code codes.Code, text string) webLine {
	return webLine{End: callStatus + strconv.Itoa(int(code)), Text: text}
}

// refuseCall answers a call that was not recorded.
func (v *webVisit) refuseCall(m *protocol.Message, text string) {
	l := failedCall(codes.Unimplemented, text)
	l.ID, _ = strconv.ParseInt(string(m.ID.Text), 10, 64)
	_, _ = v.Write(l.bytes()) // it never fails
}

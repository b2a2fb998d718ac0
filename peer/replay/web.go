package replay

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/agui"
	"github.com/wirectl/wirectl/protocol/anthropic"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/gemini"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/protocol/openai"
	"github.com/wirectl/wirectl/protocol/opencode"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// bare reports whether messages of a protocol have no ids, so that only HTTP says which
// request an answer belongs to.
func bare(p protocol.Protocol) bool {
	switch p {
	case opencode.Protocol, agui.Protocol, openai.Protocol, anthropic.Protocol, gemini.Protocol:
		return true
	}
	return false
}

// A webLine is what is said over HTTP, as one line of JSON: a request, an answer, an event
// or the end of an answer.
type webLine struct {
	ID      int64             `json:"id,omitempty"`
	Ref     int64             `json:"ref,omitempty"` // the client leaves this request
	Request string            `json:"request,omitempty"`
	Path    []any             `json:"path,omitempty"` // an id is the member of an object
	Query   string            `json:"query,omitempty"`
	Status  int               `json:"status,omitempty"`
	Head    map[string]string `json:"head,omitempty"`
	Events  bool              `json:"events,omitempty"` // they follow
	Event   *string           `json:"event,omitempty"`  // its type
	Body    json.RawMessage   `json:"body,omitempty"`
	Text    string            `json:"text,omitempty"` // a body that is no JSON
	Bytes   []byte            `json:"bytes,omitempty"`
	End     string            `json:"end,omitempty"`
}

// How a stream of events ends.
const (
	endWhole = "whole"
	endCut   = "cut"
)

// webIgnored is what makes no difference: both sides have headers of their own.
var webIgnored = []jsondiff.Path{{"head"}}

// webID is what a segment of a path looks like that names a thing.
var webID = regexp.MustCompile(`^([a-z]{2,10}_[A-Za-z]*\d\w*|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27})$`)

// setTarget notes what a request asks for.
func (l *webLine) setTarget(target string) {
	if _, rest, full := strings.Cut(target, "://"); full {
		_, rest, _ = strings.Cut(rest, "/")
		target = "/" + rest
	}
	path, query, _ := strings.Cut(target, "?")
	l.Query = query
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if webID.MatchString(segment) {
			l.Path = append(l.Path, map[string]any{"id": segment})
		} else {
			l.Path = append(l.Path, segment)
		}
	}
}

// target returns what a request asks for.
func (l *webLine) target() string {
	path := l.pathWith(func(id string) string { return id })
	if l.Query != "" {
		return path + "?" + l.Query
	}
	return path
}

// name returns the path without ids.
func (l *webLine) name() string { return l.pathWith(func(string) string { return ":id" }) }

func (l *webLine) pathWith(named func(id string) string) string {
	var b strings.Builder
	for _, segment := range l.Path {
		text, _ := segment.(string)
		if of, ok := segment.(map[string]any); ok {
			id, _ := of["id"].(string)
			text = named(id)
		}
		b.WriteString("/" + text)
	}
	return b.String()
}

func (l *webLine) setBody(body []byte) {
	switch {
	case len(body) == 0:
	case isJSON(body):
		l.Body = body
	case utf8.Valid(body):
		l.Text = string(body)
	default:
		l.Bytes = body
	}
}

func (l *webLine) body() []byte {
	switch {
	case l.Body != nil:
		return l.Body
	case l.Bytes != nil:
		return l.Bytes
	}
	return []byte(l.Text)
}

// bytes returns the line with its end.
func (l *webLine) bytes() []byte {
	var w bytes.Buffer
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	_ = e.Encode(l) // a body that is no JSON is none
	return w.Bytes()
}

// hop are the headers that hold for one connection or one form of a body.
var hop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Proxy-Connection": true, "Host": true, "Content-Length": true, "Content-Encoding": true, "Accept-Encoding": true,
	"Expect": true, "Date": true,
}

func (l *webLine) setHead(h *frame.Head) {
	for _, f := range h.Fields {
		name := http.CanonicalHeaderKey(f.Name)
		if hop[name] || strings.HasPrefix(name, ":") {
			continue
		}
		if l.Head == nil {
			l.Head = map[string]string{}
		}
		l.Head[name] = f.Value
	}
}

// A webTalk makes lines of the frames of a recording.
type webTalk struct {
	script  *Script
	streams map[line]*webStream
	last    int64
}

// A webStream is a request, and how far it is answered.
type webStream struct {
	asks   *webLine // until it is told
	record Record   // of that
	id     int64
	events bool
	ended  bool
}

// webScript returns the script of all that was said over HTTP.
func (s *Session) webScript() *Script {
	t := webTalk{
		script:  &Script{Conn: s.web[0].Frame.Conn, Framing: frame.Line, Protocol: web{s.bare}, ignore: webIgnored},
		streams: make(map[line]*webStream),
	}
	for _, r := range s.web {
		t.addRecord(r)
	}
	return t.script
}

func (t *webTalk) addRecord(r Record) {
	f := r.Frame
	head, signal, at := f.Meta.Head, f.Meta.Signal, line{f.Conn, f.Stream}
	if head.Method() != "" {
		l := &webLine{Request: head.Method()}
		l.setTarget(head.Target())
		l.setHead(head)
		s := &webStream{asks: l, record: r}
		t.streams[at] = s
		if signal == frame.NoSignal || !strings.Contains(head.Start, "HTTP/2") {
			t.ask(s, f)
		}
		return
	}
	s := t.streams[at]
	switch {
	case s == nil || s.ended || strings.HasPrefix(head.Status(), "1"):
	case f.Dir == frame.C2U && signal == frame.Reset:
		t.ask(s, nil)
		s.ended = true
		t.say(r, frame.C2U, &webLine{Ref: s.id})
	case f.Dir == frame.C2U:
		t.ask(s, f)
	default:
		t.ask(s, nil)
		t.answer(s, r)
	}
}

// ask tells of a request, whose body may be in a frame, unless that is told.
func (t *webTalk) ask(s *webStream, body *frame.Frame) {
	if s.asks == nil {
		return
	}
	if body != nil && body.Meta.Signal == frame.NoSignal {
		s.asks.setBody(body.Payload())
	}
	t.last++
	s.id, s.asks.ID = t.last, t.last
	t.say(s.record, frame.C2U, s.asks)
	s.asks = nil
}

// answer tells of what the server sends.
func (t *webTalk) answer(s *webStream, r Record) {
	f, l := r.Frame, &webLine{ID: s.id}
	status := f.Meta.Head.Status()
	l.Status, _ = strconv.Atoi(status)
	switch signal := f.Meta.Signal; {
	case signal == frame.Reset && s.events:
		l.End, s.ended = endCut, true
	case signal == frame.Reset:
		return // it was never answered
	case signal == frame.End || signal == frame.Trailers:
		if !s.events {
			return
		}
		l.End, s.ended = endWhole, true
	case status != "" && carrier.HasEvents(f.Meta.Head) && signal == frame.Response:
		l.setHead(f.Meta.Head)
		l.Events, s.events = true, true
	case s.events:
		l.Event = &f.Meta.Event
		l.setBody(f.Payload())
	default:
		if status != "" {
			l.setHead(f.Meta.Head)
		}
		l.setBody(f.Payload())
		s.ended = true
	}
	t.say(r, frame.U2C, l)
}

// say adds a step.
func (t *webTalk) say(r Record, dir frame.Dir, l *webLine) {
	raw := l.bytes()
	t.script.steps = append(t.script.steps, &step{
		index: len(t.script.steps), seq: r.Seq, time: r.Time, dir: dir,
		frame: frame.Frame{Raw: raw, End: len(raw) - 1, Conn: r.Frame.Conn, Dir: dir},
	})
}

// web is the protocol of such lines, whose events and bodies are in another.
type web struct{ protocol.Protocol }

func (web) Name() string { return carried.HTTP.Name() }

// Parse reads a line.
func (w web) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var l webLine
	if err := json.Unmarshal(payload, &l); err != nil {
		m.Faults |= protocol.UnknownKind
		return err
	}
	var inner protocol.Message
	if l.Body != nil && w.Protocol.Parse(l.Body, &inner) == nil {
		m.Label, m.Text, m.Version = inner.Label, inner.Text, inner.Version
	}
	var s jsonscan.Scanner
	s.Init(payload)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "id":
			m.ID = protocol.Token{Space: protocol.SpaceID, Text: s.Value()}
		case "ref":
			m.Ref = protocol.Token{Space: protocol.SpaceID, Text: s.Value()}
		}
	}
	m.From, m.Phase, m.Kind = frame.U2C, protocol.Close, strconv.AppendInt(nil, int64(l.Status), 10)
	switch {
	case l.Ref != 0:
		m.Kind, m.Phase, m.From = []byte("leave"), protocol.Cancel, frame.C2U
	case l.Request != "":
		m.Kind, m.Phase, m.From = []byte(l.Request+" "+l.name()), protocol.Open, frame.C2U
	case l.End != "":
		if m.Kind = []byte(l.End); l.End == endCut {
			m.Phase = protocol.Fail
		}
	case l.Event != nil:
		m.Phase = protocol.Part
		if m.Kind = inner.Kind; len(m.Kind) == 0 {
			m.Kind = []byte(*l.Event)
		}
	case l.Events:
		m.Phase = protocol.Part
	case carried.Failed(string(m.Kind)):
		m.Phase = protocol.Fail
	}
	return nil
}

// webOrder is the order in which a unit answers over HTTP: of each request in the order of
// the recording, when what the client had asked since has come. An answer may tell of any
// of that.
func (s *Script) webOrder() order {
	n := len(s.steps)
	o := newOrder(n)
	type progress struct{ at, ours int }
	last := map[int]progress{} // by exchange
	for i, st := range s.steps {
		if st.dir == frame.C2U {
			if st.opens != 0 {
				last[st.exchange] = progress{at: i, ours: -1}
			}
			continue
		}
		before, ok := last[st.exchange]
		if !ok {
			before = progress{at: i, ours: -1}
		}
		o.before[i] = before.ours
		latest := before.at
		for k := before.at; k < i; k++ {
			if s.steps[k].dir == frame.C2U {
				o.needs[i] = append(o.needs[i], k)
				latest = k
			}
		}
		if at := s.steps[latest].time; !at.IsZero() && st.time.After(at) {
			o.pause[i] = st.time.Sub(at)
		}
		last[st.exchange] = progress{at: i, ours: i}
	}
	return o
}

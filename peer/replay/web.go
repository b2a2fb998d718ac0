package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// bare reports whether messages of a protocol have no ids. Then only HTTP assigns answers to
// requests.
func bare(p protocol.Protocol) bool {
	api := all.Of(p).API
	return api != nil && api.Fail == nil
}

// A webLine is a part of HTTP as one line of JSON: a request, an answer, an event or the end
// of an answer.
type webLine struct {
	ID      int64             `json:"id,omitempty"`
	Ref     int64             `json:"ref,omitempty"` // the client leaves this request
	Request string            `json:"request,omitempty"`
	Home    string            `json:"home,omitempty"`    // the path of the endpoint, for requests to it
	Path    []any             `json:"path,omitempty"`    // ids are objects
	Call    string            `json:"call,omitempty"`    // the method of A2A over REST, also in answers
	Version string            `json:"version,omitempty"` // of the call
	Query   string            `json:"query,omitempty"`
	Status  int               `json:"status,omitempty"`
	Session string            `json:"sessionId,omitempty"` // of MCP
	Head    map[string]string `json:"head,omitempty"`
	Events  bool              `json:"events,omitempty"` // they follow
	Event   *string           `json:"event,omitempty"`  // its type
	More    bool              `json:"more,omitempty"`   // a further message of a gRPC client
	Last    bool              `json:"last,omitempty"`   // its messages end
	Body    json.RawMessage   `json:"body,omitempty"`
	Text    string            `json:"text,omitempty"` // a body that is not JSON
	Bytes   []byte            `json:"bytes,omitempty"`
	End     string            `json:"end,omitempty"`
}

// The ends of an event stream.
const (
	endWhole = "whole"
	endCut   = "cut"
)

// webIgnored is never compared: both sides have their own headers.
var webIgnored = append(cardIgnored(), []jsondiff.Path{{"head"}, {"home"}, {"call"}, {"version"}}...)

// webSessions is the place of MCP sessions, which a mock for many clients ignores.
var webSessions = []jsondiff.Path{{"sessionId"}}

// webID matches segments of a path that are ids.
var webID = regexp.MustCompile(`^([a-z]{2,10}_[A-Za-z]*\d\w*|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27})$`)

// setTarget sets the path and query of a request.
func (l *webLine) setTarget(target string) {
	if _, rest, full := strings.Cut(target, "://"); full {
		_, rest, _ = strings.Cut(rest, "/")
		target = "/" + rest
	}
	path, query, _ := strings.Cut(target, "?")
	l.Query = query
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		id, verb, hasVerb := strings.Cut(segment, ":")
		switch {
		case webID.MatchString(segment):
			l.Path = append(l.Path, map[string]any{"id": segment})
		case hasVerb && webID.MatchString(id): // as in A2A: tasks/ID:cancel
			l.Path = append(l.Path, map[string]any{"id": id, "verb": ":" + verb})
		default:
			l.Path = append(l.Path, segment)
		}
	}
}

// atHome marks a request for the endpoint, whose live path may differ.
func (l *webLine) atHome(home string) {
	if home != "" && l.path() == home {
		l.Home, l.Path = home, nil
	}
}

// target returns the path and query of a request.
func (l *webLine) target() string {
	if l.Query != "" {
		return l.path() + "?" + l.Query
	}
	return l.path()
}

func (l *webLine) path() string { return l.pathWith(func(id string) string { return id }) }

// name returns the path without ids.
func (l *webLine) name() string { return l.pathWith(func(string) string { return ":id" }) }

func (l *webLine) pathWith(named func(id string) string) string {
	var b strings.Builder
	for _, segment := range l.Path {
		text, _ := segment.(string)
		if of, ok := segment.(map[string]any); ok {
			id, _ := of["id"].(string)
			verb, _ := of["verb"].(string)
			text = named(id) + verb
		}
		b.WriteString("/" + text)
	}
	return b.String()
}

// lineOf parses a payload, which is a line.
func lineOf(payload []byte) *webLine {
	l := new(webLine)
	_ = json.Unmarshal(payload, l) // never fails
	return l
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
	_ = e.Encode(l) // never fails
	return w.Bytes()
}

// hop are headers of one connection, or of one encoding of a body.
var hop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Proxy-Connection": true, "Host": true, "Content-Length": true, "Content-Encoding": true, "Accept-Encoding": true,
	"Expect": true, "Date": true, "Grpc-Encoding": true, "Grpc-Accept-Encoding": true,
}

// sessionHeader names the MCP session of a request or an answer.
const sessionHeader = "Mcp-Session-Id"

func (l *webLine) setHead(h *frame.Head) {
	for _, f := range h.Fields {
		name := http.CanonicalHeaderKey(f.Name)
		if name == sessionHeader {
			l.Session = f.Value
			continue
		}
		if hop[name] || strings.HasPrefix(name, ":") {
			continue
		}
		if l.Head == nil {
			l.Head = map[string]string{}
		}
		l.Head[name] = f.Value
	}
}

// A webTalk turns the frames of a recording into lines.
type webTalk struct {
	script  *Script
	streams map[line]*webStream
	last    int64
	calls   bool   // of JSON-RPC
	home    string // the path of the endpoint
	routes  a2a.Routes
	rest    bool // there are calls of A2A over REST
}

// A webStream is a request and the state of its answer.
type webStream struct {
	asks   *webLine // the request, until its step is added
	record Record   // of the request
	id     int64
	events bool
	ended  bool

	call, version string
}

// webScript returns the script of everything over HTTP in a protocol.
func (s *Session) webScript(p protocol.Protocol) *Script {
	t := webTalk{streams: make(map[line]*webStream), calls: all.IsRPC(p)}
	t.script = &Script{Conn: s.web[0].Frame.Conn, Framing: frame.Line, Protocol: web{Protocol: p, calls: t.calls}, ignore: webIgnored}
	if t.calls {
		t.script.ignore = append(slices.Clone(webIgnored), jsondiff.Path{"event"}) // message is the default
		t.script.undigested = undigested
		t.home, t.script.refused = homeOf(s.web), unplayable(s.web)
	}
	for _, r := range s.web {
		t.addRecord(r)
	}
	if t.rest && p == opaque.JSON {
		t.script.Protocol = web{Protocol: jsonrpc.A2A, rest: true}
		t.script.undigested = []jsondiff.Path{{"body", "message", "messageId"}}
	}
	return t.script
}

// unplayable returns an error if the HTTP part of the recording cannot be played.
func unplayable(records []Record) error {
	for _, r := range records {
		switch meta := r.Frame.Meta; {
		case r.Frame.Gap:
		case meta.Event == "endpoint":
			return fmt.Errorf("frame %d is of the HTTP+SSE transport of MCP 2024-11-05, which replay does not speak: record the session over Streamable HTTP, or play it against a program", r.Seq)
		case meta.Head.Get("Last-Event-Id") != "":
			return fmt.Errorf("frame %d resumes a stream after an event (Last-Event-ID) that a live server has not sent: record the session without the break", r.Seq)
		}
	}
	return nil
}

// homeOf returns the path to which requests of JSON-RPC are posted.
func homeOf(records []Record) string {
	for _, r := range records {
		if r.Frame.Gap {
			continue
		}
		if h := r.Frame.Meta.Head; h.Method() == http.MethodPost {
			l := webLine{}
			l.setTarget(h.Target())
			return l.path()
		}
	}
	return ""
}

func (t *webTalk) addRecord(r Record) {
	f := r.Frame
	if f.Gap {
		t.leaveAt(r)
		return
	}
	head, signal, at := f.Meta.Head, f.Meta.Signal, line{f.Conn, f.Stream}
	if head.Method() != "" {
		l := &webLine{Request: head.Method()}
		l.setTarget(head.Target())
		l.atHome(t.home)
		l.setHead(head)
		if !t.calls {
			if call := t.routes.Call(head); call != nil && !call.GRPC {
				l.setCall(call)
			}
			t.rest = t.rest || l.Call != ""
		}
		s := &webStream{asks: l, record: r}
		t.streams[at] = s
		if signal == frame.NoSignal || !strings.Contains(head.Start, "HTTP/2") {
			t.addRequest(s, f)
		}
		return
	}
	s := t.streams[at]
	switch {
	case s == nil || s.ended || strings.HasPrefix(head.Status(), "1"):
	case f.Dir == frame.C2U && signal == frame.Reset:
		t.addRequest(s, nil)
		t.leave(s, r)
	case f.Dir == frame.C2U:
		t.addRequest(s, f)
	default:
		t.addRequest(s, nil)
		t.addAnswer(s, r)
	}
}

func (t *webTalk) leave(s *webStream, r Record) {
	s.ended = true
	t.say(r, frame.C2U, &webLine{Ref: s.id})
}

// leaveAt handles a connection of HTTP/1.1 that ends inside a stream: its client has left.
func (t *webTalk) leaveAt(r Record) {
	for at, s := range t.streams {
		if (t.calls || s.call != "") && at.conn == r.Frame.Conn && s.events && !s.ended {
			t.leave(s, r)
			return
		}
	}
}

// addRequest adds the step of a request, whose body may be in a frame, unless it was added.
func (t *webTalk) addRequest(s *webStream, body *frame.Frame) {
	if s.asks == nil {
		return
	}
	s.call, s.version = s.asks.Call, s.asks.Version
	if body != nil && body.Meta.Signal == frame.NoSignal {
		s.asks.setContent(body.Payload(), frame.C2U, t.calls)
	}
	t.last++
	s.id, s.asks.ID = t.last, t.last
	t.say(s.record, frame.C2U, s.asks)
	s.asks = nil
}

// addAnswer adds the step of an answer.
func (t *webTalk) addAnswer(s *webStream, r Record) {
	f, l := r.Frame, &webLine{ID: s.id, Call: s.call, Version: s.version}
	status := f.Meta.Head.Status()
	l.Status, _ = strconv.Atoi(status)
	switch signal := f.Meta.Signal; {
	case signal == frame.Reset && s.events:
		l.End, s.ended = endCut, true
	case signal == frame.Reset:
		return // there was no answer
	case signal == frame.End || signal == frame.Trailers:
		if !s.events {
			return
		}
		l.End, s.ended = endWhole, true
	case status != "" && carrier.HasEvents(f.Meta.Head) && signal == frame.Response:
		l.setHead(f.Meta.Head)
		l.Events, s.events = true, true
	case s.events && t.calls && len(f.Payload()) == 0:
		return // an event with only an id
	case s.events:
		l.Event = &f.Meta.Event
		l.setContent(f.Payload(), frame.U2C, t.calls)
	default:
		if status != "" {
			l.setHead(f.Meta.Head)
		}
		l.setContent(f.Payload(), frame.U2C, t.calls)
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

// web is the protocol of the lines. The embedded one is that of events and bodies.
type web struct {
	protocol.Protocol
	calls bool // it is of the JSON-RPC family
	rest  bool // it is A2A over REST or gRPC
	grpc  *callMethods
}

func (web) Name() string { return carried.HTTP.Name() }

// content parses the message in a line. The body is nil if there is none, except in a request
// of A2A over REST.
func (w web) content(l *webLine, m *protocol.Message) (body []byte, ok bool) {
	switch m.Reset(); {
	case w.rest:
		if !l.readCall(m) {
			return nil, false
		}
		return l.Body, true
	case l.Body == nil:
		return nil, false
	case w.calls:
		if body = l.content(); all.Beside(w.Protocol, body) != w.Protocol {
			return nil, false
		}
	default:
		body = l.Body
	}
	return body, w.Protocol.Parse(body, m) == nil
}

// Parse reads a line.
func (w web) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var l webLine
	if err := json.Unmarshal(payload, &l); err != nil {
		m.Faults |= protocol.UnknownKind
		return err
	}
	var inner protocol.Message
	_, holds := w.content(&l, &inner)
	if holds {
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
	if w.grpc != nil && l.Ref == 0 {
		l.parseCall(m)
		return nil
	}
	m.From, m.Phase, m.Kind = frame.U2C, protocol.Close, strconv.AppendInt(nil, int64(l.Status), 10)
	switch {
	case l.Ref != 0:
		m.Kind, m.Phase, m.From = []byte("leave"), protocol.Cancel, frame.C2U
	case l.Request != "":
		m.Kind, m.Phase, m.From = []byte(strings.TrimSpace(l.Request+" "+l.name())), protocol.Open, frame.C2U
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
	if w.calls && holds {
		joinCall(m, &inner, &l)
	}
	return nil
}

// joinCall adds the properties of a JSON-RPC message in a line. Events that are not part of
// an answer must arrive.
func joinCall(m, inner *protocol.Message, l *webLine) {
	switch {
	case l.Request == "" && l.Event == nil:
		return // the status is the kind
	case l.Event != nil && inner.Phase != protocol.Part:
		m.Phase = protocol.Note
	case len(m.Label) == 0 && inner.Phase.Ends():
		m.Label = inner.ID.Text // it distinguishes answers
	}
	m.Kind = inner.Kind
}

// In a line of HTTP, the id of a JSON-RPC request, and its progress token, are in an object.
// The key of the object says which side chose them. Both sides count from 0, so the number
// alone is ambiguous.
const (
	clientKey   = "id of the client"
	serverKey   = "id of the server"
	clientToken = "token of the client"
	serverToken = "token of the server"
)

// undigested are the paths of ids, and of values derived from them, which do not distinguish
// requests.
var undigested = []jsondiff.Path{
	{"body", "id", clientKey},
	{"body", "*", "id", clientKey},
	{"body", "params", "_meta", "progressToken", clientToken},
	{"body", "params", "requestId", clientKey},
	{"body", "params", "message", "messageId"}, // of A2A
}

// callKey returns the key for an id that a side chose.
func callKey(owner frame.Dir) string {
	if owner == frame.C2U {
		return clientKey
	}
	return serverKey
}

// tokenKey returns the key for a progress token that a side chose.
func tokenKey(owner frame.Dir) string {
	if owner == frame.C2U {
		return clientToken
	}
	return serverToken
}

// isTheirs reports whether the peer of a side chooses the value under a key.
func isTheirs(key string, side frame.Dir) bool {
	return key == callKey(side.Opposite()) || key == tokenKey(side.Opposite())
}

// callIDs returns the positions of request ids in a body sent by one side. It calls text for
// the replacement of each.
func callIDs(body []byte, from frame.Dir, text func(value []byte, key string) []byte) (places []protocol.Place) {
	add := func(at int, value []byte, key string) {
		if value == nil {
			return
		}
		if with := text(value, key); with != nil {
			places = append(places, protocol.Place{Start: at, End: at + len(value), Text: with})
		}
	}
	var s jsonscan.Scanner
	s.Init(body)
	if jsonscan.KindOf(bytes.TrimSpace(body)) != jsonscan.Array {
		callIDsOf(body, 0, from, add)
	}
	for ok := s.Array(); ok && s.Elem(); {
		at := s.Offset()
		callIDsOf(s.Value(), at, from, add)
	}
	slices.SortFunc(places, func(a, b protocol.Place) int { return a.Start - b.Start })
	return places
}

func callIDsOf(message []byte, base int, from frame.Dir, add func(at int, value []byte, key string)) {
	id, method := memberOf(message, "id"), memberOf(message, "method")
	owner := from
	if method.value == nil {
		owner = from.Opposite()
	}
	add(base+id.at, id.value, callKey(owner))
	for _, key := range []string{"params", "result"} {
		content := memberOf(message, key)
		at := base + content.at
		switch string(method.value) {
		case `"notifications/cancelled"`:
			m := memberOf(content.value, "requestId")
			add(at+m.at, m.value, callKey(from))
		case `"notifications/progress"`:
			m := memberOf(content.value, "progressToken")
			add(at+m.at, m.value, tokenKey(from.Opposite()))
		}
		meta := memberOf(content.value, "_meta")
		m := memberOf(meta.value, "io.modelcontextprotocol/subscriptionId")
		add(at+meta.at+m.at, m.value, clientKey)
		if m = memberOf(meta.value, "progressToken"); method.value != nil {
			add(at+meta.at+m.at, m.value, tokenKey(from))
		}
	}
}

type placed struct {
	at    int
	value []byte
}

// member returns a member of an object; its value is nil if there is none.
func (p placed) member(key string) placed {
	m := memberOf(p.value, key)
	m.at += p.at
	return m
}

// memberOf returns a member of an object; the zero value if there is none.
func memberOf(object []byte, key string) (m placed) {
	var s jsonscan.Scanner
	s.Init(object)
	for ok := len(object) > 0 && s.Object(); ok && s.Next(); {
		if string(s.Key()) == key {
			m.at = s.Offset()
			m.value = s.Value()
		}
	}
	return m
}

// markIDs wraps the ids of a body in objects that say which side chose them.
func markIDs(body []byte, from frame.Dir) []byte {
	return protocol.AppendPlaced(nil, body, callIDs(body, from, func(value []byte, key string) []byte {
		if !isScalar(value) {
			return nil
		}
		return fmt.Appendf(nil, `{%q:%s}`, key, value)
	}))
}

// unmarkIDs reverses markIDs.
func unmarkIDs(body []byte) []byte {
	return protocol.AppendPlaced(nil, body, callIDs(body, frame.C2U, func(value []byte, _ string) []byte {
		for _, key := range []string{clientKey, serverKey, clientToken, serverToken} {
			if id := memberOf(value, key).value; id != nil {
				return id
			}
		}
		return nil
	}))
}

// setContent sets the body of a line. It marks the URLs of a card, and the ids if the body may
// contain calls.
func (l *webLine) setContent(body []byte, from frame.Dir, calls bool) {
	if l.setBody(body); l.Body == nil {
		return
	}
	if calls {
		l.Body = markIDs(l.Body, from)
	}
	if from == frame.U2C {
		l.Body = markCard(l.Body)
	}
}

// content returns the body as it is on the wire.
func (l *webLine) content() []byte { return l.contentAt("") }

// contentAt is content for a unit with that origin.
func (l *webLine) contentAt(origin string) []byte {
	if l.Body != nil {
		return unmarkIDs(unmarkCard(l.Body, origin))
	}
	return l.body()
}

// readInner parses the JSON-RPC message in a line of HTTP, if there is one.
func (s *Script) readInner(payload []byte, m *protocol.Message) {
	if w, isWeb := s.Protocol.(web); isWeb && (w.calls || w.rest) {
		_, _ = w.content(lineOf(payload), m)
	}
}

// inBody adds paths into the body of an HTTP line to paths of a message.
func (s *Script) inBody(paths []jsondiff.Path) []jsondiff.Path {
	if w, isWeb := s.Protocol.(web); !isWeb || !w.calls && w.grpc == nil {
		return paths
	}
	all := slices.Clone(paths)
	for _, p := range paths {
		all = append(all, append(jsondiff.Path{"body"}, p...))
	}
	return all
}

// pathOf returns the path of a place in a message as text.
func (s *Script) pathOf(keys []string) string {
	if w, isWeb := s.Protocol.(web); isWeb && (w.calls || w.grpc != nil) && len(keys) > 1 && keys[0] == "body" {
		keys = keys[1:]
	}
	return jsondiff.Join(keys)
}

// In a line of HTTP, the URL of each endpoint in an agent card (A2A) is in an object with
// this key. It is not compared, because each agent has its own. A unit puts its own address
// into it, so that the client comes back to it.
const cardKey = "URL of the agent"

// cardLists are the members of a card that list endpoints, in versions 1.0 and 0.3.
var cardLists = []string{"supportedInterfaces", "additionalInterfaces"}

// cardIgnored are the paths of these URLs.
func cardIgnored() (paths []jsondiff.Path) {
	for _, card := range []jsondiff.Path{{"body"}, {"body", "result"}} {
		paths = append(paths, slices.Concat(card, jsondiff.Path{"url", cardKey}))
		for _, list := range cardLists {
			paths = append(paths, slices.Concat(card, jsondiff.Path{list, "*", "url", cardKey}))
		}
	}
	return paths
}

// cardURLs returns the URLs of the endpoints in a body that is a card, or the answer of
// JSON-RPC with one.
func cardURLs(body []byte) (urls []placed) {
	if !bytes.Contains(body, []byte(`"defaultInputModes"`)) { // required in a card
		return nil
	}
	card := placed{value: body}
	if result := card.member("result"); result.value != nil {
		card = result
	}
	if card.member("defaultInputModes").value == nil {
		return nil
	}
	urls = append(urls, card.member("url"))
	for _, name := range cardLists {
		list := card.member(name)
		var s jsonscan.Scanner
		s.Init(list.value)
		for ok := s.Array(); ok && s.Elem(); {
			item := placed{at: list.at + s.Offset(), value: s.Value()}
			urls = append(urls, item.member("url"))
		}
	}
	urls = slices.DeleteFunc(urls, func(u placed) bool { return u.value == nil })
	slices.SortFunc(urls, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	return urls
}

// markCard wraps the URLs of a card.
func markCard(body []byte) []byte {
	var places []protocol.Place
	for _, u := range cardURLs(body) {
		if jsonscan.KindOf(u.value) == jsonscan.String {
			places = append(places, protocol.Place{Start: u.at, End: u.at + len(u.value), Text: fmt.Appendf(nil, `{%q:%s}`, cardKey, u.value)})
		}
	}
	return protocol.AppendPlaced(nil, body, places)
}

// unmarkCard reverses markCard. Unless origin is empty, it replaces the origins of the URLs.
func unmarkCard(body []byte, origin string) []byte {
	var places []protocol.Place
	for _, u := range cardURLs(body) {
		url := memberOf(u.value, cardKey).value
		if url == nil {
			continue
		}
		text, _ := jsonscan.Unquote(url)
		if _, rest, full := strings.Cut(string(text), "://"); full && origin != "" {
			_, path, hasPath := strings.Cut(rest, "/")
			if hasPath {
				path = "/" + path
			}
			url = jsonscan.AppendQuote(nil, []byte(origin+path))
		}
		places = append(places, protocol.Place{Start: u.at, End: u.at + len(u.value), Text: url})
	}
	return protocol.AppendPlaced(nil, body, places)
}

// setCall marks the line as a call of A2A over REST or gRPC, unless call is nil. The task in its
// path is an id.
func (l *webLine) setCall(call *a2a.Call) {
	if call == nil {
		return
	}
	l.Call, l.Version = string(call.Kind()), string(call.Version)
	for i := 1; i < len(l.Path); i++ {
		if segment, ok := l.Path[i].(string); ok && l.Path[i-1] == "tasks" && !call.Task.IsZero() {
			id, verb, hasVerb := strings.Cut(segment, ":")
			named := map[string]any{"id": id}
			if hasVerb {
				named["verb"] = ":" + verb
			}
			l.Path[i] = named
		}
	}
}

// readCall parses a line of A2A over REST or gRPC. It reports whether the line holds a message.
func (l *webLine) readCall(m *protocol.Message) bool {
	method, _ := a2a.ByName([]byte(l.Call))
	code, failed := strings.CutPrefix(l.End, callStatus)
	failed = failed && code != "0"
	if method == nil || l.End != "" && !failed || l.Ref != 0 {
		return false
	}
	call := a2a.Call{Method: method, Version: []byte(l.Version), Task: l.task()}
	switch status := strconv.Itoa(l.Status); {
	case l.Request != "":
		call.Open(l.Body, m)
	case failed:
		a2a.Fail(nil, []byte(code), m)
	case l.Body == nil:
		return false
	case l.Status != 0 && carried.Failed(status):
		a2a.Fail(l.Body, []byte(status), m)
	case l.Event != nil && *l.Event == "error":
		a2a.Fail(l.Body, nil, m)
	default:
		call.Answer(l.Body, m)
	}
	m.ID = protocol.Token{Space: protocol.SpaceID, Text: strconv.AppendInt(nil, l.ID, 10)}
	return true
}

// task returns the task in the path of a request, or in a resource name of its body, as in gRPC
// of version 0.3.
func (l *webLine) task() (t protocol.Token) {
	for i := 1; i < len(l.Path); i++ {
		if of, ok := l.Path[i].(map[string]any); ok && l.Path[i-1] == "tasks" {
			id, _ := of["id"].(string)
			if text, err := url.PathUnescape(id); err == nil && text != "" {
				return protocol.Token{Space: protocol.SpaceTask, Text: jsonscan.AppendQuote(nil, []byte(text))}
			}
		}
	}
	for _, key := range []string{"name", "parent"} {
		if name, ok := jsonscan.Get(l.Body, key); ok {
			text, _ := jsonscan.Unquote(name)
			if id, isTask := strings.CutPrefix(string(text), "tasks/"); isTask {
				id, _, _ = strings.Cut(id, "/")
				return protocol.Token{Space: protocol.SpaceTask, Text: jsonscan.AppendQuote(nil, []byte(id))}
			}
		}
	}
	return t
}

// aboutTask returns a request to the same agent that does in REST or gRPC what a request about a
// task does in JSON-RPC.
func (l *webLine) aboutTask(call []byte, id int64) *webLine {
	name, _ := jsonscan.Get(call, "method")
	task, _ := jsonscan.Get(call, "params", "id")
	text, _ := jsonscan.Unquote(task)
	method, _ := a2a.ByName(bytes.Trim(name, `"`))
	if strings.HasPrefix(l.Head["Content-Type"], "application/grpc") {
		return l.callAbout(method, task, id)
	}
	of, verb := map[string]any{"id": url.PathEscape(string(text))}, http.MethodGet
	if method.Cancels {
		of["verb"], verb = ":cancel", http.MethodPost
	}
	c := a2a.Call{Method: method, Version: []byte(l.Version)}
	return &webLine{
		ID: id, Request: verb, Head: maps.Clone(l.Head), Call: string(c.Kind()), Version: l.Version,
		Path: append(slices.Clone(l.Path[:len(l.Path)-1]), "tasks", of),
	}
}

// callAbout is aboutTask for gRPC.
func (l *webLine) callAbout(method *a2a.Method, task []byte, id int64) *webLine {
	c := a2a.Call{Method: method, Version: []byte(l.Version)}
	body := fmt.Appendf(nil, `{"id":%s}`, task)
	if l.Version < a2a.V10 {
		text, _ := jsonscan.Unquote(task)
		body = fmt.Appendf(nil, `{"name":%s}`, jsonscan.AppendQuote(nil, append([]byte("tasks/"), text...)))
	}
	return &webLine{
		ID: id, Request: l.Request, Head: maps.Clone(l.Head), Call: string(c.Kind()), Version: l.Version,
		Path: []any{l.Path[0], method.Newer}, Body: body, Last: true,
	}
}

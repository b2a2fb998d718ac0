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
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// A part is a piece of an exchange over HTTP or gRPC: a request, an answer or its head, an event or
// a message, the end of a stream. Its JSON form is what is compared and shown, and what is played on
// other endpoints, a line for each part.
type part struct {
	ID      int64             `json:"id,omitempty"`
	Leaves  int64             `json:"ref,omitempty"` // the client leaves this request
	Method  string            `json:"request,omitempty"`
	Home    string            `json:"home,omitempty"`    // the path of the endpoint, for requests to it
	Path    []any             `json:"path,omitempty"`    // ids are objects
	Call    string            `json:"call,omitempty"`    // the kind of a call that its head tells, also in answers
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

// The ends of an event stream. That of a gRPC call with a status is [callStatus] and the status.
const (
	endWhole   = "whole"
	endCut     = "cut"
	callStatus = "grpc-status "
)

// webIgnored is never compared: both sides have their own headers.
var webIgnored = append(cardIgnored(), []jsondiff.Path{{"head"}, {"home"}, {"call"}, {"version"}}...)

// webSessions is the place of MCP sessions, which a mock for many clients ignores.
var webSessions = []jsondiff.Path{{"sessionId"}}

// webID matches segments of a path that are ids.
var webID = regexp.MustCompile(`^([a-z]{2,10}_[A-Za-z]*\d\w*|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27})$`)

// setTarget sets the path and query of a request.
func (p *part) setTarget(target string) {
	if _, rest, full := strings.Cut(target, "://"); full {
		_, rest, _ = strings.Cut(rest, "/")
		target = "/" + rest
	}
	path, query, _ := strings.Cut(target, "?")
	p.Query = query
	p.setPath(path, "")
}

// setPath sets the path of a request, in which the task, and all that looks like an id, are ids.
func (p *part) setPath(path, task string) {
	p.Path = nil
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		id, verb, hasVerb := strings.Cut(segment, ":") // as in A2A: tasks/ID:cancel
		text, err := url.PathUnescape(id)
		if isTask := err == nil && task != "" && text == task; !isTask && !webID.MatchString(id) {
			p.Path = append(p.Path, segment)
			continue
		}
		named := map[string]any{"id": id}
		if hasVerb {
			named["verb"] = ":" + verb
		}
		p.Path = append(p.Path, named)
	}
}

// setCall marks the part as a call.
func (p *part) setCall(c *protocol.Call) {
	p.Call, p.Version = c.Kind, c.Version
	if task, _ := jsonscan.Unquote(c.Task.Text); len(task) > 0 {
		p.setPath(p.path(), string(task))
	}
}

// atHome marks a request for the endpoint, whose live path may differ.
func (p *part) atHome(home string) {
	if home != "" && p.path() == home {
		p.Home, p.Path = home, nil
	}
}

// target returns the path and query of a request.
func (p *part) target() string {
	if p.Query != "" {
		return p.path() + "?" + p.Query
	}
	return p.path()
}

func (p *part) path() string { return p.pathWith(func(id string) string { return id }) }

// name returns the path without ids.
func (p *part) name() string { return p.pathWith(func(string) string { return ":id" }) }

func (p *part) pathWith(named func(id string) string) string {
	var b strings.Builder
	for _, segment := range p.Path {
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

// setContent sets the body of a part from one side. It marks the URLs of a card, and the ids if the
// body may contain messages of JSON-RPC.
func (p *part) setContent(body []byte, from frame.Dir, isRPC bool) {
	switch {
	case len(body) == 0:
	case isJSON(body):
		p.Body = body
		if isRPC {
			p.Body = markIDs(p.Body, from)
		}
		if from == frame.U2C {
			p.Body = markCard(p.Body)
		}
	case utf8.Valid(body):
		p.Text = string(body)
	default:
		p.Bytes = body
	}
}

// content returns the body as it is on the wire, for a unit with that origin, if it is not empty.
func (p *part) content(origin string) []byte {
	switch {
	case p.Body != nil:
		return unmark(p.Body, origin)
	case p.Bytes != nil:
		return p.Bytes
	}
	return []byte(p.Text)
}

// form returns the JSON form of the part. A body that is nested too deeply for it is kept as bytes.
func (p *part) form() []byte {
	form, err := jsonscan.Marshal(p)
	if err != nil {
		p.Bytes, p.Body = p.content(""), nil
		form, _ = jsonscan.Marshal(p) // it cannot fail again
	}
	return form
}

// hop are headers of one connection, or of one encoding of a body.
var hop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Proxy-Connection": true, "Host": true, "Content-Length": true, "Content-Encoding": true, "Accept-Encoding": true,
	"Expect": true, "Date": true, "Grpc-Encoding": true, "Grpc-Accept-Encoding": true,
}

// sessionHeader names the MCP session of a request or an answer.
const sessionHeader = "Mcp-Session-Id"

// setHead sets the fields of a head.
func (p *part) setHead(h *frame.Head) {
	for _, f := range h.Fields {
		name := http.CanonicalHeaderKey(f.Name)
		switch {
		case name == sessionHeader:
			p.Session = f.Value
		case hop[name] || strings.HasPrefix(name, ":"):
		default:
			if p.Head == nil {
				p.Head = map[string]string{}
			}
			p.Head[name] = f.Value
		}
	}
}

// setStatus makes p a head with a status of HTTP, or trailers. Its fields are set.
func (p *part) setStatus(status string) {
	code := p.Head["Grpc-Status"]
	switch {
	case code != "":
		p.End = callStatus + code
		p.Text = p.Head["Grpc-Message"]
		if text, err := url.PathUnescape(p.Text); err == nil {
			p.Text = text
		}
	case status == "200":
		p.Status, p.Events = http.StatusOK, true
	case status != "":
		p.End = "status " + status
	default:
		p.End = endCut
	}
	delete(p.Head, "Grpc-Status")
	delete(p.Head, "Grpc-Message")
}

// headOf returns a head as in a recording.
func headOf(start string, h http.Header) *frame.Head {
	head := &frame.Head{Start: start}
	for name := range h {
		head.Fields = append(head.Fields, frame.Field{Name: name, Value: h.Get(name)})
	}
	return head
}

// web is the protocol of parts. The embedded one is that of events and bodies.
type web struct {
	protocol.Protocol
	isRPC bool           // it is of the JSON-RPC family
	api   *protocol.Spec // of calls that heads tell, as of A2A over REST or gRPC; nil if there are none
	grpc  *callMethods   // nil over HTTP
}

func (web) Name() string { return carried.HTTP.Name() }

// message parses the message in a part. The body is nil if there is none, except in a request of
// an API.
func (w web) message(p *part, m *protocol.Message) (body []byte, ok bool) {
	switch m.Reset(); {
	case w.api != nil:
		if !w.readCall(p, m) {
			return nil, false
		}
		return p.Body, true
	case p.Body == nil:
		return nil, false
	case w.isRPC:
		if body = p.content(""); all.Beside(w.Protocol, body) != w.Protocol {
			return nil, false
		}
	default:
		body = p.Body
	}
	return body, w.Protocol.Parse(body, m) == nil
}

// readCall parses a part of a call. It reports whether the part holds a message.
func (w web) readCall(p *part, m *protocol.Message) bool {
	code, failed := strings.CutPrefix(p.End, callStatus)
	failed = failed && code != "0"
	if p.Call == "" || p.End != "" && !failed || p.Leaves != 0 {
		return false
	}
	api := w.api.API
	call := api.Named(p.Call, p.Version, p.Method, p.path())
	switch status := strconv.Itoa(p.Status); {
	case call == nil:
		return false
	case p.Method != "":
		api.Open(call, p.Body, m)
	case failed:
		api.Fail(nil, []byte(code), m)
	case p.Body == nil:
		return false
	case p.Status != 0 && carried.Failed(status):
		api.Fail(p.Body, []byte(status), m)
	case p.Event != nil && *p.Event == "error":
		api.Fail(p.Body, nil, m)
	default:
		api.Answer(call, p.Body, m, false)
	}
	m.ID = protocol.Token{Space: protocol.SpaceID, Text: strconv.AppendInt(nil, p.ID, 10)}
	return true
}

// about returns a request to the same agent as a call, which does what a message of JSON-RPC about a
// task does.
func (w web) about(p *part, message []byte, id int64) *part {
	call, verb, path, body := w.api.API.About(message, p.Version, w.grpc != nil)
	q := &part{ID: id, Method: verb, Head: maps.Clone(p.Head), Body: body, Last: w.grpc != nil}
	base := p.path()
	q.setPath(base[:strings.LastIndex(base, "/")+1]+path, "")
	q.setCall(call)
	q.Version = p.Version
	return q
}

// Parse reads the JSON form of a part.
func (w web) Parse(payload []byte, m *protocol.Message) error {
	_, err := w.parse(payload, m, new(protocol.Message))
	return err
}

// parse is Parse that also returns the part, and the message in it.
func (w web) parse(payload []byte, m, inner *protocol.Message) (*part, error) {
	p := new(part)
	if err := json.Unmarshal(payload, p); err != nil {
		m.Reset()
		m.Faults |= protocol.UnknownKind
		return p, err
	}
	w.read(p, payload, m, inner)
	return p, nil
}

// read parses a part whose JSON form is payload. There is only an inner message if it matters itself.
func (w web) read(p *part, payload []byte, m, inner *protocol.Message) {
	m.Reset()
	_, holds := w.message(p, inner)
	if holds {
		m.Label, m.Text, m.Version = inner.Label, inner.Text, inner.Version
	}
	for key, token := range map[string]*protocol.Token{"id": &m.ID, "ref": &m.Ref} {
		if value, ok := jsonscan.Get(payload, key); ok {
			*token = protocol.Token{Space: protocol.SpaceID, Text: value}
		}
	}
	m.From, m.Phase, m.Kind = frame.U2C, protocol.Close, strconv.AppendInt(nil, int64(p.Status), 10)
	switch {
	case p.Leaves != 0:
		m.Kind, m.Phase, m.From = []byte("leave"), protocol.Cancel, frame.C2U
	case w.grpc != nil:
		p.readGRPC(m)
	case p.Method != "":
		m.Kind, m.Phase, m.From = []byte(strings.TrimSpace(p.Method+" "+p.name())), protocol.Open, frame.C2U
	case p.End != "":
		if m.Kind = []byte(p.End); p.End == endCut {
			m.Phase = protocol.Fail
		}
	case p.Event != nil:
		m.Phase = protocol.Part
		if m.Kind = inner.Kind; len(m.Kind) == 0 {
			m.Kind = []byte(*p.Event)
		}
	case p.Events:
		m.Phase = protocol.Part
	case carried.Failed(string(m.Kind)):
		m.Phase = protocol.Fail
	}
	switch {
	case w.isRPC && holds:
		joinCall(m, inner, p)
	case !w.isRPC && w.api == nil:
		*inner = protocol.Message{}
	}
}

// joinCall adds the properties of a JSON-RPC message in a line. Events that are not part of
// an answer must arrive.
func joinCall(m, inner *protocol.Message, p *part) {
	switch {
	case p.Method == "" && p.Event == nil:
		return // the status is the kind
	case p.Event != nil && inner.Phase != protocol.Part:
		m.Phase = protocol.Note
	case len(m.Label) == 0 && inner.Phase.Ends():
		m.Label = inner.ID.Text // it distinguishes answers
	}
	m.Kind = inner.Kind
}

// In a part, the id of a JSON-RPC request, and its progress token, are in an object.
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

// callKey returns the key for the id of a request, or tokenKey for a progress token, that a side chose.
func callKey(owner frame.Dir) string  { return sideKey(owner, clientKey, serverKey) }
func tokenKey(owner frame.Dir) string { return sideKey(owner, clientToken, serverToken) }

func sideKey(owner frame.Dir, client, server string) string {
	if owner == frame.C2U {
		return client
	}
	return server
}

// isTheirs reports whether the peer of a side chooses the value under a key.
func isTheirs(key string, side frame.Dir) bool {
	return key == callKey(side.Opposite()) || key == tokenKey(side.Opposite())
}

// A mark is a value in a body that is wrapped in an object: its key says what the value is.
type mark struct {
	placed
	key string
}

// wrap wraps the values of marks.
func wrap(body []byte, marks []mark) []byte {
	var places []protocol.Place
	for _, m := range marks {
		if isScalar(m.value) {
			places = append(places, protocol.Place{Start: m.at, End: m.at + len(m.value), Text: fmt.Appendf(nil, `{%q:%s}`, m.key, m.value)})
		}
	}
	slices.SortFunc(places, func(a, b protocol.Place) int { return cmp.Compare(a.Start, b.Start) })
	return protocol.AppendPlaced(nil, body, places)
}

var marked = regexp.MustCompile(`\{"(` + strings.Join([]string{clientKey, serverKey, clientToken, serverToken, cardKey}, "|") + `)":`)

// unmark unwraps the values of marks. URLs get the given origin, unless that is empty.
func unmark(body []byte, origin string) []byte {
	var places []protocol.Place
	for _, at := range marked.FindAllSubmatchIndex(body, -1) {
		var s jsonscan.Scanner
		s.Init(body[at[1]:])
		value := s.Value()
		end := at[1] + s.Offset()
		if value == nil || end >= len(body) || body[end] != '}' {
			continue
		}
		if string(body[at[2]:at[3]]) == cardKey && origin != "" {
			value = withOrigin(value, origin)
		}
		places = append(places, protocol.Place{Start: at[0], End: end + 1, Text: value})
	}
	return protocol.AppendPlaced(nil, body, places)
}

// markIDs marks the ids of the messages in a body of JSON-RPC that a side has sent.
func markIDs(body []byte, from frame.Dir) []byte {
	var marks []mark
	var s jsonscan.Scanner
	s.Init(body)
	if jsonscan.KindOf(bytes.TrimSpace(body)) != jsonscan.Array {
		marks = idsOf(placed{value: body}, from)
	}
	for ok := s.Array(); ok && s.Elem(); {
		at := s.Offset()
		marks = append(marks, idsOf(placed{at, s.Value()}, from)...)
	}
	return wrap(body, marks)
}

func idsOf(message placed, from frame.Dir) (marks []mark) {
	add := func(key string, path ...string) {
		at := message
		for _, name := range path {
			at = at.member(name)
		}
		marks = append(marks, mark{at, key})
	}
	method, other := message.member("method").value, from.Opposite()
	const subscription = "io.modelcontextprotocol/subscriptionId"
	add(clientKey, "params", "_meta", subscription)
	add(clientKey, "result", "_meta", subscription)
	if method == nil {
		add(callKey(other), "id")
		return marks
	}
	add(callKey(from), "id")
	add(tokenKey(from), "params", "_meta", "progressToken")
	switch string(method) {
	case `"notifications/cancelled"`:
		add(callKey(from), "params", "requestId")
	case `"notifications/progress"`:
		add(tokenKey(other), "params", "progressToken")
	}
	return marks
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

// In a part, the URL of each endpoint in an agent card (A2A) is in an object with
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

// markCard marks the URLs of the endpoints in a body that is a card, or the answer of JSON-RPC with
// one.
func markCard(body []byte) []byte {
	const required = "defaultInputModes"
	if !bytes.Contains(body, []byte(`"`+required+`"`)) {
		return body
	}
	card := placed{value: body}
	if result := card.member("result"); result.value != nil {
		card = result
	}
	if card.member(required).value == nil {
		return body
	}
	marks := []mark{{card.member("url"), cardKey}}
	for _, name := range cardLists {
		list := card.member(name)
		var s jsonscan.Scanner
		s.Init(list.value)
		for ok := s.Array(); ok && s.Elem(); {
			item := placed{at: list.at + s.Offset(), value: s.Value()}
			marks = append(marks, mark{item.member("url"), cardKey})
		}
	}
	return wrap(body, marks)
}

// withOrigin returns a URL, quoted as in JSON, with another origin.
func withOrigin(quoted []byte, origin string) []byte {
	text, _ := jsonscan.Unquote(quoted)
	_, rest, full := strings.Cut(string(text), "://")
	if !full {
		return quoted
	}
	if _, path, hasPath := strings.Cut(rest, "/"); hasPath {
		origin += "/" + path
	}
	return jsonscan.AppendQuote(nil, []byte(origin))
}

// inBody adds paths into the body of an HTTP line to paths of a message.
func (s *Script) inBody(paths []jsondiff.Path) []jsondiff.Path {
	if w, isWeb := s.Protocol.(web); !isWeb || !w.isRPC && w.grpc == nil {
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
	if w, isWeb := s.Protocol.(web); isWeb && (w.isRPC || w.grpc != nil) && len(keys) > 1 && keys[0] == "body" {
		keys = keys[1:]
	}
	return jsondiff.Join(keys)
}

package protocol

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"unsafe"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Spec is all that makes a protocol. The folder of a protocol exports it, and package all
// lists it. Everything but the parser and About is optional.
type Spec struct {
	// Protocol is the parser.
	Protocol
	// About describes the protocol in a few words.
	About string
	Rules Rules
	// Framing is the usual framing of a plain stream, if that is neither the only one, which is
	// Rules.Framing, nor that of the encoding.
	Framing frame.Framing
	// Limit is the largest payload that peers accept, in bytes; 0 for frame.DefaultLimit.
	Limit int

	// Recognize says how surely a message, which m is, belongs to this protocol and no other.
	// It gets only messages without faults that speak against the protocol.
	Recognize func(payload []byte, m *Message) Evidence
	// Refine is Recognize for dialects of JSON-RPC: m is a request or a notification of it.
	Refine func(m *Message) Evidence
	// Mark is a text in messages that are cut or wrong. Lines with it may be those of a log.
	Mark string
	// HasField reports whether a message of protobuf may have a field; nil allows any.
	HasField func(number int32) bool

	// Cancel is how the sender of a request cancels it.
	Cancel Cancelling
	// AppendTask appends a request about the task of an operation: to cancel it, or else for
	// its state.
	AppendTask func(dst []byte, t *Target, cancel bool, n int64) []byte

	// Kept are paths to values that belong to the protocol and not to the conversation, besides
	// those that outlines keep of any protocol. Over gRPC they are names of fields.
	Kept []string
	// NoSecret is a key that looks like that of a secret and is none.
	NoSecret string
	// Labels says what the labels of messages name, if it is the same in all.
	Labels Labels
	// Nested returns the message of another protocol inside a message; nil for none.
	Nested func(payload []byte) *Nested
	// Invented are the keys of ids that a peer makes up in its answers.
	Invented []string
	// Rewrapped says that each message of a carrier holds a whole frame, with its length.
	Rewrapped bool

	// Messages returns the protocols of the messages of a gRPC call by its path.
	Messages func(path string) (request, answer Protocol, ok bool)
	// API is how the protocol is spoken over HTTP, if answers have no ids.
	API *API
	// Live is how a model takes turns over a WebSocket.
	Live Live

	// AsksUser are the kinds of requests that wait for the user: for a permission, for an answer.
	AsksUser []string

	// Prompts are the kinds of requests that give an agent the words of its user.
	Prompts []string

	// Joins are where requests have words in common with other wires of the same agent. SpawnedBy is
	// the text before the name of an agent in the result of the tool call that has started it.
	Joins     []Join
	SpawnedBy string
}

// Evidence is how surely a message belongs to a protocol, and why, besides its kind. The zero
// Evidence speaks against it.
type Evidence struct {
	Score Score
	Why   string
}

// Score is how strong evidence is.
type Score uint8

const (
	NoScore  Score = iota
	Possible       // messages of others may look the same
	Likely         // it has a name that few others have
	Certain        // only this protocol has such a message
)

// Own is the evidence of a message that only one protocol has, if it is one.
func Own(is bool) Evidence {
	if is {
		return Evidence{Score: Certain}
	}
	return Evidence{}
}

// Labels is what the labels of messages name.
type Labels uint8

const (
	NoLabels Labels = iota
	Tools
	Models
)

// Nested is a message inside a message: to or from a server that the sender of the outer one, or
// its receiver, runs.
type Nested struct {
	Protocol Protocol
	// Request is the id of the outer request, as written, and Answer says that the message came
	// in its answer.
	Request []byte
	Answer  bool
	// Server is the name of the server; only requests have it.
	Server []byte
	// Message is the inner message; nil if there is none.
	Message []byte
	// Asks says that the message is a request, so it is answered. The answer to any other only
	// acknowledges it, with an empty result.
	Asks bool
}

// A Target is a request to cancel.
type Target struct {
	Opened *Message
	// Payload is that of the request, and Name the name that its answer gives to an
	// operation that goes on: a turn, a task. Either may be unknown.
	Payload []byte
	Name    Token
}

// Cancelling is how a request is cancelled.
type Cancelling struct {
	// JSON is the form of a cancel: the first argument is the token that names the request, the
	// second the cancel's own id, the third the Ref of the request.
	JSON string
	Turn string // for a turn without an id, if that has another form
	Bind bool   // it names the request by its second name
	Ref  bool   // it has the Ref of the request

	Kinds []string // of requests that it ends; nil for all
}

// AppendCancel appends the payload by which the sender of a request cancels it. If a cancel has
// an id of its own, it is the number n, which must be new. The error says why there is no such
// cancel.
func (s *Spec) AppendCancel(dst []byte, t *Target, n int64) ([]byte, error) {
	c, token := &s.Cancel, t.Opened.ID
	switch {
	case s.AppendTask != nil && t.Name.Space == SpaceTask:
		return s.AppendTask(dst, t, true, n), nil
	case s.AppendTask != nil && c.JSON == "":
		return dst, fmt.Errorf("the answer to %s names no task, and only tasks are cancelled", t.Opened.Kind)
	}
	if c.Bind {
		token = t.Opened.Bind
	}
	if c.Ref && token.Space != SpaceTurn { // until it is answered, it names only its thread
		token = Token{}
	}
	if c.Ref && !t.Name.IsZero() {
		token = t.Name
	}
	switch {
	case c.JSON == "":
		return dst, fmt.Errorf("%s has no message that cancels a request", s.Name())
	case token.IsZero(), c.Ref && t.Opened.Ref.IsZero(), c.Kinds != nil && !slices.Contains(c.Kinds, string(t.Opened.Kind)):
		return dst, fmt.Errorf("%s has no id that a cancel could name", t.Opened.Kind)
	}
	text, form := token.Text, c.JSON
	if s.Encoding() != JSON {
		text = jsonscan.AppendQuote(nil, text)
	}
	if t.Opened.ID.Space == SpaceTurn {
		form = cmp.Or(c.Turn, form)
	}
	json := fmt.Appendf(nil, form, text, n, t.Opened.Ref.Text)
	if t, ok := s.Protocol.(Transcoder); ok {
		return t.AppendPayload(dst, json)
	}
	return append(dst, json...), nil
}

// AppendPoll appends the payload that asks for the state of a request's operation. It reports
// whether there is one: only for tasks, and not if a stream reports their state.
func (s *Spec) AppendPoll(dst []byte, t *Target, n int64) (_ []byte, ok bool) {
	if s.AppendTask == nil || t.Name.Space != SpaceTask || slices.Contains(s.Rules.Streams, string(t.Opened.Kind)) {
		return dst, false
	}
	return s.AppendTask(dst, t, false, n), true
}

// Usual returns the framing that the protocol mostly has on plain streams; nil if it has none.
func (s *Spec) Usual() frame.Framing {
	byEncoding := [...]frame.Framing{Opaque: nil, JSON: frame.Line, Protobuf: frame.Varint}
	return cmp.Or(s.Framing, s.Rules.Framing, byEncoding[s.Encoding()])
}

// Items yields the messages of a batch, or any other payload as it is. They borrow from
// payload. It stops at the first one that is not JSON.
func Items(payload []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var s jsonscan.Scanner
		s.Init(payload)
		if !s.Array() {
			yield(payload)
			return
		}
		for s.Elem() {
			item := s.Value()
			if item == nil || !yield(item) {
				return
			}
		}
	}
}

// A Renamer is a Protocol that knows where the ids of a payload are, if that is not JSON.
type Renamer interface {
	Protocol
	// AppendRenamed appends payload with other ids: for each id it calls name with the
	// token, which returns the text to put there, nil to keep the id. Every other byte
	// stays as it is, except for the lengths around an id.
	AppendRenamed(dst, payload []byte, name func(Token) []byte) []byte
}

// A Place is a span of a payload to replace with other text.
type Place struct {
	Start, End int
	Text       []byte
}

// AppendPlaced appends payload with other text in some places, which are in
// order and do not overlap.
func AppendPlaced(dst, payload []byte, places []Place) []byte {
	from := 0
	for _, p := range places {
		dst = append(append(dst, payload[from:p.Start]...), p.Text...)
		from = p.End
	}
	return append(dst, payload[from:]...)
}

// SameToken reports whether two tokens are one, at one place of one payload.
func SameToken(t, u Token) bool {
	return len(t.Text) > 0 && len(t.Text) == len(u.Text) && &t.Text[0] == &u.Text[0]
}

// AppendRenamed appends payload, which p has parsed into m, with other ids: for each of m's
// tokens name returns the text to put there, nil to keep the id. Every other byte of a JSON
// payload stays as it is. A payload that is neither JSON nor of a [Renamer] has no ids that
// could be replaced.
func AppendRenamed(dst []byte, p Protocol, payload []byte, m *Message, name func(Token) []byte) []byte {
	if r, ok := p.(Renamer); ok {
		return r.AppendRenamed(dst, payload, name)
	}
	var places []Place
	if p.Encoding() == JSON {
		for _, t := range []Token{m.ID, m.Ref, m.Bind} {
			start, ok := Offset(payload, t.Text)
			if !ok || slices.ContainsFunc(places, func(p Place) bool { return p.Start == start }) {
				continue
			}
			if other := name(t); other != nil {
				places = append(places, Place{start, start + len(t.Text), other})
			}
		}
	}
	slices.SortFunc(places, func(a, b Place) int { return cmp.Compare(a.Start, b.Start) })
	return AppendPlaced(dst, payload, places)
}

// Offset returns where in payload a part begins that was cut out of it.
func Offset(payload, part []byte) (int, bool) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(payload)))
	if len(part) == 0 || at >= uintptr(len(payload)) {
		return 0, false
	}
	return int(at), true
}

// An API is how a protocol is spoken over HTTP if answers have no ids: a request is an exchange
// of HTTP. A request to a model ends with its answer. One that gives work to an agent may not: with
// IsEvent, the events of any stream report on the turns of sessions, and with Fail, any answer on
// the state of tasks.
type API struct {
	// Calls returns a function for a session, which gets its requests in their order, and returns the
	// call of each; nil if it is none. body is nil if it is unknown.
	Calls func() func(head *frame.Head, body []byte) *Call
	// Bodies is the protocol of bodies and events; nil if it is that of the Spec.
	Bodies Protocol

	// Open makes m the message of a request. m may hold the parsed body. Nil stands for [Call.Open].
	Open func(c *Call, body []byte, m *Message)
	// Answer makes m the message of an answer, and Event that of an event. m may hold the parsed body.
	Answer func(c *Call, body []byte, m *Message, failed bool)
	Event  func(c *Call, m *Message)
	// Fail makes m the message of an error. The code is that in the body or, if it has none, code.
	Fail func(body, code []byte, m *Message)
	// IsEvent reports whether a payload is an event of the protocol. Others may have the path of
	// its events, too.
	IsEvent func(payload []byte) bool
	// Endless events are not followed by one that says that it is the last.
	Endless bool
	// Texts says that an answer may be plain text instead of events.
	Texts bool
	// Runs judges the requests and events of a session; nil if each can be judged by itself.
	Runs func() Runs

	// Named returns the call of a kind and version with that verb and path; nil if there is none. Its
	// bodies are JSON, even if those on the wire are not.
	Named func(kind, version, verb, path string) *Call
	// About, which goes with Named, returns the call that does what a message of JSON-RPC about a task
	// does, with its verb, its path from where other calls end, and its body in JSON.
	About func(message []byte, version string, grpc bool) (c *Call, verb, path string, body []byte)
}

// Runs judges the runs of an agent in a session.
type Runs interface {
	// JudgeRequest judges a request.
	JudgeRequest(body []byte) []Broken
	// Begin returns a judge of the events of an answer in their order. It reports whether an event
	// is one of another run in the same answer.
	Begin() func(payload []byte, m *Message) (broken []Broken, apart bool)
}

// A Call is a request to an API, as far as its head tells.
type Call struct {
	// Spec is that of the protocol; package all sets it.
	Spec *Spec
	// Kind is the kind of its message, such as the path without ids.
	Kind string
	// Model is the model in the path; "" if there is none.
	Model string
	// Version is that of the protocol, and Task the task in the path, if the protocol has them.
	Version string
	Task    Token
	// Vague calls may be those of another API, which goes first.
	Vague bool
	// Free calls cost nothing.
	Free bool
	// GRPC says that the bodies are protobuf instead of JSON, and Bare that the head tells all.
	GRPC, Bare bool
	// Session is the session in the path, and Question the question that is answered.
	Session, Question Token
	// Prompts says that it begins a turn, and Listens that its answer is a stream of events.
	Prompts, Listens bool
	// Own is for the protocol itself.
	Own any
}

// Open makes m the message of the request.
func (c *Call) Open(m *Message) {
	m.Kind, m.Phase, m.From, m.Empty = []byte(c.Kind), Open, frame.C2U, false
	if c.Model != "" && len(m.Model) == 0 {
		m.Model = []byte(c.Model)
		m.Label = m.Model
	}
}

// Begin makes m the message of the request, as its API wants it.
func (c *Call) Begin(body []byte, m *Message) {
	if open := c.Spec.API.Open; open != nil {
		open(c, body, m)
	} else {
		c.Open(m)
	}
}

// Bodies returns the protocol of the bodies and events of an API.
func (s *Spec) Bodies() Protocol { return cmp.Or(s.API.Bodies, s.Protocol) }

// Alone adapts a function that needs no earlier calls of a session for [API.Calls].
func Alone(call func(head *frame.Head, body []byte) *Call) func() func(*frame.Head, []byte) *Call {
	return func() func(*frame.Head, []byte) *Call { return call }
}

// Live is how a model takes turns over a WebSocket.
type Live uint8

const (
	NotLive Live = iota
	// NamedTurns have ids, which the server chooses.
	NamedTurns
	// UnnamedTurns have none: one begins when the client asks for it or has been heard.
	UnnamedTurns
)

package protocol

import (
	"cmp"

	"github.com/wirectl/wirectl/frame"
)

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
	// Runs judges the requests and events of a session; nil if each can be judged by itself.
	Runs func() Runs
}

// Runs judges the runs of an agent in a session.
type Runs interface {
	// Asked judges a request.
	Asked(body []byte) []Broken
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

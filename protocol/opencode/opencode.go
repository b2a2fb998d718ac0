// Package opencode parses HTTP between clients and the server of the coding agent
// opencode: requests by path, JSON bodies, and the event stream of all sessions.
package opencode

import (
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Spec is the protocol of opencode. The kind of a request is its method and path, with :id
// for each id, and the kind of an event is its type. A session has one turn at a time.
var Spec = protocol.Spec{
	Protocol: opencode{"opencode"},
	About:    "the server of the coding agent opencode, over HTTP",
	// Any stream of events reports a turn, and any connection may abort it.
	Rules: protocol.Rules{
		UniqueIDs:  true,
		MayLeave:   true,
		LooseRefs:  true,
		Reset:      "RST_STREAM",
		Shared:     []protocol.Space{protocol.SpaceSession, protocol.SpaceRun},
		Accepted:   []string{kindAsync},
		Endless:    []string{kindEvents, kindGlobalEvents},
		EndlessAck: "server.connected",
		Cancels: []protocol.CancelRule{
			{Kind: "POST /session/:id/abort", Target: protocol.MustConfirm, Own: protocol.MustAnswer},
			{Kind: "permission.replied", Settles: true},
			{Kind: "question.replied", Settles: true},
			{Kind: "question.rejected", Settles: true},
		},
		Sources: [][2]string{
			{"missing-ack", "the first event of a stream is server.connected"},
			{"cancel-ignored", "a turn that was aborted ends with the error MessageAbortedError"},
			{"cancel-silent", "a turn that was aborted ends"},
		},
	},
	API: &protocol.API{Calls: protocol.Alone(callOf), Open: open, Answer: answer, IsEvent: isEvent},
}

const (
	kindAsync        = "POST /session/:id/prompt_async"
	kindEvents       = "GET /event"
	kindGlobalEvents = "GET /global/event"
)

// callOf returns the call of a request; nil if it is not of this protocol. Paths are recognized
// by their ids. Other servers may have streams of events at the same path.
func callOf(head *frame.Head, _ []byte) *protocol.Call {
	path := modelapi.Path(head)
	c := &protocol.Call{Kind: head.Method() + " " + path}
	if c.Listens = c.Kind == kindEvents || c.Kind == kindGlobalEvents; c.Listens {
		return c
	}
	segments := strings.Split(path, "/")
	if len(segments) < 3 || segments[0] != "" || len(path) > maxPath {
		return nil
	}
	prefix := map[string]string{"session": "ses_", "permission": "per_", "question": "que_"}[segments[1]]
	if prefix == "" || !strings.HasPrefix(segments[2], prefix) {
		return nil
	}
	for i, s := range segments[2:] {
		if len(s) <= 4 || s[3] != '_' {
			continue
		}
		segments[i+2] = ":id"
		switch s[:4] {
		case "ses_":
			c.Session = quoted(s, protocol.SpaceSession)
		case "per_", "que_":
			c.Question = quoted(s, protocol.SpaceRun)
		}
	}
	c.Kind = head.Method() + " " + strings.Join(segments, "/")
	switch c.Kind {
	case "POST /session/:id/message", kindAsync, "POST /session/:id/command", "POST /session/:id/shell", "POST /session/:id/summarize":
		c.Prompts = true
	}
	return c
}

// maxPath bounds the length of a path that is read.
const maxPath = 1 << 10

func quoted(id string, space protocol.Space) protocol.Token {
	return protocol.Token{Space: space, Text: jsonscan.AppendQuote(nil, []byte(id))}
}

func open(c *protocol.Call, _ []byte, m *protocol.Message) {
	m.Operation = protocol.Effect{}
	c.Open(m)
	switch {
	case c.Kind == "POST /session/:id/abort":
		m.Phase, m.Ref = protocol.Cancel, c.Session
	case !c.Question.IsZero():
		m.Operation = protocol.Effect{Does: protocol.Open, Of: c.Question}
	case c.Prompts:
		m.Bind = c.Session
	}
}

func answer(c *protocol.Call, _ []byte, m *protocol.Message, failed bool) {
	m.From, m.Empty, m.Operation = frame.U2C, false, protocol.Effect{}
	switch {
	case failed:
		m.Phase = protocol.Fail
	case !c.Prompts || !m.Phase.Ends():
		m.Phase = protocol.Close
	}
	if c.Prompts {
		m.Bind = c.Session
		m.Operation.Does = m.Phase
		if c.Kind == kindAsync && !failed {
			m.Operation.Does = protocol.Note
		}
	}
}

func isEvent(payload []byte) bool {
	var m protocol.Message
	return opencode{}.Parse(payload, &m) == nil && string(m.Kind) != string(kindBody)
}

type opencode struct{ jsonwalk.Named }

var kindBody = []byte("body")

// A body holds the members of a body or an event, which may be wrapped.
type body struct {
	event `at:"payload"`
}

// Words are without quotes; ids and texts are as written.
type event struct {
	kind       []byte `at:"type,word"`
	properties []byte `at:"properties"`
	session    []byte `at:"properties.sessionID"`
	question   []byte `at:"properties.id|requestID|permissionID"`
	partType   []byte `at:"properties.part.type,word"`
	parts      []byte `at:"parts"`
	model      []byte `at:"model|info.modelID,word properties.info.modelID,word"`
	finish     []byte `at:"info.finish,word properties.info.finish,word"`
	failure    []byte `at:"info.error.name,word properties.error.name,word properties.info.error.name,word"`

	label []byte   `at:"name|reply|response,word info.role|title,word properties.info.role|title,word"`
	_     struct{} `at:"properties.status.type,word properties.permission|reply|field,word properties.part.tool,word"`
	text  []byte   `at:"data.message,word info.error.data.message,word properties.delta,word properties.part.text,word"`
	_     struct{} `at:"properties.error.data.message,word properties.info.error.data.message,word"`

	usage struct {
		cost   int64 `at:"cost,micros"`
		input  int64 `at:"tokens.input,sum tokens.cache.write,sum"` // not from a cache
		cached int64 `at:"tokens.cache.read"`
		output int64 `at:"tokens.output|reasoning,sum"`
	} `at:"info properties.info properties.part"`
}

var paths = jsonwalk.PathsOf[body]()

// Parse implements [protocol.Protocol].
func (opencode) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var s jsonscan.Scanner
	s.Init(payload)
	var b body
	if paths.Read(&s, &b); s.End() != nil {
		m.Faults |= protocol.UnknownKind
	} else {
		b.interpret(m)
	}
	return jsonwalk.End(&s, m)
}

// interpret fills m. A payload that is not an event is a body, which may have the error of
// a turn.
func (b *body) interpret(m *protocol.Message) {
	m.Text = b.text
	if b.parts != nil {
		var s jsonscan.Scanner
		s.Init(b.parts)
		m.Text = jsonwalk.Word(llm.LastText(&s))
	}
	label := jsonwalk.First(b.label, b.partType)
	usage := protocol.Usage{Input: b.usage.input + b.usage.cached, Cached: b.usage.cached, Output: b.usage.output, Cost: b.usage.cost}
	if b.kind == nil || jsonscan.KindOf(b.properties) != jsonscan.Object {
		m.Kind, m.Phase = kindBody, protocol.Close
		m.Model, m.StopReason, m.Usage, m.Label = b.model, b.finish, usage, label
		if b.failure != nil {
			m.Phase, m.StopReason, m.Label = ending(b.failure), b.failure, b.failure
		}
		return
	}
	session := jsonwalk.Token(b.session, protocol.SpaceSession)
	m.Kind, m.Phase, m.From, m.Label = b.kind, protocol.Part, frame.U2C, label
	if !session.IsZero() {
		m.Operation = protocol.Effect{Does: protocol.Part, Of: session}
	}
	question := jsonwalk.Token(b.question, protocol.SpaceRun)
	switch string(b.kind) {
	case "message.part.delta":
	case "message.part.updated":
		m.Usage = usage
		m.Empty = string(b.partType) != "tool"
	case "permission.asked", "question.asked":
		if m.Phase, m.ID = protocol.Open, question; session.IsZero() {
			break
		}
		m.Operation.Does = protocol.Open
	case "permission.replied", "question.replied", "question.rejected":
		m.Phase, m.Ref, m.Operation = protocol.Cancel, question, protocol.Effect{}
		if question.IsZero() {
			m.Faults |= protocol.MissingField
		}
	case "session.idle":
		m.Operation.Does, m.Empty = protocol.Close, true
	case "session.status":
		if m.Empty = true; string(m.Label) == "busy" {
			m.Begins = session
		}
	case "session.error":
		m.Label, m.Empty = b.failure, true
		m.Operation.Does = ending(b.failure)
	default:
		m.Empty = true
	}
	if session.IsZero() {
		m.Operation = protocol.Effect{}
	}
}

// ending returns how a turn ended with an error of that name.
func ending(failure []byte) protocol.Phase {
	if string(failure) == "MessageAbortedError" {
		return protocol.Cancelled
	}
	return protocol.Fail
}

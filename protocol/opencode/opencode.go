// Package opencode parses HTTP between clients and the server of the coding agent
// opencode: requests by path, JSON bodies, and the event stream of all sessions.
package opencode

import (
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
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

// Parse reads one body or event, as [protocol.Protocol] wants it.
func (opencode) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var s jsonscan.Scanner
	s.Init(payload)
	var w wire
	w.read(&s)
	if s.End() != nil {
		m.Faults |= protocol.UnknownKind
	} else {
		w.interpret(m)
	}
	return jsonwalk.End(&s, m)
}

// interpret fills m. A payload that is not an event is a body, which may have the error of
// a turn.
func (w *wire) interpret(m *protocol.Message) {
	m.Text = w.text
	if w.kind == nil || !w.event {
		m.Kind, m.Phase = kindBody, protocol.Close
		m.Model, m.StopReason, m.Usage, m.Label = w.model, w.finish, w.usage, w.label
		if w.failure != nil {
			m.Phase, m.StopReason, m.Label = ending(w.failure), w.failure, w.failure
		}
		return
	}
	session := jsonwalk.Token(w.session, protocol.SpaceSession)
	m.Kind, m.Phase, m.From, m.Label = w.kind, protocol.Part, frame.U2C, w.label
	if !session.IsZero() {
		m.Operation = protocol.Effect{Does: protocol.Part, Of: session}
	}
	question := jsonwalk.Token(w.question, protocol.SpaceRun)
	switch string(w.kind) {
	case "message.part.delta":
	case "message.part.updated":
		m.Usage = w.usage
		m.Empty = w.part == nil || string(w.part) != "tool"
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
		m.Label, m.Empty = w.failure, true
		m.Operation.Does = ending(w.failure)
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

// Package agui parses AG-UI, which user interfaces speak with agents over HTTP: a request
// is a run of the agent, and the answer its events, by server-sent events.
package agui

import (
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Spec is AG-UI in JSON. The kind of an event is its type, and that of a request is
// "run".
var Spec = protocol.Spec{
	Protocol: agui{"agui"},
	About:    "AG-UI between a user interface and an agent, over HTTP",
	// An exchange is a request of HTTP. A run that was interrupted goes on with the
	// request of its thread that resumes it.
	Rules: rules(),
	Kept:  []string{"messageId", "toolCallId", "parentMessageId", "stepName", "runId", "threadId"},
	API:   &protocol.API{Calls: protocol.Alone(call), Runs: func() protocol.Runs { return &threads{} }},
}

func rules() protocol.Rules {
	r := modelapi.Rules("a run ends with RUN_FINISHED or RUN_ERROR")
	r.Shared = []protocol.Space{protocol.SpaceSession}
	r.Sources = append(
		r.Sources,
		[2]string{"missing-ack", "the first event of a run is RUN_STARTED"},
		[2]string{"after-end", "nothing but another RUN_STARTED or a RUN_ERROR follows the end of a run"},
		[2]string{"unknown-step", "an event of a message, a tool call or a step comes between its START and its END"},
		[2]string{"duplicate-id", "a message, a tool call or a step does not start again before it has ended"},
		[2]string{"open-step", "messages, tool calls and steps end before RUN_FINISHED"},
		[2]string{"wrong-retry", "resume has an entry for each interrupt of the run before, and no other"},
	)
	return r
}

// call returns the request for a run; nil if it is none. Runs are recognized by their body.
func call(head *frame.Head, body []byte) *protocol.Call {
	if head.Method() != "POST" || strings.Contains(head.Get("Accept"), "ag-ui.event+proto") || !isRun(body) {
		return nil
	}
	return &protocol.Call{Kind: string(kindRun)}
}

// isRun reports whether a body is the input of a run.
func isRun(body []byte) bool {
	found := 0
	var s jsonscan.Scanner
	s.Init(body)
	for ok := s.Object(); ok && s.Next(); {
		switch key := string(s.Key()); {
		case (key == "threadId" || key == "runId") && s.Peek() == jsonscan.String,
			(key == "messages" || key == "tools" || key == "context") && s.Peek() == jsonscan.Array:
			found++
		}
	}
	return s.End() == nil && found == 5
}

type agui struct{ jsonwalk.Named }

var (
	kindRun  = []byte("run")
	kindBody = []byte("body")
)

// kinds are the types of events, and whether they bring no content.
var kinds = map[string]struct{ empty bool }{
	"RUN_STARTED": {true}, "RUN_FINISHED": {}, "RUN_ERROR": {},
	"STEP_STARTED": {true}, "STEP_FINISHED": {true},
	"TEXT_MESSAGE_START": {true}, "TEXT_MESSAGE_CONTENT": {}, "TEXT_MESSAGE_END": {true}, "TEXT_MESSAGE_CHUNK": {},
	"TOOL_CALL_START": {true}, "TOOL_CALL_ARGS": {}, "TOOL_CALL_END": {true}, "TOOL_CALL_CHUNK": {}, "TOOL_CALL_RESULT": {},
	"REASONING_START": {true}, "REASONING_END": {true},
	"REASONING_MESSAGE_START": {true}, "REASONING_MESSAGE_CONTENT": {}, "REASONING_MESSAGE_END": {true}, "REASONING_MESSAGE_CHUNK": {},
	"REASONING_ENCRYPTED_VALUE": {},
	"THINKING_START":            {true}, "THINKING_END": {true},
	"THINKING_TEXT_MESSAGE_START": {true}, "THINKING_TEXT_MESSAGE_CONTENT": {}, "THINKING_TEXT_MESSAGE_END": {true},
	"STATE_SNAPSHOT": {}, "STATE_DELTA": {}, "MESSAGES_SNAPSHOT": {}, "ACTIVITY_SNAPSHOT": {}, "ACTIVITY_DELTA": {},
	"SUBAGENT_STARTED": {true}, "SUBAGENT_FINISHED": {true}, "SUBAGENT_ERROR": {true},
	"CUSTOM": {}, "RAW": {},
}

// A wire holds the members of a payload.
type wire struct {
	kind, thread, run    []byte
	messages, resumes    bool
	label, text, outcome []byte
	code                 []byte
}

// Parse reads one body or event, as [protocol.Protocol] wants it.
func (agui) Parse(payload []byte, m *protocol.Message) error {
	var s jsonscan.Scanner
	var w wire
	return jsonwalk.ParseObject(&s, payload, m, func() { w.read(&s) }, func() { w.interpret(m) })
}

func (w *wire) read(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			w.kind = jsonwalk.Word(s.Value())
		case "threadId":
			w.thread = s.Value()
		case "runId":
			w.run = s.Value()
		case "messages":
			w.messages = true
			if text := jsonwalk.Word(llm.LastText(s)); w.text == nil {
				w.text = text
			}
		case "resume":
			for ok := s.Array(); ok && s.Elem(); {
				w.resumes = true
			}
		case "stepName", "toolCallName", "name", "activityType":
			w.label = jsonwalk.Word(s.Value())
		case "delta", "patch", "content", "snapshot", "value", "message", "error", "result":
			w.text = textOf(s.Value())
		case "code":
			w.code = jsonwalk.Word(s.Value())
		case "outcome":
			w.outcome = jsonwalk.WordIn(s, "type")
		}
	}
}

// textOf returns a text without its quotes, and anything else as it is written.
func textOf(raw []byte) []byte {
	if text := jsonwalk.Word(raw); text != nil {
		return text
	}
	return raw
}

// interpret sets the meaning of the members. A payload without a type is an answer without
// events.
func (w *wire) interpret(m *protocol.Message) {
	m.Text = w.text
	thread := jsonwalk.Token(w.thread, protocol.SpaceSession)
	if w.kind == nil {
		if w.messages && !thread.IsZero() && w.run != nil {
			m.Kind, m.Phase, m.From = kindRun, protocol.Open, frame.C2U
			if m.Continues = w.resumes; w.resumes {
				m.Ref = thread
			}
			return
		}
		m.Kind, m.Phase, m.From = kindBody, protocol.Close, frame.U2C
		return
	}
	k, known := kinds[string(w.kind)]
	if !known {
		m.Faults |= protocol.UnknownKind
		m.Phase, m.From, m.Empty = protocol.Part, frame.U2C, true
		return
	}
	m.Kind, m.Phase, m.From, m.Label, m.Empty = w.kind, protocol.Part, frame.U2C, w.label, k.empty
	switch string(w.kind) {
	case "RUN_ERROR":
		m.Phase, m.Label, m.StopReason = protocol.Fail, w.code, w.code
	case "RUN_FINISHED":
		m.Phase, m.Label = protocol.Close, w.outcome
		switch string(w.outcome) {
		case "interrupt":
			m.StopReason, m.GoesOn, m.Bind = w.outcome, true, thread
		case "cancelled":
			m.Phase, m.StopReason = protocol.Cancelled, w.outcome
		}
	}
}

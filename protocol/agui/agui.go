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

// A body holds the members of a payload. Ids are as written, and so are texts that are no strings.
type body struct {
	kind     []byte `at:"type,word"`
	thread   []byte `at:"threadId"`
	run      []byte `at:"runId"`
	messages []byte `at:"messages"`
	resumes  bool   `at:"resume[]"`
	label    []byte `at:"stepName|toolCallName|name|activityType,word"`
	text     []byte `at:"delta|patch|content|snapshot|value|message|error|result,text"`
	code     []byte `at:"code,word"`
	outcome  []byte `at:"outcome.type,word"`
}

var paths = jsonwalk.PathsOf[body]()

// Parse implements [protocol.Protocol].
func (agui) Parse(payload []byte, m *protocol.Message) error {
	var b body
	return paths.ParseObject(payload, m, &b, func() { b.interpret(m) })
}

// interpret sets the meaning of the members. A payload without a type is an answer without
// events.
func (b *body) interpret(m *protocol.Message) {
	if m.Text = b.text; m.Text == nil && b.messages != nil {
		var s jsonscan.Scanner
		s.Init(b.messages)
		m.Text = jsonwalk.Word(llm.LastText(&s))
	}
	thread := jsonwalk.Token(b.thread, protocol.SpaceSession)
	if b.kind == nil {
		if b.messages != nil && !thread.IsZero() && b.run != nil {
			m.Kind, m.Phase, m.From = kindRun, protocol.Open, frame.C2U
			if m.Continues = b.resumes; b.resumes {
				m.Ref = thread
			}
			return
		}
		m.Kind, m.Phase, m.From = kindBody, protocol.Close, frame.U2C
		return
	}
	k, known := kinds[string(b.kind)]
	if !known {
		m.Faults |= protocol.UnknownKind
		m.Phase, m.From, m.Empty = protocol.Part, frame.U2C, true
		return
	}
	m.Kind, m.Phase, m.From, m.Label, m.Empty = b.kind, protocol.Part, frame.U2C, b.label, k.empty
	switch string(b.kind) {
	case "RUN_ERROR":
		m.Phase, m.Label, m.StopReason = protocol.Fail, b.code, b.code
	case "RUN_FINISHED":
		m.Phase, m.Label = protocol.Close, b.outcome
		switch string(b.outcome) {
		case "interrupt":
			m.StopReason, m.GoesOn, m.Bind = b.outcome, true, thread
		case "cancelled":
			m.Phase, m.StopReason = protocol.Cancelled, b.outcome
		}
	}
}

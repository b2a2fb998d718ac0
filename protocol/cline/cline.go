// Package cline parses the output of cline --json: the events of a run. Nothing goes the other way.
package cline

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is the stream of events. The kind of a message is its type, and that of the event in it. The hook
// agent_start of the first agent opens the run, which has no id and no prompt on the wire. A tool call is
// an exchange in it.
var Spec = protocol.Spec{
	Protocol: events{"cline"},
	About:    "the events that cline --json writes",
	Rules: protocol.Rules{
		OneSided:  true,
		LooseRefs: true,
		Framing:   frame.Line,
		Sources:   [][2]string{{"unanswered", "a run ends with run_result, and content_start of a tool with content_end"}},
	},
	Recognize: own.Recognize,
	Kept:      []string{"hookEventName", "contentType", "toolCallId", "parentAgentId", "finishReason"},
	Labels:    protocol.Tools,
}

type events struct{ jsonwalk.Named }

// An event holds the members of an event: words without quotes, the others as written. The usage of a call
// of the model also has totals, which are not added.
type event struct {
	kind    []byte `at:"type,word"`
	hook    []byte `at:"hookEventName,word"`
	parent  []byte `at:"parentAgentId,set"`
	inner   []byte `at:"event.type,word"`
	content []byte `at:"event.contentType,word"`
	tool    []byte `at:"event.toolName,word"`
	call    []byte `at:"event.toolCallId"`
	failure []byte `at:"event.error|message error.message error"`
	text    []byte `at:"event.text|input|output text"`
	reason  []byte `at:"finishReason,word"`
	model   []byte `at:"model.id,word"`
	input   int64  `at:"event.inputTokens"`
	cached  int64  `at:"event.cacheReadTokens"`
	output  int64  `at:"event.outputTokens"`
}

var paths = jsonwalk.PathsOf[event]()

// Parse implements [protocol.Protocol].
func (events) Parse(payload []byte, m *protocol.Message) error {
	var e event
	return paths.Parse(payload, m, &e, func() { e.interpret(m) })
}

func (e *event) interpret(m *protocol.Message) {
	run := protocol.Token{Space: protocol.SpaceTurn}
	m.Text = e.text
	switch string(e.kind) {
	case "hook_event":
		if m.Empty = true; string(e.hook) == "agent_start" && e.parent == nil {
			m.Phase, m.ID = protocol.Open, run
		}
	case "agent_event":
		e.agent(m, run)
	case "run_result":
		m.Phase, m.Ref, m.StopReason, m.Model = protocol.Fail, run, e.reason, e.model
		switch string(e.reason) {
		case "completed":
			m.Phase = protocol.Close
		case "aborted", "cancelled":
			m.Phase = protocol.Cancelled
		}
	case "error":
		m.Text = jsonwalk.First(e.failure, e.text)
	default:
		m.Text, m.Faults = nil, protocol.UnknownKind
		return
	}
	m.Kind = e.kind
}

// agent sets the meaning of an event of an agent.
func (e *event) agent(m *protocol.Message, run protocol.Token) {
	m.Phase, m.Ref = protocol.Part, run
	switch inner := string(e.inner); {
	case string(e.content) == "tool" && inner == "content_start":
		m.Phase, m.ID, m.Ref, m.Label = protocol.Open, jsonwalk.Token(e.call, protocol.SpaceID), protocol.Token{}, e.tool
		m.Operation = protocol.Effect{Does: protocol.Open, Of: run}
	case string(e.content) == "tool" && inner == "content_end":
		m.Phase, m.ID, m.Ref, m.Label = protocol.Close, jsonwalk.Token(e.call, protocol.SpaceID), protocol.Token{}, e.tool
		if m.ToolError = e.failure != nil; m.ToolError {
			m.Reason, m.Text = jsonwalk.Word(e.failure), e.failure
		}
	case string(e.content) == "tool":
		m.Ref = jsonwalk.Token(e.call, protocol.SpaceID)
	case inner == "usage":
		m.Empty, m.Count = true, 1
		m.Usage = protocol.Usage{Input: e.input, Cached: e.cached, Output: e.output}
	case inner == "error":
		m.Text = jsonwalk.First(e.failure, e.text)
	case e.text == nil:
		m.Empty = true
	}
}

// own are the shapes of events that only this protocol has.
var own = jsonwalk.Shapes{
	"hook_event":  {{Has: `ts" type" hookEventName" agentId"`, MayHave: "*"}},
	"agent_event": {{Has: `ts" type" event.type"`}},
	"run_result":  {{Has: `ts" type" finishReason" iterations usage{`, MayHave: "*"}},
}

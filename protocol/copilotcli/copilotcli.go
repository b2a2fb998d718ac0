// Package copilotcli parses the output of copilot --output-format json: the events of a session of GitHub
// Copilot CLI. Nothing goes the other way.
package copilotcli

import (
	"bytes"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is the stream of events. The kind of a message is its type. The message of the user opens the
// turn, which has no id, and the result ends it. A tool call is an exchange in the turn. Tokens are not
// on the wire.
var Spec = protocol.Spec{
	Protocol: events{"copilot-cli"},
	About:    "the events that copilot --output-format json writes",
	Rules: protocol.Rules{
		OneSided:  true,
		LooseRefs: true,
		Framing:   frame.Line,
		Sources:   [][2]string{{"unanswered", "a turn ends with a result, and tool.execution_start with tool.execution_complete"}},
	},
	Recognize: recognize,
	Kept:      []string{"toolCallId", "mcpServerName", "parentId"},
	Labels:    protocol.Tools,
}

type events struct{ jsonwalk.Named }

// An event holds the members of an event: words without quotes, the others as written.
type event struct {
	kind      []byte `at:"type,word"`
	data      []byte `at:"data"`
	id        []byte `at:"id,word"`
	parent    []byte `at:"parentId"`
	time      []byte `at:"timestamp,word"`
	session   []byte `at:"sessionId,word"`
	exit      []byte `at:"exitCode"`
	delivery  []byte `at:"data.delivery,word"`
	call      []byte `at:"data.toolCallId"`
	tool      []byte `at:"data.toolName,word"`
	model     []byte `at:"data.model,word"`
	success   []byte `at:"data.success"`
	shellExit []byte `at:"data.shellExecution.exitCode"`
	failure   []byte `at:"data.error.message"`
	text      []byte `at:"data.content|deltaContent|message|arguments|partialOutput|inputDelta data.result.content"`
}

var paths = jsonwalk.PathsOf[event]()

// Parse implements [protocol.Protocol].
func (events) Parse(payload []byte, m *protocol.Message) error {
	var e event
	return paths.Parse(payload, m, &e, func() { e.interpret(m) })
}

func (e *event) isResult() bool {
	return string(e.kind) == "result" && e.exit != nil && e.session != nil
}

// isEvent reports whether it has the members of all events but the result.
func (e *event) isEvent() bool {
	return e.data != nil && e.id != nil && e.parent != nil && e.time != nil && bytes.IndexByte(e.kind, '.') > 0
}

func (e *event) interpret(m *protocol.Message) {
	turn := protocol.Token{Space: protocol.SpaceTurn}
	if !e.isResult() && !e.isEvent() && string(e.kind) != "abort" {
		m.Faults |= protocol.UnknownKind
		return
	}
	m.Kind, m.Text, m.Model = e.kind, jsonwalk.First(e.failure, e.text), e.model
	switch string(e.kind) {
	case "user.message":
		if m.Phase, m.ID = protocol.Open, turn; e.delivery != nil && string(e.delivery) != "idle" { // it joins the turn
			m.Phase, m.ID, m.Ref = protocol.Part, protocol.Token{}, turn
		}
	case "tool.execution_start":
		m.Phase, m.ID, m.Label = protocol.Open, jsonwalk.Token(e.call, protocol.SpaceID), e.tool
		m.Operation = protocol.Effect{Does: protocol.Open, Of: turn}
		m.Model = nil // that has asked for the call
	case "tool.execution_complete":
		m.Phase, m.ID, m.Model = protocol.Close, jsonwalk.Token(e.call, protocol.SpaceID), nil
		m.ToolError = string(e.success) == "false" || e.shellExit != nil && string(e.shellExit) != "0"
		if m.ToolError {
			m.Reason = jsonwalk.Word(e.failure)
		}
	case "abort":
		m.Phase, m.Ref = protocol.Cancelled, turn
	case "session.error": // the result follows, and says so, too
		m.Phase, m.Ref = protocol.Part, turn
	case "result":
		if m.Phase, m.Ref = protocol.Close, turn; string(e.exit) != "0" {
			m.Phase = protocol.Fail
		}
	case "assistant.message", "assistant.message_delta", "assistant.reasoning_delta":
		m.Phase, m.Ref = protocol.Part, turn
	default:
		if m.Empty = true; bytes.HasPrefix(e.kind, []byte("assistant.")) || bytes.HasPrefix(e.kind, []byte("model.")) {
			m.Phase, m.Ref = protocol.Part, turn
		}
	}
}

// recognize reports whether a message has the members that only this protocol has. An event that is also
// in the files of sessions is the same there.
func recognize(payload []byte, _ *protocol.Message) protocol.Evidence {
	return protocol.Own(anyEvent.Fits(payload) || runEnd.Fits(payload))
}

var (
	anyEvent = jsonwalk.Shape{Has: `type" data{ id" timestamp" parentId`, MayHave: "ephemeral"}
	runEnd   = jsonwalk.Shape{Has: `type" timestamp" sessionId" exitCode usage{`}
)

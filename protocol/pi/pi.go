// Package pi parses the line-based RPC mode of the coding agent pi: commands, the responses to
// them, and the events of one agent.
package pi

import (
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is the RPC mode. The kind of a message is its type. A command is matched with its
// response by id or, without one, by name. An accepted prompt goes on until the agent ends. A
// process has a single agent, which has no id.
var Spec = protocol.Spec{
	Protocol: pi{"pi"},
	About:    "the RPC mode of the coding agent pi",
	// An abort is answered once the agent has ended. A failed
	// agent may be retried.
	Rules: protocol.Rules{
		MayLeave:  true,
		LooseRefs: true,
		Steps:     true,
		MayRetry:  true,
		Accepted:  []string{"prompt"},
		Endless:   []string{"extension_ui_request"}, // it may have a timeout
		Framing:   frame.Line,
		Cancels: []protocol.CancelRule{
			{Kind: "abort", Target: protocol.MustConfirm, Own: protocol.MustAnswer},
			{Kind: "abort_retry", Target: protocol.MayAnswer, Own: protocol.MustAnswer},
			{Kind: "abort_bash", Target: protocol.MayAnswer, Own: protocol.MustAnswer},
		},
		Sources: [][2]string{
			{"orphan", "a response has the id of its command, or without one the name"},
			{"cancel-ignored", "after an abort the last message of agent_end has the stopReason aborted"},
			{"cancel-silent", "an agent that was aborted ends with agent_end"},
			{"unknown-step", "a tool_execution_update names a call that tool_execution_start began and tool_execution_end has not ended"},
		},
	},
	Cancel:    protocol.Cancelling{JSON: `{"id":"%[2]d","type":"abort"}`, Bind: true, Kinds: []string{"prompt"}},
	Recognize: own.Recognize,
	Prompts:   []string{"prompt"},
}

// agent is the token of the running agent, and command that of commands, which may lack an id.
var agent = protocol.Token{Space: protocol.SpaceSession}

func command(name []byte) protocol.Token {
	return protocol.Token{Space: protocol.SpaceKind, Text: name}
}

type pi struct{ jsonwalk.Named }

// A line holds the members of a message. Words are without quotes; ids and texts are as written.
type line struct {
	kind       []byte `at:"type,word"`
	id         []byte `at:"id,set"`
	command    []byte `at:"command"`
	success    []byte `at:"success,set"`
	sequenced  bool   `at:"seq|request_seq"` // so it is of another protocol
	cancelled  bool   `at:"cancelled,true data.cancelled,true"`
	willRetry  bool   `at:"willRetry,true"`
	toolCallID []byte `at:"toolCallId"`
	label      []byte `at:"method|toolName|reason,word message.content[].name,word messages[].content[].name,word assistantMessageEvent.type,word"`

	text []byte   `at:"error|finalError|errorMessage|title|args|value|confirmed|data message,plain,first"`
	_    struct{} `at:"message.errorMessage message.content,plain message.content[].text|thinking|arguments"`
	_    struct{} `at:"messages[].errorMessage messages[].content,plain messages[].content[].text|thinking|arguments"`
	_    struct{} `at:"assistantMessageEvent.delta|content"`

	role       []byte `at:"message.role,word"`
	model      []byte `at:"message.model,word"`
	stopReason []byte `at:"message.stopReason,word"`
	last       []byte `at:"messages[]"` // of the agent's messages
	input      int64  `at:"message.usage.input|cacheWrite,sum"`
	cached     int64  `at:"message.usage.cacheRead"`
	output     int64  `at:"message.usage.output"`
	cost       int64  `at:"message.usage.cost.total,micros"`
}

var paths = jsonwalk.PathsOf[line]()

// Parse implements [protocol.Protocol].
func (pi) Parse(payload []byte, m *protocol.Message) error {
	var l line
	return paths.Parse(payload, m, &l, func() { l.interpret(m) })
}

// kinds are the types of messages. Those that belong to the agent are parts of its output or,
// if silent, only report its progress.
var kinds = map[string]struct {
	is     is
	silent bool
}{
	"prompt": {is: asks}, "steer": {is: asks}, "follow_up": {is: asks},
	"abort": {is: asks}, "abort_retry": {is: asks}, "abort_bash": {is: asks},
	"new_session": {is: asks}, "get_state": {is: asks}, "get_messages": {is: asks},
	"set_model": {is: asks}, "cycle_model": {is: asks}, "get_available_models": {is: asks},
	"set_thinking_level": {is: asks}, "cycle_thinking_level": {is: asks},
	"set_steering_mode": {is: asks}, "set_follow_up_mode": {is: asks},
	"compact": {is: asks}, "set_auto_compaction": {is: asks}, "set_auto_retry": {is: asks},
	"bash": {is: asks}, "get_session_stats": {is: asks}, "export_html": {is: asks}, "switch_session": {is: asks},
	"fork": {is: asks}, "clone": {is: asks}, "get_fork_messages": {is: asks}, "get_last_assistant_text": {is: asks},
	"set_session_name": {is: asks}, "get_commands": {is: asks},

	"response": {is: answers}, "extension_ui_request": {is: dialog}, "extension_ui_response": {is: dialog},
	"extension_error": {is: other}, "session": {is: other}, // which begins the output of the JSON mode

	"agent_start": {is: event, silent: true}, "agent_end": {is: event, silent: true},
	"turn_start": {is: event, silent: true}, "turn_end": {is: event, silent: true},
	"message_start": {is: event, silent: true}, "message_end": {is: event, silent: true}, "message_update": {is: event},
	"tool_execution_start": {is: event}, "tool_execution_update": {is: event}, "tool_execution_end": {is: event},
	"queue_update":     {is: event, silent: true},
	"compaction_start": {is: event, silent: true}, "compaction_end": {is: event, silent: true},
	"auto_retry_start": {is: event, silent: true}, "auto_retry_end": {is: event, silent: true},
}

// is is the role of a message in an exchange.
type is uint8

const (
	unknown is = iota
	asks       // a command
	answers    // the response to one
	event      // of the agent
	dialog     // a question or notice of an extension, or an answer
	other
)

// own are the shapes of messages that only this protocol has. Logs have types like those of
// the others.
var own = shapes(jsonwalk.Shapes{
	"prompt":    {{Has: `type" id" message"`, MayHave: "images streamingBehavior"}},
	"set_model": {{Has: `type" provider" modelId"`, MayHave: "id"}},
	"response":  {{Has: `type" command" success`, MayHave: "id data error"}},

	"agent_start":    {{Has: "type"}},
	"agent_end":      {{Has: `type" messages[`, MayHave: "willRetry"}},
	"turn_end":       {{Has: `type" message.role" toolResults[`}},
	"message_start":  {{Has: `type" message.role" message.timestamp`}},
	"message_end":    {{Has: `type" message.role" message.timestamp`}},
	"message_update": {{Has: `type" message.role" assistantMessageEvent.type"`}},

	"tool_execution_start":  {{Has: `type" toolCallId" toolName" args`}},
	"tool_execution_update": {{Has: `type" toolCallId" toolName" partialResult`, MayHave: "args"}},
	"tool_execution_end":    {{Has: `type" toolCallId" toolName" result isError`}},
	"extension_ui_request":  {{Has: `type" id" method"`, MayHave: "*"}},
})

// shapes adds the commands that have only an id.
func shapes(own jsonwalk.Shapes) jsonwalk.Shapes {
	for _, name := range []string{
		"abort_bash", "abort_retry", "cycle_model", "cycle_thinking_level", "get_available_models", "get_commands",
		"get_fork_messages", "get_last_assistant_text", "get_messages", "get_session_stats", "get_state",
	} {
		own[name] = []jsonwalk.Shape{{Has: `type" id"`}}
	}
	return own
}

// interpret fills in the message from its members. A message of unknown type is a command if it
// has an id.
func (l *line) interpret(m *protocol.Message) {
	k := kinds[string(l.kind)]
	m.Text = l.text
	switch {
	case l.kind == nil || l.sequenced || k.is == unknown && l.id == nil:
		m.Faults |= protocol.UnknownKind
		return
	case k.is == answers:
		l.interpretResponse(m)
	case k.is == event:
		m.From, m.Phase, m.Ref, m.Empty = frame.U2C, protocol.Part, agent, k.silent
		l.interpretEvent(m)
	case k.is == dialog:
		l.interpretDialog(m)
	case k.is == other:
		m.From = frame.U2C
	default:
		l.interpretCommand(m)
	}
	m.Kind = l.kind
}

func (l *line) interpretCommand(m *protocol.Message) {
	m.From, m.Phase, m.ID, m.Bind = frame.C2U, protocol.Open, id(l.id), command(l.kind)
	switch string(l.kind) {
	case "prompt":
		m.Faults |= missing(l.text)
	case "steer", "follow_up":
		m.Faults |= missing(l.text)
		m.Operation = protocol.Effect{Does: protocol.Open, Of: agent}
	case "bash":
		m.Text = l.command
		m.Faults |= missing(l.command)
	case "abort", "abort_retry":
		m.Phase, m.Ref = protocol.Cancel, agent
	case "abort_bash":
		m.Phase, m.Ref = protocol.Cancel, command(kindBash)
	}
}

var kindBash, kindPrompt = []byte("bash"), []byte("prompt")

// interpretResponse interprets a response. A response to an unreadable line names no command.
func (l *line) interpretResponse(m *protocol.Message) {
	name := jsonwalk.Word(l.command)
	m.From, m.Phase, m.Label, m.ID = frame.U2C, protocol.Close, name, id(l.id)
	m.Faults |= missing(name) | missing(l.success)
	if m.ID.IsZero() && string(name) != "parse" {
		m.Ref = command(name)
	}
	switch {
	case string(l.success) == "false":
		m.Phase = protocol.Fail
	case string(name) == "bash" && l.cancelled:
		m.Phase = protocol.Cancelled
	case string(name) == "prompt":
		m.Bind = agent
	}
}

// interpretEvent adds the meaning that some events of the agent have beyond being events.
func (l *line) interpretEvent(m *protocol.Message) {
	m.Label = l.label
	goesOn := protocol.Effect{Does: protocol.Open, Of: agent}
	switch string(l.kind) {
	case "agent_start":
		m.Begins = command(kindPrompt)
	case "agent_end":
		reason, _ := jsonscan.Get(l.last, "stopReason")
		m.StopReason = jsonwalk.Word(reason)
		m.Operation = protocol.Effect{Does: ending(m.StopReason), Of: agent}
	case "message_end":
		if string(l.role) == "assistant" {
			m.Model, m.StopReason = l.model, l.stopReason
			m.Usage = protocol.Usage{Input: l.input + l.cached, Cached: l.cached, Output: l.output, Cost: l.cost}
		}
	case "tool_execution_start":
		m.Step = protocol.Step{Does: protocol.Open, ID: jsonwalk.Token(l.toolCallID, protocol.SpaceStep)}
	case "tool_execution_update":
		m.Step = protocol.Step{Does: protocol.Part, ID: jsonwalk.Token(l.toolCallID, protocol.SpaceStep)}
	case "tool_execution_end":
		m.Step = protocol.Step{Does: protocol.Close, ID: jsonwalk.Token(l.toolCallID, protocol.SpaceStep)}
	case "auto_retry_start":
		m.Operation = goesOn
	case "auto_retry_end":
		if string(l.success) == "false" { // given up, or aborted while waiting
			m.Operation = protocol.Effect{Does: protocol.Fail, Of: agent}
			if string(l.text) == `"Retry cancelled"` {
				m.Operation.Does = protocol.Cancelled
			}
		}
	case "compaction_start":
		m.Operation = protocol.Effect{Does: protocol.Part, Of: agent}
	case "compaction_end":
		if l.willRetry {
			m.Operation = goesOn
		}
	}
}

// ending returns how an agent ended, given the stop reason of its last message.
func ending(stopReason []byte) protocol.Phase {
	switch string(stopReason) {
	case "aborted":
		return protocol.Cancelled
	case "error":
		return protocol.Fail
	}
	return protocol.Close
}

// questions are the methods with which extensions ask; other methods only notify.
var questions = []string{"select", "confirm", "input", "editor"}

func (l *line) interpretDialog(m *protocol.Message) {
	m.Label = l.label
	if string(l.kind) == "extension_ui_response" {
		m.From, m.Phase, m.ID = frame.C2U, protocol.Close, id(l.id)
		m.Faults |= missing(l.id)
		if l.cancelled {
			m.Label = labelCancelled
		}
		return
	}
	m.From = frame.U2C
	m.Faults |= missing(l.id)
	if slices.Contains(questions, string(l.label)) {
		m.Phase, m.ID = protocol.Open, id(l.id)
		m.Operation = protocol.Effect{Does: protocol.Open, Of: agent}
	}
}

var labelCancelled = []byte("cancelled")

func id(raw []byte) protocol.Token { return jsonwalk.Token(raw, protocol.SpaceID) }

func missing(raw []byte) protocol.Faults {
	if raw == nil {
		return protocol.MissingField
	}
	return 0
}

// Package claude parses the messages of Claude Code's stream-json, one per line: a
// conversation in turns, and control requests of either side.
package claude

import (
	"bytes"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

// Spec is stream-json. The kind of a message is its type, followed by a slash and the
// subtype if there is one: "control_request/interrupt". A control request is an exchange, with
// its request_id. A prompt opens a turn, which a result ends. Prompts that are sent meanwhile
// wait for their turn, and one turn may answer several. A prompt may have a uuid, which results
// and reports about the queue then name.
var Spec = protocol.Spec{
	Protocol: claude{"claude"},
	About:    "stream-json of Claude Code and its Agent SDK",
	// An interrupt is answered, and the turn then ends as aborted. A withdrawn control
	// request may be answered or not.
	Rules: protocol.Rules{
		UniqueIDs: true,
		Outlined:  true,
		MayLeave:  true,
		LooseRefs: true,
		Totals:    true,
		Steps:     true,
		Queued:    true,
		Dismiss:   []string{"control_request/end_session"},
		Endless:   []string{"control_request/mcp_message"}, // a call of MCP that was cancelled leaves it open
		Framing:   frame.Line,
		Cancels: []protocol.CancelRule{
			{Kind: "control_request/interrupt", Target: protocol.MustConfirm, Own: protocol.MustAnswer},
			{Kind: "control_request/cancel_async_message", Target: protocol.MayAnswer, Own: protocol.MustAnswer},
			{Kind: "control_cancel_request", Target: protocol.MayAnswer, Settles: true},
		},
		Sources: [][2]string{
			{"unknown-step", "a content_block_delta names a block that content_block_start began and content_block_stop has not ended"},
			{"total-falls", "total_cost_usd is the cost of the session, and never falls"},
			{"orphan", "a control_response names a control_request of the other side"},
			{"cancel-unknown", "a control_cancel_request names an open request of its sender"},
			{"cancel-ignored", "a turn that was interrupted ends with a result whose terminal_reason begins with aborted"},
		},
	},
	Cancel: protocol.Cancelling{
		JSON: `{"type":"control_cancel_request","request_id":%[1]s}`,
		Turn: `{"type":"control_request","request_id":"%[2]d","request":{"subtype":"interrupt"}}`,
	},
	Recognize: own.Recognize,
	Kept: []string{
		"uuid", "command_uuid", "state", "user_message_uuid", "user_message_uuids", "origin.kind", "local_command",
		"request.message_uuid", "response.response.still_queued", "response.response.cancelled",
	},
	Labels:   protocol.Tools,
	Prompts:  []string{"user"},
	AsksUser: []string{"control_request/can_use_tool", "control_request/elicitation", "control_request/request_user_dialog"},
	Nested:   nestedIn,
}

type claude struct{ jsonwalk.Named }

// A line holds the members of a message. Words are without quotes; ids, numbers and texts are as
// written.
type line struct {
	kind           []byte `at:"type,word"`
	subtype        []byte `at:"subtype,word"`
	sessionID      []byte `at:"session_id,word"`
	requestID      []byte `at:"request_id"`
	parent         []byte `at:"parent_tool_use_id"` // the tool call of a subagent
	state          []byte `at:"status|state|model|estimated_tokens|error"`
	originKind     []byte `at:"origin.kind,word"`
	isError        []byte `at:"is_error"`
	terminalReason []byte `at:"terminal_reason,word"`
	localCommand   []byte `at:"local_command,word"`
	uuid           []byte `at:"uuid"`
	promptID       []byte `at:"command_uuid|user_message_uuid request.message_uuid"` // of a message about one prompt
	promptIDs      []byte `at:"user_message_uuids"`                                  // those that a result answers

	request        []byte `at:"request"`
	requestSubtype []byte `at:"request.subtype,word"`
	toolName       []byte `at:"request.tool_name,word"`
	innerMethod    []byte `at:"request.message.method,word"`
	subject        []byte `at:"request.model|mode|message_uuid|input request.message.params"`
	hookEvent      []byte `at:"request.input.hook_event_name,word"`
	hookSubject    []byte `at:"request.input.prompt|tool_input"`
	cancelQueued   []byte `at:"request.cancel_queued"`

	responseSubtype []byte `at:"response.subtype,word"`
	responseID      []byte `at:"response.request_id"`
	responseError   []byte `at:"response.error"`
	response        []byte `at:"response.response"`
	behavior        []byte `at:"response.response.behavior,word"`
	stillQueued     []byte `at:"response.response.still_queued"`
	cancelled       []byte `at:"response.response.cancelled"`

	content    []byte `at:"result message.content,plain message.content[0].text|thinking|input|content"`
	blockType  []byte `at:"message.content[0].type,word"`
	blockName  []byte `at:"message.content[0].name,word"`
	eventType  []byte `at:"event.type,word"`
	eventIndex []byte `at:"event.index"`
	eventText  []byte `at:"event.content_block.type event.message.model event.delta.text|thinking|partial_json|stop_reason"`

	usage struct {
		input  int64 `at:"input_tokens|cache_creation_input_tokens,sum"`
		cached int64 `at:"cache_read_input_tokens"`
		output int64 `at:"output_tokens"`
	} `at:"usage"` // of the turn
	total    modelUsage `at:"modelUsage.*"` // of the session
	cost     []byte     `at:"total_cost_usd"`
	since    modelUsage `at:"model_usage_since_last_result.*"` // of all models since the last result
	hasSince bool       `at:"model_usage_since_last_result"`
}

// A modelUsage is the sum of what models have used.
type modelUsage struct {
	input  int64 `at:"inputTokens|cacheCreationInputTokens,sum"` // not from a cache
	cached int64 `at:"cacheReadInputTokens,sum"`
	output int64 `at:"outputTokens,sum"`
	cost   int64 `at:"costUSD,sum,micros"`
}

func (u modelUsage) usage() protocol.Usage {
	return protocol.Usage{Input: u.input + u.cached, Cached: u.cached, Output: u.output, Cost: u.cost}
}

var paths = jsonwalk.PathsOf[line]()

// Parse implements [protocol.Protocol].
func (claude) Parse(payload []byte, m *protocol.Message) error {
	var l line
	return paths.Parse(payload, m, &l, func() { l.interpret(m) })
}

// turn names the current turn: turns have no ids.
var turn = protocol.Token{Space: protocol.SpaceTurn}

// kinds are the common kinds of messages by type and subtype; "" stands for no subtype.
var kinds = map[string]map[string][]byte{
	"control_request": kindsOf("control_request", "initialize", "interrupt", "set_permission_mode", "set_model", "mcp_status",
		"get_context_usage", "mcp_message", "mcp_set_servers", "mcp_reconnect", "mcp_toggle", "rewind_files",
		"set_max_thinking_tokens", "get_settings", "get_usage", "get_session_cost", "stop_task", "cancel_async_message",
		"end_session", "hook_callback", "can_use_tool", "elicitation", "request_user_dialog"),
	"control_response":       kindsOf("control_response", "success", "error"),
	"control_cancel_request": kindsOf("control_cancel_request"),
	"user":                   kindsOf("user"),
	"assistant":              kindsOf("assistant"),
	"stream_event":           kindsOf("stream_event"),
	"command_lifecycle":      kindsOf("command_lifecycle"),
	"keep_alive":             kindsOf("keep_alive"),
	"system": kindsOf("system", "init", "status", "session_state_changed", "api_retry", "thinking_tokens", "task_started",
		"task_progress", "task_updated", "task_notification", "background_tasks_changed", "compact_boundary", "hook_started",
		"hook_progress", "hook_response"),
	"conversation_reset": kindsOf("conversation_reset"),
	"result": kindsOf("result", "success", "error_during_execution", "error_max_turns", "error_max_budget_usd",
		"error_max_structured_output_retries"),
}

func kindsOf(name string, subtypes ...string) map[string][]byte {
	kinds := map[string][]byte{"": []byte(name)}
	for _, s := range subtypes {
		kinds[s] = []byte(name + "/" + s)
	}
	return kinds
}

// interpret fills m. A message of an unknown type belongs to the turn if it has a session, as
// all messages of Claude Code have.
func (l *line) interpret(m *protocol.Message) {
	switch string(l.kind) {
	case "control_request":
		l.interpretRequest(m)
	case "control_response":
		m.Kind = kindNamed(l.kind, l.responseSubtype)
		m.ID, m.Phase = id(l.responseID), protocol.Close
		m.Label, m.Text = l.behavior, l.response
		m.Queue.Names = l.stillQueued
		if string(l.cancelled) == "true" {
			m.Queue.Does = protocol.Cancelled
		}
		if string(l.responseSubtype) == "error" {
			m.Phase, m.Text = protocol.Fail, l.responseError
		}
		m.Faults |= missing(m.ID)
	case "control_cancel_request":
		m.Kind, m.Phase, m.Ref = kindNamed(l.kind, nil), protocol.Cancel, id(l.requestID)
		m.Faults |= missing(m.Ref)
	case "user":
		m.Kind, m.Text = kindNamed(l.kind, nil), l.content
		if l.ofSession() {
			m.From, m.Phase, m.Ref = frame.U2C, protocol.Part, turn
			m.Label = l.blockLabel()
		} else {
			m.From, m.Phase, m.ID, m.Bind = frame.C2U, protocol.Open, turn, prompt(l.uuid)
			m.Queue.Own = l.own()
		}
	case "result":
		l.interpretResult(m)
	case "keep_alive":
		m.Kind = kindNamed(l.kind, nil)
	case "command_lifecycle":
		m.Kind, m.From, m.Phase, m.Ref, m.Empty, m.Text = kindNamed(l.kind, nil), frame.U2C, protocol.Part, prompt(l.promptID), true, l.state
		m.Queue = protocol.Queue{Does: lifecycle[string(l.state)], Of: m.Ref}
	case "conversation_reset": // by /clear
		m.Kind, m.From, m.Spent = kindNamed(l.kind, nil), frame.U2C, protocol.Spent{Of: l.session(), Anew: true}
	default:
		m.Kind = kindNamed(l.kind, l.subtype)
		if m.Kind == nil && l.ofSession() {
			m.Kind = l.kind
		}
		if m.Kind == nil {
			m.Kind = protocol.Unknown
			m.Faults |= protocol.UnknownKind
			return
		}
		m.From, m.Phase, m.Ref = frame.U2C, protocol.Part, turn
		switch {
		case string(m.Kind) == "system/init":
			m.Queue.Does = protocol.Open
		case l.ofSubagent(): // which may run between turns
		case string(l.kind) == "assistant", string(l.kind) == "stream_event":
			m.Queue.Does = protocol.Part
		}
		switch {
		case l.eventType != nil:
			m.Label, m.Text = l.eventType, l.eventText
			m.Step = l.step()
		case l.content != nil || l.blockType != nil || l.blockName != nil:
			m.Label, m.Text = l.blockLabel(), l.content
		default:
			m.Text = l.state
		}
	}
}

// own are the shapes of messages that only stream-json has, by type. Transcripts and chats
// of other programs have the same types.
var own = jsonwalk.Shapes{
	"control_request":        {{Has: `type" request_id" request.subtype"`, MayHave: "session_id uuid"}},
	"control_response":       {{Has: `type" response.subtype" response.request_id"`, MayHave: "session_id uuid"}},
	"control_cancel_request": {{Has: `type" request_id"`, MayHave: "session_id uuid"}},
	"user": {
		{Has: `type" message.role" message.content`, MayHave: "session_id parent_tool_use_id uuid priority isSynthetic origin shouldQuery timestamp"},
		{Has: `type" message.role" session_id" uuid"`, MayHave: "*"},
	},
	"assistant":         {{Has: `type" message.role" message.content[ session_id" parent_tool_use_id`, MayHave: "*"}},
	"stream_event":      {{Has: `type" event.type" session_id" parent_tool_use_id`, MayHave: "*"}},
	"command_lifecycle": {{Has: `type" session_id" command_uuid"`, MayHave: "*"}},
	"system": {
		{Has: `type" subtype" session_id" uuid"`, MayHave: "*"},
		{Has: `type" subtype" session_id" tools[ mcp_servers[`, MayHave: "*"},
	},
	"result": {{Has: `type" subtype" session_id" is_error num_turns total_cost_usd`, MayHave: "*"}},
}

// lifecycle maps the states of a prompt that is in the queue, or was. A state that ends it may
// follow the result of its turn, or come without one. A refused prompt never got into the queue.
var lifecycle = map[string]protocol.Phase{
	`"queued"`: protocol.Open, `"started"`: protocol.Part, `"completed"`: protocol.Close,
	`"cancelled"`: protocol.Cancelled, `"discarded"`: protocol.Cancelled, `"refused"`: protocol.Fail,
}

// ofSubagent reports whether the message belongs to a subagent.
func (l *line) ofSubagent() bool { return len(l.parent) > 0 && l.parent[0] != 'n' }

// step returns the effect of an event on a block of a message. Events of subagents have
// their own numbers, and are ignored.
func (l *line) step() protocol.Step {
	if l.ofSubagent() {
		return protocol.Step{}
	}
	s := protocol.Step{ID: jsonwalk.Token(l.eventIndex, protocol.SpaceStep)}
	switch string(l.eventType) {
	case "content_block_start":
		s.Does = protocol.Open
	case "content_block_delta":
		s.Does = protocol.Part
	case "content_block_stop":
		s.Does = protocol.Close
	}
	return s
}

// blockLabel returns the tool or the type of a message's first block, unless that is plain text.
func (l *line) blockLabel() []byte {
	switch {
	case l.blockName != nil:
		return l.blockName
	case string(l.blockType) == "text":
		return nil
	}
	return l.blockType
}

func (l *line) interpretRequest(m *protocol.Message) {
	m.Kind, m.ID, m.Phase = kindNamed(l.kind, l.requestSubtype), id(l.requestID), protocol.Open
	switch m.Text = l.request; {
	case l.hookEvent != nil:
		m.Text = l.hookSubject
	case l.subject != nil:
		m.Text = l.subject
	}
	m.Faults |= missing(m.ID)
	switch string(l.requestSubtype) {
	case "interrupt":
		m.From, m.Phase, m.Ref = frame.C2U, protocol.Cancel, turn
		m.Queue.Empties = string(l.cancelQueued) == "true"
	case "cancel_async_message":
		m.From, m.Phase, m.Ref = frame.C2U, protocol.Cancel, prompt(l.promptID)
		m.Faults |= missing(m.Ref)
	case "end_session":
		m.From, m.Queue.Empties = frame.C2U, true
	case "can_use_tool", "hook_callback", "elicitation", "request_user_dialog":
		m.From = frame.U2C
		m.Operation = protocol.Effect{Does: protocol.Open, Of: turn}
	case "mcp_message":
		m.Operation = protocol.Effect{Does: protocol.Open, Of: turn}
	}
	for _, name := range [][]byte{l.toolName, l.hookEvent, l.innerMethod} {
		if m.Label == nil {
			m.Label = name
		}
	}
}

// interpretResult fills m from the result of a turn. Its usage leaves out subagents, compaction
// and calls that were interrupted; that of the models has all.
func (l *line) interpretResult(m *protocol.Message) {
	m.Kind, m.From, m.Text = kindNamed(l.kind, l.subtype), frame.U2C, l.content
	m.Ref, m.Queue.Own, m.Queue.Names = turn, l.own(), l.promptIDs
	if m.Queue.Names == nil {
		m.Queue.Names = l.promptID
	}
	m.Usage = protocol.Usage{Input: l.usage.input + l.usage.cached, Cached: l.usage.cached, Output: l.usage.output}
	switch none := (protocol.Usage{}); {
	case l.since != modelUsage{}:
		m.Usage = l.since.usage()
	case m.Usage == none && !l.hasSince:
		m.Usage = l.total.usage()
	}
	m.Spent = protocol.Spent{Of: l.session(), Usage: l.total.usage(), Anew: string(l.localCommand) == "clear"}
	m.Spent.Usage.Cost = jsonwalk.Micros(l.cost)
	if string(l.terminalReason) != "completed" {
		m.Label = l.terminalReason
	}
	switch {
	case string(l.isError) != "true":
		m.Phase = protocol.Close
	case bytes.HasPrefix(l.terminalReason, []byte("aborted")):
		m.Phase = protocol.Cancelled
	default: // older versions give no reason
		m.Phase, m.Failing = protocol.Fail, l.terminalReason == nil && string(l.subtype) == "error_during_execution"
	}
}

// kindNamed returns the kind of a type and subtype, or nil if the type is unknown.
func kindNamed(name, subtype []byte) []byte {
	of := kinds[string(name)]
	if k := of[string(subtype)]; k != nil || of == nil {
		return k
	}
	return slices.Concat(of[""], []byte{'/'}, subtype)
}

// own returns the origin of a turn, unless that is the client's user.
func (l *line) own() []byte {
	if string(l.originKind) == "human" {
		return nil
	}
	return l.originKind
}

func (l *line) session() protocol.Token {
	return protocol.Token{Space: protocol.SpaceSession, Text: l.sessionID}
}

// ofSession reports whether Claude Code wrote the message: clients do not know the session.
func (l *line) ofSession() bool {
	return len(l.sessionID) > 0 && string(l.sessionID) != "default"
}

func id(raw []byte) protocol.Token { return jsonwalk.Token(raw, protocol.SpaceID) }

// prompt names a prompt by its uuid.
func prompt(raw []byte) protocol.Token { return jsonwalk.Token(raw, protocol.SpaceTurn) }

func missing(t protocol.Token) protocol.Faults {
	if t.IsZero() {
		return protocol.MissingField
	}
	return 0
}

// A nesting holds the members of a control message about MCP.
type nesting struct {
	request   []byte `at:"request_id request|response.request_id"`
	isAnswer  bool   `at:"response"`
	server    []byte `at:"request|response.server_name,word"`
	message   []byte `at:"request|response.message request|response.response.mcp_response"`
	subtype   []byte `at:"request.subtype,word"`
	hasID     bool   `at:"request|response.message.id request|response.response.mcp_response.id"`
	hasMethod bool   `at:"request|response.message.method request|response.response.mcp_response.method"`
}

var nestingPaths = jsonwalk.PathsOf[nesting]()

// nestedIn returns the MCP message in payload, to or from an MCP server that the client of Claude
// Code runs; nil unless payload is an mcp_message or an answer that may belong to one.
func nestedIn(payload []byte) *protocol.Nested {
	var n nesting
	var s jsonscan.Scanner
	s.Init(payload)
	nestingPaths.Read(&s, &n)
	if !n.isAnswer && string(n.subtype) != "mcp_message" {
		n.message = nil
	}
	if s.End() != nil || n.request == nil || n.message == nil && !n.isAnswer {
		return nil
	}
	return &protocol.Nested{
		Protocol: jsonrpc.MCP, Request: n.request, Answer: n.isAnswer, Server: n.server, Message: n.message, Asks: n.hasID && n.hasMethod,
	}
}

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
	Cancel: protocol.Cancelling{JSON: `{"type":"control_cancel_request","request_id":%[1]s}`,
		Turn: `{"type":"control_request","request_id":"%[2]d","request":{"subtype":"interrupt"}}`,
	},
	Recognize: own.Recognize,
	Kept: []string{
		"uuid", "command_uuid", "state", "user_message_uuid", "user_message_uuids", "origin.kind", "local_command",
		"request.message_uuid", "response.response.still_queued", "response.response.cancelled",
	},
	Labels: protocol.Tools,
	Nested: nestedIn,
}

type claude struct{ jsonwalk.Named }

// Parse reads one message, as [protocol.Protocol] wants it.
func (claude) Parse(payload []byte, m *protocol.Message) error {
	var s jsonscan.Scanner
	var w wire
	return jsonwalk.Parse(&s, payload, m, func() { w.read(&s, payload) }, func() { w.interpret(m) })
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
func (w *wire) interpret(m *protocol.Message) {
	switch string(w.kind) {
	case "control_request":
		w.interpretRequest(m)
	case "control_response":
		m.Kind = kindNamed(w.kind, w.responseSubtype)
		m.ID, m.Phase = id(w.responseID), protocol.Close
		m.Label, m.Text = w.behavior, w.response
		m.Queue.Names = w.stillQueued
		if string(w.cancelled) == "true" {
			m.Queue.Does = protocol.Cancelled
		}
		if string(w.responseSubtype) == "error" {
			m.Phase, m.Text = protocol.Fail, w.responseError
		}
		m.Faults |= missing(m.ID)
	case "control_cancel_request":
		m.Kind, m.Phase, m.Ref = kindNamed(w.kind, nil), protocol.Cancel, id(w.requestID)
		m.Faults |= missing(m.Ref)
	case "user":
		m.Kind, m.Text = kindNamed(w.kind, nil), w.content
		if w.ofSession() {
			m.From, m.Phase, m.Ref = frame.U2C, protocol.Part, turn
			m.Label = w.blockLabel()
		} else {
			m.From, m.Phase, m.ID, m.Bind = frame.C2U, protocol.Open, turn, prompt(w.uuid)
			m.Queue.Own = w.own()
		}
	case "result":
		w.interpretResult(m)
	case "keep_alive":
		m.Kind = kindNamed(w.kind, nil)
	case "command_lifecycle":
		m.Kind, m.From, m.Phase, m.Ref, m.Empty, m.Text = kindNamed(w.kind, nil), frame.U2C, protocol.Part, prompt(w.promptID), true, w.state
		m.Queue = protocol.Queue{Does: lifecycle[string(w.state)], Of: m.Ref}
	case "conversation_reset": // by /clear
		m.Kind, m.From, m.Spent = kindNamed(w.kind, nil), frame.U2C, protocol.Spent{Of: w.session(), Anew: true}
	default:
		m.Kind = kindNamed(w.kind, w.subtype)
		if m.Kind == nil && w.ofSession() {
			m.Kind = w.kind
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
		case w.ofSubagent(): // which may run between turns
		case string(w.kind) == "assistant", string(w.kind) == "stream_event":
			m.Queue.Does = protocol.Part
		}
		switch {
		case w.eventType != nil:
			m.Label, m.Text = w.eventType, w.eventText
			m.Step = w.step()
		case w.content != nil || w.block != nil:
			m.Label, m.Text = w.blockLabel(), w.content
		default:
			m.Text = w.state
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
func (w *wire) ofSubagent() bool { return len(w.parent) > 0 && w.parent[0] != 'n' }

// step returns the effect of an event on a block of a message. Events of subagents have
// their own numbers, and are ignored.
func (w *wire) step() protocol.Step {
	if w.ofSubagent() {
		return protocol.Step{}
	}
	s := protocol.Step{ID: jsonwalk.Token(w.eventIndex, protocol.SpaceStep)}
	switch string(w.eventType) {
	case "content_block_start":
		s.Does = protocol.Open
	case "content_block_delta":
		s.Does = protocol.Part
	case "content_block_stop":
		s.Does = protocol.Close
	}
	return s
}

// blockLabel returns the type of a message's first block, unless it is plain text.
func (w *wire) blockLabel() []byte {
	if string(w.block) == "text" {
		return nil
	}
	return w.block
}

func (w *wire) interpretRequest(m *protocol.Message) {
	m.Kind, m.ID, m.Phase = kindNamed(w.kind, w.requestSubtype), id(w.requestID), protocol.Open
	if m.Text = w.request; w.asked != nil || w.hookEvent != nil {
		m.Text = w.asked
	}
	m.Faults |= missing(m.ID)
	switch string(w.requestSubtype) {
	case "interrupt":
		m.From, m.Phase, m.Ref = frame.C2U, protocol.Cancel, turn
		m.Queue.Empties = string(w.cancelQueued) == "true"
	case "cancel_async_message":
		m.From, m.Phase, m.Ref = frame.C2U, protocol.Cancel, prompt(w.promptID)
		m.Faults |= missing(m.Ref)
	case "end_session":
		m.From, m.Queue.Empties = frame.C2U, true
	case "can_use_tool", "hook_callback", "elicitation", "request_user_dialog":
		m.From = frame.U2C
		m.Operation = protocol.Effect{Does: protocol.Open, Of: turn}
	case "mcp_message":
		m.Operation = protocol.Effect{Does: protocol.Open, Of: turn}
	}
	for _, name := range [][]byte{w.toolName, w.hookEvent, w.innerMethod} {
		if m.Label == nil {
			m.Label = name
		}
	}
}

// interpretResult fills m from the result of a turn. Its usage leaves out subagents, compaction
// and calls that were interrupted; that of the models has all.
func (w *wire) interpretResult(m *protocol.Message) {
	m.Kind, m.From, m.Text = kindNamed(w.kind, w.subtype), frame.U2C, w.content
	m.Ref, m.Queue.Own, m.Queue.Names = turn, w.own(), w.promptIDs
	if m.Queue.Names == nil {
		m.Queue.Names = w.promptID
	}
	switch none := (protocol.Usage{}); {
	case w.since != none:
		m.Usage = w.since
	case w.usage != none || w.counted:
		m.Usage = w.usage
	default:
		m.Usage = w.total
	}
	m.Spent = protocol.Spent{Of: w.session(), Usage: w.total, Anew: string(w.localCommand) == "clear"}
	m.Spent.Usage.Cost = jsonwalk.Micros(w.cost)
	if string(w.terminalReason) != "completed" {
		m.Label = w.terminalReason
	}
	switch {
	case string(w.isError) != "true":
		m.Phase = protocol.Close
	case bytes.HasPrefix(w.terminalReason, []byte("aborted")):
		m.Phase = protocol.Cancelled
	default:
		m.Phase = protocol.Fail
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
func (w *wire) own() []byte {
	if string(w.originKind) == "human" {
		return nil
	}
	return w.originKind
}

func (w *wire) session() protocol.Token {
	return protocol.Token{Space: protocol.SpaceSession, Text: w.sessionID}
}

// ofSession reports whether Claude Code wrote the message: clients do not know the session.
func (w *wire) ofSession() bool {
	return len(w.sessionID) > 0 && string(w.sessionID) != "default"
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

// Package anthropic parses the bodies and events of the Anthropic API: Messages, the
// count of their tokens, and lists of models.
package anthropic

import (
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Spec is the API. The kind of an event or an answer is its type, and that of a request is
// in its path.
var Spec = protocol.Spec{
	Protocol: api{"anthropic"},
	About:    "the API of Anthropic for models, over HTTP",
	// The final event is message_stop.
	Rules: modelapi.Rules("a stream ends with message_stop"),
	API:   &protocol.API{Calls: protocol.Alone(call)},
	// Of Claude Code 2.1.
	Joins: []protocol.Join{
		{As: protocol.OfAgent, Header: "X-Claude-Code-Agent-Id"},
		{As: protocol.OfAgentType, Header: "X-Claude-Code-Agent-Type"},
		{As: protocol.OfTurn, Header: "X-Claude-Code-Prompt-Id"},
		{As: protocol.OfTrace, Header: "Traceparent"},
		{As: protocol.ForItself, Header: "X-Claude-Code-Request-Class", Word: "auxiliary"},
	},
	SpawnedBy: "agentId: ",
	Kept:      []string{"content.id", "content_block.id", "messages.content.id", "messages.content.tool_use_id"},
}

type api struct{ jsonwalk.Named }

// Kinds returns the usual kind of requests.
func (api) Kinds() []string { return []string{string(kindRequest)} }

// call returns the call of a request; nil if it is not of this API. Requests state the version of
// the API. Without it the body decides, which may be nil if it is not available.
func call(head *frame.Head, body []byte) *protocol.Call {
	path, stated := modelapi.Path(head), head.Get("Anthropic-Version") != ""
	base, rest, ok := modelapi.Cut(path, "messages")
	switch {
	case ok && head.Method() == "POST" && (rest == "" || rest == "count_tokens"):
		if !stated && !(strings.HasSuffix(base, "/v1") && modelapi.HasModelAnd(body, "messages")) {
			return nil
		}
		return &protocol.Call{Kind: strings.TrimSuffix("messages/"+rest, "/"), Free: rest != ""}
	case stated && head.Method() == "GET":
		if base, _, ok := modelapi.Cut(path, "models"); ok && strings.HasSuffix(base, "/v1") {
			return &protocol.Call{Kind: "models", Free: true}
		}
	}
	return nil
}

var (
	kindResult  = []byte("result")
	kindRequest = []byte("messages")
)

// Parse implements [protocol.Protocol].
func (api) Parse(payload []byte, m *protocol.Message) error {
	e := llm.Event{API: llm.Messages}
	ok, err := modelapi.Read(&e, payload, m)
	if ok {
		interpret(&e, m)
	}
	return err
}

// interpret fills m.
func interpret(e *llm.Event, m *protocol.Message) {
	if e.Kind == nil && e.Asks != nil {
		m.Kind, m.Phase, m.From, m.Label = kindRequest, protocol.Open, frame.C2U, m.Model
		return
	}
	m.From, m.Phase, m.Kind = frame.U2C, protocol.Close, jsonwalk.Word(e.Kind)
	switch string(m.Kind) {
	case "":
		m.Kind = kindResult
	case "message", "model", "message_stop":
	case "error":
		modelapi.Fail(e, m)
	default:
		m.Phase, m.Empty = protocol.Part, !e.Brings
	}
}

// Request judges whether each tool result is for a call of the conversation.
func (api) Request(body []byte) []protocol.Broken { return modelapi.Uses(body) }

// API implements [modelapi.Judge].
func (api) API(string) (llm.API, bool) { return llm.Messages, true }

// Answer judges the usage, and gathers tool calls.
func (api) Answer(payload []byte, m *protocol.Message, t *modelapi.Tools) []protocol.Broken {
	kind := string(m.Kind)
	t.Read(llm.Messages, payload, kind != "message")
	message := payload
	switch kind {
	case "message_start":
		message = modelapi.Object(payload, "message")
	case "message":
	default:
		return nil
	}
	usage := modelapi.Object(message, "usage")
	switch {
	case usage == nil:
		return modelapi.WrongUsage("%s reports no usage", m.Kind)
	case modelapi.Object(usage, "cache_creation") == nil:
		return nil
	}
	written := modelapi.Count(usage, "cache_creation", "ephemeral_5m_input_tokens") + modelapi.Count(usage, "cache_creation", "ephemeral_1h_input_tokens")
	if all := modelapi.Count(usage, "cache_creation_input_tokens"); all != written {
		return modelapi.WrongUsage("cache_creation_input_tokens is %d, and its parts are %d", all, written)
	}
	return nil
}

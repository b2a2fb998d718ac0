package anthropic

import (
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Request judges whether each tool result is for a call of the conversation.
func (api) Request(body []byte) []protocol.Broken { return modelapi.Uses(body) }

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

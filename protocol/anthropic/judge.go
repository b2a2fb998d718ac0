package anthropic

import (
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Request judges whether each tool result is for a call of the conversation.
func (api) Request(body []byte) []protocol.Broken {
	return modelapi.Uses(body, "messages", "content", readUse)
}

// readUse walks the next value, which is a block that may be a tool call or the result of
// one.
func readUse(s *jsonscan.Scanner, r *modelapi.Results) {
	var kind string
	var id, of []byte
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			kind = string(jsonwalk.Word(s.Value()))
		case "id":
			id = s.Value()
		case "tool_use_id":
			of = s.Value()
		}
	}
	switch {
	case strings.HasSuffix(kind, "tool_use"):
		r.Call(id)
	case strings.HasSuffix(kind, "tool_result"):
		r.Result(of)
	}
}

// Answer judges the usage, and gathers tool calls.
func (api) Answer(payload []byte, m *protocol.Message, t *modelapi.Tools) []protocol.Broken {
	message := payload
	switch string(m.Kind) {
	case "content_block_start":
		if name, ok := jsonscan.Get(payload, "content_block", "name"); ok {
			var input []byte
			if whole := modelapi.Object(payload, "content_block", "input"); len(whole) > len("{}") { // no piece of it follows
				input = jsonwalk.Word(llm.Quote(string(whole)))
			}
			t.Add(keyOf(payload), jsonwalk.Word(name), input)
		}
		return nil
	case "content_block_delta":
		if piece, ok := jsonscan.Get(payload, "delta", "partial_json"); ok {
			t.Add(keyOf(payload), nil, jsonwalk.Word(piece))
		}
		return nil
	case "message_start":
		message = modelapi.Object(payload, "message")
	case "message":
		gather(message, t)
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

func keyOf(event []byte) [2]int64 { return [2]int64{modelapi.Count(event, "index")} }

// gather adds the tool calls of a whole message, whose arguments are objects.
func gather(message []byte, t *modelapi.Tools) {
	for _, block := range modelapi.Elements(message, "content") {
		if kind, _ := jsonscan.Get(block, "type"); strings.HasSuffix(string(jsonwalk.Word(kind)), "tool_use") {
			name, _ := jsonscan.Get(block, "name")
			input, _ := jsonscan.Get(block, "input")
			t.AddWhole(jsonwalk.Word(name), input)
		}
	}
}

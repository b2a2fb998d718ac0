package gemini

import (
	"bytes"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Request judges whether each tool result is for a call of the conversation: they have the
// same name, for an id need not be there.
func (api) Request(body []byte) []protocol.Broken {
	return modelapi.Uses(body, "contents", "parts", readUse)
}

// readUse walks the next value, which is a part that may be a tool call or the result of one.
func readUse(s *jsonscan.Scanner, r *modelapi.Results) {
	for ok := s.Object(); ok && s.Next(); {
		switch key := string(s.Key()); key {
		case "functionCall", "functionResponse":
			name, _ := jsonscan.Get(s.Value(), "name")
			if key == "functionCall" {
				r.Call(name)
			} else {
				r.Result(name)
			}
		}
	}
}

// Answer judges the usage, which the last event must have, and gathers tool calls.
func (api) Answer(payload []byte, m *protocol.Message, t *modelapi.Tools) []protocol.Broken {
	gather(payload, t)
	usage := modelapi.Object(payload, "usageMetadata")
	if usage != nil { // it may come after the last event with an answer
		t.Unused = nil
	}
	if len(m.StopReason) == 0 || m.Phase == protocol.Fail || jsonscan.KindOf(payload) != jsonscan.Object {
		return nil
	}
	if usage == nil {
		t.Unused = modelapi.WrongUsage("the last event reports no usage")
		return nil
	}
	return modelapi.Sum(usage, "totalTokenCount", "promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
}

// gather adds the tool calls of an answer, or of each answer in an array.
func gather(payload []byte, t *modelapi.Tools) {
	if !bytes.Contains(payload, []byte(`"functionCall"`)) {
		return
	}
	if jsonscan.KindOf(payload) == jsonscan.Array {
		for _, part := range modelapi.Elements(payload) {
			gather(part, t)
		}
		return
	}
	for _, candidate := range modelapi.Elements(payload, "candidates") {
		for _, part := range modelapi.Elements(candidate, "content", "parts") {
			if call := modelapi.Object(part, "functionCall"); call != nil {
				gatherCall(call, t)
			}
		}
	}
}

func gatherCall(call []byte, t *modelapi.Tools) {
	name, _ := jsonscan.Get(call, "name")
	arguments, _ := jsonscan.Get(call, "args")
	t.AddWhole(jsonwalk.Word(name), arguments)
}

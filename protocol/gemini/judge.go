package gemini

import (
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
	"github.com/wirectl/wirectl/protocol/jsonscan"
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

// Answer judges the usage, which the last event has to tell of.
func (api) Answer(payload []byte, m *protocol.Message, _ *modelapi.Tools) []protocol.Broken {
	if len(m.StopReason) == 0 || m.Phase == protocol.Fail || jsonscan.KindOf(payload) != jsonscan.Object {
		return nil
	}
	usage := modelapi.Object(payload, "usageMetadata")
	if usage == nil {
		return modelapi.WrongUsage("the last event tells of no usage")
	}
	return modelapi.Sum(usage, "totalTokenCount", "promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
}

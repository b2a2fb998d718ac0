package openai

import (
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Request judges whether each tool result is for a call of the conversation.
func (api) Request(body []byte) []protocol.Broken { return modelapi.Uses(body) }

// Answer judges the usage, and gathers tool calls.
func (api) Answer(payload []byte, m *protocol.Message, t *modelapi.Tools) []protocol.Broken {
	kind, response, of := string(m.Kind), payload, llm.Chat
	if strings.HasPrefix(kind, "response") {
		of = llm.Responses
	}
	if t.Read(of, payload, kind != "response" && (of == llm.Responses || m.Phase == protocol.Part)); strings.HasPrefix(kind, "response.") {
		if response = modelapi.Object(payload, "response"); response == nil || m.Phase == protocol.Part {
			return nil
		}
	}
	if m.Phase == protocol.Fail {
		return nil
	}
	switch usage := modelapi.Object(response, "usage"); {
	case usage != nil:
		return judgeUsage(usage)
	case m.Phase == protocol.Close && len(m.StopReason) > 0:
		return modelapi.WrongUsage("%s reports no usage", kind)
	}
	return nil
}

func judgeUsage(usage []byte) []protocol.Broken {
	in, out, details := "input_tokens", "output_tokens", "input_tokens_details"
	if _, ok := jsonscan.Get(usage, in); !ok {
		in, out, details = "prompt_tokens", "completion_tokens", "prompt_tokens_details"
	}
	if _, ok := jsonscan.Get(usage, "input_token_details"); ok { // of Realtime
		details = "input_token_details"
	}
	if cached, input := modelapi.Count(usage, details, "cached_tokens"), modelapi.Count(usage, in); cached > input {
		return modelapi.WrongUsage("%d tokens are cached, of %d", cached, input)
	}
	return modelapi.Sum(usage, "total_tokens", in, out)
}

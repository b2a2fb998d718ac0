package openai

import (
	"encoding/json"
	"errors"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A completion is an answer, or a chunk of one.
type completion struct {
	Choices []choice        `json:"choices"`
	Usage   usage           `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index   int     `json:"index"`
	Finish  string  `json:"finish_reason"`
	Message message `json:"message"`
	Delta   message `json:"delta"` // in place of the message, in a chunk
}

type message struct {
	Content json.RawMessage `json:"content"`
	Refusal json.RawMessage `json:"refusal"`
	// OpenAI's API has no reasoning; other backends use one of these members.
	Reasoning        json.RawMessage `json:"reasoning"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Calls            []toolCall      `json:"tool_calls"`
}

type toolCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Custom struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"custom"`
}

type usage struct {
	Input   int64 `json:"prompt_tokens"`
	Output  int64 `json:"completion_tokens"`
	OfInput struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	OfOutput struct {
		Thinking int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// decode reads an answer. It must be JSON in UTF-8, because parts of it are passed on. Members of
// the wrong type are ignored.
func (a *completion) decode(data []byte) error {
	if err := jsonscan.Valid(data); err != nil {
		return err
	}
	err := json.Unmarshal(data, a)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); other {
		return nil
	}
	return err
}

// text returns the token of the refusal or else of the content, nil if there is none.
func (m *message) text() []byte {
	if jsonscan.KindOf(m.Refusal) == jsonscan.String && len(m.Refusal) > len(`""`) {
		return m.Refusal
	}
	if jsonscan.KindOf(m.Content) == jsonscan.String {
		return m.Content
	}
	return nil
}

// thought returns the token of the reasoning, nil if there is none.
func (m *message) thought() []byte {
	for _, token := range [...]json.RawMessage{m.Reasoning, m.ReasoningContent} {
		if jsonscan.KindOf(token) == jsonscan.String && len(token) > len(`""`) {
			return token
		}
	}
	return nil
}

// count adds the usage. The usage of a chunk is cumulative.
func (u usage) count(c *provider.Completion) {
	if u.Input > 0 {
		c.Usage.Input = u.Input
	}
	if u.Output > 0 {
		c.Usage.Output = u.Output
	}
	c.Usage.Cached = max(c.Usage.Cached, u.OfInput.Cached)
	c.Usage.Thinking = max(c.Usage.Thinking, u.OfOutput.Thinking)
}

// calls are tool calls that arrive in pieces, by their index.
type calls []toolCall

// maxCalls bounds the tool calls of one completion.
const maxCalls = 1000

func (k *calls) addPieces(pieces []toolCall) {
	for i, piece := range pieces {
		if piece.Index != nil {
			i = max(*piece.Index, 0)
		}
		i = min(i, maxCalls)
		for len(*k) <= i {
			*k = append(*k, toolCall{})
		}
		call := &(*k)[i]
		call.ID += piece.ID
		call.Function.Name += piece.Function.Name
		call.Function.Arguments += piece.Function.Arguments
		call.Custom.Name += piece.Custom.Name
		call.Custom.Input += piece.Custom.Input
	}
}

// list returns the calls.
func (k calls) list() (list []provider.ToolCall) {
	for _, c := range k {
		if c.Custom.Name != "" {
			list = append(list, provider.ToolCall{ID: c.ID, Name: c.Custom.Name, Arguments: provider.Quote(c.Custom.Input), Custom: true})
			continue
		}
		list = append(list, provider.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: provider.Arguments(c.Function.Arguments)})
	}
	return list
}

package openai

import (
	"encoding/json"
	"strconv"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A completion is an answer, or a chunk of one. It has the tokens of its members, which may be
// of the wrong type.
type completion struct {
	first        *choice // nil if there are no choices
	usage, fault []byte
}

// A choice has the members of its message or, in a chunk, of its delta.
type choice struct {
	index                    int
	finish                   string
	content, refusal, pieces []byte
	// OpenAI's API has no reasoning; other backends use one of these members.
	reasoning, reasoningContent []byte
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

// decode reads an answer, whose choices have the named member: a message, or a delta in a chunk.
// It must be JSON in UTF-8, because parts of it are passed on.
func (a *completion) decode(data []byte, member string) error {
	var choices []byte
	_, err := provider.ReadMembers(data, map[string]*[]byte{"choices": &choices, "usage": &a.usage, "error": &a.fault})
	for choice := range provider.Elements(choices) {
		a.first = newChoice(choice, member)
		break
	}
	return err
}

func newChoice(token []byte, member string) *choice {
	var k choice
	var index, finish, message []byte
	_, _ = provider.ReadMembers(token, map[string]*[]byte{"index": &index, "finish_reason": &finish, member: &message})
	_, _ = provider.ReadMembers(message, map[string]*[]byte{
		"content": &k.content, "refusal": &k.refusal, "tool_calls": &k.pieces, "reasoning": &k.reasoning, "reasoning_content": &k.reasoningContent,
	})
	k.index, _ = strconv.Atoi(string(index))
	k.finish = provider.Unquote(finish)
	return &k
}

// text returns the token of the refusal or else of the content, nil if there is none.
func (k *choice) text() []byte {
	if jsonscan.KindOf(k.refusal) == jsonscan.String && len(k.refusal) > len(`""`) {
		return k.refusal
	}
	if jsonscan.KindOf(k.content) == jsonscan.String {
		return k.content
	}
	return nil
}

// thought returns the token of the reasoning, nil if there is none.
func (k *choice) thought() []byte {
	for _, token := range [][]byte{k.reasoning, k.reasoningContent} {
		if jsonscan.KindOf(token) == jsonscan.String && len(token) > len(`""`) {
			return token
		}
	}
	return nil
}

// count adds the usage. The usage of a chunk is cumulative.
func (a *completion) count(c *provider.Completion) {
	tokens := func(path ...string) int64 {
		token, _ := jsonscan.Get(a.usage, path...)
		n, _ := strconv.ParseInt(string(token), 10, 64)
		return n
	}
	if n := tokens("prompt_tokens"); n > 0 {
		c.Usage.Input = n
	}
	if n := tokens("completion_tokens"); n > 0 {
		c.Usage.Output = n
	}
	c.Usage.Cached = max(c.Usage.Cached, tokens("prompt_tokens_details", "cached_tokens"))
	c.Usage.Thinking = max(c.Usage.Thinking, tokens("completion_tokens_details", "reasoning_tokens"))
}

// calls are tool calls that arrive in pieces, by their index.
type calls []toolCall

// maxCalls bounds the tool calls of one completion.
const maxCalls = 1000

func (k *calls) addPieces(token []byte) {
	var pieces []toolCall
	if token != nil {
		_ = json.Unmarshal(token, &pieces) // it is JSON; members of the wrong type are ignored
	}
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

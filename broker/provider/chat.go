package provider

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A Chat is an OpenAI chat completion request, read for a backend that speaks
// something else.
type Chat struct {
	// System is what the system and developer messages say, joined.
	System string
	// Turns are the other messages.
	Turns []Turn
	Tools []Tool
	// ToolChoice says whether a tool is to be called: auto, none, required,
	// or "" if the request does not say. Tool is the one that has to be.
	ToolChoice, Tool string
	// MaxTokens is 0 if the request has no limit.
	MaxTokens         int
	Temperature, TopP *float64
	Stop              []string
	// Rest are the members that OpenAI does not have, for the backend.
	Rest map[string]json.RawMessage
}

// A Turn is what one side said.
type Turn struct {
	// Role is user, assistant or tool.
	Role  string
	Parts []TurnPart
	Calls []ToolCall
	// Answers is the id of the tool call that a tool answers, and Name the
	// tool's, if the message has it.
	Answers, Name string
}

// A TurnPart is a text, or an image.
type TurnPart struct {
	Text string
	// ImageURL is an address, or a data: URL.
	ImageURL string
}

// A Tool is a function that the model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// openAIMembers are the members of a request that mean nothing elsewhere, or that
// Chat has.
var openAIMembers = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop",
	"tools", "tool_choice", "n", "user", "seed", "logprobs", "top_logprobs", "logit_bias", "frequency_penalty", "presence_penalty",
	"response_format", "parallel_tool_calls", "store", "reasoning_effort", "service_tier", "modalities", "audio", "prediction",
	"functions", "function_call", "metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "verbosity", "web_search_options",
}

// Read reads the request for a backend of a kind. What is not as OpenAI has it is left
// out; what the kind has nothing for is refused.
func (r *Request) Read(k Kind) (*Chat, error) {
	if r.Choices != 0 && r.Choices != 1 {
		return nil, k.Refusal("n", "Ask once for each choice")
	}
	chat := &Chat{}
	for m := range EachMessage(r.Messages()) {
		chat.add(m)
	}
	if r.Chat == nil {
		return chat, nil
	}
	var p struct {
		MaxTokens           int `json:"max_tokens"`
		MaxCompletionTokens int `json:"max_completion_tokens"`
		Temperature         *float64
		Top                 *float64        `json:"top_p"`
		Stop                json.RawMessage `json:"stop"`
		ToolChoice          json.RawMessage `json:"tool_choice"`
		Tools               []struct {
			Function Tool `json:"function"`
		} `json:"tools"`
	}
	// What could be read before an error stays.
	_ = json.Unmarshal(r.Chat, &p)
	chat.MaxTokens, chat.Temperature, chat.TopP = max(p.MaxTokens, p.MaxCompletionTokens), p.Temperature, p.Top
	for _, t := range p.Tools {
		chat.Tools = append(chat.Tools, t.Function)
	}
	chat.choose(p.ToolChoice)
	var one string
	if json.Unmarshal(p.Stop, &one) == nil && one != "" {
		chat.Stop = []string{one}
	} else {
		_ = json.Unmarshal(p.Stop, &chat.Stop)
	}
	_ = json.Unmarshal(r.Chat, &chat.Rest)
	for _, name := range openAIMembers {
		delete(chat.Rest, name)
	}
	return chat, nil
}

// choose reads which tool is to be called.
func (c *Chat) choose(choice json.RawMessage) {
	if c.ToolChoice = Unquote(choice); c.ToolChoice != "" {
		return
	}
	if name, ok := jsonscan.Get(choice, "function", "name"); ok {
		c.ToolChoice, c.Tool = "required", Unquote(name)
	}
}

func (c *Chat) add(m Message) {
	if m.Role == "system" || m.Role == "developer" {
		if c.System != "" {
			c.System += "\n\n"
		}
		c.System += Unquote(m.Text)
		return
	}
	t := Turn{Role: m.Role}
	if t.Role != "assistant" && t.Role != "tool" {
		t.Role = "user"
	}
	if raw, ok := jsonscan.Get(m.Raw, "tool_call_id"); ok {
		t.Answers = Unquote(raw)
	}
	if raw, ok := jsonscan.Get(m.Raw, "name"); ok {
		t.Name = Unquote(raw)
	}
	t.Parts = turnParts(m)
	var calls []struct {
		ID       string `json:"id"`
		Function struct{ Name, Arguments string }
	}
	if raw, ok := jsonscan.Get(m.Raw, "tool_calls"); ok && json.Unmarshal(raw, &calls) == nil {
		for _, call := range calls {
			args := []byte(call.Function.Arguments)
			if jsonscan.Valid(args) != nil || jsonscan.KindOf(args) != jsonscan.Object {
				args = []byte("{}")
			}
			t.Calls = append(t.Calls, ToolCall{call.ID, call.Function.Name, args})
		}
	}
	c.Turns = append(c.Turns, t)
}

func turnParts(m Message) []TurnPart {
	if jsonscan.KindOf(m.Content) != jsonscan.Array {
		if text := Unquote(m.Text); text != "" {
			return []TurnPart{{Text: text}}
		}
		return nil
	}
	var raw []struct {
		Text     string
		ImageURL struct{ URL string } `json:"image_url"`
	}
	_ = json.Unmarshal(m.Content, &raw)
	var parts []TurnPart
	for _, p := range raw {
		if p.Text != "" || p.ImageURL.URL != "" {
			parts = append(parts, TurnPart{p.Text, p.ImageURL.URL})
		}
	}
	return parts
}

// Data returns the media type and the base64 text of a data: URL.
func (p TurnPart) Data() (mediaType, base64 string, ok bool) {
	rest, ok := strings.CutPrefix(p.ImageURL, "data:")
	if !ok {
		return "", "", false
	}
	mediaType, base64, ok = strings.Cut(rest, ";base64,")
	return mediaType, base64, ok
}

// WithModel returns the body of a request, a JSON object, with another model.
func WithModel(body []byte, model string) []byte {
	var room [64]byte
	name := jsonscan.AppendQuote(room[:0], []byte(model))
	var s jsonscan.Scanner
	s.Init(body)
	start, end := -1, 0
	for ok := s.Object(); ok && start < 0 && s.Next(); {
		if string(s.Key()) == "model" {
			start = s.Offset()
			end = start + len(s.Value())
		}
	}
	switch {
	case start < 0:
		start = bytes.IndexByte(body, '{') + 1
		end = start
		name = append(append([]byte(`"model":`), name...), ',')
	case bytes.Equal(body[start:end], name):
		return body
	}
	b := make([]byte, 0, len(body)+len(name))
	b = append(append(b, body[:start]...), name...)
	return append(b, body[end:]...)
}

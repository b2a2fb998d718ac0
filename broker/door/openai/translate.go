package openai

import (
	"cmp"
	"encoding/json"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A question is a request for one of Anthropic's messages, as far as a backend
// of another kind can be asked it.
type question struct {
	Model      json.RawMessage `json:"model"`
	Messages   json.RawMessage `json:"messages"`
	System     json.RawMessage `json:"system"`
	MaxTokens  json.RawMessage `json:"max_tokens"`
	Temp       json.RawMessage `json:"temperature"`
	TopP       json.RawMessage `json:"top_p"`
	Stop       json.RawMessage `json:"stop_sequences"`
	Stream     json.RawMessage `json:"stream"`
	Tools      json.RawMessage `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
}

// read reads a request. The fault is a sentence for the client.
func (q *question) read(body []byte) (fault string) {
	switch {
	case jsonscan.Valid(body) != nil:
		return "The request body is not valid JSON."
	case jsonscan.KindOf(body) != jsonscan.Object:
		return "The request body must be a JSON object."
	}
	// Members are taken as they are, so that this cannot fail.
	_ = json.Unmarshal(body, q)
	switch {
	case q.Model != nil && jsonscan.KindOf(q.Model) != jsonscan.String:
		return "model: Input should be a valid string"
	case q.Messages == nil:
		return "messages: Field required"
	case jsonscan.KindOf(q.Messages) != jsonscan.Array:
		return "messages: Input should be a valid list"
	}
	return ""
}

func (q *question) streams() bool { return string(q.Stream) == "true" }

// chat asks the question as a chat completion. What OpenAI has no words for is
// left out: thinking, documents, marks for a cache, tools of Anthropic's own.
func (q *question) chat() []byte {
	m := map[string]any{"messages": q.messages()}
	for name, value := range map[string]json.RawMessage{"model": q.Model, "max_tokens": q.MaxTokens, "temperature": q.Temp, "top_p": q.TopP, "stop": q.Stop} {
		if value != nil {
			m[name] = value
		}
	}
	if tools := q.tools(); len(tools) > 0 {
		m["tools"] = tools
		if choice := q.toolChoice(); choice != nil {
			m["tool_choice"] = choice
		}
		if v, ok := jsonscan.Get(q.ToolChoice, "disable_parallel_tool_use"); ok && jsonscan.KindOf(v) == jsonscan.True {
			m["parallel_tool_calls"] = false
		}
	}
	if q.streams() {
		m["stream"] = true
	}
	body, _ := json.Marshal(m) // all that is in it is JSON already
	return body
}

// A block is a part of a message's content, of any type.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	Source    struct {
		Type      string `json:"type"`
		URL       string `json:"url"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
}

// blocks reads a content: a text, or a list of blocks.
func blocks(content []byte) []block {
	if jsonscan.KindOf(content) == jsonscan.String {
		return []block{{Type: "text", Text: provider.Unquote(content)}}
	}
	var list []block
	// A block that is not as it should be is read as far as it goes.
	_ = json.Unmarshal(content, &list)
	return list
}

func texts(content []byte) (text string) {
	for _, b := range blocks(content) {
		text += b.Text
	}
	return text
}

// The words of OpenAI.
type (
	chatMessage struct {
		Role    string     `json:"role"`
		Content any        `json:"content"`
		Calls   []chatCall `json:"tool_calls,omitempty"`
		Answers string     `json:"tool_call_id,omitempty"`
	}
	chatPart struct {
		Type  string     `json:"type"`
		Text  string     `json:"text,omitempty"`
		Image *chatImage `json:"image_url,omitempty"`
	}
	chatImage struct {
		URL string `json:"url"`
	}
	chatCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function chatFunction `json:"function"`
	}
	chatFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
)

func (q *question) messages() []chatMessage {
	list := []chatMessage{}
	if system := texts(q.System); system != "" {
		list = append(list, chatMessage{Role: "system", Content: system})
	}
	for m := range provider.EachMessage(q.Messages) {
		list = appendMessages(list, m.Role, blocks(m.Content))
	}
	return list
}

// appendMessages appends what one side said. The results of tools, which are
// the user's here, are messages of their own there.
func appendMessages(list []chatMessage, role string, content []block) []chatMessage {
	said := chatMessage{Role: role}
	var parts []chatPart
	plain := true // nothing but text
	for _, b := range content {
		switch b.Type {
		case "text":
			parts = append(parts, chatPart{Type: "text", Text: b.Text})
		case "image":
			url := b.Source.URL
			if b.Source.Type == "base64" {
				url = "data:" + b.Source.MediaType + ";base64," + b.Source.Data
			}
			parts, plain = append(parts, chatPart{Type: "image_url", Image: &chatImage{url}}), false
		case "tool_use":
			arguments := cmp.Or(string(b.Input), "{}")
			said.Calls = append(said.Calls, chatCall{b.ID, "function", chatFunction{b.Name, arguments}})
		case "tool_result":
			list = append(list, chatMessage{Role: "tool", Content: texts(b.Content), Answers: b.ToolUseID})
		}
	}
	if len(parts) == 0 && said.Calls == nil {
		return list
	}
	switch {
	case len(parts) == 1 && plain:
		said.Content = parts[0].Text
	case len(parts) > 0:
		said.Content = parts
	}
	return append(list, said)
}

func (q *question) tools() (tools []any) {
	var list []struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"input_schema"`
	}
	_ = json.Unmarshal(q.Tools, &list)
	for _, t := range list {
		if t.Parameters != nil {
			tools = append(tools, map[string]any{"type": "function", "function": provider.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters}})
		}
	}
	return tools
}

func (q *question) toolChoice() any {
	kind, _ := jsonscan.Get(q.ToolChoice, "type")
	switch provider.Unquote(kind) {
	case "any":
		return "required"
	case "auto", "none":
		return kind
	case "tool":
		name, _ := jsonscan.Get(q.ToolChoice, "name")
		return map[string]any{"type": "function", "function": map[string]string{"name": provider.Unquote(name)}}
	}
	return nil
}

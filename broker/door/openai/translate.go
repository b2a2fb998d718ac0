package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

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
	Output     struct {
		Format json.RawMessage `json:"format"`
	} `json:"output_config"`
	Format json.RawMessage `json:"output_format"` // as it was called before

	members map[string]json.RawMessage
	refused error // the first that cannot be translated
	tool    error // the first tool that cannot
}

// refuse has a backend of another kind refuse the question for what stands at a place.
// Instead says what to do.
func (q *question) refuse(at, instead string) {
	if q.refused == nil {
		q.refused = provider.Unanswerable(at, "unsupported_parameter", at+": cannot be translated for the provider that this model goes to, which is not of the kind anthropic. "+
			instead+", or ask a model of a provider of the kind anthropic.")
	}
}

// known are the members of Anthropic's requests. What is not among them is the
// backend's own.
var known = []string{
	"model", "messages", "system", "max_tokens", "temperature", "top_p", "stop_sequences", "stream", "tools", "tool_choice", "output_config", "output_format",
	// They are for Anthropic alone, or hints, such as how hard to think.
	"thinking", "metadata", "service_tier", "speed", "cache_control", "context_management", "diagnostics", "fallbacks", "fallback_credit_token",
}

// others mean something for the answer, and have no counterpart.
var others = []string{"container", "mcp_servers", "inference_geo"}

// read reads a request. The fault is a sentence for the client.
func (q *question) read(body []byte) (fault string) {
	switch err := jsonscan.Valid(body); {
	case err != nil:
		return "The request body is not valid JSON" + where(err) + "."
	case jsonscan.KindOf(body) != jsonscan.Object:
		return "The request body must be a JSON object."
	}
	// Members are taken as they are, so that this cannot fail.
	_ = json.Unmarshal(body, q)
	_ = json.Unmarshal(body, &q.members)
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

// chat asks the question as a chat completion, with what Anthropic does not have as
// the client wrote it. What OpenAI has no counterpart for is left out where it is but a
// hint; the error says what is more than that.
func (q *question) chat() ([]byte, error) {
	m := map[string]any{}
	for name, value := range q.members {
		if !slices.Contains(known, name) && !slices.Contains(others, name) {
			m[name] = value
		}
	}
	for _, name := range others {
		if value := string(q.members[name]); value != "" && value != "null" && value != "[]" {
			q.refuse(name, "Leave it out")
		}
	}
	m["messages"] = q.messages()
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
	if format := q.format(); format != nil {
		m["response_format"] = format
	}
	if q.streams() {
		m["stream"] = true
	}
	body, _ := jsonscan.Marshal(m) // all that is in it is JSON already
	return body, cmp.Or(q.refused, q.tool)
}

// format is what the answer is to look like, nil if that does not matter.
func (q *question) format() any {
	at, format := "output_config.format", q.Output.Format
	if format == nil {
		at, format = "output_format", q.Format
	}
	if format == nil || jsonscan.KindOf(format) == jsonscan.Null {
		return nil
	}
	kind, _ := jsonscan.Get(format, "type")
	schema, ok := jsonscan.Get(format, "schema")
	if provider.Unquote(kind) != "json_schema" || !ok {
		q.refuse(at, "Use json_schema, with a schema")
		return nil
	}
	return map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "output", "strict": true, "schema": json.RawMessage(schema)}}
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
	IsError   bool            `json:"is_error"`
	Title     string          `json:"title"`
	Source    struct {
		Type      string          `json:"type"`
		URL       string          `json:"url"`
		MediaType string          `json:"media_type"`
		Data      string          `json:"data"`
		Content   json.RawMessage `json:"content"`
	} `json:"source"`

	at string // where it stands
}

// blocks reads a content: a text, or a list of blocks.
func (q *question) blocks(at string, content []byte) []block {
	switch jsonscan.KindOf(content) {
	case jsonscan.String:
		return []block{{Type: "text", Text: provider.Unquote(content), at: at}}
	case jsonscan.Invalid, jsonscan.Null:
		return nil
	}
	var list []block
	if err := json.Unmarshal(content, &list); err != nil {
		q.refuse(at, "Write it as a text or as a list of blocks")
	}
	for i := range list {
		list[i].at = fmt.Sprintf("%s.%d", at, i)
	}
	return list
}

// texts joins the texts of a content that has nothing else.
func (q *question) texts(at string, content []byte) (text string) {
	for _, b := range q.blocks(at, content) {
		if b.Type != "text" {
			q.refuse(b.at, "Use blocks of text there")
		}
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
		File  *chatFile  `json:"file,omitempty"`
		Audio *chatAudio `json:"input_audio,omitempty"`
	}
	chatAudio struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	}
	chatFile struct {
		Name string `json:"filename"`
		Data string `json:"file_data"`
	}
	chatImage struct {
		URL    string `json:"url"`
		Detail string `json:"detail,omitempty"`
	}
	chatCall struct {
		Index    *int          `json:"index,omitempty"`
		ID       string        `json:"id"`
		Type     string        `json:"type"`
		Function *chatFunction `json:"function,omitempty"`
		Custom   *chatCustom   `json:"custom,omitempty"`
	}
	chatCustom struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	chatFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
)

func functionCall(id, name, arguments string) chatCall {
	return chatCall{ID: id, Type: "function", Function: &chatFunction{name, arguments}}
}

func customCall(id, name string, input []byte) chatCall {
	return chatCall{ID: id, Type: "custom", Custom: &chatCustom{name, input}}
}

func (q *question) messages() []chatMessage {
	list := []chatMessage{}
	if system := q.texts("system", q.System); system != "" {
		list = append(list, chatMessage{Role: "system", Content: system})
	}
	i := 0
	for m := range provider.EachMessage(q.Messages) {
		at := fmt.Sprintf("messages.%d.content", i)
		list = q.appendMessages(list, m.Role, q.blocks(at, m.Content))
		i++
	}
	return list
}

// appendMessages appends what one side said. The results of tools, which are
// the user's here, are messages of their own there, and have nothing but text: what
// else is in them the user says.
func (q *question) appendMessages(list []chatMessage, role string, content []block) []chatMessage {
	said := chatMessage{Role: role}
	var parts []chatPart
	for _, b := range content {
		switch b.Type {
		case "tool_use":
			arguments := cmp.Or(string(b.Input), "{}")
			said.Calls = append(said.Calls, functionCall(b.ID, b.Name, arguments))
		case "tool_result":
			text, more := q.result(b)
			list, parts = append(list, chatMessage{Role: "tool", Content: text, Answers: b.ToolUseID}), append(parts, more...)
		case "thinking", "redacted_thinking": // of the model that it comes from alone
		default:
			if p := q.part(b); p != (chatPart{Type: "text"}) || len(content) == 1 {
				parts = append(parts, p)
			}
		}
	}
	switch {
	case len(parts) == 0 && said.Calls == nil:
		return list
	case len(parts) == 1 && parts[0].Type == "text":
		said.Content = parts[0].Text
	case len(parts) > 0:
		said.Content = parts
	}
	return append(list, said)
}

// result splits what a tool answered into text and the rest.
func (q *question) result(b block) (text string, rest []chatPart) {
	if b.IsError {
		text = "Error: "
	}
	for _, b := range q.blocks(b.at+".content", b.Content) {
		if p := q.part(b); p.Type == "text" {
			text += p.Text
		} else {
			rest = append(rest, p)
		}
	}
	return text, rest
}

func (q *question) part(b block) chatPart {
	data := "data:" + b.Source.MediaType + ";base64," + b.Source.Data
	switch b.Type + " " + b.Source.Type {
	case "text ":
		return chatPart{Type: "text", Text: b.Text}
	case "image base64":
		return chatPart{Type: "image_url", Image: &chatImage{URL: data}}
	case "image url":
		return chatPart{Type: "image_url", Image: &chatImage{URL: b.Source.URL}}
	case "document base64":
		return chatPart{Type: "file", File: &chatFile{cmp.Or(b.Title, "document.pdf"), data}}
	case "document text":
		return chatPart{Type: "text", Text: b.Source.Data}
	case "document content":
		return chatPart{Type: "text", Text: q.texts(b.at+".source.content", b.Source.Content)}
	}
	q.refuse(b.at, "Use text, and images and documents that are given themselves")
	return chatPart{Type: "text"}
}

func (q *question) tools() (tools []any) {
	var list []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"input_schema"`
		Strict      bool            `json:"strict"`
	}
	if q.Tools != nil && json.Unmarshal(q.Tools, &list) != nil {
		q.refuse("tools", "Write it as a list of tools")
	}
	for i, t := range list {
		if t.Parameters == nil || t.Type != "" && t.Type != "custom" {
			at := fmt.Sprintf("tools.%d", i)
			q.tool = cmp.Or(q.tool, error(provider.UnsupportedTool(at, at+": cannot be translated for the provider that this model goes to, which is not of the kind anthropic. Use a tool of your own, with an input_schema, or ask a model of a provider of the kind anthropic.")))
			continue
		}
		tools = append(tools, map[string]any{"type": "function", "function": provider.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict}})
	}
	return tools
}

func (q *question) toolChoice() any {
	kind, given := jsonscan.Get(q.ToolChoice, "type")
	switch provider.Unquote(kind) {
	case "any":
		return "required"
	case "auto", "none":
		return json.RawMessage(kind)
	case "tool":
		name, _ := jsonscan.Get(q.ToolChoice, "name")
		return map[string]any{"type": "function", "function": map[string]string{"name": provider.Unquote(name)}}
	}
	if given {
		q.refuse("tool_choice", "Use auto, any, none or tool")
	}
	return nil
}

package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A translation turns a request of another API into a chat completion. Its first part
// without a counterpart makes it fail.
type translation struct {
	kind    string // of the providers that take the request as it is; "" if there are none
	members map[string]json.RawMessage
	refused error // the first part that cannot be translated
	tool    error // the first tool that cannot be translated
}

// refuse notes that the part at a place cannot be translated. Instead says what to do.
func (t *translation) refuse(at, instead string) {
	if t.refused == nil {
		t.refused = provider.Unanswerable(at, "unsupported_parameter", t.sentence(at, instead))
	}
}

// refuseTool is refuse for a tool, which the configuration may have left out.
func (t *translation) refuseTool(at, instead string) {
	if t.tool == nil {
		t.tool = provider.UnsupportedTool(at, t.sentence(at, instead))
	}
}

func (t *translation) sentence(at, instead string) string {
	if t.kind == "" {
		return "Unsupported parameter: '" + at + "' cannot be translated into a chat completion, which providers get. " + instead + "."
	}
	return at + ": cannot be translated for this model's provider, which is not of the kind " + t.kind + ". " +
		instead + ", or ask a model of a provider of the kind " + t.kind + "."
}

// body returns the chat completion of members. The place is the part that nests deepest.
func (t *translation) body(m map[string]any, at string) ([]byte, error) {
	body, err := jsonscan.Marshal(m)
	if err != nil {
		t.refuse(at, "Nest it less deeply")
	}
	return body, cmp.Or(t.refused, t.tool)
}

// set sets a member unless its value is nil.
func set(m map[string]any, name string, value any) {
	if value != nil {
		m[name] = value
	}
}

// A question is a request for one of Anthropic's messages.
type question struct{ translation }

// translated are members of Anthropic's requests, by the names that they have in a chat completion.
var translated = map[string]string{"model": "model", "max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p", "stop": "stop_sequences"}

// known are the members of Anthropic's requests. Any other member is for the backend.
var known = []string{
	"model", "messages", "system", "max_tokens", "temperature", "top_p", "stop_sequences", "stream", "tools", "tool_choice", "output_config", "output_format",
	// These are for Anthropic alone, or advisory, such as how hard to think.
	"thinking", "metadata", "service_tier", "speed", "cache_control", "context_management", "diagnostics", "fallbacks", "fallback_credit_token",
}

// others change the answer and have no counterpart.
var others = []string{"container", "mcp_servers", "inference_geo"}

// read reads a request. The fault is a sentence for the client.
func (q *question) read(body []byte) (fault string) {
	q.kind = "anthropic"
	switch err := jsonscan.Valid(body); {
	case err != nil:
		return "The request body is not valid JSON" + where(err) + "."
	case jsonscan.KindOf(body) != jsonscan.Object:
		return "The request body must be a JSON object."
	}
	_ = json.Unmarshal(body, &q.members) // it is an object
	switch {
	case q.members["model"] != nil && jsonscan.KindOf(q.members["model"]) != jsonscan.String:
		return "model: Input should be a valid string"
	case q.members["messages"] == nil:
		return "messages: Field required"
	case jsonscan.KindOf(q.members["messages"]) != jsonscan.Array:
		return "messages: Input should be a valid list"
	}
	return ""
}

func (q *question) streams() bool { return string(q.members["stream"]) == "true" }

// chat asks the question as a chat completion, with the members that Anthropic does not have
// as the client wrote them. Advisory members without a counterpart are dropped; the error
// names the first one that changes the answer.
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
	for name, own := range translated {
		if value := q.members[own]; value != nil {
			m[name] = value
		}
	}
	if tools := q.tools(); len(tools) > 0 {
		m["tools"] = tools
		set(m, "tool_choice", q.toolChoice())
		if string(member(q.members["tool_choice"], "disable_parallel_tool_use")) == "true" {
			m["parallel_tool_calls"] = false
		}
	}
	set(m, "response_format", q.format())
	if q.streams() {
		m["stream"] = true
	}
	return q.body(m, "messages")
}

// format is the format that the answer must have, nil for any.
func (q *question) format() any {
	at, format := "output_config.format", member(q.members["output_config"], "format")
	if format == nil {
		at, format = "output_format", q.members["output_format"] // as it was called before
	}
	if jsonscan.KindOf(format) == jsonscan.Invalid || jsonscan.KindOf(format) == jsonscan.Null {
		return nil
	}
	schema, ok := jsonscan.Get(format, "schema")
	if text(format, "type") != "json_schema" || !ok {
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

	at string // its place in the request
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
		q.refuse(at, "Write it as a string or a list of blocks")
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
	if system := q.texts("system", q.members["system"]); system != "" {
		list = append(list, chatMessage{Role: "system", Content: system})
	}
	i := 0
	for m := range provider.EachMessage(q.members["messages"]) {
		at := fmt.Sprintf("messages.%d.content", i)
		list = q.appendMessages(list, m.Role, q.blocks(at, m.Content))
		i++
	}
	return list
}

// appendMessages appends the content of one message. The results of tools, which are the
// user's in Anthropic's API, become messages of their own, of text alone: images and
// documents in them become a message of the user.
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
		case "thinking", "redacted_thinking": // only for the model that wrote it
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
	q.refuse(b.at, "Use text, and images and documents whose data is included")
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
	if raw := q.members["tools"]; raw != nil && json.Unmarshal(raw, &list) != nil {
		q.refuse("tools", "Write it as a list of tools")
	}
	for i, t := range list {
		if t.Parameters == nil || t.Type != "" && t.Type != "custom" {
			q.refuseTool(fmt.Sprintf("tools.%d", i), "Use a tool of your own, with an input_schema")
			continue
		}
		tools = append(tools, map[string]any{"type": "function", "function": provider.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict}})
	}
	return tools
}

func (q *question) toolChoice() any {
	choice := q.members["tool_choice"]
	kind, given := jsonscan.Get(choice, "type")
	switch provider.Unquote(kind) {
	case "any":
		return "required"
	case "auto", "none":
		return json.RawMessage(kind)
	case "tool":
		return map[string]any{"type": "function", "function": map[string]string{"name": text(choice, "name")}}
	}
	if given {
		q.refuse("tool_choice", "Use auto, any, none or tool")
	}
	return nil
}

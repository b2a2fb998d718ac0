package llm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// The JSON of Chat Completions.
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
		Index    *int        `json:"index,omitempty"`
		ID       string      `json:"id,omitempty"`
		Type     string      `json:"type,omitempty"`
		Function *chatTarget `json:"function,omitempty"`
		Custom   *chatTarget `json:"custom,omitempty"`
	}
	chatTarget struct {
		Name      string  `json:"name,omitempty"`
		Arguments *string `json:"arguments,omitempty"`
		Input     *string `json:"input,omitempty"`
	}
)

// newChatCall returns a call, or a piece of one.
func newChatCall(id, name, arguments string, custom bool) chatCall {
	c := chatCall{ID: id}
	if custom {
		c.Type, c.Custom = "custom", &chatTarget{Name: name, Input: &arguments}
	} else {
		c.Type, c.Function = "function", &chatTarget{Name: name, Arguments: &arguments}
	}
	return c
}

// decodeChat reads a request of Chat Completions.
func (r *Request) decodeChat() {
	r.copyOptions([]string{"model", "messages", "stream", "stream_options", "tools", "tool_choice"})
	if messages := r.Members["messages"]; messages != nil {
		for i, m := range Elements(messages) {
			if jsonscan.KindOf(m) != jsonscan.Object {
				r.wrongType("messages", "something else in it", "an array of objects")
				return
			}
			r.decodeMessage(fmt.Sprintf("messages[%d]", i), m)
		}
	}
	r.decodeTools()
	switch choice := r.get("tool_choice"); {
	case choice == nil:
	case member(choice, "function", "name") != nil:
		r.Choice, r.Tool = "required", text(choice, "function", "name")
	default:
		if r.Choice = Unquote(choice); !slices.Contains([]string{"auto", "none", "required"}, r.Choice) {
			r.refuse("tool_choice", "Use auto, none, required, or a function")
		}
	}
}

func (r *Request) decodeTools() {
	var tools []struct {
		Type     string `json:"type"`
		Function Tool   `json:"function"`
	}
	if list := r.get("tools"); list != nil {
		if g := decode("tools", list, &tools); g != nil && r.gap == nil {
			r.gap = g
		}
	}
	for i, t := range tools {
		at := fmt.Sprintf("tools[%d]", i)
		if t.Function.Name == "" || t.Type != "" && t.Type != "function" {
			r.refuse(at, "Give it as a function with a name")
			continue
		}
		if isNull(t.Function.Parameters) {
			t.Function.Parameters = nil
		}
		t.Function.at = at
		r.Tools = append(r.Tools, t.Function)
	}
}

func (r *Request) decodeMessage(at string, m []byte) {
	t := Turn{Role: text(m, "role"), Answers: word(member(m, "tool_call_id")), Name: text(m, "name"), at: at}
	content := member(m, "content")
	switch jsonscan.KindOf(content) {
	case jsonscan.Array:
		for i, part := range Elements(content) {
			if p := r.decodeChatPart(fmt.Sprintf("%s.content[%d]", at, i), part); p != (Part{}) {
				t.Parts = append(t.Parts, p)
			}
		}
	case jsonscan.String:
		if said := Unquote(content); said != "" {
			t.Parts = []Part{{Text: said}}
		}
	case jsonscan.Invalid:
		if refusal := text(m, "refusal"); refusal != "" {
			t.Parts = []Part{{Text: refusal}}
		}
	default:
		t.Parts = []Part{{Text: string(content)}}
	}
	switch t.Role {
	case "system", "developer":
		for _, p := range t.Parts {
			if p.At != "" {
				r.refuse(p.At, "Put it into a user message")
			}
		}
		t.Role = "system"
	case "":
		t.Role = "user"
	case "user", "assistant", "tool":
	default:
		r.refuse(at+".role", "Use system, user, assistant or tool")
		return
	}
	for _, old := range [...][2]string{{"function_call", "Use 'tool_calls'"}, {"audio", "Write what was said"}} {
		if member(m, old[0]) != nil {
			r.refuse(at+"."+old[0], old[1])
		}
	}
	if list, ok := jsonscan.Get(m, "tool_calls"); ok {
		if k := jsonscan.KindOf(list); k != jsonscan.Array && k != jsonscan.Null {
			r.wrongType(at+".tool_calls", map[jsonscan.Kind]string{jsonscan.Object: "object", jsonscan.String: "string", jsonscan.Number: "number"}[k], "an array")
		}
		for i, call := range Elements(list) {
			function := member(call, "function")
			if function == nil || text(call, "type") == "custom" {
				r.refuse(fmt.Sprintf("%s.tool_calls[%d]", at, i), "Leave the call and its answer out")
				continue
			}
			raw := member(function, "arguments")
			arguments := string(raw)
			if jsonscan.KindOf(raw) == jsonscan.String {
				arguments = Unquote(raw)
			}
			t.Calls = append(t.Calls, ToolCall{ID: word(member(call, "id")), Name: word(member(function, "name")), Arguments: Arguments(arguments)})
		}
	}
	r.Turns = append(r.Turns, t)
}

func (r *Request) decodeChatPart(at string, part []byte) Part {
	if jsonscan.KindOf(part) != jsonscan.Object {
		r.wrongType(at, "something else", "an object")
		return Part{}
	}
	switch text(part, "type") {
	case "text", "":
		if said := member(part, "text"); jsonscan.KindOf(said) == jsonscan.String {
			return Part{Text: Unquote(said)}
		}
	case "refusal":
		return Part{Text: text(part, "refusal")}
	case "image_url":
		url := text(part, "image_url", "url")
		if url == "" {
			url = text(part, "image_url")
		}
		if url != "" {
			return Part{ImageURL: url, Detail: text(part, "image_url", "detail"), At: at}
		}
	case "input_audio":
		if format, data := text(part, "input_audio", "format"), text(part, "input_audio", "data"); format != "" && data != "" {
			return Part{File: "data:audio/" + format + ";base64," + data, At: at}
		}
	case "file":
		if file := text(part, "file", "file_data"); strings.HasPrefix(file, "data:") {
			return Part{File: file, Name: text(part, "file", "filename"), At: at}
		}
		r.refuse(at, "Give the file itself in file_data, as a data: URL")
	}
	r.refuse(at, "Use parts of the types text, image_url, input_audio and file, with their members")
	return Part{}
}

// EncodeChat writes the request for Chat Completions.
func (r *Request) EncodeChat(model string) ([]byte, error) {
	m := map[string]any{}
	for name, value := range r.Options {
		m[name] = value
	}
	messages := []chatMessage{}
	for _, t := range r.Turns {
		messages = append(messages, t.chat())
	}
	if m["messages"] = messages; model != "" {
		m["model"] = model
	}
	tools := []any{}
	for _, t := range r.Tools {
		if t.custom != nil {
			tools = append(tools, map[string]any{"type": "custom", "custom": t.custom})
		} else {
			t.Parameters = or(t.Parameters, `{"type":"object"}`)
			tools = append(tools, map[string]any{"type": "function", "function": t})
		}
	}
	if len(tools) > 0 {
		m["tools"] = tools
		switch {
		case r.Tool != "":
			kind := "function"
			if slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Name == r.Tool && t.custom != nil }) {
				kind = "custom"
			}
			m["tool_choice"] = map[string]any{"type": kind, kind: map[string]string{"name": r.Tool}}
		case r.Choice != "":
			m["tool_choice"] = r.Choice
		}
	} else {
		delete(m, "parallel_tool_calls")
	}
	if r.Stream {
		m["stream"] = true
	}
	return r.marshal(m)
}

// marshal writes a request. It fails if the request is nested too deeply.
func (r *Request) marshal(m any) ([]byte, error) {
	body, err := jsonscan.Marshal(m)
	if err != nil {
		return nil, &Gap{At: wordings[r.API].turns, Code: Unsupported, Instead: "Nest it less deeply"}
	}
	return body, nil
}

func (t *Turn) chat() chatMessage {
	m := chatMessage{Role: t.Role, Answers: t.Answers}
	for _, c := range t.Calls {
		arguments := string(c.Arguments)
		if c.Custom {
			arguments = Unquote(c.Arguments)
		} else if jsonscan.KindOf(c.Arguments) == jsonscan.String { // it is no JSON
			arguments = Unquote(c.Arguments)
		}
		m.Calls = append(m.Calls, newChatCall(c.ID, c.Name, arguments, c.Custom))
	}
	var parts []chatPart
	for _, p := range t.Parts {
		switch mediaType, data, _ := p.Data(); {
		case p.ImageURL != "":
			parts = append(parts, chatPart{Type: "image_url", Image: &chatImage{p.ImageURL, p.Detail}})
		case strings.HasPrefix(mediaType, "audio/"):
			parts = append(parts, chatPart{Type: "input_audio", Audio: &chatAudio{data, strings.TrimPrefix(mediaType, "audio/")}})
		case p.File != "":
			parts = append(parts, chatPart{Type: "file", File: &chatFile{p.Name, p.File}})
		case p.Text != "" || len(t.Parts) == 1: // an empty one besides others would have no text
			parts = append(parts, chatPart{Type: "text", Text: p.Text})
		}
	}
	switch {
	case len(parts) == 1 && parts[0].Type == "text":
		m.Content = parts[0].Text
	case len(parts) > 0:
		m.Content = parts
	case t.Role == "tool":
		m.Content = ""
	}
	return m
}

// The JSON of answers of Chat Completions.
type (
	chatAnswer struct {
		ID      string       `json:"id"`
		Object  string       `json:"object"`
		Created int64        `json:"created"`
		Model   string       `json:"model"`
		Choices []chatChoice `json:"choices"`
		Usage   *chatUsage   `json:"usage,omitempty"`
	}
	chatChoice struct {
		Index    int          `json:"index"`
		Message  *chatContent `json:"message,omitempty"`
		Delta    *chatContent `json:"delta,omitempty"`
		Logprobs *struct{}    `json:"logprobs"`
		Finish   *string      `json:"finish_reason"`
	}
	chatContent struct {
		Role    string          `json:"role,omitempty"`
		Text    json.RawMessage `json:"content,omitempty"`
		Refusal json.RawMessage `json:"refusal,omitempty"`
		Calls   []chatCall      `json:"tool_calls,omitempty"`
	}
	chatUsage struct {
		Input    int64        `json:"prompt_tokens"`
		Output   int64        `json:"completion_tokens"`
		Total    int64        `json:"total_tokens"`
		OfInput  *usageDetail `json:"prompt_tokens_details,omitempty"`
		OfOutput *usageDetail `json:"completion_tokens_details,omitempty"`
	}
	usageDetail struct {
		Cached   int64 `json:"cached_tokens,omitempty"`
		Written  int64 `json:"cache_write_tokens,omitempty"`
		Thinking int64 `json:"reasoning_tokens,omitempty"`
	}
)

var null = json.RawMessage("null")

// chatEncoder writes answers of Chat Completions.
type chatEncoder struct {
	*Reply
	started bool
}

func (e *chatEncoder) completion(object string, choice chatChoice, u *chatUsage) []byte {
	a := chatAnswer{e.ID, object, e.Created, e.Model, []chatChoice{}, u}
	for i := range max(e.Choices, 1) {
		choice.Index = i
		a.Choices = append(a.Choices, choice)
	}
	return jsonscan.MustMarshal(a)
}

func newChatUsage(u Usage) *chatUsage {
	c := &chatUsage{Input: u.Input, Output: u.Output, Total: u.Input + u.Output}
	if u.Cached > 0 || u.Written > 0 {
		c.OfInput = &usageDetail{Cached: u.Cached, Written: u.Written}
	}
	if u.Thinking > 0 {
		c.OfOutput = &usageDetail{Thinking: u.Thinking}
	}
	return c
}

func (e *chatEncoder) encodeWhole(a *Answer) ([]byte, error) {
	message := &chatContent{Role: "assistant", Text: a.Text, Refusal: null}
	for _, c := range a.ToolCalls {
		message.Calls = append(message.Calls, newChatCall(c.ID, c.Name, c.string(), c.Custom))
	}
	if len(a.ToolCalls) > 0 && string(a.Text) == `""` {
		message.Text = null
	}
	if a.Refused {
		message.Text, message.Refusal = null, a.Text
	}
	return e.completion("chat.completion", chatChoice{Message: message, Finish: finishOf(a)}, newChatUsage(a.Usage)), nil
}

// string returns the arguments as Chat Completions have them.
func (c *ToolCall) string() string {
	if jsonscan.KindOf(c.Arguments) == jsonscan.String {
		return Unquote(c.Arguments)
	}
	return string(c.Arguments)
}

func finishOf(a *Answer) *string {
	finish := a.Finish
	if finish == "" {
		finish = "stop"
	}
	return &finish
}

const chatChunk = "chat.completion.chunk"

func (e *chatEncoder) encodeDelta(d *Delta) {
	switch {
	case d.Call != nil:
		call := newChatCall(d.Call.ID, d.Call.Name, d.Call.Arguments, d.Call.Custom)
		if call.Index = &d.Call.Index; d.Call.ID == "" {
			call.Type = ""
		}
		e.delta(&chatContent{Calls: []chatCall{call}}, nil)
	case d.Refused:
		e.delta(&chatContent{Refusal: d.Text}, nil)
	case d.Text != nil:
		e.delta(&chatContent{Text: d.Text}, nil)
	}
}

// delta sends a delta of each choice. The first one has the role.
func (e *chatEncoder) delta(c *chatContent, finish *string) {
	if !e.started {
		c.Role, e.started = "assistant", true
	}
	for i := range max(e.Choices, 1) {
		a := chatAnswer{e.ID, chatChunk, e.Created, e.Model, []chatChoice{{Index: i, Delta: c, Finish: finish}}, nil}
		e.Send("", jsonscan.MustMarshal(a))
	}
}

func (e *chatEncoder) encodeEnd(a *Answer) {
	e.delta(&chatContent{}, finishOf(a))
	if e.Usage {
		e.Send("", jsonscan.MustMarshal(chatAnswer{e.ID, chatChunk, e.Created, e.Model, []chatChoice{}, newChatUsage(a.Usage)}))
	}
	e.Send("", []byte("[DONE]"))
}

func (e *chatEncoder) encodeFailure(err *Error) bool {
	if usual := statuses[err.Code]; err.Code == "" || usual != 0 && usual != err.Status { // the stream began with 200
		coded := *err
		coded.Code, err = strconv.Itoa(err.Status), &coded
	}
	e.Send("", EncodeError(Chat, err))
	return false
}

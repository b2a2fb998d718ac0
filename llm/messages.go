package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// messageNames are members of Messages, by the names that they have in Chat Completions.
var messageNames = map[string]string{"max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p", "stop": "stop_sequences"}

// messageMembers are the members of Messages. Any other member is for the backend.
var messageMembers = []string{
	"model", "messages", "system", "max_tokens", "temperature", "top_p", "stop_sequences", "stream", "tools", "tool_choice", "output_config", "output_format",
	// These are for Anthropic alone, or advisory, such as how hard to think.
	"thinking", "metadata", "service_tier", "speed", "cache_control", "context_management", "diagnostics", "fallbacks", "fallback_credit_token",
	"container", "mcp_servers", "inference_geo",
}

// decodeMessages reads a request of Messages.
func (r *Request) decodeMessages() {
	r.copyOptions(messageMembers)
	for _, name := range []string{"container", "mcp_servers", "inference_geo"} { // they change the answer
		if value := string(r.get(name)); value != "" && value != "[]" {
			r.refuse(name, leave)
		}
	}
	for name, own := range messageNames {
		if value := r.Members[own]; value != nil {
			r.Options[name] = value
		}
	}
	system := Turn{Role: "system"}
	for _, b := range r.blocks("system", r.Members["system"]) {
		if b.Type != "text" {
			r.refuse(b.at, "Use blocks of text there")
		}
		system.say(b.Text)
	}
	if len(system.Parts) > 0 {
		r.Turns = append(r.Turns, system)
	}
	for i, m := range Elements(r.Members["messages"]) {
		if jsonscan.KindOf(m) == jsonscan.Object {
			role := cmp.Or(text(m, "role"), "user")
			r.addBlocks(role, r.blocks(fmt.Sprintf("messages.%d.content", i), member(m, "content")))
		}
	}
	r.decodeMessageTools()
	r.decodeMessageFormat()
}

// say adds text to a turn of text alone.
func (t *Turn) say(said string) {
	switch {
	case said == "":
	case len(t.Parts) == 0:
		t.Parts = []Part{{Text: said}}
	default:
		t.Parts[0].Text += said
	}
}

func (r *Request) decodeMessageTools() {
	var list []struct {
		Type, Name, Description string
		Parameters              json.RawMessage `json:"input_schema"`
		Strict                  bool
	}
	if raw := r.Members["tools"]; raw != nil && json.Unmarshal(raw, &list) != nil {
		r.refuse("tools", "Write it as a list of tools")
	}
	for i, t := range list {
		if t.Parameters == nil || t.Type != "" && t.Type != "custom" {
			r.refuseTool(fmt.Sprintf("tools.%d", i), "Use a tool of your own, with an input_schema")
			continue
		}
		r.Tools = append(r.Tools, Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict})
	}
	choice := r.Members["tool_choice"]
	if len(r.Tools) == 0 || member(choice, "type") == nil {
		return
	}
	switch kind := text(choice, "type"); kind {
	case "any":
		r.Choice = "required"
	case "auto", "none":
		r.Choice = kind
	case "tool":
		r.Choice, r.Tool = "required", text(choice, "name")
	default:
		r.refuse("tool_choice", "Use auto, any, none or tool")
	}
	if string(member(choice, "disable_parallel_tool_use")) == "true" {
		r.Options["parallel_tool_calls"] = json.RawMessage("false")
	}
}

func (r *Request) decodeMessageFormat() {
	at, format := "output_config.format", member(r.Members["output_config"], "format")
	if format == nil {
		at, format = "output_format", r.get("output_format") // as it was called before
	}
	if format == nil {
		return
	}
	schema, ok := jsonscan.Get(format, "schema")
	if text(format, "type") != "json_schema" || !ok {
		r.refuse(at, "Use json_schema, with a schema")
		return
	}
	r.Options["response_format"] = schemaFormat(map[string]any{"name": "output", "strict": true, "schema": json.RawMessage(schema)})
}

func schemaFormat(described any) json.RawMessage {
	body, err := jsonscan.Marshal(map[string]any{"type": "json_schema", "json_schema": described})
	if err != nil { // it is nested too deeply, and the request fails
		return null
	}
	return body
}

// A block is a part of a message's content, of any type, in requests and in answers.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Thinking  string          `json:"thinking,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Title     string          `json:"title,omitempty"`
	Source    *blockSource    `json:"source,omitempty"`

	at string // its place in the request
}

type blockSource struct {
	Type      string          `json:"type"`
	URL       string          `json:"url,omitempty"`
	MediaType string          `json:"media_type,omitempty"`
	Data      string          `json:"data,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
}

// blocks reads a content: a text, or a list of blocks.
func (r *Request) blocks(at string, content []byte) (list []block) {
	switch jsonscan.KindOf(content) {
	case jsonscan.String:
		return []block{{Type: "text", Text: Unquote(content), at: at}}
	case jsonscan.Invalid, jsonscan.Null:
		return nil
	case jsonscan.Array:
	default:
		r.refuse(at, "Write it as a string or a list of blocks")
	}
	for i, raw := range Elements(content) {
		b := block{at: fmt.Sprintf("%s.%d", at, i)}
		_ = json.Unmarshal(raw, &b) // a member of the wrong type is missing, and b is then refused
		list = append(list, b)
	}
	return list
}

// addBlocks adds the turns of a message. The results of tools, which are the user's there, become
// turns of their own, of text alone: images and documents in them become the user's.
func (r *Request) addBlocks(role string, content []block) {
	t := Turn{Role: role}
	for _, b := range content {
		switch b.Type {
		case "tool_use":
			t.Calls = append(t.Calls, ToolCall{ID: b.ID, Name: b.Name, Arguments: or(b.Input, "{}")})
		case "tool_result":
			result := Turn{Role: "tool", Answers: b.ToolUseID}
			if b.IsError {
				result.say("Error: ")
			}
			for _, inner := range r.blocks(b.at+".content", b.Content) {
				if p := r.part(inner); p.At == "" {
					result.say(p.Text)
				} else {
					t.Parts = append(t.Parts, p)
				}
			}
			r.Turns = append(r.Turns, result)
		case "thinking", "redacted_thinking": // only for the model that wrote it
		default:
			if p := r.part(b); p != (Part{}) || len(content) == 1 {
				t.Parts = append(t.Parts, p)
			}
		}
	}
	if len(t.Parts) > 0 || t.Calls != nil {
		r.Turns = append(r.Turns, t)
	}
}

func (r *Request) part(b block) Part {
	source := blockSource{}
	if b.Source != nil {
		source = *b.Source
	}
	data := "data:" + source.MediaType + ";base64," + source.Data
	switch b.Type + " " + source.Type {
	case "text ":
		return Part{Text: b.Text}
	case "image base64":
		return Part{ImageURL: data, At: b.at}
	case "image url":
		return Part{ImageURL: source.URL, At: b.at}
	case "document base64":
		return Part{File: data, Name: cmp.Or(b.Title, "document.pdf"), At: b.at}
	case "document text":
		return Part{Text: source.Data}
	case "document content":
		said := ""
		for _, inner := range r.blocks(b.at+".source.content", source.Content) {
			if inner.Type != "text" {
				r.refuse(inner.at, "Use blocks of text there")
			}
			said += inner.Text
		}
		return Part{Text: said}
	}
	r.refuse(b.at, "Use text, and images and documents whose data is included")
	return Part{}
}

// EncodeMessages writes the request for Messages. Requests without a limit get maxTokens.
func (r *Request) EncodeMessages(model string, maxTokens int) ([]byte, error) {
	s, err := r.Settings()
	if err != nil {
		return nil, err
	}
	system, turns := r.split()
	type turn struct {
		Role    string  `json:"role"`
		Content []block `json:"content"`
	}
	list := []turn{}
	for _, t := range turns {
		blocks, err := t.blocks()
		if err != nil {
			return nil, err
		}
		role := t.Role
		if role == "tool" { // the answers of tools are the user's; those of one round are one turn
			role = "user"
		}
		if n := len(list); n > 0 && list[n-1].Role == role {
			list[n-1].Content = append(list[n-1].Content, blocks...)
		} else if len(blocks) > 0 {
			list = append(list, turn{role, blocks})
		}
	}
	m := map[string]any{"model": model, "max_tokens": cmp.Or(s.MaxTokens, maxTokens), "messages": list}
	for name, value := range r.rest() {
		m[name] = value
	}
	set := func(name string, value any, given bool) {
		if given {
			m[name] = value
		}
	}
	tools := []map[string]any{}
	for _, t := range r.Tools {
		if t.custom != nil {
			return nil, noCustom(t)
		}
		tool := map[string]any{"name": t.Name, "description": t.Description, "input_schema": or(t.Parameters, `{"type":"object"}`)}
		if t.Strict {
			tool["strict"] = true
		}
		tools = append(tools, tool)
	}
	choice := map[string]any{"type": cmp.Or(r.Choice, "auto")}
	switch {
	case r.Tool != "":
		choice = map[string]any{"type": "tool", "name": r.Tool}
	case r.Choice == "required":
		choice["type"] = "any"
	}
	if s.oneCall() && r.Choice != "none" {
		choice["disable_parallel_tool_use"] = true
	}
	set("system", system, system != "")
	set("temperature", s.Temperature, s.Temperature != nil)
	set("top_p", s.Top, s.Top != nil)
	set("stop_sequences", s.Stop, len(s.Stop) > 0)
	set("tools", tools, len(tools) > 0)
	set("tool_choice", choice, len(tools) > 0 && (r.Choice != "" || s.oneCall()))
	set("stream", true, r.Stream)
	if s.Schema != nil {
		config := map[string]any{}
		if own := r.Options["output_config"]; jsonscan.KindOf(own) == jsonscan.Object {
			_ = json.Unmarshal(own, &config) // it is JSON
		}
		config["format"] = map[string]any{"type": "json_schema", "schema": s.Schema}
		m["output_config"] = config
	}
	return r.marshal(m)
}

func noCustom(t Tool) error {
	return &Gap{At: t.at, Code: Unsupported, Instead: "Give it as a function with a name"}
}

func (t *Turn) blocks() (list []block, err error) {
	said, plain := "", true // nothing but text
	for _, p := range t.Parts {
		if p == (Part{}) { // Messages refuses empty blocks
			continue
		}
		b, err := p.block()
		if err != nil {
			return nil, err
		}
		list, said, plain = append(list, b), said+p.Text, plain && p.At == ""
	}
	if t.Role == "tool" {
		var content json.RawMessage
		if plain {
			content = Quote(said)
		} else if content, err = jsonscan.Marshal(list); err != nil {
			return nil, err
		}
		return []block{{Type: "tool_result", ToolUseID: t.Answers, Content: content}}, nil
	}
	for _, c := range t.Calls {
		list = append(list, block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.Input()})
	}
	return list, nil
}

func (p Part) block() (block, error) {
	mediaType, data, isData := p.Data()
	base64 := &blockSource{Type: "base64", MediaType: mediaType, Data: data}
	switch {
	case p.ImageURL != "" && isData:
		return block{Type: "image", Source: base64}, nil
	case p.ImageURL != "":
		return block{Type: "image", Source: &blockSource{Type: "url", URL: p.ImageURL}}, nil
	case p.File == "":
		return block{Type: "text", Text: p.Text}, nil
	case mediaType == "application/pdf":
		return block{Type: "document", Source: base64}, nil
	}
	return block{}, &Gap{At: p.At, Code: Unsupported, Instead: "Use text, images or PDF"}
}

// messageEncoder writes answers of Messages.
type messageEncoder struct {
	*Reply
	started bool
	blocks  int    // how many are complete
	open    string // the type of the open block, "" if none is
	call    int    // the call of the open block
}

// The JSON of answers of Messages.
type (
	messageAnswer struct {
		ID      string        `json:"id"`
		Type    string        `json:"type"`
		Role    string        `json:"role"`
		Model   string        `json:"model"`
		Content []messagePart `json:"content"`
		messageEnd
		Usage messageUsage `json:"usage"`
	}
	messageEnd struct {
		Reason   *string   `json:"stop_reason"`
		Sequence *struct{} `json:"stop_sequence"`
	}
	messageUsage struct {
		Input   int64 `json:"input_tokens"` // without what came from a cache or went there
		Cached  int64 `json:"cache_read_input_tokens,omitempty"`
		Written int64 `json:"cache_creation_input_tokens,omitempty"`
		Output  int64 `json:"output_tokens"`
		// OfOutput is omitted without reasoning.
		OfOutput *usageDetail `json:"output_tokens_details,omitempty"`
	}
	// A messagePart is content, a delta of content, or an error.
	messagePart struct {
		Type    string          `json:"type"`
		Text    json.RawMessage `json:"text,omitempty"`
		ID      *string         `json:"id,omitempty"`
		Name    *string         `json:"name,omitempty"`
		Input   json.RawMessage `json:"input,omitempty"`
		Partial *string         `json:"partial_json,omitempty"`
		Message *string         `json:"message,omitempty"`
	}
	messageEvent struct {
		Type    string         `json:"type"`
		Message *messageAnswer `json:"message,omitempty"`
		Index   *int           `json:"index,omitempty"`
		Block   *messagePart   `json:"content_block,omitempty"`
		Delta   any            `json:"delta,omitempty"`
		Usage   *messageUsage  `json:"usage,omitempty"`
		Error   *messagePart   `json:"error,omitempty"`
	}
)

func newMessageUsage(u Usage) messageUsage {
	m := messageUsage{max(u.Input-u.Cached-u.Written, 0), u.Cached, u.Written, u.Output, nil}
	if u.Thinking > 0 {
		m.OfOutput = &usageDetail{Thinking: u.Thinking}
	}
	return m
}

// stopReason translates a finish reason.
func stopReason(finish string) *string {
	reason := "end_turn"
	switch finish {
	case "length":
		reason = "max_tokens"
	case "tool_calls":
		reason = "tool_use"
	case "content_filter":
		reason = "refusal"
	}
	return &reason
}

// message returns a message: a whole one, or the start of a streamed one, without a stop reason.
func (e *messageEncoder) message(content []messagePart, stop *string, u messageUsage) *messageAnswer {
	return &messageAnswer{e.ID, "message", "assistant", e.Model, content, messageEnd{Reason: stop}, u}
}

func (e *messageEncoder) encodeWhole(a *Answer) ([]byte, error) {
	content := []messagePart{}
	if string(a.Text) != `""` {
		content = append(content, messagePart{Type: "text", Text: a.Text})
	}
	for _, c := range a.ToolCalls {
		content = append(content, messagePart{Type: "tool_use", ID: &c.ID, Name: &c.Name, Input: c.Input()})
	}
	return jsonscan.Marshal(e.message(content, stopReason(a.Finish), newMessageUsage(a.Usage)))
}

func (e *messageEncoder) encodeDelta(d *Delta) {
	switch {
	case d.Call != nil:
		c := d.Call
		if e.start(); e.open != "tool_use" || e.call != c.Index {
			if c.ID == "" { // a call that is complete for the client
				return
			}
			e.stop()
			e.call = c.Index
			e.block(messagePart{Type: "tool_use", ID: &c.ID, Name: &c.Name, Input: []byte("{}")})
		}
		if c.Arguments != "" {
			e.ofBlock("content_block_delta", nil, messagePart{Type: "input_json_delta", Partial: &c.Arguments})
		}
	case d.Text != nil:
		if e.start(); string(d.Text) == `""` { // clients may send blocks back, and empty ones are refused
			return
		}
		if e.open != "text" {
			e.stop()
			e.block(messagePart{Type: "text", Text: []byte(`""`)})
		}
		e.Send("content_block_delta", fmt.Appendf(nil, `{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%s}}`, e.blocks, d.Text))
	}
}

func (e *messageEncoder) encodeEnd(a *Answer) {
	e.start()
	e.stop()
	usage := newMessageUsage(a.Usage)
	e.tell(messageEvent{Type: "message_delta", Delta: messageEnd{Reason: stopReason(a.Finish)}, Usage: &usage})
	e.tell(messageEvent{Type: "message_stop"})
}

func (e *messageEncoder) encodeFailure(err *Error) bool {
	e.Send("error", EncodeError(Messages, err))
	return false
}

// start begins the message. The usage is not known yet.
func (e *messageEncoder) start() {
	if !e.started {
		e.started = true
		e.tell(messageEvent{Type: "message_start", Message: e.message([]messagePart{}, nil, messageUsage{})})
	}
}

// block begins a block of content.
func (e *messageEncoder) block(content messagePart) {
	e.ofBlock("content_block_start", &content, nil)
	e.open = content.Type
}

// stop ends the open block, if any.
func (e *messageEncoder) stop() {
	if e.open != "" {
		e.ofBlock("content_block_stop", nil, nil)
		e.open = ""
		e.blocks++
	}
}

// ofBlock sends an event of the open block.
func (e *messageEncoder) ofBlock(kind string, content *messagePart, delta any) {
	e.tell(messageEvent{Type: kind, Index: &e.blocks, Block: content, Delta: delta})
}

func (e *messageEncoder) tell(v messageEvent) { e.Send(v.Type, jsonscan.MustMarshal(v)) }

// isWord reports whether a text is a single word, which cannot contain secrets.
func isWord(s string) bool {
	return s != "" && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

func contains(list []string, s string) bool { return slices.Contains(list, s) }

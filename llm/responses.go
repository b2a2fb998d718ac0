package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// responseMembers are the members of Responses that are translated, advisory, or checked. Any
// other is for the backend.
var responseMembers = []string{
	"model", "input", "instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning", "temperature", "text", "tool_choice", "tools", "top_p",
	"stream", "stream_options", "store", "previous_response_id", "include", "client_metadata", "max_tool_calls",
	"background", "conversation", "prompt", "truncation", "top_logprobs", "context_management",
}

// wishes are members that change the answer and have no counterpart, with the values that ask for
// nothing.
var wishes = []optional{
	{"background", is("false"), "Wait for the answer, or stream it"},
	{"conversation", is(), "Use 'previous_response_id', or send the whole conversation as 'input'"},
	{"prompt", is(), "Write the prompt into 'instructions' and 'input'"},
	{"truncation", is(`"disabled"`), "Shorten the input"},
	{"top_logprobs", is("0"), leave},
	{"context_management", is("[]"), leave},
}

// A spaced tool is a tool of a namespace.
type spaced struct{ space, name string }

// flat is the tool's name where there are no namespaces.
func (s spaced) flat() string {
	if s.space == "" {
		return s.name
	}
	return s.space + "__" + s.name
}

// decodeResponses reads a request of Responses.
func (r *Request) decodeResponses(before []Turn) {
	r.copyOptions(responseMembers)
	r.spaces = map[string]spaced{}
	for _, w := range wishes {
		if value := r.get(w.name); value != nil && !w.idle(value) {
			r.refuse(w.name, w.instead)
		}
	}
	for i, of := range Elements(r.get("include")) {
		if Unquote(of) == "message.output_text.logprobs" {
			r.refuse(fmt.Sprintf("include[%d]", i), leave)
		}
	}
	if instructions := Unquote(r.get("instructions")); instructions != "" {
		r.Turns = append(r.Turns, Turn{Role: "system", Parts: []Part{{Text: instructions}}})
	}
	r.Turns = append(r.Turns, before...)
	r.decodeInput(len(r.Turns))
	for name, value := range map[string]json.RawMessage{
		"max_tokens": r.get("max_output_tokens"), "temperature": r.get("temperature"), "top_p": r.get("top_p"), "parallel_tool_calls": r.get("parallel_tool_calls"),
		"reasoning_effort": member(r.Members["reasoning"], "effort"), "verbosity": member(r.Members["text"], "verbosity"),
	} {
		if value != nil {
			r.Options[name] = value
		}
	}
	r.decodeResponseTools("tools", "", r.get("tools"))
	choice := r.get("tool_choice")
	switch word, kind := Unquote(choice), text(choice, "type"); {
	case choice == nil || len(r.Tools) == 0:
	case word == "auto", word == "none", word == "required":
		r.Choice = word
	case text(choice, "name") != "" && (kind == "function" || kind == "custom"):
		r.Choice, r.Tool = "required", text(choice, "name")
	default:
		r.refuse("tool_choice", "Use auto, none, required, or a tool of the type function or custom")
	}
	switch format := member(r.Members["text"], "format"); text(format, "type") {
	case "json_object":
		r.Options["response_format"] = json.RawMessage(`{"type":"json_object"}`)
	case "json_schema":
		described := map[string]json.RawMessage{}
		for _, name := range [...]string{"name", "description", "schema", "strict"} {
			if value := member(format, name); value != nil {
				described[name] = value
			}
		}
		r.Options["response_format"] = schemaFormat(described)
	case "text":
	default:
		if format != nil {
			r.refuse("text.format", "Use text, json_object or json_schema")
		}
	}
}

// decodeResponseTools reads a list of tools, which may be that of a namespace.
func (r *Request) decodeResponseTools(at, space string, list json.RawMessage) {
	for i, tool := range Elements(list) {
		at := fmt.Sprintf("%s[%d]", at, i)
		of := spaced{space, text(tool, "name")}
		name := of.flat()
		if r.spaces[name] = of; of.name == "" {
			name = ""
		}
		switch kind := text(tool, "type"); {
		case kind == "namespace" && space == "" && name != "":
			r.decodeResponseTools(at+".tools", name, member(tool, "tools"))
		case kind == "function" && name != "":
			strict := string(member(tool, "strict")) == "true"
			r.Tools = append(r.Tools, Tool{Name: name, Description: text(tool, "description"), Parameters: member(tool, "parameters"), Strict: strict, at: at})
		case kind == "custom" && name != "":
			r.Tools = append(r.Tools, Tool{Name: name, custom: customTool(tool, name), at: at})
		default:
			r.refuseTool(at, "Use tools of the types function and custom, with a name")
		}
	}
}

// customTool describes a tool that takes a text, in the words of Chat Completions.
func customTool(tool []byte, name string) json.RawMessage {
	made := map[string]any{"name": name}
	if about := member(tool, "description"); about != nil {
		made["description"] = about
	}
	format := member(tool, "format")
	if text(format, "type") == "grammar" {
		made["format"] = map[string]any{"type": "grammar", "grammar": map[string]json.RawMessage{
			"syntax": or(member(format, "syntax"), "null"), "definition": or(member(format, "definition"), "null"),
		}}
	}
	return jsonscan.MustMarshal(made)
}

// decodeInput reads the input, whose first turn has that index.
func (r *Request) decodeInput(first int) {
	input := r.get("input")
	if jsonscan.KindOf(input) == jsonscan.String {
		r.Turns = append(r.Turns, Turn{Role: "user", Parts: []Part{{Text: Unquote(input)}}})
		return
	}
	var rest Turn // of the answers of tools: what is not text becomes the user's
	flush := func() {
		if len(rest.Parts) > 0 {
			rest.Role = "user"
			r.Turns = append(r.Turns, rest)
		}
		rest = Turn{}
	}
	// assistant returns the last turn of the input if it is the assistant's, or else a new one.
	assistant := func() *Turn {
		if n := len(r.Turns); n == first || r.Turns[n-1].Role != "assistant" {
			r.Turns = append(r.Turns, Turn{Role: "assistant"})
		}
		return &r.Turns[len(r.Turns)-1]
	}
	for i, item := range Elements(input) {
		at := fmt.Sprintf("input[%d]", i)
		kind := text(item, "type")
		if kind == "function_call_output" || kind == "custom_tool_call_output" {
			rest.Parts = append(rest.Parts, r.addResult(at, item)...)
			continue
		}
		flush()
		switch kind {
		case "message", "":
			r.addMessage(at, item)
		case "function_call":
			arguments := text(item, "arguments")
			if raw := member(item, "arguments"); jsonscan.KindOf(raw) == jsonscan.Object {
				arguments = string(raw)
			}
			call := ToolCall{ID: text(item, "call_id"), Name: spaced{text(item, "namespace"), text(item, "name")}.flat(), Arguments: Arguments(cmp.Or(arguments, "{}"))}
			t := assistant()
			t.Calls = append(t.Calls, call)
		case "custom_tool_call":
			t := assistant()
			t.Calls = append(t.Calls, ToolCall{ID: text(item, "call_id"), Name: text(item, "name"), Arguments: or(member(item, "input"), `""`), Custom: true})
		case "reasoning": // only for the model that wrote it
		default:
			r.refuse(at, "Use messages, and the calls of functions and custom tools with their outputs")
		}
	}
	flush()
}

func (r *Request) addMessage(at string, item []byte) {
	t := Turn{Role: text(item, "role")}
	switch t.Role {
	case "developer":
		t.Role = "system"
	case "user", "assistant", "system":
	default:
		r.refuse(at+".role", "Use user, assistant, system or developer")
		return
	}
	switch content := member(item, "content"); jsonscan.KindOf(content) {
	case jsonscan.String:
		t.Parts = []Part{{Text: Unquote(content)}}
	case jsonscan.Array:
		for i, of := range Elements(content) {
			p := r.responsePart(fmt.Sprintf("%s.content[%d]", at, i), of)
			switch {
			case t.Role == "user":
				t.Parts = append(t.Parts, p)
			case p.At != "":
				r.refuse(at+".content", "Put images and files into user messages")
			default:
				t.say(p.Text)
			}
		}
	default:
		r.refuse(at+".content", "Write it as a string or a list of parts")
		return
	}
	if t.Role == "assistant" && len(r.Turns) > 0 { // text that an assistant adds to its calls
		if last := &r.Turns[len(r.Turns)-1]; last.Role == "assistant" && last.Parts == nil && last.Calls != nil {
			last.Parts = t.Parts
			return
		}
	}
	if len(t.Parts) == 0 {
		if t.Role == "user" {
			return
		}
		t.Parts = []Part{{}}
	}
	r.Turns = append(r.Turns, t)
}

// addResult adds the answer of a tool, and returns the parts that are not text.
func (r *Request) addResult(at string, item []byte) (rest []Part) {
	t := Turn{Role: "tool", Answers: text(item, "call_id")}
	switch output := member(item, "output"); jsonscan.KindOf(output) {
	case jsonscan.Array:
		for i, of := range Elements(output) {
			if p := r.responsePart(fmt.Sprintf("%s.output[%d]", at, i), of); p.At == "" {
				t.say(p.Text)
			} else {
				rest = append(rest, p)
			}
		}
	case jsonscan.String:
		t.say(Unquote(output))
	case jsonscan.Object: // its JSON is what the tool said
		t.say(string(output))
	default:
		r.refuse(at+".output", "Write it as a string or a list of parts")
	}
	r.Turns = append(r.Turns, t)
	return rest
}

func (r *Request) responsePart(at string, of []byte) Part {
	switch text(of, "type") {
	case "input_text", "output_text", "text", "summary_text":
		return Part{Text: text(of, "text")}
	case "refusal":
		return Part{Text: text(of, "refusal")}
	case "input_image":
		if url := text(of, "image_url"); url != "" {
			return Part{ImageURL: url, Detail: text(of, "detail"), At: at}
		}
	case "input_file":
		if data := text(of, "file_data"); data != "" {
			return Part{File: data, Name: cmp.Or(text(of, "filename"), "file"), At: at}
		}
	case "input_audio":
		audio := member(of, "input_audio")
		if data, format := text(audio, "data"), text(audio, "format"); data != "" && format != "" {
			return Part{File: "data:audio/" + format + ";base64," + data, At: at}
		}
	}
	r.refuse(at, "Use text, and images, sounds and files whose data is included")
	return Part{}
}

// The JSON of answers of Responses.
type (
	// A responseObject is a response. It echoes the request's parameters.
	responseObject struct {
		ID                 string            `json:"id"`
		Object             string            `json:"object"`
		CreatedAt          int64             `json:"created_at"`
		Status             string            `json:"status"`
		Background         bool              `json:"background"`
		Error              *responseError    `json:"error"`
		IncompleteDetails  *incompleteReason `json:"incomplete_details"`
		Instructions       json.RawMessage   `json:"instructions"`
		MaxOutputTokens    json.RawMessage   `json:"max_output_tokens"`
		Metadata           json.RawMessage   `json:"metadata"`
		Model              string            `json:"model"`
		Output             []outputItem      `json:"output"`
		ParallelToolCalls  json.RawMessage   `json:"parallel_tool_calls"`
		PreviousResponseID json.RawMessage   `json:"previous_response_id"`
		Reasoning          json.RawMessage   `json:"reasoning"`
		Store              bool              `json:"store"`
		Temperature        json.RawMessage   `json:"temperature"`
		Text               json.RawMessage   `json:"text"`
		ToolChoice         json.RawMessage   `json:"tool_choice"`
		Tools              json.RawMessage   `json:"tools"`
		TopP               json.RawMessage   `json:"top_p"`
		Truncation         string            `json:"truncation"`
		Usage              *responseUsage    `json:"usage"`
	}
	responseError struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	incompleteReason struct {
		Reason string `json:"reason"`
	}
	responseUsage struct {
		Input   int64 `json:"input_tokens"`
		OfInput struct {
			Cached  int64 `json:"cached_tokens"`
			Written int64 `json:"cache_write_tokens,omitempty"`
		} `json:"input_tokens_details"`
		Output   int64 `json:"output_tokens"`
		OfOutput struct {
			Thinking int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
		Total int64 `json:"total_tokens"`
	}
	// An outputItem is a message, the call of a tool, or reasoning.
	outputItem struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		Status    string          `json:"status,omitempty"`
		Role      string          `json:"role,omitempty"`
		Content   []outputPart    `json:"content,omitzero"`
		Summary   []outputPart    `json:"summary,omitzero"`
		CallID    string          `json:"call_id,omitempty"`
		Namespace string          `json:"namespace,omitempty"`
		Name      string          `json:"name,omitempty"`
		Arguments *string         `json:"arguments,omitempty"`
		Input     json.RawMessage `json:"input,omitempty"`
	}
	outputPart struct {
		Type        string          `json:"type"`
		Text        json.RawMessage `json:"text,omitempty"`
		Refusal     json.RawMessage `json:"refusal,omitempty"`
		Annotations []struct{}      `json:"annotations,omitzero"`
		Logprobs    []struct{}      `json:"logprobs,omitzero"`
	}
	// A responseEvent is one of a streamed response. Each kind has some of its members.
	responseEvent struct {
		Type      string          `json:"type"`
		Seq       int             `json:"sequence_number"`
		Response  *responseObject `json:"response,omitempty"`
		ItemID    string          `json:"item_id,omitempty"`
		Output    *int            `json:"output_index,omitempty"`
		Content   *int            `json:"content_index,omitempty"`
		Summary   *int            `json:"summary_index,omitempty"`
		Item      *outputItem     `json:"item,omitempty"`
		Part      *outputPart     `json:"part,omitempty"`
		Delta     json.RawMessage `json:"delta,omitempty"`
		Text      json.RawMessage `json:"text,omitempty"`
		Refusal   json.RawMessage `json:"refusal,omitempty"`
		Logprobs  []struct{}      `json:"logprobs,omitzero"`
		Arguments *string         `json:"arguments,omitempty"`
		Input     json.RawMessage `json:"input,omitempty"`
	}
)

// responseEncoder writes answers of Responses.
type responseEncoder struct {
	*Reply
	started bool
	made    []outputItem // complete
	open    *outputItem  // still streaming; nil if none is
	kind    string       // of its text: message, refusal or reasoning
	call    int          // its number, if it is a call
	held    bool         // its pieces are held back, since the model may not know that it takes a text
	text    []byte       // the text of the open item, a string token
	seq     int          // the number of the next event
}

// responseStatus says how a response ended.
func responseStatus(finish string) (status, why string) {
	switch finish {
	case "length":
		return "incomplete", "max_output_tokens"
	case "content_filter":
		return "incomplete", "content_filter"
	}
	return "completed", ""
}

// object returns the response as it is now. With a, it has ended.
func (e *responseEncoder) object(status, incomplete string, failed *responseError, a *Answer) *responseObject {
	q := e.Request
	get := func(name, usual string) json.RawMessage { return or(q.get(name), usual) }
	o := &responseObject{
		ID: e.ID, Object: "response", CreatedAt: e.Created, Status: status, Error: failed, Model: e.Model, Output: e.made,
		Instructions: get("instructions", "null"), MaxOutputTokens: get("max_output_tokens", "null"), Metadata: get("metadata", "{}"),
		ParallelToolCalls: get("parallel_tool_calls", "true"), PreviousResponseID: get("previous_response_id", "null"), Reasoning: get("reasoning", `{"effort":null,"summary":null}`),
		Store: string(q.Members["store"]) != "false", Temperature: get("temperature", "1"), Text: get("text", `{"format":{"type":"text"}}`),
		ToolChoice: get("tool_choice", `"auto"`), Tools: get("tools", "[]"), TopP: get("top_p", "1"), Truncation: "disabled",
	}
	if o.Output == nil {
		o.Output = []outputItem{}
	}
	if incomplete != "" {
		o.IncompleteDetails = &incompleteReason{incomplete}
	}
	if a != nil {
		u := &responseUsage{Input: a.Usage.Input, Output: a.Usage.Output, Total: a.Usage.Input + a.Usage.Output}
		u.OfInput.Cached, u.OfInput.Written, u.OfOutput.Thinking = a.Usage.Cached, a.Usage.Written, a.Usage.Thinking
		o.Usage = u
	}
	return o
}

func (e *responseEncoder) encodeWhole(a *Answer) ([]byte, error) {
	if a.Thoughts != nil {
		e.made = append(e.made, e.item("reasoning", a.Thoughts))
	}
	if string(a.Text) != `""` || len(a.ToolCalls) == 0 {
		m := e.item(map[bool]string{true: "refusal", false: "message"}[a.Refused], a.Text)
		m.Status = "completed"
		e.made = append(e.made, m)
	}
	for _, c := range a.ToolCalls {
		e.made = append(e.made, e.called(c))
	}
	status, why := e.status(a)
	return jsonscan.Marshal(e.object(status, why, nil, a))
}

// status is that of an answer. A refusal is a complete one.
func (e *responseEncoder) status(a *Answer) (status, why string) {
	if a.Refused && a.Finish == "content_filter" {
		return "completed", ""
	}
	return responseStatus(a.Finish)
}

// itemID is the id of the next item.
func (e *responseEncoder) itemID(prefix string) string {
	return fmt.Sprintf("%s_%s_%d", prefix, strings.TrimPrefix(e.ID, "resp_"), len(e.made))
}

// item returns a message or reasoning; text may be nil.
func (e *responseEncoder) item(kind string, text []byte) outputItem {
	if kind == "reasoning" {
		item := outputItem{ID: e.itemID("rs"), Type: kind, Summary: []outputPart{}}
		if text != nil {
			item.Summary = []outputPart{newPart(kind, text)}
		}
		return item
	}
	item := outputItem{ID: e.itemID("msg"), Type: "message", Status: "in_progress", Role: "assistant", Content: []outputPart{}}
	if text != nil {
		item.Content = []outputPart{newPart(kind, text)}
	}
	return item
}

func newPart(kind string, text []byte) outputPart {
	switch kind {
	case "reasoning":
		return outputPart{Type: "summary_text", Text: text}
	case "refusal":
		return outputPart{Type: kind, Refusal: text}
	}
	return outputPart{Type: "output_text", Text: text, Annotations: []struct{}{}, Logprobs: []struct{}{}}
}

// isCustom reports whether a tool takes a text.
func (e *responseEncoder) isCustom(name string) bool {
	for _, t := range e.Request.Tools {
		if t.Name == name {
			return t.custom != nil
		}
	}
	return false
}

func (e *responseEncoder) called(c ToolCall) outputItem {
	item := outputItem{ID: e.itemID("fc"), Type: "function_call", Status: "completed", CallID: c.ID, Name: c.Name}
	if of, known := e.Request.spaces[c.Name]; known {
		item.Namespace, item.Name = of.space, of.name
	}
	if c.Custom || e.isCustom(c.Name) {
		item.ID, item.Type, item.Input = e.itemID("ctc"), "custom_tool_call", c.text()
		return item
	}
	arguments := c.string()
	item.Arguments = &arguments
	return item
}

// tell sends an event.
func (e *responseEncoder) tell(v responseEvent) {
	v.Seq = e.seq
	e.seq++
	data, err := jsonscan.Marshal(v)
	if err != nil { // the echoed members are nested too deeply
		v.Response = &responseObject{ID: e.ID, Object: "response", Status: v.Response.Status, Output: []outputItem{}}
		data = jsonscan.MustMarshal(v)
	}
	e.Send(v.Type, data)
}

func (e *responseEncoder) start() {
	if e.started {
		return
	}
	e.started = true
	for _, kind := range [...]string{"response.created", "response.in_progress"} {
		e.tell(responseEvent{Type: kind, Response: e.object("in_progress", "", nil, nil)})
	}
}

func (e *responseEncoder) encodeDelta(d *Delta) {
	e.start()
	if d.Thought != nil {
		e.addText("reasoning", d.Thought)
	}
	if d.Text != nil && string(d.Text) != `""` {
		e.addText(map[bool]string{true: "refusal", false: "message"}[d.Refused], d.Text)
	}
	if d.Call != nil {
		e.addCall(d.Call)
	}
}

// addText adds text to the open item, or to a new one if that has another type.
func (e *responseEncoder) addText(kind string, text []byte) {
	if e.open == nil || e.kind != kind {
		e.closeItem()
		begun := e.item(kind, nil)
		e.open, e.kind, e.text = &begun, kind, []byte(`""`)
		e.ofItem(responseEvent{Type: "response.output_item.added", Item: e.open})
		empty := newPart(kind, []byte(`""`))
		e.ofPart(responseEvent{Type: e.partKind() + ".added", Part: &empty})
	}
	e.text = append(append(e.text[:len(e.text)-1], text[1:len(text)-1]...), '"')
	e.ofText(responseEvent{Type: e.textKind() + ".delta", Delta: text})
}

// addCall adds a piece of a tool call.
func (e *responseEncoder) addCall(c *CallDelta) {
	if e.open == nil || !strings.HasSuffix(e.open.Type, "_call") || e.call != c.Index {
		e.closeItem()
		begun := e.called(ToolCall{ID: c.ID, Name: c.Name, Custom: c.Custom, Arguments: []byte(`""`)})
		e.open, e.kind, e.call, e.text, begun.Status = &begun, "", c.Index, nil, "in_progress"
		e.held = begun.Type == "custom_tool_call" && !c.Custom
		e.ofItem(responseEvent{Type: "response.output_item.added", Item: e.open})
	}
	if e.text = append(e.text, c.Arguments...); c.Arguments != "" && !e.held {
		e.ofItem(responseEvent{Type: e.callKind() + ".delta", ItemID: e.open.ID, Delta: Quote(c.Arguments)})
	}
}

func (e *responseEncoder) callKind() string {
	if e.open.Type == "function_call" {
		return "response.function_call_arguments"
	}
	return "response.custom_tool_call_input"
}

// closeItem ends the open item, if any.
func (e *responseEncoder) closeItem() {
	switch {
	case e.open == nil:
		return
	case strings.HasSuffix(e.open.Type, "_call"):
		done := responseEvent{Type: e.callKind() + ".done", ItemID: e.open.ID}
		if said := string(e.text); e.open.Type == "function_call" {
			e.open.Arguments = &said
			done.Arguments = &said
		} else {
			e.open.Input = Quote(said)
			if e.held {
				e.open.Input = (&ToolCall{Arguments: Arguments(said)}).text()
				e.ofItem(responseEvent{Type: e.callKind() + ".delta", ItemID: e.open.ID, Delta: e.open.Input})
			}
			done.Input = e.open.Input
		}
		e.open.Status = "completed"
		e.ofItem(done)
	default:
		done := responseEvent{Type: e.textKind() + ".done", Text: e.text}
		if e.kind == "refusal" {
			done.Text, done.Refusal = nil, e.text
		}
		e.ofText(done)
		part := newPart(e.kind, e.text)
		e.ofPart(responseEvent{Type: e.partKind() + ".done", Part: &part})
		if e.open.Type == "reasoning" {
			e.open.Summary = []outputPart{part}
		} else {
			e.open.Status, e.open.Content = "completed", []outputPart{part}
		}
	}
	e.ofItem(responseEvent{Type: "response.output_item.done", Item: e.open})
	e.made = append(e.made, *e.open)
	e.open = nil
}

func (e *responseEncoder) partKind() string {
	if e.open.Type == "reasoning" {
		return "response.reasoning_summary_part"
	}
	return "response.content_part"
}

func (e *responseEncoder) textKind() string {
	switch e.kind {
	case "reasoning":
		return "response.reasoning_summary_text"
	case "refusal":
		return "response.refusal"
	}
	return "response.output_text"
}

// ofItem sends an event about the open item, ofPart one about its only part, and ofText one
// about the text of that part.
func (e *responseEncoder) ofItem(v responseEvent) {
	at := len(e.made)
	v.Output = &at
	e.tell(v)
}

func (e *responseEncoder) ofPart(v responseEvent) {
	first := 0
	v.ItemID = e.open.ID
	if e.open.Type == "reasoning" {
		v.Summary = &first
	} else {
		v.Content = &first
	}
	e.ofItem(v)
}

func (e *responseEncoder) ofText(v responseEvent) {
	if e.kind == "message" {
		v.Logprobs = []struct{}{}
	}
	e.ofPart(v)
}

// encodeEnd ends the stream with the whole response.
func (e *responseEncoder) encodeEnd(a *Answer) {
	e.start()
	e.closeItem()
	if len(e.made) == 0 { // an answer without text
		e.addText("message", []byte(`""`))
		e.closeItem()
	}
	status, why := e.status(a)
	e.tell(responseEvent{Type: "response." + status, Response: e.object(status, why, nil, a)})
}

// encodeFailure ends the stream with the failure, so that it is complete.
func (e *responseEncoder) encodeFailure(err *Error) bool {
	e.start()
	code := err.Code
	switch {
	case code != "":
	case err.Status == 429:
		code = "rate_limit_exceeded"
	case err.Status/100 == 4:
		code = "invalid_request_error"
	default:
		code = "server_error"
	}
	e.tell(responseEvent{Type: "response.failed", Response: e.object("failed", "", &responseError{code, err.Message}, nil)})
	return true
}

// Remember returns the turns of a conversation with the answer, for a request that continues it.
func (r *Request) Remember(a *Answer) []Turn {
	turns := r.Turns
	if Unquote(r.get("instructions")) != "" {
		turns = turns[1:] // each request has its own
	}
	answer := Turn{Role: "assistant", Calls: a.ToolCalls}
	if string(a.Text) != `""` || len(a.ToolCalls) == 0 {
		answer.Parts = []Part{{Text: a.Plain()}}
	}
	return append(turns[:len(turns):len(turns)], answer)
}

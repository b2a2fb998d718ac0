package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// contentAliases are other spellings that the API accepts.
var contentAliases = map[string]string{
	"system_instruction": "systemInstruction", "generation_config": "generationConfig", "tool_config": "toolConfig",
	"safety_settings": "safetySettings", "cached_content": "cachedContent",
}

// contentMembers are members that are translated, for Gemini alone, or advisory.
var contentMembers = []string{"contents", "systemInstruction", "generationConfig", "tools", "toolConfig", "safetySettings", "model", "labels", "store", "serviceTier"}

// contentNames are the settings by their names in Chat Completions.
var contentNames = map[string]string{
	"maxOutputTokens": "max_tokens", "temperature": "temperature", "topP": "top_p", "topK": "top_k", "stopSequences": "stop", "seed": "seed",
	"frequencyPenalty": "frequency_penalty", "presencePenalty": "presence_penalty", "candidateCount": "n",
}

// contentSettings are settings that are advisory, or translated elsewhere.
var contentSettings = []string{"thinkingConfig", "mediaResolution", "enableEnhancedCivicAnswers", "responseMimeType", "responseSchema", "responseJsonSchema"}

// idleValues are the values that ask for nothing.
var idleValues = []string{"null", "false", "0", "[]", "{}", `""`}

// decodeContents reads a request of generateContent.
func (r *Request) decodeContents() {
	for other, name := range contentAliases {
		if value := r.Members[other]; value != nil && r.Members[name] == nil {
			r.Members[name] = value
		}
		delete(r.Members, other)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Members)) {
		if !contains(contentMembers, name) && r.get(name) != nil {
			r.refuse(name, leave)
		}
	}
	var config map[string]json.RawMessage
	_ = json.Unmarshal(or(r.Members["generationConfig"], "{}"), &config) // it is an object
	for _, name := range slices.Sorted(maps.Keys(config)) {
		value := config[name]
		switch {
		case contentNames[name] != "" && !isNull(value):
			r.Options[contentNames[name]] = value
		case name == "responseModalities" && strings.EqualFold(string(jsonscan.AppendCompact(nil, value)), `["text"]`):
		case !contains(idleValues, string(value)) && contentNames[name] == "" && !contains(contentSettings, name):
			r.refuse("generationConfig."+name, leave)
		}
	}
	r.decodeContentFormat(config)
	r.decodeContentTools()
	system := Turn{Role: "system"}
	instruction := r.Members["systemInstruction"]
	system.say(Unquote(instruction)) // SDKs may send text
	for i, part := range partsOf(instruction) {
		if member(part, "text") == nil {
			r.refuse(fmt.Sprintf("systemInstruction.parts[%d]", i), "Use text there")
		}
		system.say(text(part, "text"))
	}
	if len(system.Parts) > 0 {
		r.Turns = append(r.Turns, system)
	}
	var ids callIDs
	for i, content := range Elements(r.Members["contents"]) {
		at := fmt.Sprintf("contents[%d]", i)
		switch text(content, "role") {
		case "user", "", "function":
			r.addContent(at, "user", content, &ids)
		case "model":
			r.addContent(at, "assistant", content, &ids)
		default:
			r.refuse(at+".role", "Use user or model")
		}
	}
}

// partsOf returns the parts of a content, which may be a single one.
func partsOf(content []byte) (list [][]byte) {
	parts := member(content, "parts")
	if jsonscan.KindOf(parts) == jsonscan.Object {
		return [][]byte{parts}
	}
	for _, part := range Elements(parts) {
		list = append(list, part)
	}
	return list
}

func (r *Request) decodeContentFormat(config map[string]json.RawMessage) {
	schema := config["responseJsonSchema"]
	if isNull(schema) {
		schema = nil
	}
	if old := config["responseSchema"]; schema == nil && old != nil && !isNull(old) {
		schema = plainSchema(old)
	}
	switch mime := Unquote(config["responseMimeType"]); {
	case schema != nil:
		r.Options["response_format"] = schemaFormat(map[string]any{"name": "output", "schema": schema})
	case mime == "application/json":
		r.Options["response_format"] = json.RawMessage(`{"type":"json_object"}`)
	case mime != "" && mime != "text/plain":
		r.refuse("generationConfig.responseMimeType", "Use application/json or text/plain")
	}
}

// plainSchema returns a schema of Gemini's as JSON Schema: Gemini writes types in capitals,
// and marks those that allow null as nullable.
func plainSchema(schema json.RawMessage) json.RawMessage {
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return schema
	}
	body, err := jsonscan.Marshal(plain(v))
	if err != nil {
		return schema
	}
	return body
}

func plain(v any) any {
	s, ok := v.(map[string]any)
	if !ok {
		return v
	}
	kind, typed := s["type"].(string)
	if typed {
		s["type"] = strings.ToLower(kind)
	}
	if s["nullable"] == true && typed {
		s["type"] = []any{s["type"], "null"}
	}
	delete(s, "nullable")
	delete(s, "propertyOrdering")
	if of, ok := s["properties"].(map[string]any); ok {
		for name := range of {
			of[name] = plain(of[name])
		}
	}
	if any, ok := s["anyOf"].([]any); ok {
		for i := range any {
			any[i] = plain(any[i])
		}
	}
	if items := s["items"]; items != nil {
		s["items"] = plain(items)
	}
	return s
}

func (r *Request) decodeContentTools() {
	for i, set := range Elements(r.Members["tools"]) {
		at := fmt.Sprintf("tools[%d]", i)
		var members map[string]json.RawMessage
		_ = json.Unmarshal(set, &members) // of an object
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if name != "functionDeclarations" && name != "function_declarations" {
				r.refuseTool(at+"."+name, "Use functionDeclarations")
			}
		}
		for _, f := range Elements(or(members["functionDeclarations"], string(members["function_declarations"]))) {
			schema := member(f, "parametersJsonSchema")
			if old := member(f, "parameters"); schema == nil && old != nil {
				schema = plainSchema(old)
			}
			r.Tools = append(r.Tools, Tool{Name: text(f, "name"), Description: text(f, "description"), Parameters: schema, at: at})
		}
	}
	config, given := jsonscan.Get(r.Members["toolConfig"], "functionCallingConfig")
	if !given || len(r.Tools) == 0 {
		return
	}
	var names []string
	for _, name := range Elements(member(config, "allowedFunctionNames")) {
		names = append(names, Unquote(name))
	}
	switch mode := text(config, "mode"); {
	case mode == "ANY" && len(names) == 1:
		r.Choice, r.Tool = "required", names[0]
	case len(names) > 0:
		r.refuse("toolConfig.functionCallingConfig.allowedFunctionNames", "Name one, with the mode ANY")
	case mode == "ANY":
		r.Choice = "required"
	case mode == "NONE":
		r.Choice = "none"
	case mode == "AUTO", mode == "VALIDATED", mode == "", mode == "MODE_UNSPECIFIED":
		r.Choice = "auto"
	default:
		r.refuse("toolConfig.functionCallingConfig.mode", "Use AUTO, ANY or NONE")
	}
}

// callIDs gives ids to calls without one.
type callIDs struct {
	pending []string // the calls without an answer so far, each as its tool's name and its id
	made    int
}

func (k *callIDs) called(id, name string) string {
	if id == "" {
		k.made++
		id = fmt.Sprintf("call_%d", k.made)
		k.pending = append(k.pending, name+" "+id)
	}
	return id
}

// answered is the id of the call that is answered: without an id, the first call of the
// tool that has no answer yet.
func (k *callIDs) answered(id, name string) string {
	if id != "" {
		return id
	}
	at := slices.IndexFunc(k.pending, func(p string) bool { return strings.HasPrefix(p, name+" ") })
	if at < 0 {
		return name
	}
	id = strings.TrimPrefix(k.pending[at], name+" ")
	k.pending = slices.Delete(k.pending, at, at+1)
	return id
}

// addContent adds a content. The answers of tools become turns of their own.
func (r *Request) addContent(at, role string, content []byte, ids *callIDs) {
	t := Turn{Role: role}
	for i, of := range partsOf(content) {
		at := fmt.Sprintf("%s.parts[%d]", at, i)
		switch call, result := member(of, "functionCall"), member(of, "functionResponse"); {
		case string(member(of, "thought")) == "true": // only for the model that wrote it
		case call != nil:
			name := text(call, "name")
			t.Calls = append(t.Calls, ToolCall{ID: ids.called(text(call, "id"), name), Name: name, Arguments: or(member(call, "args"), "{}")})
		case result != nil:
			name := text(result, "name")
			r.Turns = append(r.Turns, Turn{Role: "tool", Parts: []Part{{Text: resultText(result)}}, Answers: ids.answered(text(result, "id"), name), Name: name})
		default:
			if p := r.contentPart(at, of); p.At == "" && role == "assistant" {
				t.say(p.Text)
			} else {
				t.Parts = append(t.Parts, p)
			}
		}
	}
	if len(t.Parts) > 0 || t.Calls != nil {
		r.Turns = append(r.Turns, t)
	}
}

// resultText is the answer of a tool: the text of its result or output, or else all of it
// as JSON.
func resultText(result []byte) string {
	answer := member(result, "response")
	for _, name := range [...]string{"result", "output"} {
		if said := member(answer, name); jsonscan.KindOf(said) == jsonscan.String {
			return Unquote(said)
		}
	}
	return cmp.Or(string(answer), "{}")
}

func (r *Request) contentPart(at string, of []byte) Part {
	if said := member(of, "text"); said != nil {
		return Part{Text: Unquote(said)}
	}
	data, file := member(of, "inlineData"), member(of, "fileData")
	mime := cmp.Or(text(data, "mimeType"), text(file, "mimeType"))
	url := "data:" + mime + ";base64," + text(data, "data")
	switch {
	case data == nil && strings.HasPrefix(mime, "image/") && strings.HasPrefix(text(file, "fileUri"), "https://"):
		return Part{ImageURL: text(file, "fileUri"), At: at}
	case data == nil:
	case strings.HasPrefix(mime, "image/"):
		return Part{ImageURL: url, At: at}
	default:
		return Part{File: url, Name: "file", At: at}
	}
	r.refuse(at, "Use text, and images, sounds and files whose data is included")
	return Part{}
}

// The JSON of requests and answers of generateContent.
type (
	content struct {
		Role  string        `json:"role,omitempty"`
		Parts []contentPart `json:"parts"`
	}
	contentPart struct {
		Text     json.RawMessage  `json:"text,omitempty"`
		Thought  bool             `json:"thought,omitempty"`
		Call     *contentCall     `json:"functionCall,omitempty"`
		Response *contentResponse `json:"functionResponse,omitempty"`
		Inline   *contentData     `json:"inlineData,omitempty"`
		File     *contentFile     `json:"fileData,omitempty"`
		// Signature represents the thoughts that led to a call.
		Signature string `json:"thoughtSignature,omitempty"`
	}
	contentCall struct {
		ID   string          `json:"id,omitempty"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args,omitempty"`
	}
	contentResponse struct {
		ID       string         `json:"id,omitempty"`
		Name     string         `json:"name"`
		Response map[string]any `json:"response"`
	}
	contentData struct {
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
	}
	contentFile struct {
		URI string `json:"fileUri"`
	}
	contentAnswer struct {
		Candidates []candidate   `json:"candidates"`
		Usage      *contentUsage `json:"usageMetadata,omitempty"`
		Model      string        `json:"modelVersion"`
		ID         string        `json:"responseId"`
	}
	candidate struct {
		Content content `json:"content"`
		Finish  string  `json:"finishReason,omitempty"`
		Index   int     `json:"index"`
	}
	contentUsage struct {
		Prompt   int64 `json:"promptTokenCount"`
		Cached   int64 `json:"cachedContentTokenCount,omitempty"`
		Answer   int64 `json:"candidatesTokenCount"`
		Thoughts int64 `json:"thoughtsTokenCount,omitempty"`
		Total    int64 `json:"totalTokenCount"`
	}
)

// EncodeContents writes the request for generateContent. Signature returns the signature of the
// earlier call of an id, "" if there is none; a first call without one gets unsigned.
func (r *Request) EncodeContents(signature func(id string) string, unsigned string) ([]byte, error) {
	s, err := r.Settings()
	if err != nil {
		return nil, err
	}
	system, turns := r.split()
	type function struct { // the member parameters, with Gemini's own schema, would support less
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
	}
	type toolset struct {
		Functions []function `json:"functionDeclarations"`
	}
	type calling struct {
		Mode    string   `json:"mode"`
		Allowed []string `json:"allowedFunctionNames,omitempty"`
	}
	type choice struct {
		Calling calling `json:"functionCallingConfig"`
	}
	type request struct {
		Contents []content      `json:"contents"`
		System   *content       `json:"systemInstruction,omitempty"`
		Config   map[string]any `json:"generationConfig,omitempty"`
		Tools    []toolset      `json:"tools,omitempty"`
		Choice   *choice        `json:"toolConfig,omitempty"`
	}
	m := request{Contents: []content{}, Config: r.contentConfig(s)}
	if system != "" {
		m.System = &content{Parts: []contentPart{{Text: Quote(system)}}}
	}
	// The answers to the calls of one turn must be in one turn, and no turn may be empty.
	names := map[string]string{} // of tools, by the ids of their calls
	before := ""                 // the role of the turn before
	for _, t := range turns {
		for _, c := range t.Calls {
			names[c.ID] = c.Name
		}
		parts, err := t.contents(names, signature, unsigned)
		if err != nil {
			return nil, err
		}
		switch last := len(m.Contents) - 1; {
		case len(parts) == 0:
			continue
		case t.Role == "tool" && before == "tool":
			m.Contents[last].Parts = append(m.Contents[last].Parts, parts...)
		default:
			role := map[string]string{"assistant": "model"}[t.Role]
			m.Contents = append(m.Contents, content{cmp.Or(role, "user"), parts})
		}
		before = t.Role
	}
	set := toolset{}
	for _, t := range r.Tools {
		if t.custom != nil {
			return nil, noCustom(t)
		}
		set.Functions = append(set.Functions, function{t.Name, t.Description, t.Parameters})
	}
	if len(set.Functions) > 0 {
		m.Tools = []toolset{set}
		if mode := map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY"}[r.Choice]; mode != "" {
			m.Choice = &choice{calling{Mode: mode}}
		}
		if r.Tool != "" {
			m.Choice.Calling.Allowed = []string{r.Tool}
		}
	}
	body, err := r.marshal(m)
	rest := r.rest()
	delete(rest, "top_k") // it is in generationConfig
	if err != nil || len(rest) == 0 {
		return body, err
	}
	_ = json.Unmarshal(body, &rest) // an object
	return r.marshal(rest)
}

// contentConfig writes the settings. The client's own generationConfig is kept.
func (r *Request) contentConfig(s *Settings) map[string]any {
	config := map[string]any{}
	if own := r.Options["generationConfig"]; jsonscan.KindOf(own) == jsonscan.Object {
		_ = json.Unmarshal(own, &config) // it is JSON
	}
	set := func(name string, value any, given bool) {
		if given {
			config[name] = value
		}
	}
	set("topK", r.Options["top_k"], r.Options["top_k"] != nil)
	set("temperature", s.Temperature, s.Temperature != nil)
	set("topP", s.Top, s.Top != nil)
	set("maxOutputTokens", s.MaxTokens, s.MaxTokens > 0)
	set("stopSequences", s.Stop, len(s.Stop) > 0)
	set("frequencyPenalty", s.Frequency, s.Frequency != nil)
	set("presencePenalty", s.Presence, s.Presence != nil)
	set("seed", s.Seed, s.Seed != nil && int64(int32(*s.Seed)) == *s.Seed) // 32 bits at most
	set("responseMimeType", "application/json", s.JSON)
	set("responseJsonSchema", s.Schema, s.Schema != nil)
	return config
}

func (t *Turn) contents(names map[string]string, signature func(string) string, unsigned string) ([]contentPart, error) {
	list, said := []contentPart{}, ""
	for _, p := range t.Parts {
		mediaType, data, isData := p.Data()
		switch {
		case t.Role == "tool" && p.At != "":
			return nil, &Gap{At: p.At, Code: Unsupported, Instead: "Let a tool answer with text"}
		case isData:
			list = append(list, contentPart{Inline: &contentData{mediaType, data}})
		case p.ImageURL != "":
			list = append(list, contentPart{File: &contentFile{p.ImageURL}})
		case p.File != "":
			return nil, &Gap{At: p.At, Code: Unsupported, Instead: "Give the file in base64"}
		case p.Text != "":
			list, said = append(list, contentPart{Text: Quote(p.Text)}), said+p.Text
		}
	}
	if t.Role == "tool" {
		return []contentPart{{Response: &contentResponse{t.Answers, cmp.Or(names[t.Answers], t.Name), map[string]any{"result": said}}}}, nil
	}
	signed := false
	for i, c := range t.Calls {
		part := contentPart{Call: &contentCall{c.ID, c.Name, c.Input()}, Signature: signature(c.ID)}
		signed = signed || part.Signature != ""
		if i == len(t.Calls)-1 && !signed { // the first call of a turn needs one
			defer func(first int) { list[first].Signature = unsigned }(len(list) - i)
		}
		list = append(list, part)
	}
	return list, nil
}

// contentEncoder writes answers of generateContent.
type contentEncoder struct{ *Reply }

// response returns an answer. With a, it is complete or the end of a stream; without, it is a part
// of a stream.
func (e *contentEncoder) response(parts []contentPart, a *Answer) ([]byte, error) {
	if parts == nil {
		parts = []contentPart{}
	}
	made := contentAnswer{Model: e.Model, ID: e.ID}
	for i := range max(e.Choices, 1) {
		one := candidate{Content: content{"model", parts}, Index: i}
		if a != nil {
			one.Finish = contentFinish(a.Finish)
		}
		made.Candidates = append(made.Candidates, one)
	}
	if a != nil {
		u := a.Usage
		made.Usage = &contentUsage{u.Input, u.Cached, max(u.Output-u.Thinking, 0), u.Thinking, u.Input + u.Output}
	}
	return jsonscan.Marshal(made)
}

func contentFinish(finish string) string {
	switch finish {
	case "length":
		return "MAX_TOKENS"
	case "content_filter":
		return "SAFETY"
	}
	return "STOP"
}

func contentCalls(a *Answer) (parts []contentPart) {
	for _, c := range a.ToolCalls {
		parts = append(parts, contentPart{Call: &contentCall{c.ID, c.Name, c.Input()}})
	}
	return parts
}

func (e *contentEncoder) encodeWhole(a *Answer) ([]byte, error) {
	var parts []contentPart
	if a.Thoughts != nil && e.Thoughts {
		parts = append(parts, contentPart{Text: a.Thoughts, Thought: true})
	}
	if string(a.Text) != `""` {
		parts = append(parts, contentPart{Text: a.Text})
	}
	return e.response(append(parts, contentCalls(a)...), a)
}

// encodeDelta writes text and thoughts. A call has its arguments as an object, and comes at the end.
func (e *contentEncoder) encodeDelta(d *Delta) {
	var part contentPart
	switch {
	case d.Thought != nil && e.Thoughts:
		part = contentPart{Text: d.Thought, Thought: true}
	case d.Text != nil:
		part = contentPart{Text: d.Text}
	default:
		return
	}
	body, _ := e.response([]contentPart{part}, nil) // it is flat
	e.Send("", body)
}

func (e *contentEncoder) encodeEnd(a *Answer) {
	body, err := e.response(contentCalls(a), a)
	if err != nil { // the arguments of a tool are nested too deeply
		e.encodeFailure(&Error{Status: 500, Message: "The arguments of a tool are nested too deeply"})
		return
	}
	e.Send("", body)
}

func (e *contentEncoder) encodeFailure(err *Error) bool {
	e.Send("", EncodeError(Contents, err))
	return false
}

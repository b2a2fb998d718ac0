package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// contents are a request of Gemini's API.
type contents struct {
	translation
	config   map[string]json.RawMessage // generationConfig
	thoughts bool                       // whether the client wants them

	said    []chatMessage
	pending []string // the calls without an answer so far, each as its tool's name and its id
	made    int      // how many ids were made
}

// aliases are other spellings that the API accepts.
var aliases = map[string]string{
	"system_instruction": "systemInstruction", "generation_config": "generationConfig", "tool_config": "toolConfig",
	"safety_settings": "safetySettings", "cached_content": "cachedContent",
}

// readContents reads a request. One that counts tokens may wrap another request. The fault
// is a sentence for the client.
func readContents(body []byte, counts bool) (q *contents, fault string) {
	q = &contents{translation: translation{kind: "gemini"}}
	if err := jsonscan.Valid(body); err != nil {
		return nil, "Invalid JSON payload received" + where(err) + "."
	}
	if inner, ok := jsonscan.Get(body, "generateContentRequest"); ok && counts {
		body = inner
	}
	if json.Unmarshal(body, &q.members) != nil || q.members == nil {
		return nil, "Invalid JSON payload received: expected an object."
	}
	for other, name := range aliases {
		if value := q.members[other]; value != nil && q.members[name] == nil {
			q.members[name] = value
		}
		delete(q.members, other)
	}
	if jsonscan.KindOf(q.members["contents"]) != jsonscan.Array {
		return nil, "Invalid value at 'contents': expected a list of contents."
	}
	if config := q.members["generationConfig"]; config != nil && json.Unmarshal(config, &q.config) != nil {
		return nil, "Invalid value at 'generationConfig': expected an object."
	}
	told, _ := jsonscan.Get(q.config["thinkingConfig"], "includeThoughts")
	q.thoughts = string(told) == "true"
	return q, ""
}

// geminiHints are members that are translated elsewhere, for Gemini alone, or advisory.
var geminiHints = []string{"contents", "systemInstruction", "generationConfig", "tools", "toolConfig", "safetySettings", "model", "labels", "store", "serviceTier"}

// configured are the settings by their names in a chat completion.
var configured = map[string]string{
	"maxOutputTokens": "max_tokens", "temperature": "temperature", "topP": "top_p", "topK": "top_k", "stopSequences": "stop", "seed": "seed",
	"frequencyPenalty": "frequency_penalty", "presencePenalty": "presence_penalty", "candidateCount": "n",
}

// configHints are settings that are advisory, or translated elsewhere.
var configHints = []string{"thinkingConfig", "mediaResolution", "enableEnhancedCivicAnswers", "responseMimeType", "responseSchema", "responseJsonSchema"}

// chat returns the request as a chat completion. Advisory members without a counterpart are
// dropped; the error names the first one that changes the answer.
func (q *contents) chat(model string, stream bool) ([]byte, error) {
	m := map[string]any{"model": model}
	for _, name := range slices.Sorted(maps.Keys(q.members)) {
		if value := q.members[name]; !slices.Contains(geminiHints, name) && jsonscan.KindOf(value) != jsonscan.Null {
			q.refuse(name, "Leave it out")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.config)) {
		value := q.config[name]
		switch {
		case configured[name] != "" && jsonscan.KindOf(value) != jsonscan.Null:
			m[configured[name]] = value
		case name == "responseModalities" && strings.EqualFold(string(jsonscan.AppendCompact(nil, value)), `["text"]`):
		case !slices.Contains(idle, string(value)) && configured[name] == "" && !slices.Contains(configHints, name):
			q.refuse("generationConfig."+name, "Leave it out")
		}
	}
	m["messages"] = q.messages()
	if tools := q.tools(); len(tools) > 0 {
		m["tools"] = tools
		set(m, "tool_choice", q.toolChoice())
	}
	set(m, "response_format", q.format())
	if stream {
		m["stream"] = true
	}
	return q.body(m, "contents")
}

// idle are the values that ask for nothing.
var idle = []string{"null", "false", "0", "[]", "{}", `""`}

// format is the format that the answer must have, nil for any.
func (q *contents) format() any {
	schema := q.config["responseJsonSchema"]
	if schema == nil && q.config["responseSchema"] != nil {
		schema = plainSchema(q.config["responseSchema"])
	}
	switch mime := provider.Unquote(q.config["responseMimeType"]); {
	case schema != nil:
		return map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "output", "schema": schema}}
	case mime == "application/json":
		return map[string]string{"type": "json_object"}
	case mime != "" && mime != "text/plain":
		q.refuse("generationConfig.responseMimeType", "Use application/json or text/plain")
	}
	return nil
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

func (q *contents) tools() (tools []any) {
	for i, set := range elements(q.members["tools"]) {
		at := fmt.Sprintf("tools[%d]", i)
		var members map[string]json.RawMessage
		_ = json.Unmarshal(set, &members) // of an object
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if name != "functionDeclarations" && name != "function_declarations" {
				q.refuseTool(at+"."+name, "Use functionDeclarations")
			}
		}
		for _, f := range elements(or(members["functionDeclarations"], string(members["function_declarations"]))) {
			schema := member(f, "parametersJsonSchema")
			if old := member(f, "parameters"); schema == nil && old != nil {
				schema = plainSchema(old)
			}
			tools = append(tools, map[string]any{"type": "function", "function": provider.Tool{
				Name: text(f, "name"), Description: text(f, "description"), Parameters: or(schema, `{"type":"object"}`),
			}})
		}
	}
	return tools
}

func (q *contents) toolChoice() any {
	config, given := jsonscan.Get(q.members["toolConfig"], "functionCallingConfig")
	if !given {
		return nil
	}
	names := elements(member(config, "allowedFunctionNames"))
	switch mode := text(config, "mode"); {
	case mode == "ANY" && len(names) == 1:
		return map[string]any{"type": "function", "function": map[string]json.RawMessage{"name": names[0]}}
	case len(names) > 0:
		q.refuse("toolConfig.functionCallingConfig.allowedFunctionNames", "Name one, with the mode ANY")
	case mode == "ANY":
		return "required"
	case mode == "NONE":
		return "none"
	case mode == "AUTO", mode == "VALIDATED", mode == "", mode == "MODE_UNSPECIFIED":
		return "auto"
	default:
		q.refuse("toolConfig.functionCallingConfig.mode", "Use AUTO, ANY or NONE")
	}
	return nil
}

func (q *contents) messages() []chatMessage {
	if system := q.members["systemInstruction"]; system != nil {
		said := provider.Unquote(system) // SDKs may send text
		for i, part := range elements(member(system, "parts")) {
			if member(part, "text") == nil {
				q.refuse(fmt.Sprintf("systemInstruction.parts[%d]", i), "Use text there")
			}
			said += text(part, "text")
		}
		if said != "" {
			q.said = append(q.said, chatMessage{Role: "system", Content: said})
		}
	}
	for i, content := range elements(q.members["contents"]) {
		at := fmt.Sprintf("contents[%d]", i)
		switch role := text(content, "role"); role {
		case "user", "", "function":
			q.addContent(at, "user", content)
		case "model":
			q.addContent(at, "assistant", content)
		default:
			q.refuse(at+".role", "Use user or model")
		}
	}
	if q.said == nil {
		return []chatMessage{}
	}
	return q.said
}

// addContent adds a content. The answers of tools become messages of their own.
func (q *contents) addContent(at, role string, content json.RawMessage) {
	said := chatMessage{Role: role}
	var parts []chatPart
	for i, of := range elements(member(content, "parts")) {
		at := fmt.Sprintf("%s.parts[%d]", at, i)
		switch call, result := member(of, "functionCall"), member(of, "functionResponse"); {
		case string(member(of, "thought")) == "true": // only for the model that wrote it
		case call != nil:
			name := text(call, "name")
			said.Calls = append(said.Calls, functionCall(q.callID(text(call, "id"), name), name, string(or(member(call, "args"), "{}"))))
		case result != nil:
			q.said = append(q.said, chatMessage{Role: "tool", Content: resultText(result), Answers: q.answered(text(result, "id"), text(result, "name"))})
		default:
			if p, ok := q.part(at, of); ok {
				parts = append(parts, p)
			}
		}
	}
	switch texts := !slices.ContainsFunc(parts, func(p chatPart) bool { return p.Type != "text" }); {
	case len(parts) == 0 && said.Calls == nil:
		return
	case len(parts) > 0 && texts && (len(parts) == 1 || role == "assistant"):
		together := ""
		for _, p := range parts {
			together += p.Text
		}
		said.Content = together
	case len(parts) > 0:
		said.Content = parts
	}
	q.said = append(q.said, said)
}

// callID is the id of a call. One without an id gets one.
func (q *contents) callID(id, name string) string {
	if id == "" {
		q.made++
		id = fmt.Sprintf("call_%d", q.made)
		q.pending = append(q.pending, name+" "+id)
	}
	return id
}

// answered is the id of the call that is answered: without an id, the first call of the
// tool that has no answer yet.
func (q *contents) answered(id, name string) string {
	if id != "" {
		return id
	}
	at := slices.IndexFunc(q.pending, func(p string) bool { return strings.HasPrefix(p, name+" ") })
	if at < 0 {
		return name
	}
	id = strings.TrimPrefix(q.pending[at], name+" ")
	q.pending = slices.Delete(q.pending, at, at+1)
	return id
}

// resultText is the answer of a tool: the text of its result or output, or else all of it
// as JSON.
func resultText(result json.RawMessage) string {
	answer := member(result, "response")
	for _, name := range [...]string{"result", "output"} {
		if said := member(answer, name); jsonscan.KindOf(said) == jsonscan.String {
			return provider.Unquote(said)
		}
	}
	return cmp.Or(string(answer), "{}")
}

func (q *contents) part(at string, of json.RawMessage) (made chatPart, ok bool) {
	if said := member(of, "text"); said != nil {
		return chatPart{Type: "text", Text: provider.Unquote(said)}, true
	}
	data, file := member(of, "inlineData"), member(of, "fileData")
	mime := cmp.Or(text(data, "mimeType"), text(file, "mimeType"))
	url := "data:" + mime + ";base64," + text(data, "data")
	switch {
	case data == nil && file == nil:
	case data == nil && strings.HasPrefix(mime, "image/") && strings.HasPrefix(text(file, "fileUri"), "https://"):
		return chatPart{Type: "image_url", Image: &chatImage{URL: text(file, "fileUri")}}, true
	case data == nil:
	case strings.HasPrefix(mime, "image/"):
		return chatPart{Type: "image_url", Image: &chatImage{URL: url}}, true
	case strings.HasPrefix(mime, "audio/"):
		return chatPart{Type: "input_audio", Audio: &chatAudio{text(data, "data"), strings.TrimPrefix(mime, "audio/")}}, true
	default:
		return chatPart{Type: "file", File: &chatFile{"file", url}}, true
	}
	q.refuse(at, "Use text, and images, sounds and files whose data is included")
	return made, false
}

package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A responseRequest is a request for one of OpenAI's responses, as far as a chat completion
// can say it.
type responseRequest struct {
	Model        json.RawMessage
	Input        json.RawMessage
	Instructions json.RawMessage
	MaxTokens    json.RawMessage
	Metadata     json.RawMessage
	Parallel     json.RawMessage
	Reasoning    json.RawMessage
	Temp         json.RawMessage
	Text         json.RawMessage
	ToolChoice   json.RawMessage
	Tools        json.RawMessage
	TopP         json.RawMessage
	Previous     string
	Stream       bool

	custom  map[string]bool   // the tools that take a text
	spaces  map[string]spaced // the tools of namespaces, by their names in a chat completion
	said    []chatMessage     // what the input says
	store   bool
	members map[string]json.RawMessage
	refused error // the first that cannot be translated
	tool    error // the first tool that cannot
}

// refuse has every backend but a mock refuse the request for what stands at a place.
// Instead says what to do.
func (q *responseRequest) refuse(at, instead string) {
	if q.refused == nil {
		q.refused = provider.Unanswerable(at, "unsupported_parameter", "Unsupported parameter: '"+at+"' cannot be translated into a chat completion, which providers are asked for. "+instead+".")
	}
}

// taken are the members that are translated, or told back.
func (q *responseRequest) taken() map[string]*json.RawMessage {
	return map[string]*json.RawMessage{
		"model": &q.Model, "input": &q.Input, "instructions": &q.Instructions, "max_output_tokens": &q.MaxTokens, "metadata": &q.Metadata,
		"parallel_tool_calls": &q.Parallel, "reasoning": &q.Reasoning, "temperature": &q.Temp, "text": &q.Text,
		"tool_choice": &q.ToolChoice, "tools": &q.Tools, "top_p": &q.TopP,
	}
}

// unsaid are the members that a chat completion does not need, or that are hints.
var unsaid = []string{"stream", "stream_options", "store", "previous_response_id", "include", "client_metadata", "max_tool_calls", "truncation", "background", "conversation", "prompt", "top_logprobs", "context_management"}

// A wish is a member that means something for the answer and has no counterpart, with
// the values that ask for nothing.
type wish struct {
	name    string
	idle    []string
	instead string
}

var wishes = []wish{
	{"background", []string{"false"}, "Wait for the answer, or stream it"},
	{"conversation", nil, "Use 'previous_response_id', or send the whole conversation as 'input'"},
	{"prompt", nil, "Write the prompt into 'instructions' and 'input'"},
	{"truncation", []string{`"disabled"`}, "Shorten the input"},
	{"top_logprobs", []string{"0"}, "Leave it out"},
	{"context_management", []string{"[]"}, "Leave it out"},
}

// readResponseRequest reads a request. The fault is a sentence for the client, param what it
// is about.
func readResponseRequest(body []byte) (q *responseRequest, fault, param string) {
	q = &responseRequest{store: true, custom: map[string]bool{}, spaces: map[string]spaced{}}
	switch err := jsonscan.Valid(body); {
	case err != nil:
		return nil, "We could not parse the JSON body of your request" + where(err) + ".", ""
	case json.Unmarshal(body, &q.members) != nil || q.members == nil:
		return nil, "The body of your request must be a JSON object.", ""
	}
	for name, place := range q.taken() {
		if value := q.members[name]; jsonscan.KindOf(value) != jsonscan.Null {
			*place = value
		}
	}
	q.Stream = string(q.members["stream"]) == "true"
	q.store = string(q.members["store"]) != "false"
	q.Previous = provider.Unquote(q.members["previous_response_id"])
	for _, of := range [...]struct {
		name     string
		value    json.RawMessage
		optional bool
		kinds    []jsonscan.Kind
		expected string
	}{
		{"model", q.Model, true, []jsonscan.Kind{jsonscan.String}, "a string"},
		{"input", q.Input, false, []jsonscan.Kind{jsonscan.String, jsonscan.Array}, "a string or an array of items"},
		{"instructions", q.Instructions, true, []jsonscan.Kind{jsonscan.String}, "a string"},
		{"tools", q.Tools, true, []jsonscan.Kind{jsonscan.Array}, "an array of objects"},
		{"text", q.Text, true, []jsonscan.Kind{jsonscan.Object}, "an object"},
		{"reasoning", q.Reasoning, true, []jsonscan.Kind{jsonscan.Object}, "an object"},
	} {
		switch {
		case of.value == nil && of.optional:
		case of.value == nil:
			return nil, "Missing required parameter: '" + of.name + "'.", of.name
		case !slices.Contains(of.kinds, jsonscan.KindOf(of.value)):
			return nil, "Invalid type for '" + of.name + "': expected " + of.expected + ".", of.name
		}
	}
	return q, "", ""
}

// stores reports whether a later request may go on from the response.
func (q *responseRequest) stores() bool { return q.store }

// chat asks for the same as a chat completion, after what was said before, with what
// OpenAI does not have as the client wrote it. What has no counterpart is left out where
// it is but a hint; the error says what is more than that.
func (q *responseRequest) chat(before []json.RawMessage) ([]byte, error) {
	m := map[string]any{}
	taken := q.taken()
	for name, value := range q.members {
		if taken[name] == nil && !slices.Contains(unsaid, name) {
			m[name] = value
		}
	}
	for _, w := range wishes {
		value, given := q.members[w.name]
		if given && jsonscan.KindOf(value) != jsonscan.Null && !slices.Contains(w.idle, string(jsonscan.AppendCompact(nil, value))) {
			q.refuse(w.name, w.instead)
		}
	}
	for i, of := range elements(q.members["include"]) {
		if provider.Unquote(of) == "message.output_text.logprobs" {
			q.refuse(fmt.Sprintf("include[%d]", i), "Leave it out")
		}
	}
	m["messages"] = q.messages(before)
	for name, value := range map[string]json.RawMessage{
		"model": q.Model, "max_tokens": q.MaxTokens, "temperature": q.Temp, "top_p": q.TopP,
		"reasoning_effort": member(q.Reasoning, "effort"), "verbosity": member(q.Text, "verbosity"),
	} {
		if value != nil {
			m[name] = value
		}
	}
	if tools := q.tools(); len(tools) > 0 {
		m["tools"] = tools
		if q.ToolChoice != nil {
			m["tool_choice"] = q.toolChoice()
		}
		if q.Parallel != nil {
			m["parallel_tool_calls"] = q.Parallel
		}
	}
	if format := q.format(); format != nil {
		m["response_format"] = format
	}
	if q.Stream {
		m["stream"] = true
	}
	body, err := jsonscan.Marshal(m)
	if q.refused == nil && err != nil { // nested too deeply
		q.refuse("input", "Nest it less deeply")
	}
	return body, cmp.Or(q.refused, q.tool)
}

// member is one of an object, nil if it is not there, or null.
func member(object json.RawMessage, name string) json.RawMessage {
	value, ok := jsonscan.Get(object, name)
	if !ok || jsonscan.KindOf(value) == jsonscan.Null {
		return nil
	}
	return value
}

// text is that of a member, "" if it is none.
func text(object json.RawMessage, name string) string { return provider.Unquote(member(object, name)) }

// elements are those of an array.
func elements(array json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	for of := range provider.Elements(array) {
		list = append(list, of)
	}
	return list
}

// format is what the answer is to look like, nil if that does not matter.
func (q *responseRequest) format() any {
	format := member(q.Text, "format")
	switch text(format, "type") {
	case "json_object":
		return map[string]string{"type": "json_object"}
	case "json_schema":
		described := map[string]json.RawMessage{}
		for _, name := range [...]string{"name", "description", "schema", "strict"} {
			if value := member(format, name); value != nil {
				described[name] = value
			}
		}
		return map[string]any{"type": "json_schema", "json_schema": described}
	case "text":
		return nil
	}
	if format != nil {
		q.refuse("text.format", "Use text, json_object or json_schema")
	}
	return nil
}

// A spaced tool is one of a namespace.
type spaced struct{ space, name string }

// flat is the name that a tool of a namespace has in a chat completion, which knows none.
func (s spaced) flat() string {
	if s.space == "" {
		return s.name
	}
	return s.space + "__" + s.name
}

func (q *responseRequest) tools() []any { return q.appendTools(nil, "tools", "", q.Tools) }

// appendTools appends the tools of a list, which may be that of a namespace.
func (q *responseRequest) appendTools(tools []any, at, space string, list json.RawMessage) []any {
	for i, tool := range elements(list) {
		at := fmt.Sprintf("%s[%d]", at, i)
		of := spaced{space, text(tool, "name")}
		name := of.flat()
		if q.spaces[name] = of; of.name == "" {
			name = ""
		}
		switch kind := text(tool, "type"); {
		case kind == "namespace" && space == "" && name != "":
			tools = q.appendTools(tools, at+".tools", name, member(tool, "tools"))
		case kind == "function" && name != "":
			strict := string(member(tool, "strict")) == "true"
			tools = append(tools, map[string]any{"type": "function", "function": provider.Tool{Name: name, Description: text(tool, "description"), Parameters: or(member(tool, "parameters"), `{"type":"object"}`), Strict: strict}})
		case kind == "custom" && name != "":
			q.custom[name] = true
			tools = append(tools, map[string]any{"type": "custom", "custom": customTool(tool, name)})
		default:
			q.tool = cmp.Or(q.tool, error(provider.UnsupportedTool(at, "Unsupported parameter: '"+at+"' cannot be translated into a chat completion, which providers are asked for. Use tools of the types function and custom, with a name.")))
		}
	}
	return tools
}

// customTool describes a tool that takes a text, in the words of a chat completion.
func customTool(tool json.RawMessage, name string) map[string]any {
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
	return made
}

func (q *responseRequest) toolChoice() any {
	name := map[string]string{"name": text(q.ToolChoice, "name")}
	switch choice := provider.Unquote(q.ToolChoice); {
	case choice == "auto", choice == "none", choice == "required":
		return q.ToolChoice
	case name["name"] != "" && text(q.ToolChoice, "type") == "function":
		return map[string]any{"type": "function", "function": name}
	case name["name"] != "" && text(q.ToolChoice, "type") == "custom":
		return map[string]any{"type": "custom", "custom": name}
	}
	q.refuse("tool_choice", "Use auto, none, required, or a tool of the type function or custom")
	return "auto"
}

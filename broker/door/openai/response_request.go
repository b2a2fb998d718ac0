package openai

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A responseRequest is a request for one of OpenAI's responses.
type responseRequest struct {
	translation
	Previous string
	Stream   bool

	custom map[string]bool   // the tools that take a text
	spaces map[string]spaced // the tools of namespaces, by their names in a chat completion
	said   []chatMessage     // the input
	store  bool
}

// get returns a member, nil if it is missing or null.
func (q *responseRequest) get(name string) json.RawMessage {
	if value := q.members[name]; jsonscan.KindOf(value) != jsonscan.Null {
		return value
	}
	return nil
}

// understood are the members that are translated, advisory, or checked below. Any other is
// for the backend.
var understood = []string{
	"model", "input", "instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning", "temperature", "text", "tool_choice", "tools", "top_p",
	"stream", "stream_options", "store", "previous_response_id", "include", "client_metadata", "max_tool_calls",
	"background", "conversation", "prompt", "truncation", "top_logprobs", "context_management",
}

// A wish is a member that changes the answer and has no counterpart, with the values that
// ask for nothing.
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

// readResponseRequest reads a request. The fault is a sentence for the client, about a
// parameter.
func readResponseRequest(body []byte) (q *responseRequest, fault, param string) {
	q = &responseRequest{store: true, custom: map[string]bool{}, spaces: map[string]spaced{}}
	switch err := jsonscan.Valid(body); {
	case err != nil:
		return nil, "We could not parse the JSON body of your request" + where(err) + ".", ""
	case json.Unmarshal(body, &q.members) != nil || q.members == nil:
		return nil, "The body of your request must be a JSON object.", ""
	}
	q.Stream = string(q.members["stream"]) == "true"
	q.store = string(q.members["store"]) != "false"
	q.Previous = provider.Unquote(q.members["previous_response_id"])
	for _, of := range [...]struct {
		name, expected string
		kinds          []jsonscan.Kind
	}{
		{"model", "a string", []jsonscan.Kind{jsonscan.String}},
		{"input", "a string or an array of items", []jsonscan.Kind{jsonscan.String, jsonscan.Array}},
		{"instructions", "a string", []jsonscan.Kind{jsonscan.String}},
		{"tools", "an array of objects", []jsonscan.Kind{jsonscan.Array}},
		{"text", "an object", []jsonscan.Kind{jsonscan.Object}},
		{"reasoning", "an object", []jsonscan.Kind{jsonscan.Object}},
	} {
		switch value := q.get(of.name); {
		case value == nil && of.name == "input":
			return nil, "Missing required parameter: 'input'.", "input"
		case value != nil && !slices.Contains(of.kinds, jsonscan.KindOf(value)):
			return nil, "Invalid type for '" + of.name + "': expected " + of.expected + ".", of.name
		}
	}
	return q, "", ""
}

// chat returns the request as a chat completion, after the earlier messages of the
// conversation, with the members that OpenAI does not have as the client wrote them. Advisory
// members without a counterpart are dropped; the error names the first one that changes the answer.
func (q *responseRequest) chat(before []json.RawMessage) ([]byte, error) {
	m := map[string]any{}
	for name, value := range q.members {
		if !slices.Contains(understood, name) {
			m[name] = value
		}
	}
	for _, w := range wishes {
		if value := q.get(w.name); value != nil && !slices.Contains(w.idle, string(jsonscan.AppendCompact(nil, value))) {
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
		"model": q.get("model"), "max_tokens": q.get("max_output_tokens"), "temperature": q.get("temperature"), "top_p": q.get("top_p"),
		"reasoning_effort": member(q.members["reasoning"], "effort"), "verbosity": member(q.members["text"], "verbosity"),
	} {
		if value != nil {
			m[name] = value
		}
	}
	if tools := q.tools(); len(tools) > 0 {
		m["tools"] = tools
		set(m, "tool_choice", q.toolChoice())
		if parallel := q.get("parallel_tool_calls"); parallel != nil {
			m["parallel_tool_calls"] = parallel
		}
	}
	set(m, "response_format", q.format())
	if q.Stream {
		m["stream"] = true
	}
	return q.body(m, "input")
}

// member returns a member of an object, nil if it is missing or null.
func member(object json.RawMessage, name string) json.RawMessage {
	value, ok := jsonscan.Get(object, name)
	if !ok || jsonscan.KindOf(value) == jsonscan.Null {
		return nil
	}
	return value
}

// text returns a member that is a string, "" for any other.
func text(object json.RawMessage, name string) string { return provider.Unquote(member(object, name)) }

// elements returns the elements of an array.
func elements(array json.RawMessage) (list []json.RawMessage) {
	for of := range provider.Elements(array) {
		list = append(list, of)
	}
	return list
}

// format is the format that the answer must have, nil for any.
func (q *responseRequest) format() any {
	format := member(q.members["text"], "format")
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

// A spaced tool is a tool of a namespace.
type spaced struct{ space, name string }

// flat is the tool's name in a chat completion, which has no namespaces.
func (s spaced) flat() string {
	if s.space == "" {
		return s.name
	}
	return s.space + "__" + s.name
}

func (q *responseRequest) tools() []any { return q.appendTools(nil, "tools", "", q.members["tools"]) }

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
			q.refuseTool(at, "Use tools of the types function and custom, with a name")
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
	choice := q.get("tool_choice")
	name, kind := map[string]string{"name": text(choice, "name")}, text(choice, "type")
	switch word := provider.Unquote(choice); {
	case choice == nil:
		return nil
	case word == "auto", word == "none", word == "required":
		return choice
	case name["name"] != "" && (kind == "function" || kind == "custom"):
		return map[string]any{"type": kind, kind: name}
	}
	q.refuse("tool_choice", "Use auto, none, required, or a tool of the type function or custom")
	return "auto"
}

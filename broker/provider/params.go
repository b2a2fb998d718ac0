package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Kind is a kind of backend with an API other than OpenAI's.
type Kind struct {
	Name string
	// Has are the optional members of OpenAI's requests that the API supports.
	Has []string
	// Drop are the other optional members that are dropped rather than rejected, as
	// configured.
	Drop []string
}

// Refusal is the error for a parameter that changes the answer and has no counterpart. Instead
// says what to do.
func (k Kind) Refusal(param, instead string) *Error {
	return Unanswerable(param, unsupported, k.sentence(param, instead))
}

func (k Kind) sentence(param, instead string) string {
	return fmt.Sprintf("Unsupported parameter: '%s' cannot be translated for this model's provider, of the kind %s. %s, or ask a model of a provider of the kind openai.", param, k.Name, instead)
}

// unsupported is OpenAI's error code.
const unsupported = "unsupported_parameter"

// check rejects optional members that the kind does not support.
func (k Kind) check(members map[string]json.RawMessage) error {
	for _, m := range uncommon {
		value, given := members[m.name]
		if !given || jsonscan.KindOf(value) == jsonscan.Null || m.idle(value) || slices.Contains(k.Has, m.name) || slices.Contains(k.Drop, m.name) {
			continue
		}
		return Unanswerable(m.name, unsupported, k.sentence(m.name, m.instead)+" The broker drops it if its configuration says drop: ["+m.name+"] at the provider.")
	}
	return nil
}

// A member of a request, with the values that ask for nothing.
type member struct {
	name    string
	idle    func(value []byte) bool
	instead string
}

// uncommon are the optional members: they change the answer, and not every kind supports them.
var uncommon = []member{
	{"n", is("1"), "Ask once for each choice"},
	{"logprobs", is("false"), leave},
	{"top_logprobs", is("0"), leave},
	{"logit_bias", is("{}"), leave},
	{"frequency_penalty", isZero, leave},
	{"presence_penalty", isZero, leave},
	{"parallel_tool_calls", is("true"), leave},
	{"response_format", isDescribed, "Use json_schema, with a schema"},
	{"modalities", is(`["text"]`), "Ask for text"},
	{"audio", is(), "Ask for text"},
	{"web_search_options", is(), leave},
	{"functions", is("[]"), "Use 'tools'"},
	{"function_call", is(), "Use 'tool_choice'"},
}

const leave = "Leave it out"

func is(idle ...string) func([]byte) bool {
	return func(value []byte) bool { return slices.Contains(idle, string(jsonscan.AppendCompact(nil, value))) }
}

func isZero(value []byte) bool {
	f, err := strconv.ParseFloat(string(value), 64)
	return err == nil && f == 0
}

// isDescribed reports whether a format is text, or JSON with a schema.
func isDescribed(format []byte) bool {
	kind, _ := jsonscan.Get(format, "type")
	schema, given := jsonscan.Get(format, "json_schema", "schema")
	switch Unquote(kind) {
	case "json_object":
		return false
	case "json_schema":
		return given && jsonscan.KindOf(schema) != jsonscan.Null
	}
	return true
}

// toolsOfAnother is the code for tools that only the provider of an API can run.
const toolsOfAnother = "unsupported_tool"

// UnsupportedTool is the error for a tool that only a backend with the client's API can run.
func UnsupportedTool(at, sentence string) *Error {
	return Unanswerable(at, toolsOfAnother, sentence+" The broker drops such tools if its configuration says drop: [tools] at the provider.")
}

// Untranslated is why Chat cannot be sent, nil if it can. Tools that may be dropped do not prevent
// that.
func (r *Request) Untranslated(drop []string) error {
	if e, ok := r.ChatErr.(*Error); ok && e.Code == toolsOfAnother && slices.Contains(drop, "tools") { //nolint:errorlint // it comes bare
		return nil
	}
	return r.ChatErr
}

// Droppable are the names that may be in a kind's Drop.
func Droppable() []string {
	names := []string{"tools"}
	for _, m := range uncommon {
		names = append(names, m.name)
	}
	slices.Sort(names)
	return names
}

// common are the other members of OpenAI's API: those in Chat, those for OpenAI alone, and advisory
// ones, such as the reasoning effort. Members in neither list are for the backend.
var common = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop",
	"tools", "tool_choice", "seed", "user", "safety_identifier", "metadata", "store", "service_tier",
	"prompt_cache_key", "prompt_cache_retention", "prediction", "reasoning_effort", "verbosity",
}

// own returns the members that OpenAI's API does not have.
func own(members map[string]json.RawMessage) map[string]json.RawMessage {
	for _, name := range common {
		delete(members, name)
	}
	for _, m := range uncommon {
		delete(members, m.name)
	}
	return members
}

// badType is the error for a parameter of the wrong type.
func badType(param, found, expected string) *Error {
	return Unanswerable(param, "invalid_type", fmt.Sprintf("Invalid type for '%s': found %s, expected %s.", param, found, expected))
}

// typeNames are OpenAI's names of Go types.
var typeNames = map[reflect.Kind]string{
	reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number", reflect.Bool: "true or false",
	reflect.String: "a string", reflect.Slice: "an array", reflect.Struct: "an object",
}

// decode reads a value. The name is for errors.
func decode(name string, raw []byte, into any) error {
	err := json.Unmarshal(raw, into)
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	switch {
	case name == "":
		name = wrong.Field
	case wrong.Field != "":
		name += "." + wrong.Field
	}
	return badType(name, wrong.Value, typeNames[wrong.Type.Kind()])
}

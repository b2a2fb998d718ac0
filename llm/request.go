package llm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Head has the members of a request that a gateway acts on.
type Head struct {
	Model           string
	Stream, Usage   bool // Usage: the client wants the usage of a stream
	Choices         int  // 0 if the request does not say, -1 if it is invalid
	MaxTokens       int64
	IncludeThoughts bool // of generateContent
}

// A Fault is why a request cannot be read, in a sentence as its API writes it.
type Fault struct{ Message, Param, Code string }

// wording is how an API words the faults of requests.
type wording struct {
	turns                     string // the member that holds the conversation
	kinds                     []jsonscan.Kind
	syntax, notObject         string
	missing, wrong, duplicate string // formats of a name, and what was expected
	expected                  string // of the member turns
}

var wordings = [...]wording{
	Chat: {
		"messages",
		[]jsonscan.Kind{jsonscan.Array},
		"We could not parse the JSON body of your request%s.", "The body of your request must be a JSON object.",
		"Missing required parameter: '%s'.", "Invalid type for '%s': expected %s.", "Duplicate parameter: '%s'. Send it once.", "an array of objects",
	},
	Responses: {
		"input",
		[]jsonscan.Kind{jsonscan.String, jsonscan.Array},
		"We could not parse the JSON body of your request%s.", "The body of your request must be a JSON object.",
		"Missing required parameter: '%s'.", "Invalid type for '%s': expected %s.", "Duplicate parameter: '%s'. Send it once.", "a string or an array of items",
	},
	Messages: {
		"messages",
		[]jsonscan.Kind{jsonscan.Array},
		"The request body is not valid JSON%s.", "The request body must be a JSON object.",
		"%s: Field required", "%s: Input should be a valid %s", "%s: Field is there twice", "list",
	},
	Contents: {
		"contents",
		[]jsonscan.Kind{jsonscan.Array},
		"Invalid JSON payload received%s.", "Invalid JSON payload received: expected an object.",
		"Invalid value at '%s': expected a list of contents.", "Invalid value at '%s': expected %s.", "Invalid JSON payload received: '%s' is there twice.", "a list of contents",
	},
}

// once are the members that must not be repeated, since readers disagree about which one counts.
var once = []string{
	"model", "stream", "stream_options", "messages", "input", "contents", "prompt", "system", "tools", "n", "max_tokens", "max_completion_tokens", "max_output_tokens",
	"generationConfig", "maxOutputTokens", "candidateCount", "include_usage", "store", "background", "previous_response_id",
}

// ReadHead reads the head of a request, which must be valid JSON.
func ReadHead(api API, body []byte) (h Head, f *Fault) {
	w := &wordings[api]
	wrong := func(name, expected string) *Fault {
		return &Fault{Message: fmt.Sprintf(w.wrong, name, expected), Param: name}
	}
	var seen uint32
	var turns, config []byte
	var s jsonscan.Scanner
	repeats := func() {
		name := string(s.Key())
		if alias := contentAliases[name]; api == Contents && alias != "" {
			name = alias
		}
		if i := slices.Index(once, name); i >= 0 {
			if seen&(1<<i) != 0 && f == nil {
				f = &Fault{fmt.Sprintf(w.duplicate, once[i]), once[i], "duplicate_parameter"}
			}
			seen |= 1 << i
		}
	}
	s.Init(body)
	object := s.Object()
	for object && s.Next() {
		repeats()
		switch key := string(s.Key()); key {
		case "model":
			if model := s.Value(); jsonscan.KindOf(model) == jsonscan.String {
				h.Model = Unquote(model)
			} else if f == nil && api != Contents && !(api == Responses && isNull(model)) {
				f = wrong("model", map[bool]string{true: "string", false: "a string"}[api == Messages])
			}
		case "stream":
			h.Stream = string(s.Value()) == "true"
		case "n":
			h.Choices = choices(s.Value())
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			h.MaxTokens = max(h.MaxTokens, count(s.Value()))
		case "stream_options":
			for ok := s.Object(); ok && s.Next(); {
				repeats()
				if string(s.Key()) == "include_usage" {
					h.Usage = string(s.Value()) == "true"
				}
			}
		case "generationConfig", "generation_config":
			if config = s.NotNull(); config != nil && api == Contents && jsonscan.KindOf(config) != jsonscan.Object && f == nil {
				f = wrong("generationConfig", "an object")
			}
		case w.turns:
			turns = s.Value()
		default:
			if expected := expectedTypes[key]; api == Responses && expected.kind != 0 {
				if value := s.NotNull(); value != nil && jsonscan.KindOf(value) != expected.kind && f == nil {
					f = wrong(key, expected.name)
				}
			}
		}
	}
	switch err := s.End(); {
	case err != nil:
		return h, &Fault{Message: fmt.Sprintf(w.syntax, where(err))}
	case !object:
		return h, &Fault{Message: w.notObject}
	case f != nil:
		return h, f
	case turns == nil || api == Responses && isNull(turns):
		return h, &Fault{Message: fmt.Sprintf(w.missing, w.turns), Param: w.turns}
	case !slices.Contains(w.kinds, jsonscan.KindOf(turns)):
		return h, wrong(w.turns, w.expected)
	}
	if api == Contents {
		s.Init(config)
		for ok := s.Object(); ok && s.Next(); {
			switch repeats(); string(s.Key()) {
			case "maxOutputTokens":
				h.MaxTokens = count(s.Value())
			case "candidateCount":
				h.Choices = choices(s.Value())
			case "thinkingConfig":
				h.IncludeThoughts = string(member(s.Value(), "includeThoughts")) == "true"
			}
		}
	}
	return h, f
}

// expectedTypes are the types of members of Responses.
var expectedTypes = map[string]struct {
	kind jsonscan.Kind
	name string
}{
	"instructions": {jsonscan.String, "a string"}, "tools": {jsonscan.Array, "an array of objects"},
	"text": {jsonscan.Object, "an object"}, "reasoning": {jsonscan.Object, "an object"},
}

// where says what is wrong with a JSON text.
func where(err error) string {
	var wrong *jsonscan.SyntaxError
	if !errors.As(err, &wrong) {
		return ""
	}
	return fmt.Sprintf(": byte %d: %s", wrong.Offset, wrong.Msg)
}

func choices(n []byte) int {
	if n == nil || isNull(n) {
		return 0
	}
	if n, err := strconv.Atoi(string(n)); err == nil && n > 0 {
		return n
	}
	return -1
}

// count returns a count, which may be written as a text.
func count(n []byte) int64 {
	f, _ := strconv.ParseFloat(strings.Trim(string(n), `"`), 64)
	return int64(max(0, min(f, 1e15)))
}

// A Gap is a part of a request that changes the answer, and has no counterpart in the API that
// it should be translated into, or one that is invalid.
type Gap struct {
	At, Code string
	// Instead says what to do; for an invalid part it is the whole sentence.
	Instead string
	// Drop is the name of the member if it could be dropped, "" if it could not.
	Drop string
}

// The codes of a Gap: a part without a counterpart, a tool that only its own API runs, and a
// part of the wrong type.
const (
	Unsupported     = "unsupported_parameter"
	UnsupportedTool = "unsupported_tool"
	InvalidType     = "invalid_type"
)

func (g *Gap) Error() string { return g.At + ": " + g.Instead }

// refuse notes that the part at a place has no counterpart.
func (r *Request) refuse(at, instead string) {
	if r.gap == nil {
		r.gap = &Gap{At: at, Code: Unsupported, Instead: instead}
	}
}

// refuseTool is refuse for a tool, which may be left out instead.
func (r *Request) refuseTool(at, instead string) {
	if r.toolGap == nil {
		r.toolGap = &Gap{At: at, Code: UnsupportedTool, Instead: instead, Drop: "tools"}
	}
}

func (r *Request) wrongType(param, found, expected string) {
	if r.gap == nil {
		r.gap = badType(param, found, expected)
	}
}

func badType(param, found, expected string) *Gap {
	return &Gap{At: param, Code: InvalidType, Instead: fmt.Sprintf("Invalid type for '%s': found %s, expected %s.", param, found, expected)}
}

// Decode reads a request, which is valid. The turns before come before those of the request.
func Decode(api API, body []byte, before ...Turn) *Request {
	r := &Request{API: api, Options: map[string]json.RawMessage{}}
	if api == Contents {
		if inner := member(body, "generateContentRequest"); inner != nil {
			body = inner
		}
	}
	_ = json.Unmarshal(body, &r.Members) // it is an object
	r.Model, r.Stream = Unquote(r.Members["model"]), string(r.Members["stream"]) == "true"
	switch api {
	case Chat:
		r.decodeChat()
	case Responses:
		r.decodeResponses(before)
	case Messages:
		r.decodeMessages()
	case Contents:
		r.decodeContents()
	}
	return r
}

// get returns a member of the request, nil if it is missing or null.
func (r *Request) get(name string) json.RawMessage {
	if value := r.Members[name]; !isNull(value) {
		return value
	}
	return nil
}

// copyOptions copies the members that have a name in Chat Completions, or that no API has.
func (r *Request) copyOptions(typed []string) {
	for name, value := range r.Members {
		if !slices.Contains(typed, name) {
			r.Options[name] = value
		}
	}
}

// Missing returns the first part without a counterpart in another API, nil if there is none. Has
// are the optional members of Chat Completions that this one has, and drop those that are dropped
// rather than missed.
func (r *Request) Missing(has, drop []string) *Gap {
	switch {
	case r.gap != nil:
		return r.gap
	case r.toolGap != nil && !slices.Contains(drop, "tools"):
		return r.toolGap
	}
	for _, m := range uncommon {
		value := r.Options[m.name]
		if value == nil || isNull(value) || m.idle(value) || slices.Contains(has, m.name) || slices.Contains(drop, m.name) {
			continue
		}
		return &Gap{m.name, Unsupported, m.instead, m.name}
	}
	return nil
}

// An optional member of Chat Completions, with the values that ask for nothing.
type optional struct {
	name    string
	idle    func(value []byte) bool
	instead string
}

// uncommon are the optional members that change the answer, and that not every API has.
var uncommon = []optional{
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
	switch text(format, "type") {
	case "json_object":
		return false
	case "json_schema":
		return member(format, "json_schema", "schema") != nil
	}
	return true
}

// common are the other members of Chat Completions: those that are translated, those for OpenAI
// alone, and advisory ones.
var common = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop",
	"tools", "tool_choice", "seed", "user", "safety_identifier", "metadata", "store", "service_tier",
	"prompt_cache_key", "prompt_cache_retention", "prediction", "reasoning_effort", "verbosity",
}

// ChatMembers are the members that requests of Chat Completions have, the optional ones that
// change the answer first.
func ChatMembers() (names []string, optional int) {
	for _, m := range uncommon {
		names = append(names, m.name)
	}
	return append(names, common...), len(uncommon)
}

// rest are the options that are in no list: they are for the backend.
func (r *Request) rest() map[string]json.RawMessage {
	rest := maps.Clone(r.Options)
	for _, name := range common {
		delete(rest, name)
	}
	for _, m := range uncommon {
		delete(rest, m.name)
	}
	return rest
}

// Settings are the options of a request that most APIs have.
type Settings struct {
	MaxTokens           int             `json:"max_tokens"` // 0 if there is no limit
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	Top                 *float64        `json:"top_p"`
	Frequency           *float64        `json:"frequency_penalty"`
	Presence            *float64        `json:"presence_penalty"`
	Seed                *int64          `json:"seed"`
	Parallel            *bool           `json:"parallel_tool_calls"`
	RawStop             json.RawMessage `json:"stop"`
	Format              struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`

	Stop []string `json:"-"`
	// JSON says that the answer must be a JSON object, or match Schema, which may be nil.
	JSON   bool            `json:"-"`
	Schema json.RawMessage `json:"-"`
}

// ReadOptions yields the members of a request of any API by their names in Chat Completions, and
// those that this API lacks by their own. It does not look into messages and tools.
func ReadOptions(body []byte) iter.Seq2[string, []byte] {
	return func(yield func(name string, value []byte) bool) {
		var s jsonscan.Scanner
		s.Init(body)
		for ok := s.Object(); ok && s.Next(); {
			name := string(s.Key())
			switch cmp.Or(contentAliases[name], name) {
			case "generationConfig":
				for ok := s.Object(); ok && s.Next(); {
					name := string(s.Key())
					if !yield(cmp.Or(contentNames[name], name), s.Value()) {
						return
					}
				}
				continue
			case messageNames["stop"]:
				name = "stop"
			case "max_output_tokens", "max_completion_tokens":
				name = "max_tokens"
			}
			value := s.Value()
			if value == nil || !yield(name, value) { // the text may be cut
				return
			}
		}
	}
}

// Settings reads the options. An invalid one is a [*Gap].
func (r *Request) Settings() (*Settings, error) {
	var s Settings
	if g := decode("", jsonscan.MustMarshal(r.Options), &s); g != nil {
		return nil, g
	}
	s.MaxTokens = max(s.MaxTokens, s.MaxCompletionTokens)
	switch jsonscan.KindOf(s.RawStop) {
	case jsonscan.Invalid, jsonscan.Null:
	case jsonscan.String:
		s.Stop = []string{Unquote(s.RawStop)}
	default:
		if g := decode("stop", s.RawStop, &s.Stop); g != nil {
			return nil, g
		}
	}
	switch s.Format.Type {
	case "", "text":
	case "json_object", "json_schema":
		if s.JSON = true; !isNull(s.Format.Schema.Schema) {
			s.Schema = s.Format.Schema.Schema
		}
	default:
		return nil, &Gap{At: "response_format", Code: Unsupported, Instead: "Use text, json_object or json_schema"}
	}
	return &s, nil
}

// oneCall reports whether parallel tool calls are disabled.
func (s *Settings) oneCall() bool { return s.Parallel != nil && !*s.Parallel }

// typeNames are the names of Go types.
var typeNames = map[reflect.Kind]string{
	reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number", reflect.Bool: "true or false",
	reflect.String: "a string", reflect.Slice: "an array", reflect.Struct: "an object",
}

// decode reads a value. The name is for errors.
func decode(name string, raw []byte, into any) *Gap {
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, into); !errors.As(err, &wrong) {
		return nil
	}
	switch {
	case name == "":
		name = wrong.Field
	case wrong.Field != "":
		name += "." + wrong.Field
	}
	return badType(name, wrong.Value, typeNames[wrong.Type.Kind()])
}

// split returns the system text, and the other turns.
func (r *Request) split() (system string, turns []Turn) {
	for _, t := range r.Turns {
		if t.Role != "system" {
			turns = append(turns, t)
			continue
		}
		for i, p := range t.Parts {
			if i == 0 && system != "" {
				system += "\n\n"
			}
			system += p.Text
		}
	}
	return system, turns
}

// Conversation returns the system text, and the other turns.
func (r *Request) Conversation() (system string, turns []Turn) { return r.split() }

// WithModel returns the body of a request, a JSON object, with another model.
func WithModel(body []byte, model string) []byte {
	return withMember(body, "model", func([]byte) []byte { return Quote(model) })
}

// WithUsage returns the body of a request of Chat Completions that asks for the usage of its
// stream.
func WithUsage(body []byte) []byte {
	return withMember(body, "stream_options", func(options []byte) []byte {
		if jsonscan.KindOf(options) != jsonscan.Object {
			return []byte(`{"include_usage":true}`)
		}
		return withMember(options, "include_usage", func([]byte) []byte { return []byte("true") })
	})
}

// withMember returns an object with another value of a member. If it has none, it becomes the
// first. All other bytes stay.
func withMember(object []byte, name string, value func(old []byte) []byte) []byte {
	var s jsonscan.Scanner
	s.Init(object)
	first := true
	for ok := s.Object(); ok && s.Next(); first = false {
		if string(s.Key()) != name {
			continue
		}
		start := s.Offset()
		old := s.Value()
		made := value(old)
		if string(made) == string(old) {
			return object
		}
		return slices.Concat(object[:start], made, object[start+len(old):])
	}
	at := strings.IndexByte(string(object), '{') + 1
	separator := ","
	if first {
		separator = ""
	}
	return slices.Concat(object[:at], Quote(name), []byte(":"), value(nil), []byte(separator), object[at:])
}

package modelapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// A Judge finds broken rules that need more of a payload than its message has.
type Judge interface {
	// Request judges the body of a request.
	Request(body []byte) []protocol.Broken
	// Answer judges an event or a whole answer, whose message is m, and adds its tool calls to
	// t.
	Answer(payload []byte, m *protocol.Message, t *Tools) []protocol.Broken
	// API is how the events of that kind are joined; ok is false if they cannot be.
	API(kind string) (api llm.API, ok bool)
}

// A Joiner joins the events of a streamed answer.
type Joiner struct {
	answer  llm.Answer
	decoder llm.Decoder
	reason  []byte // why the model stopped, as it said it
	failed  *llm.Error
	// Events is how many have been joined.
	Events int
}

// maxJoined bounds the texts of a joined answer, and the arguments of its tool calls, in bytes.
const maxJoined = 16 << 20

// Read adds an event, whose message is m, or an answer that did not come in events.
func (j *Joiner) Read(p Judge, payload []byte, m *protocol.Message) {
	api, ok := p.API(string(m.Kind))
	if !ok || len(payload) == 0 {
		return
	}
	j.answer.Most, j.answer.MostArguments = maxJoined, maxJoined
	j.decoder.API, j.decoder.Answer, j.decoder.Chunks = api, &j.answer, true
	j.Events++
	_, err := j.decoder.Read(payload)
	if e, ok := errors.AsType[*llm.Error](err); ok {
		j.failed = e
	}
	switch {
	case m.Phase != protocol.Fail && len(m.StopReason) > 0:
		j.reason = bytes.Clone(m.StopReason)
	case m.Phase == protocol.Fail && j.failed == nil:
		j.failed = &llm.Error{Code: string(m.StopReason), Message: llm.Unquote(fmt.Appendf(nil, `"%s"`, m.Text))}
	}
}

// Ended reports whether the answer says how it ended.
func (j *Joiner) Ended() bool { return len(j.reason) > 0 || j.failed != nil }

// JSON returns the answer as an object; nil if it says nothing.
func (j *Joiner) JSON() []byte {
	dst := j.answer.AppendJSON([]byte("{"))
	add := func(name, value string) {
		if value != "" {
			dst = append(append(llm.AppendName(dst, name), llm.Quote(value)...), ',')
		}
	}
	add("stop_reason", string(j.reason))
	if e := j.failed; e != nil {
		dst = append(llm.AppendName(dst, "error"), '{')
		add("code", cmp.Or(e.Code, e.Type))
		add("message", e.Message)
		dst = append(bytes.TrimSuffix(dst, []byte(",")), "},"...)
	}
	if len(dst) == 1 {
		return nil
	}
	dst[len(dst)-1] = '}'
	return dst
}

// Tools are the tool calls of an answer. Their arguments may come in pieces.
type Tools struct {
	answer llm.Answer
	// Unused is why the usage is missing; nil if it has come.
	Unused []protocol.Broken
	named  int // how many calls [Tools.Named] has returned
}

const (
	// maxTools bounds the tool calls of an answer that are judged, and maxArguments their
	// arguments, in bytes.
	maxTools     = 128
	maxArguments = 20 << 10
)

// Read adds the tool calls of an answer of an API, or of an event of one.
func (t *Tools) Read(api llm.API, payload []byte, isEvent bool) {
	for _, member := range []string{`"name"`, `"arguments"`, `"partial_json"`, `_input.`} {
		if bytes.Contains(payload, []byte(member)) {
			t.answer.MostCalls, t.answer.MostArguments = maxTools, maxArguments
			d := llm.Decoder{API: api, Answer: &t.answer, Chunks: isEvent, Calls: true}
			_, _ = d.Read(payload)
			return
		}
	}
}

// Named returns the names of the calls that were added since its last call.
func (t *Tools) Named() (names []string) {
	for ; ; t.named++ {
		_, name, _, ok := t.answer.Begun(t.named)
		if !ok || name == "" {
			return names
		}
		names = append(names, name)
	}
}

// Links returns the calls as links, with their arguments if these are to be kept.
func (t *Tools) Links(whole bool) (links []protocol.Link) {
	for i := 0; ; i++ {
		id, name, arguments, ok := t.answer.Begun(i)
		if !ok {
			return links
		}
		if name == "" {
			continue
		}
		link := protocol.Link{As: protocol.Calls, Text: id, Tool: name, Arguments: protocol.HashOfArguments(arguments)}
		if whole {
			link.Written = bytes.Clone(arguments)
		}
		links = append(links, link)
	}
}

// limits are the stop reasons of incomplete answers.
var limits = []string{"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "content_filter", "refusal"}

// Judge judges the calls of an answer with that stop reason. fits returns why arguments, which
// are JSON, do not fit the tool of a name.
func (t *Tools) Judge(reason string, fits func(name string, arguments []byte) error) (broken []protocol.Broken) {
	broken = t.Unused
	if slices.Contains(limits, reason) {
		return broken
	}
	for i := 0; ; i++ {
		_, name, arguments, ok := t.answer.Begun(i)
		if !ok {
			return broken
		}
		if len(arguments) == 0 { // they are optional
			continue
		}
		if err := jsonscan.WellFormed(arguments); err != nil {
			broken = append(broken, protocol.Broken{Finding: "bad-arguments", How: fmt.Sprintf("the arguments for %.200q are not JSON: %v", name, err)})
		} else if err := fits(name, arguments); err != nil {
			broken = append(broken, protocol.Broken{Finding: "bad-arguments", How: fmt.Sprintf("the arguments for %.200q do not fit its schema: %.300v", name, err)})
		}
	}
}

// WrongUsage returns the finding that the usage is missing or does not add up.
func WrongUsage(format string, args ...any) []protocol.Broken {
	return []protocol.Broken{{Finding: "wrong-usage", How: fmt.Sprintf(format, args...)}}
}

// Sum judges a total, which must be the sum of its parts if it is present.
func Sum(usage []byte, total string, parts ...string) []protocol.Broken {
	raw, ok := jsonscan.Get(usage, total)
	if !ok || jsonscan.KindOf(raw) != jsonscan.Number {
		return nil
	}
	var sum int64
	for _, p := range parts {
		sum += Count(usage, p)
	}
	if all := jsonwalk.Count(raw); all != sum {
		return WrongUsage("%s is %d, and its parts are %d", total, all, sum)
	}
	return nil
}

// Count returns the count at a path; 0 if there is none.
func Count(usage []byte, path ...string) int64 {
	raw, _ := jsonscan.Get(usage, path...)
	return jsonwalk.Count(raw)
}

// Object returns the object at a path; nil if there is none.
func Object(payload []byte, path ...string) []byte {
	raw, _ := jsonscan.Get(payload, path...)
	if jsonscan.KindOf(raw) != jsonscan.Object {
		return nil
	}
	return raw
}

// Uses judges the tool results of a conversation, which must be for calls in it. A request that
// continues a conversation at the server may have calls there.
func Uses(body []byte) []protocol.Broken {
	var r results
	var s jsonscan.Scanner
	s.Init(body)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "messages", "input", "contents":
			r.read(&s)
		case "previous_response_id", "conversation":
			r.kept = s.NotNull() != nil || r.kept
		}
	}
	if s.End() != nil || r.kept {
		return nil
	}
	return r.broken
}

// results judge the tool results of a conversation by its tool calls. Ids are as written.
type results struct {
	calls  map[string]bool
	kept   bool // there may be calls elsewhere
	broken []protocol.Broken
}

// read walks the next value: turns or blocks, or one of them. Gemini's calls and results have the
// same name, for an id need not be there.
func (r *results) read(s *jsonscan.Scanner) {
	for ok := s.Array(); ok && s.Elem(); {
		r.read(s)
	}
	var kind, id, call, result []byte
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			kind = jsonwalk.Word(s.Value())
		case "id":
			id = s.Value()
		case "call_id":
			call = s.Value()
		case "tool_use_id", "tool_call_id":
			result = s.Value()
		case "content", "parts":
			r.read(s)
		case "tool_calls":
			for ok := s.Array(); ok && s.Elem(); {
				r.addCall(jsonwalk.Member(s, "id"))
			}
		case "functionCall":
			r.addCall(jsonwalk.Member(s, "name"))
		case "functionResponse":
			r.judge(jsonwalk.Member(s, "name"))
		}
	}
	r.kept = r.kept || string(kind) == "item_reference"
	switch {
	case result != nil:
		r.judge(result)
	case strings.HasSuffix(string(kind), "tool_use"):
		r.addCall(id)
	case strings.HasSuffix(string(kind), "_output"):
		r.judge(call)
	case call != nil:
		r.addCall(call)
	}
}

func (r *results) addCall(id []byte) {
	if r.calls == nil {
		r.calls = map[string]bool{}
	}
	r.calls[string(id)] = true
}

func (r *results) judge(id []byte) {
	if word := jsonwalk.Word(id); word != nil && !r.calls[string(id)] {
		r.broken = append(r.broken, protocol.Broken{Finding: "unknown-tool-call", How: fmt.Sprintf("there is a result for %.200q, which was not called", word)})
	}
}

package llm

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Decoder reads an answer, or the events of a streamed one, and adds them to an Answer.
type Decoder struct {
	API    API
	Answer *Answer
	Chunks bool // the answer is streamed
	// Calls says that only tool calls are read: those of all choices, and of the tools that the
	// provider runs itself. Nothing is an error then.
	Calls bool
	// Stopped says that the last event of a stream has come.
	Stopped bool
	// Event is the last event.
	Event Event

	deltas []Delta
	some   bool   // an event had a choice, a candidate, or output
	kind   []byte // of the event
	index  int    // of the block or the item that the event is about
	offset int    // of the indexes of a choice's calls
}

// Read reads an answer or an event, and returns its deltas, which are valid until the next call.
// A failure is an [*Error].
func (d *Decoder) Read(data []byte) ([]Delta, error) {
	d.deltas, d.kind, d.index = d.deltas[:0], nil, -1
	if d.API <= Responses && string(bytes.TrimSpace(data)) == "[DONE]" {
		if d.Stopped = true; d.API == Chat && !d.some && !d.Calls {
			return nil, malformed("it has no choices")
		}
		return nil, nil
	}
	if d.API == Messages || d.API == Responses {
		d.kind = member(data, "type")
		for _, name := range [...]string{"index", "output_index"} {
			if n := member(data, name); n != nil {
				d.index = place(n)
			}
		}
	}
	d.Event = Event{API: d.API, sink: d}
	var s jsonscan.Scanner
	s.Init(data)
	d.Event.Read(&s)
	if s.End() != nil {
		return d.deltas, errNotJSON
	}
	err := d.end(data)
	if d.Calls {
		err = nil
	}
	return d.deltas, err
}

// finishes are finish reasons by the words of all APIs.
var finishes = map[string]string{
	"function_call": "tool_calls", "sensitive": "content_filter",
	"end_turn": "stop", "stop_sequence": "stop", "pause_turn": "stop", "max_tokens": "length", "model_context_window_exceeded": "length", "tool_use": "tool_calls", "refusal": "content_filter",
	"completed": "stop", "max_output_tokens": "length", "incomplete": "length", "model_length": "length",
	"MAX_TOKENS": "length", "SAFETY": "content_filter", "RECITATION": "content_filter", "BLOCKLIST": "content_filter", "PROHIBITED_CONTENT": "content_filter",
	"SPII": "content_filter", "IMAGE_SAFETY": "content_filter", "IMAGE_PROHIBITED_CONTENT": "content_filter", "IMAGE_RECITATION": "content_filter", "LANGUAGE": "content_filter",
}

// brokenOff are the finish reasons of answers that failed.
var brokenOff = []string{
	"error", "network_error", "insufficient_system_resource", "abort",
	"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
}

// BrokeOff reports whether a finish reason of any API says that the answer failed.
func BrokeOff(reason string) bool { return slices.Contains(brokenOff, reason) }

// end ends an event.
func (d *Decoder) end(data []byte) error {
	e := &d.Event
	d.some = d.some || e.Some
	d.Answer.Usage.add(ReadUsage(d.API, e.Usage))
	kind, status, reason, missing := Unquote(d.kind), Unquote(e.Status), Unquote(e.Stop), ""
	switch d.API {
	case Messages:
		switch kind {
		case "content_block_stop":
			d.stopBlock(d.index)
		case "message", "message_stop":
			d.Stopped = true
		default:
			missing = "it is not a message"
		}
	case Responses:
		if end := strings.TrimPrefix(kind, "response."); d.Chunks {
			status = ""
			if slices.Contains([]string{"completed", "incomplete", "failed", "cancelled"}, end) {
				status = end
			}
		}
		switch status {
		case "completed":
			reason, d.Stopped = status, true
		case "incomplete":
			reason, d.Stopped = cmp.Or(Unquote(e.Why), status), true
		case "failed", "cancelled":
			return ReadError(0, data)
		default:
			missing = "it is not a complete response"
		}
	default:
		if !e.Some {
			missing = map[API]string{Chat: "it is not a chat completion", Contents: "it has no candidates"}[d.API]
		}
	}
	switch {
	case e.Failed, kind == "error":
		return ReadError(0, data)
	case missing != "" && !d.Chunks:
		return malformed(missing)
	case reason == "":
		return nil
	case BrokeOff(reason):
		said := Unquote(e.Message)
		return &Error{Status: 502, Code: reason, Message: cmp.Or(said, reason), Final: true, Shown: said != "" || d.API == Contents}
	case finishes[reason] != "":
		reason = finishes[reason]
	case d.API == Contents && string(bare(e.Stop)) != "":
		// Any other reason leaves the answer incomplete, unless it calls: calls come whole.
		isPlain := reason == "STOP" || reason == "FINISH_REASON_UNSPECIFIED" || len(d.Answer.calls) > 0
		reason = map[bool]string{true: "stop", false: "content_filter"}[isPlain]
	}
	d.Answer.Finish = reason
	return nil
}

// isEmpty reports whether nothing has come yet.
func (d *Decoder) isEmpty() bool {
	return len(d.Answer.Text) <= len(`""`) && d.Answer.Thoughts == nil && len(d.Answer.calls) == 0
}

// text adds a string token. An empty one may begin a stream of Chat Completions.
func (d *Decoder) text(token []byte) {
	if d.API == Chat || len(token) > len(`""`) {
		d.Answer.AppendText(token)
		d.deltas = append(d.deltas, Delta{Text: token, Refused: d.Answer.Refused})
	}
}

// thinking adds a string token of reasoning.
func (d *Decoder) thinking(token []byte) {
	if len(token) > len(`""`) {
		d.Answer.AppendThought(token)
		d.deltas = append(d.deltas, Delta{Thought: token})
	}
}

// addCall adds a tool call, or a piece of one.
func (d *Decoder) addCall(f *fragment, kind string) {
	p := piece{
		index: f.index, id: word(f.id), name: word(f.name), arguments: f.arguments,
		custom: f.custom || kind == "custom" || kind == "custom_tool_call", whole: f.whole, signature: Unquote(f.signature),
	}
	if f.callID != nil {
		p.id = word(f.callID)
	}
	if d.API == Contents && p.arguments == nil && !d.Calls {
		p.arguments = []byte("{}")
	}
	var start []byte
	switch {
	case kind == "input_json_delta":
		p.index, p.more = d.index, true
	case f.begins:
		p.index, p.whole = d.index, true
		if len(f.arguments) > len("{}") {
			start = slices.Clone(d.Answer.fitting(f.arguments))
		}
		if strings.HasSuffix(string(bare(d.kind)), ".done") {
			if i := d.Answer.callAt(p.index); i >= 0 {
				d.Answer.calls[i].startWith(start)
				d.stopBlock(p.index)
				return
			}
		} else {
			p.arguments = nil
		}
	case !f.whole && !f.indexed && (f.index == 0 || p.id != ""):
		p.index = -1
	}
	if p.index >= 0 {
		p.index = min(p.index+d.offset, math.MaxInt32)
	}
	before := len(d.Answer.calls)
	d.joinCall(p)
	if len(d.Answer.calls) > before && p.arguments == nil {
		d.Answer.calls[before].startWith(start)
	}
}

// joinCall adds a piece of a tool call.
func (d *Decoder) joinCall(p piece) {
	if c := d.Answer.join(p); c != nil && !d.Calls {
		d.deltas = append(d.deltas, Delta{Call: c})
	}
}

// stopBlock ends a block. Arguments that came with its start count if no piece of them came.
func (d *Decoder) stopBlock(index int) {
	i := d.Answer.callAt(index)
	if i < 0 {
		return
	}
	if c := &d.Answer.calls[i]; c.atStart {
		start := c.text
		c.text, c.atStart = nil, false
		d.joinCall(piece{index: index, more: true, arguments: start})
	}
	d.Answer.calls[i].index = ended
}

// startWith adds the arguments with which the block of a call starts.
func (c *joined) startWith(arguments []byte) {
	if arguments != nil && len(c.text) == 0 {
		c.text, c.atStart = arguments, true
	}
}

// place reads an index.
func place(n []byte) int { return int(min(count(n), 1<<20-1)) }

// ReadUsage reads the usage of an answer of an API.
func ReadUsage(api API, usage []byte) (u Usage) {
	var iterations Usage
	thoughts, written, total := int64(0), int64(0), int64(0)
	var s jsonscan.Scanner
	s.Init(usage)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "prompt_tokens", "input_tokens", "promptTokenCount", "toolUsePromptTokenCount":
			u.Input += count(s.Value())
		case "completion_tokens", "output_tokens", "candidatesTokenCount", "responseTokenCount":
			u.Output += count(s.Value())
		case "cache_read_input_tokens", "cachedContentTokenCount", "cached_tokens", "prompt_cache_hit_tokens":
			u.Cached = max(u.Cached, count(s.Value()))
		case "total_tokens":
			total = count(s.Value())
		case "cache_creation_input_tokens":
			u.Written = count(s.Value())
		case "cache_creation":
			for ok := s.Object(); ok && s.Next(); {
				if string(s.Key()) == "ephemeral_1h_input_tokens" {
					u.Kept = count(s.Value())
				}
			}
		case "thoughtsTokenCount":
			thoughts = count(s.Value())
		case "prompt_tokens_details", "input_tokens_details", "input_token_details":
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "cached_tokens":
					u.Cached = max(u.Cached, count(s.Value()))
				case "cache_write_tokens":
					written = count(s.Value())
				case "audio_tokens":
					u.Apart = count(s.Value()) > 0 || u.Apart
				}
			}
		case "promptTokensDetails", "candidatesTokensDetails", "cacheTokensDetails":
			for ok := s.Array(); ok && s.Elem(); {
				u.Apart = string(word(member(s.Value(), "modality"))) == "AUDIO" || u.Apart
			}
		case "service_tier", "serviceTier", "trafficType", "speed", "inference_geo":
			u.Apart = !IsUsual(s.Value()) || u.Apart
		case "completion_tokens_details", "output_tokens_details":
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "reasoning_tokens":
					u.Thinking = count(s.Value())
				case "audio_tokens":
					u.Apart = count(s.Value()) > 0 || u.Apart
				}
			}
		case "iterations":
			for ok := s.Array(); ok && s.Elem(); {
				one := ReadUsage(Messages, s.Value())
				iterations.Input += one.Input
				iterations.Output += one.Output
				iterations.Cached += one.Cached
				iterations.Written += one.Written
				iterations.Kept += one.Kept
			}
		}
	}
	switch api {
	case Messages:
		u.Input += u.Cached + u.Written
		u.add(iterations)
	case Contents:
		u.Output, u.Thinking = u.Output+thoughts, thoughts
	default:
		u.Written = max(u.Written, written)
		if u.Thinking > u.Output || u.Thinking > 0 && total == u.Input+u.Output+u.Thinking { // some count reasoning besides
			u.Output += u.Thinking
		}
	}
	return u
}

// IsUsual reports whether a tier of service, a speed or a place, as an answer tells it, has the usual price.
func IsUsual(token []byte) bool {
	switch string(bare(token)) {
	case "", "null", "default", "standard", "auto", "ON_DEMAND", "global", "not_available":
		return true
	}
	return false
}

// A Reply is what an answer says besides its content.
type Reply struct {
	ID, Model string
	Created   int64
	// Choices is the number of choices, all with the same content; 0 is one.
	Choices int
	// Usage says that the client of a stream of Chat Completions wants it, and Thoughts that the
	// client of generateContent wants those.
	Usage, Thoughts bool
	// Request is the client's request, for Responses.
	Request *Request
	// Send sends an event, whose name may be "".
	Send func(name string, data []byte)
}

// An encoder writes answers of an API.
type encoder interface {
	encodeWhole(a *Answer) ([]byte, error)
	encodeDelta(d *Delta)
	encodeEnd(a *Answer)
	// encodeFailure reports whether the stream is complete with the failure.
	encodeFailure(err *Error) bool
}

// A Writer writes an answer: whole, or as a stream of events.
type Writer struct {
	encoder
	reply   *Reply
	calls   int  // how many have begun
	inOrder bool // the API has one call after the other

	current   int         // the call whose pieces are written, -1 for none
	arguments []byte      // of that call, so far
	waiting   []CallDelta // pieces of later calls
}

// Whole writes a whole answer.
func (w *Writer) Whole(a *Answer) ([]byte, error) { return w.encodeWhole(a) }

// Fail ends a stream with an error, and reports whether that is a complete end in its API.
func (w *Writer) Fail(err *Error) (complete bool) { return w.encodeFailure(err) }

// NewWriter returns a writer for clients of an API.
func NewWriter(api API, r *Reply) *Writer {
	w := &Writer{reply: r, current: -1, inOrder: api == Messages || api == Responses}
	switch api {
	case Responses:
		w.encoder = &responseEncoder{Reply: r}
	case Messages:
		w.encoder = &messageEncoder{Reply: r}
	case Contents:
		w.encoder = &contentEncoder{Reply: r}
	default:
		w.encoder = &chatEncoder{Reply: r}
	}
	return w
}

// ID is the id of the answer.
func (w *Writer) ID() string { return w.reply.ID }

// Delta writes a piece of a stream.
func (w *Writer) Delta(d *Delta) {
	c := d.Call
	if c == nil {
		w.encodeDelta(d)
		return
	}
	w.calls = max(w.calls, c.Index+1)
	switch {
	case !w.inOrder:
		w.encodeDelta(d)
	case c.Index == w.current || w.isComplete():
		w.write(c)
		w.release(false)
	default: // two calls come at once
		w.waiting = append(w.waiting, *c)
	}
}

// isComplete reports whether another call may begin.
func (w *Writer) isComplete() bool { return w.current < 0 || jsonscan.Valid(w.arguments) == nil }

func (w *Writer) write(c *CallDelta) {
	if c.Index != w.current {
		w.current, w.arguments = c.Index, w.arguments[:0]
	}
	w.arguments = append(w.arguments, c.Arguments...)
	w.encodeDelta(&Delta{Call: c})
}

// release writes the pieces that wait for the end of the current call.
func (w *Writer) release(all bool) {
	for len(w.waiting) > 0 && (all || w.isComplete()) {
		next := w.waiting[0].Index
		var later []CallDelta
		for i := range w.waiting {
			if c := &w.waiting[i]; c.Index == next {
				w.write(c)
			} else {
				later = append(later, *c)
			}
		}
		w.waiting = later
	}
}

// Finish ends a stream. It first writes the tool calls of which no piece came.
func (w *Writer) Finish(a *Answer) {
	w.release(true)
	for i := w.calls; i < len(a.ToolCalls); i++ {
		c := a.ToolCalls[i]
		w.encodeDelta(&Delta{Call: &CallDelta{i, c.ID, c.Name, c.string(), c.Custom}})
	}
	w.encodeEnd(a)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// WithoutUsage returns a chunk of Chat Completions as it would be had the usage not been asked
// for, nil if it would not exist: it has the usage and no choices.
func WithoutUsage(chunk []byte, choices bool) []byte {
	var s jsonscan.Scanner
	s.Init(chunk)
	last, start, end := -1, -1, -1 // the end of the member before; the place of the usage
	usage := jsonscan.Invalid
	for ok := s.Object(); ok && s.Next(); {
		isUsage, at, kind := string(s.Key()) == "usage", s.Offset(), s.Peek()
		value := s.Value()
		if isUsage {
			usage, start, end = kind, last, at+len(value)
		}
		last = at + len(value)
	}
	switch {
	case usage == jsonscan.Object && !choices:
		return nil
	case usage != jsonscan.Null:
		return chunk
	}
	if start >= 0 {
		return slices.Concat(chunk[:start], chunk[end:])
	}
	at := slices.Index(chunk, '{') + 1 // no member before it
	rest := trimSpace(chunk[end:])
	if len(rest) > 0 && rest[0] == ',' {
		rest = trimSpace(rest[1:])
	}
	return slices.Concat(chunk[:at], rest)
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

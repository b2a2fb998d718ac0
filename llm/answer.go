package llm

import (
	"slices"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Decoder reads an answer, or the events of a streamed one, and adds them to an Answer.
type Decoder struct {
	API    API
	Answer *Answer
	Chunks bool // the answer is streamed
	// Stopped says that the last event of a stream has come.
	Stopped bool

	deltas  []Delta
	thought []byte         // of the event, so that it is read once
	some    bool           // the event has a choice
	blocks  map[int]*block // of Messages, by index
}

// Read reads an answer or an event, and returns its deltas, which are valid until the next call.
// A failure is an [*Error].
func (d *Decoder) Read(data []byte) ([]Delta, error) {
	d.deltas, d.thought, d.some = d.deltas[:0], nil, false
	var err error
	switch d.API {
	case Messages:
		err = d.readMessages(data)
	case Contents:
		err = d.readContents(data)
	default:
		if string(data) == "[DONE]" {
			d.Stopped = true
			return nil, nil
		}
		err = d.readChat(data)
	}
	return d.deltas, err
}

// HasChoice reports whether the last event of Chat Completions had a choice.
func (d *Decoder) HasChoice() bool { return d.some }

// text adds a string token; others are ignored.
func (d *Decoder) text(token []byte, evenEmpty bool) {
	if jsonscan.KindOf(token) == jsonscan.String && (evenEmpty || len(token) > len(`""`)) {
		d.Answer.AppendText(token)
		d.deltas = append(d.deltas, Delta{Text: token})
	}
}

// thinking adds a string token of reasoning.
func (d *Decoder) thinking(token []byte) {
	if jsonscan.KindOf(token) == jsonscan.String && len(token) > len(`""`) {
		d.thought = token
		d.Answer.AppendThought(token)
		d.deltas = append(d.deltas, Delta{Thought: token})
	}
}

// addCall adds a piece of a tool call.
func (d *Decoder) addCall(p piece) {
	if c := d.Answer.join(p); c != nil {
		d.deltas = append(d.deltas, Delta{Call: c})
	}
}

// ReadUsage reads the usage of an answer of an API.
func ReadUsage(api API, usage []byte) (u Usage) {
	var iterations Usage
	thoughts, written := int64(0), int64(0)
	var s jsonscan.Scanner
	s.Init(usage)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "prompt_tokens", "input_tokens", "promptTokenCount", "toolUsePromptTokenCount":
			u.Input += count(s.Value())
		case "completion_tokens", "output_tokens", "candidatesTokenCount", "responseTokenCount":
			u.Output += count(s.Value())
		case "cache_read_input_tokens", "cachedContentTokenCount":
			u.Cached = count(s.Value())
		case "cache_creation_input_tokens":
			u.Written = count(s.Value())
		case "thoughtsTokenCount":
			thoughts = count(s.Value())
		case "prompt_tokens_details", "input_tokens_details", "input_token_details":
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "cached_tokens":
					u.Cached = count(s.Value())
				case "cache_write_tokens":
					written = count(s.Value())
				}
			}
		case "completion_tokens_details", "output_tokens_details":
			for ok := s.Object(); ok && s.Next(); {
				if string(s.Key()) == "reasoning_tokens" {
					u.Thinking = count(s.Value())
				}
			}
		case "iterations":
			for ok := s.Array(); ok && s.Elem(); {
				one := ReadUsage(Messages, s.Value())
				iterations.Input += one.Input
				iterations.Output += one.Output
				iterations.Cached += one.Cached
				iterations.Written += one.Written
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
	}
	return u
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

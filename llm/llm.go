// Package llm reads and writes the JSON of model APIs: Chat Completions, Responses, Messages
// and generateContent. Whatever API it came by, a request is a [Request], an answer an
// [Answer], a piece of a stream a [Delta], and a failure an [Error]. Translating is decoding
// and then encoding. Between two ends of the same API, bytes pass unchanged.
//
// Text is passed on as JSON string tokens: most of it is copied from one JSON text to another,
// and need not be decoded.
package llm

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// An API is the API of a model.
type API uint8

const (
	Chat      API = iota // OpenAI's Chat Completions, and the older Completions
	Responses            // OpenAI's Responses
	Messages             // Anthropic's Messages
	Contents             // Gemini's generateContent
)

// A Request is a request for an answer, without the parts that only its own API knows.
type Request struct {
	API    API
	Model  string
	Stream bool
	Turns  []Turn
	Tools  []Tool
	// Choice is auto, none, required, or "" if the request has none. Tool is the tool that must
	// be called, or "".
	Choice, Tool string
	// Options are the other members, by the names that they have in Chat Completions: those of
	// that API, and those that no API here has.
	Options map[string]json.RawMessage
	// Members are the members as written.
	Members map[string]json.RawMessage

	gap, toolGap *Gap              // the first part, and the first tool, without a counterpart
	spaces       map[string]spaced // the tools of namespaces, by their flat names
}

// A Turn is a message.
type Turn struct {
	Role  string     `json:"role"` // system, user, assistant or tool
	Parts []Part     `json:"parts,omitempty"`
	Calls []ToolCall `json:"calls,omitempty"`
	// Answers is the id of the call that a tool answers, and Name the tool's name, if known.
	Answers string `json:"answers,omitempty"`
	Name    string `json:"name,omitempty"`

	at string // its place in the request
}

// A Part is a text, an image, or a file.
type Part struct {
	Text string `json:"text,omitempty"`
	// ImageURL is an address, or a data: URL, and File the data: URL of a document or a sound.
	ImageURL string `json:"image_url,omitempty"`
	File     string `json:"file,omitempty"`
	Name     string `json:"name,omitempty"`   // of the file
	Detail   string `json:"detail,omitempty"` // of the image
	// At is the place of an image or a file in the request.
	At string `json:"at,omitempty"`
}

// Data returns the media type and the base64 text of a data: URL.
func (p Part) Data() (mediaType, base64 string, ok bool) {
	rest, ok := strings.CutPrefix(p.ImageURL+p.File, "data:")
	if !ok {
		return "", "", false
	}
	mediaType, base64, ok = strings.Cut(rest, ";base64,")
	return mediaType, base64, ok
}

// A Tool is a tool that the model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	// Strict says that arguments must match Parameters.
	Strict bool `json:"strict,omitempty"`

	custom json.RawMessage // of a tool that takes a text: its description in Chat Completions
	at     string
}

// A ToolCall is a call of a tool by the model.
type ToolCall struct {
	ID, Name string
	// Arguments is a JSON value as the model wrote it.
	Arguments []byte
	// Custom says that the tool's argument is a text: Arguments is a string token.
	Custom bool
	// Signature represents the thoughts that led to the call; "" if there is none.
	Signature string
}

// Arguments reads the arguments of a call from a string of JSON. Invalid JSON stays a string.
func Arguments(text string) []byte {
	switch {
	case strings.TrimSpace(text) == "", strings.TrimSpace(text) == "null":
		return []byte("{}")
	case jsonscan.Valid([]byte(text)) != nil:
		return Quote(text)
	}
	return []byte(text)
}

// Input returns the arguments as an object, even if the model wrote something else.
func (c *ToolCall) Input() []byte {
	switch jsonscan.KindOf(c.Arguments) {
	case jsonscan.Object:
		return c.Arguments
	case jsonscan.Invalid:
		return []byte("{}")
	}
	return append(append([]byte(`{"arguments":`), c.Arguments...), '}')
}

// text is the argument of a tool that takes a text. A model that was not told so may have put
// it into an object.
func (c *ToolCall) text() json.RawMessage {
	if jsonscan.KindOf(c.Arguments) == jsonscan.String {
		return c.Arguments
	}
	if input := member(c.Arguments, "input"); jsonscan.KindOf(input) == jsonscan.String {
		return input
	}
	return Quote(string(c.Arguments))
}

// Usage counts tokens. Input includes cached and written tokens, and Output the tokens of
// reasoning. Kept are the written tokens that the cache keeps for an hour. Apart means that they do not have
// the usual price of the model: for another tier of service, speed or place, or for audio.
type Usage struct {
	Input, Output, Cached, Thinking, Written, Kept int64
	Apart                                          bool
}

// add raises the counts to those of u: in a stream, counts are cumulative.
func (k *Usage) add(u Usage) {
	k.Input, k.Output = max(k.Input, u.Input), max(k.Output, u.Output)
	k.Cached, k.Thinking, k.Written = max(k.Cached, u.Cached), max(k.Thinking, u.Thinking), max(k.Written, u.Written)
	k.Kept, k.Apart = max(k.Kept, u.Kept), k.Apart || u.Apart
}

// An Answer is what a model answered.
type Answer struct {
	// Text is a JSON string token. It is "" (two quotes) for an answer of tool calls alone.
	Text []byte
	// Thoughts are the model's reasoning, a JSON string token, nil if there is none.
	Thoughts []byte
	// Finish is stop, length, tool_calls or content_filter. It may be empty.
	Finish    string
	ToolCalls []ToolCall
	Usage     Usage
	// Refused says that Text is a refusal.
	Refused bool
	// Media says that there is an image or a sound, which only the API of the answer can carry.
	Media bool
	// Most bounds the bytes of Text and Thoughts that are kept of a stream, for observers.
	// 0 keeps all.
	Most int
	// Dropped are tool calls without a name, which no client could answer.
	Dropped int

	// MostCalls and MostArguments bound the tool calls that are kept of a stream, and the bytes of
	// their arguments, beyond which only the names are kept. 0 keeps up to a thousand, and all.
	MostCalls, MostArguments int

	cut   bool // no more text is kept
	calls []joined
	size  int // of the arguments
}

// A Delta is a piece of a streamed answer.
type Delta struct {
	// Text and Thought are JSON string tokens, nil if the piece has none.
	Text, Thought []byte
	// Refused says that Text is part of a refusal.
	Refused bool
	// Call is a piece of a tool call, nil if there is none.
	Call *CallDelta
}

// A CallDelta is a piece of a tool call. The first piece of a call has its id and name.
type CallDelta struct {
	Index     int // of the call in the answer
	ID, Name  string
	Arguments string
	Custom    bool
}

// AppendText appends a string token to the text.
func (a *Answer) AppendText(token []byte) { a.Text = a.appendToken(a.Text, token) }

// AppendThought appends a string token to the thoughts.
func (a *Answer) AppendThought(token []byte) { a.Thoughts = a.appendToken(a.Thoughts, token) }

// appendToken joins two string tokens; the first may be nil. Text over the limit is replaced by
// an ellipsis.
func (a *Answer) appendToken(text, more []byte) []byte {
	if text == nil {
		text = []byte(`""`)
	}
	switch {
	case a.cut:
		return text
	case a.Most > 0 && len(a.Text)+len(a.Thoughts)+len(more) > a.Most-len(`…`):
		a.cut, more = true, []byte(`"…"`)
	}
	if need := len(text) + len(more) - 2; a.Most > 0 && need > cap(text) {
		text = append(make([]byte, 0, max(need, min(2*cap(text), a.Most))), text...)
	}
	return append(append(text[:len(text)-1], more[1:len(more)-1]...), '"')
}

// SetText sets the text to a prefix, which needs no escapes, and the text of token.
func (a *Answer) SetText(prefix string, token []byte) {
	a.Text = slices.Concat([]byte(`"`+prefix), token[1:])
}

// Plain returns the text without quotes and escapes.
func (a *Answer) Plain() string { return Unquote(a.Text) }

// Seal completes an answer: its tool calls and its text.
func (a *Answer) Seal() {
	if a.Text == nil {
		a.Text = []byte(`""`)
	}
	for _, c := range a.calls {
		switch {
		case !c.named:
			a.Dropped++
		case c.custom:
			a.ToolCalls = append(a.ToolCalls, ToolCall{c.id, c.name, Quote(string(c.text)), true, c.signature})
		default:
			a.ToolCalls = append(a.ToolCalls, ToolCall{c.id, c.name, Arguments(string(c.text)), false, c.signature})
		}
	}
	a.calls = nil
	switch {
	case len(a.ToolCalls) > 0 && (a.Finish == "stop" || a.Finish == ""):
		a.Finish = "tool_calls"
	case len(a.ToolCalls) == 0 && a.Finish == "tool_calls": // they had no names
		a.Finish = "stop"
	case a.Refused && a.Finish == "stop":
		a.Finish = "content_filter"
	}
}

// A joined tool call is put together from its pieces.
type joined struct {
	id, name  string
	given     *string // the id that the provider gave, if that is also another call's
	text      []byte  // the arguments
	signature string
	index     int32 // -1 if the provider gave none, or ended
	custom    bool
	made      bool // the provider gave no id
	named     bool // a delta told its name
	atStart   bool // the arguments came with the start of its block, and count if no piece follows
}

// givenID is the id that the provider gave, "" if none.
func (c *joined) givenID() string {
	switch {
	case c.made:
		return ""
	case c.given != nil:
		return *c.given
	}
	return c.id
}

// ended is the index of a call whose block has ended.
const ended = -2

// A piece of a tool call. Its arguments are a string token of their JSON, or the JSON itself.
type piece struct {
	index     int // -1 for none
	id, name  string
	arguments []byte
	custom    bool
	whole     bool // it is a call of its own
	more      bool // it continues the call of its index
	signature string
}

// maxCalls bounds the tool calls of an answer.
const maxCalls = 1000

// mostName and mostID bound names and ids if arguments are bounded, in bytes.
const mostName, mostID = 256, 64

// bound makes a piece fit the bounds.
func (a *Answer) bound(p *piece) {
	if a.MostArguments == 0 {
		return
	}
	p.signature = ""
	p.name, p.id = strings.Clone(p.name[:min(len(p.name), mostName)]), strings.Clone(p.id[:min(len(p.id), mostID)])
	p.arguments = a.fitting(p.arguments)
}

// fitting returns arguments if they may be kept. If not, all are dropped.
func (a *Answer) fitting(arguments []byte) []byte {
	if a.size += len(arguments); a.MostArguments == 0 || a.size <= a.MostArguments {
		return arguments
	}
	for i := range a.calls {
		a.calls[i].text = nil
	}
	a.size = a.MostArguments
	return nil
}

// Begun returns the id, the name and the arguments so far of a tool call of a stream, if there are so many.
func (a *Answer) Begun(i int) (id, name string, arguments []byte, ok bool) {
	if i >= len(a.calls) {
		return "", "", nil, false
	}
	return a.calls[i].id, a.calls[i].name, a.calls[i].text, true
}

// AppendJSON appends what a stream has said so far, as members of an object with a comma after
// each. Ids that the provider did not give are left out.
func (a *Answer) AppendJSON(dst []byte) []byte {
	add := func(name string, value []byte) { dst = append(append(AppendName(dst, name), value...), ',') }
	end := func(with string) { dst = append(append(dst[:len(dst)-1], with...), ',') }
	if a.Thoughts != nil {
		add("thoughts", a.Thoughts)
	}
	if len(a.Text) > len(`""`) {
		add("text", a.Text)
	}
	if a.Refused {
		add("refused", []byte("true"))
	}
	if a.Media {
		add("media", Quote("only in the frames"))
	}
	for i := range a.calls {
		c := &a.calls[i]
		if i == 0 {
			dst = append(AppendName(dst, "tool_calls"), '[')
		}
		dst = append(dst, '{')
		if id := c.givenID(); id != "" {
			add("id", Quote(id))
		}
		if c.name != "" {
			add("name", Quote(c.name))
		}
		switch {
		case c.custom:
			add("arguments", Quote(string(c.text)))
		case a.MostArguments > 0 && a.size >= a.MostArguments:
			add("arguments", Quote("…"))
		default:
			add("arguments", Arguments(string(c.text)))
		}
		end("}")
	}
	if len(a.calls) > 0 {
		end("]")
	}
	u := &a.Usage
	if *u == (Usage{}) {
		return dst
	}
	dst = append(AppendName(dst, "usage"), '{')
	for i, n := range [...]int64{u.Input, u.Output, u.Cached, u.Written, u.Thinking} {
		if n > 0 || i < 2 {
			add([...]string{"input_tokens", "output_tokens", "cached_tokens", "written_tokens", "reasoning_tokens"}[i], strconv.AppendInt(nil, n, 10))
		}
	}
	end("}")
	return dst
}

// AppendName appends the name of a member of an object.
func AppendName(dst []byte, name string) []byte { return append(strconv.AppendQuote(dst, name), ':') }

// isFollowed reports whether a call has all of its arguments, and a piece begins another one in its
// place.
func (c *joined) isFollowed(p *piece) bool {
	return p.name != "" && len(bytes.TrimSpace(argumentsOf(p.arguments))) > 0 && jsonscan.KindOf(c.text) == jsonscan.Object && jsonscan.Valid(c.text) == nil
}

// isElsewhere reports whether a piece has another index than a call that is not in the middle of its
// arguments. Two calls may then have one id.
func (c *joined) isElsewhere(p *piece) bool {
	return p.index >= 0 && c.index >= 0 && int(c.index) != p.index && (len(c.text) == 0 || jsonscan.Valid(c.text) == nil)
}

// find returns the call that a piece belongs to; nil if it begins one. Providers leave out the
// index or the id, or repeat the id and the name in each piece, or for each call.
func (a *Answer) find(p *piece) *joined {
	if p.whole {
		return nil
	}
	if p.more {
		if i := a.callAt(p.index); i >= 0 {
			return &a.calls[i]
		}
		return nil
	}
	if p.id != "" {
		for i := range a.calls {
			c := &a.calls[i]
			if c.givenID() == p.id && (p.name == "" || c.name == "" || c.name == p.name) && !c.isFollowed(p) && !c.isElsewhere(p) {
				return c
			}
		}
	}
	for i := range slices.Backward(a.calls) {
		c := &a.calls[i]
		switch {
		case p.index >= 0 && int(c.index) != p.index:
			continue
		case p.name != "" && (p.id != "" && c.givenID() != "" || c.name != "" && c.name != p.name), c.isFollowed(p):
			return nil // another call in the same place
		case p.name != "" && p.index < 0 && jsonscan.Valid(c.text) == nil:
			return nil // the call before is complete
		}
		return c
	}
	return nil
}

// callAt returns which call has an index, the last if several do; -1 if none does.
func (a *Answer) callAt(index int) int {
	for i := range slices.Backward(a.calls) {
		if int(a.calls[i].index) == index {
			return i
		}
	}
	return -1
}

// join adds a piece of a tool call, and returns the delta, nil as long as the name is not known.
// A name or an id is set once.
func (a *Answer) join(p piece) *CallDelta {
	a.bound(&p)
	c := a.find(&p)
	if c == nil {
		if p.more || len(a.calls) == cmp.Or(a.MostCalls, maxCalls) {
			return nil
		}
		a.calls = append(a.calls, joined{index: int32(p.index), custom: p.custom})
		c = &a.calls[len(a.calls)-1]
	}
	if p.id != "" && c.givenID() == "" {
		switch isTaken := slices.ContainsFunc(a.calls, func(o joined) bool { return o.id == p.id }); {
		case !isTaken && c.id == "":
			c.id = p.id
		case isTaken || c.made: // it has its own for the client
			given := p.id
			c.given, c.made = &given, false
		}
	}
	if c.name == "" {
		c.name = p.name
	}
	c.signature += p.signature
	text := argumentsOf(p.arguments)
	if c.atStart && len(text) > 0 {
		c.text, c.atStart = nil, false
	}
	c.text = append(c.text, text...)
	if c.name == "" || c.named && len(text) == 0 {
		return nil
	}
	d := &CallDelta{Arguments: string(text), Custom: c.custom}
	for i := range a.calls {
		if &a.calls[i] == c {
			break
		}
		if a.calls[i].named {
			d.Index++
		}
	}
	if !c.named {
		if c.id == "" {
			c.id, c.made = newID(), c.given == nil
		}
		d.ID, d.Name, d.Arguments, c.named = c.id, c.name, string(c.text), true
	}
	return d
}

// argumentsOf returns the JSON of arguments, which may be in a string token.
func argumentsOf(token []byte) []byte {
	switch jsonscan.KindOf(token) {
	case jsonscan.String:
		token, _ = jsonscan.Unquote(token)
	case jsonscan.Null:
		return nil
	}
	return token
}

// newID returns an id for a call without one.
func newID() string { return "call_" + strings.ToLower(rand.Text()) }

// Unquote returns the text of a JSON string token, "" for anything else.
func Unquote(token []byte) string {
	text, _ := jsonscan.Unquote(token)
	return string(text)
}

// Quote returns text as a JSON string token.
func Quote(text string) []byte { return jsonscan.AppendQuote(nil, []byte(text)) }

// word returns a string, or the text of a number: some providers write one for the other.
func word(token []byte) string {
	if jsonscan.KindOf(token) == jsonscan.Number {
		return string(token)
	}
	return Unquote(token)
}

// member returns a member of an object, nil if it is missing or null.
func member(object []byte, path ...string) json.RawMessage {
	value, ok := jsonscan.Get(object, path...)
	if !ok || jsonscan.KindOf(value) == jsonscan.Null {
		return nil
	}
	return value
}

// text returns a member that is a string, "" for any other.
func text(object []byte, path ...string) string { return Unquote(member(object, path...)) }

// Elements yields the elements of an array.
func Elements(array []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		var s jsonscan.Scanner
		s.Init(array)
		for i, ok := 0, s.Array(); ok && s.Elem(); i++ {
			if !yield(i, s.Value()) {
				return
			}
		}
	}
}

// or returns a value, or the usual one if it is nil.
func or(value json.RawMessage, usual string) json.RawMessage {
	if value == nil {
		return json.RawMessage(usual)
	}
	return value
}

func isNull(value []byte) bool { return jsonscan.KindOf(value) == jsonscan.Null }

// Package provider is what the broker asks of an LLM backend, and the shapes in
// which prompts and completions travel between the two. Each kind of backend is
// a sub-package: mock, openai, anthropic, gemini.
//
// Text travels as JSON string tokens, as it was written: most of it comes out of
// one JSON text and goes into another, and need be neither read nor written anew.
package provider

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A Provider is one LLM backend. It serves any number of goroutines.
type Provider interface {
	// Complete asks for one completion and fills in c, which is empty. When
	// r.Emit is set the completion is streamed: parts go to Emit as they come,
	// and c holds the whole at the end. Neither r nor c is kept, and nothing of
	// theirs. Complete returns as soon as ctx ends,
	// and the backend is told, by the closing of its connection, to stop.
	// Errors that are worth an answer of their own are of type [*Error].
	Complete(ctx context.Context, r *Request, c *Completion) error
}

// A Config is where a provider's backend is and how it knows us.
type Config struct {
	BaseURL    string // "" is that of whom the kind is called after
	APIVersion string // of Azure; for openai alone
	Key        string
	Header     http.Header
	Connect    time.Duration
	// MaxTokens is the limit that requests get which have none, where there has to be
	// one; 0 is 4096.
	MaxTokens int
	// Drop is as in [Kind].
	Drop []string
}

// A Counter is a provider that can say how many tokens a request is.
type Counter interface {
	// CountTokens asks for the count of r, and sets c.Usage.Input to it, and c.Own to
	// the answer if that is in the client's own dialect.
	CountTokens(ctx context.Context, r *Request, c *Completion) error
}

// An Embedder is a provider that can turn texts into vectors.
type Embedder interface {
	// Embed asks for the vectors of r.Chat, which is OpenAI's request for embeddings,
	// and sets c.Chat to OpenAI's answer, and c.Usage.Input.
	Embed(ctx context.Context, r *Request, c *Completion) error
}

// A Dialect is the API whose words a client speaks.
type Dialect uint8

const (
	OpenAIChat Dialect = iota // chat completions
	OpenAIResponses
	AnthropicMessages
	GeminiContents
)

// A Request is one prompt for one model. Either Prompt or Chat is set; nobody
// writes to their bytes.
type Request struct {
	// Model is the backend's own name of the model.
	Model string
	// Prompt is a JSON value: a string, an object, or an array of messages.
	Prompt []byte
	// Chat is the body of an OpenAI chat completion, a JSON object; or, where it is
	// embedded, of OpenAI's request for embeddings.
	Chat []byte
	// Choices is how many choices Chat asks for: 0 if it does not say, -1 if what
	// it says is not a number.
	Choices int
	// Own is the body of the client's request, in its dialect, where Chat is a
	// translation of it; else nil. ChatErr is why Chat does not say
	// what Own does, nil if it does: a backend that would be asked Chat returns
	// it. OwnHeader are the headers
	// that came with Own and go where it goes; it may be nil.
	Own       []byte
	Dialect   Dialect
	ChatErr   error
	OwnHeader http.Header
	// Emit takes the parts of a streamed completion, in order. Its error ends
	// the call and is returned.
	Emit func(Part) error
	// Traceparent is the W3C trace context to hand on; it may be empty.
	Traceparent string
	// Exchange, if not nil, is told the bytes of the call, for taps.
	Exchange Exchange
	// Client and Account are those of the call, for a provider that makes calls itself.
	Client, Account string
	// Secrets are masked in all that the backend answers; nil is none.
	Secrets *mask.Secrets
}

// In reports whether the client speaks a dialect, so that a backend that does, too, can be
// asked in its own words.
func (r *Request) In(d Dialect) bool { return r.Own != nil && r.Dialect == d }

// An Exchange watches one call to a backend over HTTP. It must not keep the
// bytes after it returned.
type Exchange interface {
	// Sent tells the body that is about to be sent to a URL.
	Sent(url string, body []byte)
	// Received tells a body that came, and Event one event of a stream.
	Received(status int, body []byte)
	Event(status int, data []byte)
	// Passed tells that the call has come a step further on its way to other machines.
	Passed(step string)
	// Ended tells that the attempt is over.
	Ended(err error)
}

// A Part is a piece of a streamed completion.
type Part struct {
	// Text is a JSON string token, nil if the part has none.
	Text []byte
	// Chunk is the OpenAI chunk that the part came in, where the backend
	// speaks that; nil elsewhere.
	Chunk []byte
	// Event is the event that the part came in, where the backend was asked
	// in the client's own dialect; nil elsewhere.
	Event []byte
	// Thought is a piece of what the model thinks before it answers, a JSON string
	// token; nil if the part has none.
	Thought []byte
}

// A Completion is the outcome of a call.
type Completion struct {
	// Text is a JSON string token. It is "" (two quotes) for a completion
	// that is nothing but tool calls.
	Text []byte
	// Finish is why the backend stopped, in OpenAI's words: stop, length,
	// tool_calls, content_filter. It may be empty.
	Finish string
	// ToolCalls are the calls that the model wants made.
	ToolCalls []ToolCall
	Usage     Usage
	// Choices is how many choices there are, each with the same text, finish and
	// tool calls; 0 is one. It is set before the first part is emitted.
	Choices int
	// Chat is the body of the OpenAI chat completion that the backend
	// answered with, nil if it speaks something else or streamed.
	Chat []byte
	// Own is the answer in the client's own dialect, where the backend was asked in
	// that, as Chat is; nil elsewhere.
	Own []byte
	// Cost is what the calls came to that the provider itself has made, in dollars.
	Cost float64
	// Thoughts are what the model tells of its thinking, a JSON string token, nil if
	// it tells nothing.
	Thoughts []byte
	// Most is how many bytes of Text and Thoughts are kept of a stream, for those who have
	// passed it on and only want to look at it. 0 keeps all.
	Most int
	cut  bool // no more is kept
}

// SetText sets the text to the JSON string token that is prefix, which needs no
// escapes, followed by what is in token.
func (c *Completion) SetText(prefix string, token []byte) {
	c.Text = slices.Concat([]byte(`"`+prefix), token[1:])
}

// AppendText appends a string token to the completion's text. It is for streams.
func (c *Completion) AppendText(token []byte) { c.Text = c.appendToken(c.Text, token) }

// AppendThought appends a string token to what the model thinks.
func (c *Completion) AppendThought(token []byte) { c.Thoughts = c.appendToken(c.Thoughts, token) }

// appendToken returns the string token of two texts, of which the first may be nil. What is
// cut off is an ellipsis.
func (c *Completion) appendToken(text, more []byte) []byte {
	if text == nil {
		text = []byte(`""`)
	}
	switch {
	case c.cut:
		return text
	case c.Most > 0 && len(c.Text)+len(c.Thoughts)+len(more) > c.Most-len(`…`):
		c.cut, more = true, []byte(`"…"`)
	}
	if need := len(text) + len(more) - 2; c.Most > 0 && need > cap(text) {
		text = append(make([]byte, 0, max(need, min(2*cap(text), c.Most))), text...)
	}
	return append(append(text[:len(text)-1], more[1:len(more)-1]...), '"')
}

// Seal gives a completion without text the empty one.
func (c *Completion) Seal() {
	if c.Text == nil {
		c.Text = []byte(`""`)
	}
}

// Room returns n bytes for an answer of which the completion will be a part.
func (c *Completion) Room(n int) []byte { return make([]byte, n) }

// Plain returns the text without quotes and escapes.
func (c *Completion) Plain() string { return Unquote(c.Text) }

// Unquote returns what a JSON string token says, "" for what is none.
func Unquote(token []byte) string {
	text, _ := jsonscan.Unquote(token)
	return string(text)
}

// Quote returns text as a JSON string token.
func Quote(text string) []byte { return jsonscan.AppendQuote(nil, []byte(text)) }

// A ToolCall is a function that the model wants called.
type ToolCall struct {
	ID, Name string
	// Arguments is a JSON value as the model wrote it.
	Arguments []byte
	// Custom says that the tool takes a text rather than an object: Arguments is a
	// string token.
	Custom bool
}

// Arguments reads those of a call as OpenAI has them: JSON in a string. What is none
// stays a string.
func Arguments(text string) []byte {
	switch {
	case strings.TrimSpace(text) == "":
		return []byte("{}")
	case jsonscan.Valid([]byte(text)) != nil:
		return Quote(text)
	}
	return []byte(text)
}

// Input is what the function is called with where that has to be an object, even if
// the model wrote something else.
func (c *ToolCall) Input() []byte {
	switch jsonscan.KindOf(c.Arguments) {
	case jsonscan.Object:
		return c.Arguments
	case jsonscan.Invalid:
		return []byte("{}")
	}
	return append(append([]byte(`{"arguments":`), c.Arguments...), '}')
}

// Usage counts tokens. Those that came from a cache are among Input, and those of
// thinking among Output.
type Usage struct{ Input, Output, Cached, Thinking int64 }

// Package provider has the interface between the broker and LLM backends, with the types of
// prompts and completions. Each kind of backend is a sub-package: mock, openai, anthropic, gemini.
//
// Text is passed on as JSON string tokens: most of it is copied from one JSON text to another,
// and need not be decoded.
package provider

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Provider is one LLM backend. It serves any number of goroutines.
type Provider interface {
	// Complete makes one completion and fills in c, which is empty. If r.Emit is set, the
	// completion is streamed: parts go to Emit as they arrive, and c holds the whole at the
	// end. Complete keeps neither r nor c. It returns as soon as ctx ends, and closes the
	// connection to the backend. Errors of the backend are of type [*Error].
	Complete(ctx context.Context, r *Request, c *Completion) error
}

// A Config is the address of a backend, and the credentials for it.
type Config struct {
	BaseURL    string // "" is the address of the kind's own company
	APIVersion string // of Azure; for openai alone
	Key        string
	Header     http.Header
	Connect    time.Duration
	// MaxTokens is the limit for requests without one, if the API requires a limit; 0 is
	// 4096.
	MaxTokens int
	// Drop is as in [Kind].
	Drop []string
}

// A Counter is a provider that can count the tokens of a request.
type Counter interface {
	// CountTokens sets c.Usage.Input to the tokens of r, and c.Own to the backend's answer
	// if it is in the client's own dialect.
	CountTokens(ctx context.Context, r *Request, c *Completion) error
}

// An Embedder is a provider that can turn texts into vectors.
type Embedder interface {
	// Embed makes the vectors of r.Chat, OpenAI's request for embeddings, and sets c.Chat to
	// OpenAI's answer, and c.Usage.Input.
	Embed(ctx context.Context, r *Request, c *Completion) error
}

// A Dialect is the API of a client.
type Dialect uint8

const (
	OpenAIChat Dialect = iota // chat completions
	OpenAIResponses
	AnthropicMessages
	GeminiContents
)

// A Request is one prompt for one model. Either Prompt or Chat is set. Their bytes are never
// changed.
type Request struct {
	// Model is the backend's name of the model.
	Model string
	// Prompt is a JSON value: a string, an object, or an array of messages.
	Prompt []byte
	// Chat is the body of OpenAI's request for a chat completion, or for embeddings.
	Chat []byte
	// Choices is the number of choices in Chat: 0 if it has none, -1 if it is invalid.
	Choices int
	// Own is the body of the client's request in its dialect if Chat is a translation of it,
	// else nil. ChatErr is why Own could not be translated: backends that use Chat return
	// it. OwnHeader are the headers to send with Own; it may be nil.
	Own       []byte
	Dialect   Dialect
	ChatErr   error
	OwnHeader http.Header
	// Emit is called with the parts of a streamed completion, in order. Its error ends the
	// call and is returned.
	Emit func(Part) error
	// Traceparent is the W3C trace context for the backend; it may be empty.
	Traceparent string
	// Exchange, if not nil, observes the bytes of the call, for taps.
	Exchange Exchange
	// Client and Account are those of the call, for providers that make calls themselves.
	Client, Account string
	// Secrets are masked in the backend's answers; nil is none.
	Secrets *mask.Secrets
}

// In reports whether the client uses a dialect, so that a backend with the same one gets its
// request unchanged.
func (r *Request) In(d Dialect) bool { return r.Own != nil && r.Dialect == d }

// An Exchange observes one call to a backend over HTTP. It must not keep the bytes.
type Exchange interface {
	// Sent reports the body that is about to be sent to a URL.
	Sent(url string, body []byte)
	// Received reports the body of an answer, and Event an event of a stream.
	Received(status int, body []byte)
	Event(status int, data []byte)
	// Passed reports a step of the call on its way to other machines.
	Passed(step string)
	// Ended reports the end of the attempt.
	Ended(err error)
}

// A Part is a piece of a streamed completion.
type Part struct {
	// Text is a JSON string token, nil if the part has none.
	Text []byte
	// Chunk is the OpenAI chunk with the part, if the backend uses OpenAI's API; else nil.
	Chunk []byte
	// Event is the event with the part, if the backend uses the client's own dialect; else
	// nil.
	Event []byte
	// Thought is a piece of the model's reasoning, a JSON string token; nil if the part has
	// none.
	Thought []byte
}

// A Completion is the outcome of a call.
type Completion struct {
	// Text is a JSON string token. It is "" (two quotes) for a completion of tool calls
	// alone.
	Text []byte
	// Finish is OpenAI's finish reason: stop, length, tool_calls, content_filter. It may be
	// empty.
	Finish string
	// ToolCalls are the tool calls of the model.
	ToolCalls []ToolCall
	Usage     Usage
	// Choices is the number of choices, all with the same text, finish and tool calls; 0 is
	// one. It is set before the first part is emitted.
	Choices int
	// Chat is the body of the backend's OpenAI chat completion, nil if it uses another API
	// or streamed.
	Chat []byte
	// Own is the body of the answer if the backend uses the client's own dialect, else nil.
	Own []byte
	// Cost is the cost of calls that the provider has made itself, in dollars.
	Cost float64
	// Thoughts are the model's reasoning, a JSON string token, nil if there is none.
	Thoughts []byte
	// Most bounds the bytes of Text and Thoughts that are kept of a stream, for observers.
	// 0 keeps all.
	Most int
	cut  bool // no more is kept
}

// SetText sets the text to a prefix, which needs no escapes, and the text of token.
func (c *Completion) SetText(prefix string, token []byte) {
	c.Text = slices.Concat([]byte(`"`+prefix), token[1:])
}

// AppendText appends a string token to the text. It is for streams.
func (c *Completion) AppendText(token []byte) { c.Text = c.appendToken(c.Text, token) }

// AppendThought appends a string token to the thoughts.
func (c *Completion) AppendThought(token []byte) { c.Thoughts = c.appendToken(c.Thoughts, token) }

// appendToken joins two string tokens; the first may be nil. Text over the limit is replaced by
// an ellipsis.
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

// Seal sets the text to the empty one if there is none.
func (c *Completion) Seal() {
	if c.Text == nil {
		c.Text = []byte(`""`)
	}
}

// Plain returns the text without quotes and escapes.
func (c *Completion) Plain() string { return Unquote(c.Text) }

// Unquote returns the text of a JSON string token, "" for anything else.
func Unquote(token []byte) string {
	text, _ := jsonscan.Unquote(token)
	return string(text)
}

// Quote returns text as a JSON string token.
func Quote(text string) []byte { return jsonscan.AppendQuote(nil, []byte(text)) }

// A ToolCall is a call of a tool by the model.
type ToolCall struct {
	ID, Name string
	// Arguments is a JSON value as the model wrote it.
	Arguments []byte
	// Custom says that the tool's argument is a text: Arguments is a string token.
	Custom bool
}

// Arguments reads the arguments of a call from OpenAI's string of JSON. Invalid JSON stays a
// string.
func Arguments(text string) []byte {
	switch {
	case strings.TrimSpace(text) == "":
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

// Usage counts tokens. Input includes cached tokens, and Output the tokens of reasoning.
type Usage struct{ Input, Output, Cached, Thinking int64 }

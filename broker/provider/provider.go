// Package provider has the interface between the broker and LLM backends, with the types of
// prompts and completions. Each kind of backend is a sub-package: mock, openai, anthropic, gemini.
//
// Text is passed on as JSON string tokens: most of it is copied from one JSON text to another,
// and need not be decoded.
package provider

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/llm"
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
	// CountTokens sets c.Usage.Input to the tokens of r, and c.Body to the backend's answer
	// if it has the client's API.
	CountTokens(ctx context.Context, r *Request, c *Completion) error
}

// An Embedder is a provider that can turn texts into vectors.
type Embedder interface {
	// Embed makes the vectors of r.Body, OpenAI's request for embeddings, and sets c.Body to
	// OpenAI's answer, and c.Usage.Input.
	Embed(ctx context.Context, r *Request, c *Completion) error
}

// A Request is one prompt for one model. Either Prompt or Body is set. Their bytes are never
// changed.
type Request struct {
	// Model is the backend's name of the model.
	Model string
	// Prompt is a JSON value: a string, an object, or an array of messages.
	Prompt []byte
	// Body is the client's request, in its API: a JSON object that [llm.ReadHead] accepts, or
	// OpenAI's request for embeddings.
	Body []byte
	API  llm.API
	// Before are earlier turns, which come before those of Body.
	Before []llm.Turn
	// Choices is the number of choices in Body: 0 if it has none, -1 if it is invalid.
	Choices int
	// Header are the headers to send with Body to a backend with its API; it may be nil.
	Header http.Header
	// Emit is called with the parts of a streamed completion, in order. Its error ends the
	// call and is returned.
	Emit func(Part) error
	// Alive, unless nil, is called when the backend says that it is still at work.
	Alive func() error
	// Traceparent is the W3C trace context for the backend; it may be empty.
	Traceparent string
	// Exchange, if not nil, observes the bytes of the call, for taps.
	Exchange Exchange
	// Client and Account are those of the call, for providers that make calls themselves.
	Client, Account string
	// Secrets are masked in the backend's answers; nil is none.
	Secrets *mask.Secrets
}

// In reports whether the client uses an API, so that a backend with the same one gets its request
// unchanged.
func (r *Request) In(api llm.API) bool { return r.Body != nil && r.API == api }

// Decoded reads the request.
func (r *Request) Decoded() *llm.Request {
	if r.Body == nil {
		return llm.Decode(llm.Chat, slices.Concat([]byte(`{"messages":`), Messages(r.Prompt), []byte("}")))
	}
	return llm.Decode(r.API, r.Body, r.Before...)
}

// Chat returns the request as one of Chat Completions, without the parts that have no counterpart
// there.
func (r *Request) Chat() []byte {
	if r.Body == nil || r.API == llm.Chat {
		return r.Body
	}
	chat := r.Decoded()
	body, _ := chat.EncodeChat(chat.Model)
	return body
}

// A Kind is a kind of backend.
type Kind struct {
	Name string
	// Has are the optional members of OpenAI's requests that its API supports, nil if it is
	// OpenAI's.
	Has []string
	// Drop are the other optional members that are dropped rather than rejected, as
	// configured.
	Drop []string
}

// Read reads a request for a backend of another API than the client's. It rejects parts that
// change the answer and have no counterpart, and invalid ones.
func (r *Request) Read(k Kind) (*llm.Request, error) {
	chat := r.Decoded()
	has := k.Has
	if k.Name == "openai" {
		has = Droppable()
	}
	chat.Stream = r.Emit != nil
	if g := chat.Missing(has, k.Drop); g != nil {
		return nil, k.Refusal(r.API, g)
	}
	if k.Name != "openai" {
		if _, err := chat.Settings(); err != nil {
			return nil, k.Refusal(r.API, err)
		}
	}
	return chat, nil
}

// Refusal is the error for a request that a kind does not support; cause is a [*llm.Gap], or any
// other.
func (k Kind) Refusal(api llm.API, cause error) *Error {
	g, ok := cause.(*llm.Gap) //nolint:errorlint // llm returns it bare
	if !ok {
		return &Error{Cause: Internal, Err: cause}
	}
	sentence := g.Instead
	switch {
	case g.Code != llm.Unsupported && g.Code != llm.UnsupportedTool:
	case api == llm.Messages || api == llm.Contents:
		own := map[llm.API]string{llm.Messages: "anthropic", llm.Contents: "gemini"}[api]
		sentence = fmt.Sprintf("%s: cannot be translated for this model's provider, which is not of the kind %s. %s, or ask a model of a provider of the kind %[2]s.", g.At, own, g.Instead)
	case api == llm.Responses:
		sentence = fmt.Sprintf("Unsupported parameter: '%s' cannot be translated for this model's provider, of the kind %s. %s.", g.At, k.Name, g.Instead)
	default:
		sentence = fmt.Sprintf("Unsupported parameter: '%s' cannot be translated for this model's provider, of the kind %s. %s, or ask a model of a provider of the kind openai.", g.At, k.Name, g.Instead)
	}
	switch g.Drop {
	case "":
	case "tools":
		sentence += " The broker drops such tools if its configuration says drop: [tools] at the provider."
	default:
		sentence += " The broker drops it if its configuration says drop: [" + g.Drop + "] at the provider."
	}
	return Unanswerable(g.At, g.Code, sentence)
}

// Droppable are the names that may be in a kind's Drop.
func Droppable() []string {
	names, optional := llm.ChatMembers()
	names = append(names[:optional:optional], "tools")
	slices.Sort(names)
	return names
}

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
	llm.Delta
	// Event is the event with the part, if the backend has the client's API; else nil. Its
	// other parts come without it.
	Event []byte
}

// A Completion is the outcome of a call.
type Completion struct {
	llm.Answer
	// Choices is the number of choices, all with the same text, finish and tool calls; 0 is
	// one. It is set before the first part is emitted.
	Choices int
	// Body is the backend's answer if it has the client's API and did not stream, else nil.
	Body []byte
	// Cost is the cost of calls that the provider has made itself, in dollars.
	Cost float64
}

// Unquote returns the text of a JSON string token, "" for anything else.
func Unquote(token []byte) string { return llm.Unquote(token) }

// Quote returns text as a JSON string token.
func Quote(text string) []byte { return llm.Quote(text) }

// A ToolCall is a call of a tool by the model, and Usage counts tokens.
type (
	ToolCall = llm.ToolCall
	Usage    = llm.Usage
)

// Package provider has the interface between the broker and LLM backends, with the types of
// prompts and completions. Each kind of backend is a sub-package: mock, openai, anthropic, gemini.
//
// Text is passed on as JSON string tokens: most of it is copied from one JSON text to another,
// and need not be decoded.
package provider

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/internal/jsonscan"
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

// A Cause is why a backend did not answer. The client's error message depends only on it.
type Cause uint8

const (
	Internal    Cause = iota // anything else
	Refused                  // the backend rejected the request (4xx)
	RateLimited              // 429
	Overloaded               // 5xx
	Unreachable              // no connection, or a broken one
	TimedOut                 // no answer in time
	Unsupported              // the backend does not support the request, which was not sent
)

var causeNames = [...]string{
	Internal: "internal", Refused: "refused", RateLimited: "rate_limited",
	Overloaded: "overloaded", Unreachable: "unreachable", TimedOut: "timed_out",
	Unsupported: "unsupported",
}

func (c Cause) String() string { return causeNames[c] }

// An Error is a call that a backend did not complete.
type Error struct {
	Cause Cause
	// Status is the HTTP status, 0 if there was none.
	Status int
	// Code and Type are the backend's words for the error, each "" if it has none.
	Code, Type string
	// Param is the invalid member of the request according to the backend, "" if it names
	// none. Clients see it only if Unsupported.
	Param string
	// KeyEnv is the environment variable that holds the key, "" if there is none.
	KeyEnv string
	// RetryAfter is the time until a retry that the backend asks for, 0 if it does not.
	RetryAfter time.Duration
	// Hints are the backend's headers about retries and limits, for the client.
	Hints http.Header
	// Unsent says that the backend was not reached, and Paid that it had begun an answer.
	Unsent, Paid bool
	// Shown is the model's own sentence about the failure, for the client; "" if there is none.
	Shown string
	// Began says that parts were emitted, so that a retry would repeat them.
	Began bool
	// Err is the detail for logs, without keys. Clients see it only if Unsupported: then it
	// is a sentence of ours.
	Err error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s: HTTP %d: %v", e.Cause, e.Status, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Cause, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// KeyRefused reports whether the backend rejected the broker's key.
func (e *Error) KeyRefused() bool {
	switch e.Code {
	case "authentication_error", "permission_error", "invalid_api_key":
		return true
	}
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// TooLong reports whether the prompt is too long for the backend.
func (e *Error) TooLong() bool {
	return e.Code == llm.TooLong || e.Status == http.StatusRequestEntityTooLarge
}

// UnknownModel reports whether the backend does not have the model.
func (e *Error) UnknownModel() bool {
	return e.Code == "model_not_found" || e.Status == http.StatusNotFound
}

// Again reports whether the call may be repeated at the same backend: nothing was paid, and the
// backend says that it is worth it.
func (e *Error) Again() bool {
	should := e.Hints.Get("X-Should-Retry")
	switch {
	case e.Began || e.Paid || should == "false" || should == "" && e.Code == "insufficient_quota":
		return false
	case should == "true":
		return true
	case e.Status != 0:
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable || e.Status == 529
	}
	return e.Unsent || e.Cause == RateLimited
}

// Elsewhere reports whether the call may be made at another backend. An answer that cannot be used
// may have been paid.
func (e *Error) Elsewhere() bool {
	return !e.Began && e.Cause != Refused && e.Cause != Internal && e.Cause != Unsupported && !(e.Paid && e.Status == 0)
}

// StatusError is the error for an HTTP status that is not 2xx.
func StatusError(status int, retryAfter time.Duration, err error) *Error {
	e := &Error{Cause: Internal, Status: status, RetryAfter: retryAfter, Err: err}
	switch {
	case status == 429:
		e.Cause = RateLimited
	case status == 408:
		e.Cause = TimedOut
	case status >= 500:
		e.Cause = Overloaded
	case status >= 400:
		e.Cause = Refused
	}
	return e
}

// Unanswerable is the error for a request that cannot be sent to a backend. Param is the member of
// the request, code the error code, and the sentence is for the client.
func Unanswerable(param, code, sentence string) *Error {
	return &Error{Cause: Unsupported, Code: code, Param: param, Err: errors.New(sentence)}
}

// Broken is the error for a failed connection. If ctx has ended, it is the cause of that.
func Broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &Error{Cause: TimedOut, Err: err}
	}
	return &Error{Cause: Unreachable, Err: err}
}

// Reported is the error for a failure that a backend reports in the words of its API.
func Reported(e *llm.Error) *Error {
	if e.Status == 0 { // the answer does not match the API
		return &Error{Cause: Overloaded, Paid: true, Err: errors.New("invalid answer: " + e.Message)}
	}
	made := StatusError(e.Status, e.RetryAfter, errors.New("the backend answered "+cmp.Or(e.Code, e.Type, "with an error")))
	made.Code, made.Type, made.Param, made.Paid = e.Code, e.Type, e.Param, e.Final
	if e.Shown {
		made.Shown = e.Message[:min(len(e.Message), maxShown)]
	}
	return made
}

// maxShown bounds a sentence that is shown, in bytes.
const maxShown = 1 << 10

// A TooLargeError says that an answer, or one event, exceeds the limit. It is the detail of an
// [*Error], and clients may see it.
type TooLargeError struct {
	Part  string
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("The provider's answer is too large: %s exceeds the limit of %d bytes", e.Part, e.Limit)
}

// ReadMembers reads the values of keys of an object into places. It reports whether the text is an
// object, and returns a syntax error.
func ReadMembers(text []byte, places map[string]*[]byte) (object bool, err error) {
	var s jsonscan.Scanner
	s.Init(text)
	object = s.Object()
	for object && s.Next() {
		if place := places[string(s.Key())]; place != nil {
			*place = s.Value()
		}
	}
	return object, s.End()
}

// ValidPrompt reports whether a valid JSON value is a prompt: a string, an
// object, or an array of objects.
func ValidPrompt(raw []byte) bool {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String, jsonscan.Object:
		return true
	case jsonscan.Array:
		var s jsonscan.Scanner
		s.Init(raw)
		ok := s.Array()
		for ok && s.Elem() {
			ok = s.Peek() == jsonscan.Object && s.Skip()
		}
		return ok && s.End() == nil
	}
	return false
}

// Messages returns the prompt as a JSON array of OpenAI's messages. A string is a message of the
// user. An object is a message if it has a role; otherwise the first non-empty member of messages,
// prompt, content and text is used, or else the object's JSON is a message of the user.
func Messages(prompt []byte) []byte {
	switch jsonscan.KindOf(prompt) {
	case jsonscan.Array:
		return prompt
	case jsonscan.String:
		return userMessage(prompt)
	}
	var blank []byte
	for _, key := range []string{"messages", "prompt", "content", "text"} {
		raw, ok := jsonscan.Get(prompt, key)
		switch {
		case !ok:
		case string(raw) == `""`:
			blank = raw
		case jsonscan.KindOf(raw) == jsonscan.Array && (key == "messages" || key == "prompt"):
			if ValidPrompt(raw) && !isEmptyArray(raw) {
				return raw
			}
		case key == "content" && isMessage(prompt):
			return oneMessage(prompt)
		case jsonscan.KindOf(raw) == jsonscan.String, jsonscan.KindOf(raw) == jsonscan.Array && key == "content" && !isEmptyArray(raw):
			return userMessage(raw)
		}
	}
	switch {
	case isMessage(prompt):
		return oneMessage(prompt)
	case blank != nil:
		return userMessage(blank)
	}
	return userMessage(jsonscan.AppendQuote(nil, prompt))
}

func isMessage(object []byte) bool {
	_, ok := jsonscan.Get(object, "role")
	return ok
}

func oneMessage(object []byte) []byte { return append(append([]byte{'['}, object...), ']') }

func isEmptyArray(raw []byte) bool { return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0 }

func userMessage(text []byte) []byte {
	m := append([]byte(`[{"role":"user","content":`), text...)
	return append(m, "}]"...)
}

// LastText returns the last text as a string token: the prompt if it is a string, else the content
// of its last message with text.
func (r *Request) LastText() []byte {
	if r.Body == nil && jsonscan.KindOf(r.Prompt) == jsonscan.String {
		return r.Prompt
	}
	last := []byte(`""`)
	for m := range EachMessage(r.Messages()) {
		if m.Text != nil {
			last = m.Text
		}
	}
	return last
}

// Messages returns the messages of the request as a JSON array.
func (r *Request) Messages() []byte {
	if r.Body == nil {
		return Messages(r.Prompt)
	}
	if raw, ok := jsonscan.Get(r.Chat(), "messages"); ok && jsonscan.KindOf(raw) == jsonscan.Array {
		return raw
	}
	return []byte("[]")
}

// A Message is one of the messages of a prompt.
type Message struct {
	Role string
	// Content is the JSON of the content, nil if there is none.
	Content []byte
	// Text is the text of the content as a string token, nil if it has none.
	Text []byte
	// Raw is the whole message.
	Raw []byte
}

// EachMessage yields the messages of a JSON array. It skips elements that are not objects.
func EachMessage(messages []byte) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for _, raw := range llm.Elements(messages) {
			if jsonscan.KindOf(raw) == jsonscan.Object && !yield(message(raw)) {
				return
			}
		}
	}
}

func message(raw []byte) Message {
	m := Message{Role: "user", Raw: raw}
	if role, ok := jsonscan.Get(raw, "role"); ok {
		m.Role = Unquote(role)
	}
	content, ok := jsonscan.Get(raw, "content")
	if !ok || jsonscan.KindOf(content) == jsonscan.Null {
		return m
	}
	m.Content = content
	m.Text = contentText(content)
	return m
}

// contentText returns the text of a content: the content if it is a string, the
// texts of its parts joined if it is an array.
func contentText(content []byte) []byte {
	switch jsonscan.KindOf(content) {
	case jsonscan.String:
		return content
	case jsonscan.Array:
	default:
		return jsonscan.AppendQuote(nil, content)
	}
	text := []byte{'"'}
	for _, part := range llm.Elements(content) {
		if raw, ok := jsonscan.Get(part, "text"); ok && jsonscan.KindOf(raw) == jsonscan.String {
			text = append(text, raw[1:len(raw)-1]...)
		}
	}
	return append(text, '"')
}

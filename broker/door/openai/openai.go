// Package openai is the broker's front door for clients of OpenAI's API: chat completions and
// responses, whole or streamed, embeddings, and the list of models. It also serves clients of
// Anthropic's API (messages.go) and of Gemini's (gemini.go).
package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Name is the door's name in calls and metrics.
const Name = "openai"

// Limit is the largest body, in bytes.
const Limit = 16 << 20

// mostKept bounds how much of a streamed text is kept for the log of calls, in bytes.
const mostKept = 256 << 10

// New returns a server of the door. The publisher may be nil.
func New(b *broker.Broker, p *publish.Publisher, a web.Access) *web.Server {
	h := handler{b, p, newKept()}
	return web.New(web.Config{
		Handler: h.serve, Limit: Limit, Access: a, Pages: true,
		Fault: func(path string, f *web.Fault) []byte {
			switch {
			case strings.HasPrefix(path, messagesPath):
				return messageFailure(f.Message, f.Status)
			case isGemini(path):
				return geminiFailure(f.Message, f.Status)
			}
			return failure(f.Message, kindOf(f.Status), "", "")
		},
	})
}

type handler struct {
	broker  *broker.Broker
	publish *publish.Publisher
	kept    *kept
}

const (
	chatPath       = "/v1/chat/completions"
	modelsPath     = "/v1/models"
	embeddingsPath = "/v1/embeddings"
)

// posted are the handlers of OpenAI's API, by path.
var posted = map[string]func(*handler, context.Context, *web.Request, *web.Response){
	chatPath:       (*handler).chat,
	responsesPath:  (*handler).respond,
	embeddingsPath: (*handler).embed,
}

func (h *handler) serve(ctx context.Context, r *web.Request, w *web.Response) {
	name, one := strings.CutPrefix(r.URL.Path, modelsPath+"/")
	switch {
	case posted[r.URL.Path] != nil && r.Method == http.MethodPost:
		posted[r.URL.Path](h, ctx, r, w)
	case posted[r.URL.Path] != nil:
		notAllowed(r, w, "POST")
	case isGemini(r.URL.Path):
		h.gemini(ctx, r, w)
	case r.URL.Path == messagesPath, r.URL.Path == countPath:
		h.message(ctx, r, w)
	case strings.HasPrefix(r.URL.Path, messagesPath+"/"):
		w.JSON(http.StatusNotFound, messageFailure("Unknown request URL: "+r.Method+" "+r.URL.Path, http.StatusNotFound))
	case r.URL.Path != modelsPath && (!one || name == ""):
		w.JSON(http.StatusNotFound, failure(unknownURL(r), invalid, "", "unknown_url"))
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		notAllowed(r, w, "GET, HEAD")
	case one:
		h.model(name, w)
	default:
		w.JSON(http.StatusOK, models(h.broker.Named()))
	}
}

func (h *handler) chat(ctx context.Context, r *web.Request, w *web.Response) {
	e := h.open(r, w)
	defer e.tap.Close()
	e.complete(ctx)
}

func notAllowed(r *web.Request, w *web.Response, allowed string) {
	w.Set("Allow", allowed)
	w.JSON(http.StatusMethodNotAllowed, failure("Not allowed to "+r.Method+" here", invalid, "", "method_not_allowed"))
}

// unknownURL is the error for an unknown path. It lists the known ones or, if the client's
// base URL lacks /v1, says so.
func unknownURL(r *web.Request) string {
	text := "Unknown request URL: " + r.Method + " " + r.URL.Path
	if path := "/v1" + r.URL.Path; posted[path] != nil || path == modelsPath {
		return text + " (the base URL of this API ends in /v1)"
	}
	return text + " (there are " + strings.Join([]string{chatPath, responsesPath, embeddingsPath, messagesPath, geminiPath}, ", ") + " and " + modelsPath + ")"
}

// model describes a model. Its name is escaped as in a path.
func (h *handler) model(name string, w *web.Response) {
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	if err := h.broker.Find(name); err != nil {
		w.JSON(http.StatusNotFound, failure(broker.Message(err), invalid, "model", "model_not_found"))
		return
	}
	w.JSON(http.StatusOK, jsonscan.MustMarshal(newModel(name)))
}

func models(names []string) []byte {
	list := []model{}
	for _, name := range names {
		list = append(list, newModel(name))
	}
	return fmt.Appendf(nil, `{"object":"list","data":%s}`, jsonscan.MustMarshal(list))
}

type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
}

func newModel(name string) model { return model{ID: name, Object: "model", Owner: "wirectl"} }

// An exchange is a completion that a client requests.
type exchange struct {
	*handler
	r    *web.Request
	w    *web.Response
	tap  *publish.Conn
	call broker.Call

	does func(context.Context, *broker.Call) error // how the broker serves the call

	stream, withUsage bool
	native            bool   // the backend's own chunks are passed on
	begun             bool   // a delta was sent
	model             []byte // the token of the model's name
	chunks            []byte // output that is not flushed yet
	created           int64
}

func (h *handler) open(r *web.Request, w *web.Response) exchange {
	return exchange{handler: h, r: r, w: w, does: h.broker.Do, tap: h.publish.Open("openai client "+r.RemoteAddr, "json", frame.HTTP)}
}

// read reads the request. The fault is a sentence for the client, about a parameter.
func (e *exchange) read() (fault, param string) {
	var messages, stream, options, n []byte
	object, err := provider.ReadMembers(e.r.Body, map[string]*[]byte{"model": &e.model, "messages": &messages, "stream": &stream, "stream_options": &options, "n": &n})
	usage, _ := jsonscan.Get(options, "include_usage")
	e.stream, e.withUsage = string(stream) == "true", string(usage) == "true"
	e.call.Choices = choices(n)
	switch {
	case err != nil:
		return "We could not parse the JSON body of your request" + where(err) + ".", ""
	case !object:
		return "The body of your request must be a JSON object.", ""
	case e.model != nil && jsonscan.KindOf(e.model) != jsonscan.String:
		return "Invalid type for 'model': expected a string.", "model"
	case messages == nil:
		return "Missing required parameter: 'messages'.", "messages"
	case jsonscan.KindOf(messages) != jsonscan.Array:
		return "Invalid type for 'messages': expected an array of objects.", "messages"
	}
	return "", ""
}

// where says what is wrong with a JSON text.
func where(err error) string {
	var wrong *jsonscan.SyntaxError
	if !errors.As(err, &wrong) {
		return ""
	}
	return fmt.Sprintf(": byte %d: %s", wrong.Offset, wrong.Msg)
}

// choices reads the number of choices for [broker.Call].
func choices(n []byte) int {
	if n == nil || jsonscan.KindOf(n) == jsonscan.Null {
		return 0
	}
	if n, err := strconv.Atoi(string(n)); err == nil && n > 0 {
		return n
	}
	return -1
}

func (e *exchange) complete(ctx context.Context) {
	e.tap.HTTP(frame.C2U, e.r.Start(), e.r.Body)
	if fault, param := e.read(); fault != "" {
		e.json(http.StatusBadRequest, failure(fault, invalid, param, ""))
		return
	}
	c := &e.call
	c.Model, c.Chat = provider.Unquote(e.model), e.r.Body
	if e.stream {
		c.Emit, c.Most = e.emit, mostKept
	}
	err := e.do(ctx)
	switch {
	case err != nil:
		e.fail(err)
	case e.stream:
		e.end()
		e.tap.EventsEnd()
	case e.call.Completion.Chat != nil:
		e.json(http.StatusOK, e.call.Completion.Chat)
	default:
		e.json(http.StatusOK, e.completion())
	}
}

// do makes the call, which ends early if the client leaves.
func (e *exchange) do(ctx context.Context) error {
	c := &e.call
	c.Door, c.Client, c.Account, c.Ref = Name, e.r.Client, e.r.Account, e.r.Header.Get("X-Request-Id")
	c.Parent, c.Tap = e.r.Header.Get("Traceparent"), e.tap.Tap()
	return e.does(ctx, c)
}

func (e *exchange) json(status int, body []byte) {
	e.tap.Response(status, body)
	e.w.JSON(status, body)
}

// completion writes the completion of a backend of another API.
func (e *exchange) completion() []byte {
	c := &e.call.Completion
	message := &content{Role: "assistant", Text: c.Text, Refusal: null, Calls: toolCalls(c.ToolCalls, false)}
	if len(c.ToolCalls) > 0 && string(c.Text) == `""` {
		message.Text = null
	}
	choices := make([]choice, max(c.Choices, 1))
	for i := range choices {
		choices[i] = choice{Index: i, Message: message, Finish: finish(c)}
	}
	return e.answer("chat.completion", choices, newUsage(c))
}

var null = json.RawMessage("null")

// An answer is a completion or a chunk of one.
type answer struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index    int       `json:"index"`
	Message  *content  `json:"message,omitempty"`
	Delta    *content  `json:"delta,omitempty"`
	Logprobs *struct{} `json:"logprobs"`
	Finish   *string   `json:"finish_reason"`
}

type content struct {
	Role    string          `json:"role,omitempty"`
	Text    json.RawMessage `json:"content,omitempty"`
	Refusal json.RawMessage `json:"refusal,omitempty"`
	Calls   []chatCall      `json:"tool_calls,omitempty"`
}

type usage struct {
	Input  int64 `json:"prompt_tokens"`
	Output int64 `json:"completion_tokens"`
	Total  int64 `json:"total_tokens"`
}

// answer writes an answer of either kind.
func (e *exchange) answer(object string, choices []choice, u *usage) []byte {
	if e.created == 0 {
		e.created = time.Now().Unix()
	}
	return jsonscan.MustMarshal(answer{fmt.Sprint("chatcmpl-", e.call.ID), object, e.created, e.call.Name, choices, u})
}

func finish(c *provider.Completion) *string { return orNull(cmp.Or(c.Finish, "stop")) }

func newUsage(c *provider.Completion) *usage {
	return &usage{c.Usage.Input, c.Usage.Output, c.Usage.Input + c.Usage.Output}
}

// toolCalls returns calls as OpenAI has them. In a stream they have an index.
func toolCalls(calls []provider.ToolCall, indexed bool) (list []chatCall) {
	for i, call := range calls {
		made := functionCall(call.ID, call.Name, string(call.Arguments))
		if call.Custom {
			made = customCall(call.ID, call.Name, call.Arguments)
		}
		if indexed {
			made.Index = &i
		}
		list = append(list, made)
	}
	return list
}

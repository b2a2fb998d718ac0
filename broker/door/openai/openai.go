// Package openai is the broker's front door for clients of the HTTP APIs of models: OpenAI's chat
// completions, responses, embeddings and list of models, Anthropic's messages, and Gemini's
// generateContent. A client whose API is that of the backend gets its bytes unchanged.
package openai

import (
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
)

// Name is the door's name in calls and metrics.
const Name = "openai"

// Limit is the largest body, in bytes.
const Limit = 16 << 20

// mostKept bounds how much of a streamed text is kept for the log of calls, in bytes.
const mostKept = 256 << 10

// New returns a server of the door. The publisher may be nil.
func New(b *broker.Broker, p *observe.Publisher, a web.Access) *web.Server {
	h := handler{b, p, newKept()}
	return web.New(web.Config{
		Handler: h.serve, Limit: Limit, Access: a, Pages: true,
		Fault: func(path string, f *web.Fault) []byte { return failure(apiOf(path), f.Status, f.Message, "", "") },
	})
}

type handler struct {
	broker  *broker.Broker
	publish *observe.Publisher
	kept    *kept
}

const (
	chatPath       = "/v1/chat/completions"
	responsesPath  = "/v1/responses"
	modelsPath     = "/v1/models"
	embeddingsPath = "/v1/embeddings"
	messagesPath   = "/v1/messages"
	countPath      = messagesPath + "/count_tokens"
	geminiPath     = "/v1beta/models"
)

func apiOf(path string) llm.API {
	switch {
	case strings.HasPrefix(path, messagesPath):
		return llm.Messages
	case path == geminiPath || strings.HasPrefix(path, geminiPath+"/"):
		return llm.Contents
	case path == responsesPath:
		return llm.Responses
	}
	return llm.Chat
}

// failure writes an error for clients of an API.
func failure(api llm.API, status int, message, param, code string) []byte {
	return llm.EncodeError(api, &llm.Error{Status: status, Message: message, Param: param, Code: code})
}

// isPosted reports whether a path of OpenAI's API is for requests with a body.
func isPosted(path string) bool {
	return path == chatPath || path == responsesPath || path == embeddingsPath
}

func (h *handler) serve(ctx context.Context, r *web.Request, w *web.Response) {
	path, api := r.URL.Path, apiOf(r.URL.Path)
	fail := func(status int, text, code string) { w.JSON(status, failure(api, status, text, "", code)) }
	name, one := strings.CutPrefix(path, modelsPath+"/")
	switch posted := r.Method == http.MethodPost; {
	case api == llm.Contents:
		h.gemini(ctx, r, w)
	case (isPosted(path) || path == messagesPath || path == countPath) && posted:
		e := h.open(r, w, api)
		defer e.tap.Close()
		switch path {
		case countPath:
			e.does = h.broker.Count
		case embeddingsPath:
			e.does = h.broker.Embed
		}
		e.complete(ctx)
	case path == messagesPath, path == countPath:
		w.Set("Allow", "POST")
		fail(http.StatusMethodNotAllowed, "Method not allowed", "")
	case api == llm.Messages:
		fail(http.StatusNotFound, "Unknown request URL: "+r.Method+" "+path, "")
	case isPosted(path):
		w.Set("Allow", "POST")
		fail(http.StatusMethodNotAllowed, "Not allowed to "+r.Method+" here", "method_not_allowed")
	case path != modelsPath && (!one || name == ""):
		fail(http.StatusNotFound, unknownURL(r), "unknown_url")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Set("Allow", "GET, HEAD")
		fail(http.StatusMethodNotAllowed, "Not allowed to "+r.Method+" here", "method_not_allowed")
	case one:
		h.model(name, w)
	default:
		w.JSON(http.StatusOK, models(h.broker.Named()))
	}
}

// unknownURL is the error for an unknown path. It lists the known ones or, if the client's
// base URL lacks /v1, says so.
func unknownURL(r *web.Request) string {
	text := "Unknown request URL: " + r.Method + " " + r.URL.Path
	if path := "/v1" + r.URL.Path; isPosted(path) || path == modelsPath {
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
		w.JSON(http.StatusNotFound, failure(llm.Chat, http.StatusNotFound, broker.Message(err), "model", "model_not_found"))
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

// gemini serves the models of Gemini's API and their methods.
func (h *handler) gemini(ctx context.Context, r *web.Request, w *web.Response) {
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), geminiPath), "/")
	method := ""
	if at := strings.LastIndexByte(name, ':'); at >= 0 && r.Method == http.MethodPost {
		name, method = name[:at], name[at+1:]
	}
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	fail := func(status int, text string) { w.JSON(status, failure(llm.Contents, status, text, "", "")) }
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		h.geminiModels(name, w)
	case method == "streamGenerateContent" && r.URL.Query().Get("alt") != "sse":
		fail(http.StatusBadRequest, "Invalid value at 'alt': expected sse, the form that streams have here")
	case method == "generateContent", method == "streamGenerateContent", method == "countTokens":
		e := h.open(r, w, llm.Contents)
		defer e.tap.Close()
		e.call.Model, e.stream = name, method == "streamGenerateContent"
		if method == "countTokens" {
			e.does = h.broker.Count
		}
		e.complete(ctx)
	case r.Method == http.MethodPost:
		fail(http.StatusNotFound, "Unknown request URL: POST "+r.URL.Path+" (a model has the methods generateContent, streamGenerateContent and countTokens)")
	default:
		w.Set("Allow", "GET, HEAD, POST")
		fail(http.StatusMethodNotAllowed, "Not allowed to "+r.Method+" here")
	}
}

// geminiModels describes the model of a name, or all if that is "".
func (h *handler) geminiModels(name string, w *web.Response) {
	type model struct {
		Name    string   `json:"name"`
		Display string   `json:"displayName"`
		Methods []string `json:"supportedGenerationMethods"`
	}
	describe := func(name string) model {
		return model{"models/" + name, name, []string{"generateContent", "countTokens"}}
	}
	if name != "" {
		if err := h.broker.Find(name); err != nil {
			w.JSON(http.StatusNotFound, failure(llm.Contents, http.StatusNotFound, broker.Message(err), "", ""))
			return
		}
		w.JSON(http.StatusOK, jsonscan.MustMarshal(describe(name)))
		return
	}
	list := []model{}
	for _, name := range h.broker.Named() {
		list = append(list, describe(name))
	}
	w.JSON(http.StatusOK, jsonscan.MustMarshal(map[string]any{"models": list}))
}

const (
	// maxKept is how many responses are kept for requests that continue them.
	maxKept = 1000
	// maxKeptBytes bounds their size in all, and maxOneKept the size of each.
	maxKeptBytes = 64 << 20
	maxOneKept   = 8 << 20
)

// keptSentence says why a response may be missing.
var keptSentence = fmt.Sprintf("the broker keeps the last %d responses, at most %d MiB, while it runs, and none made with store: false. Send the whole conversation as 'input'.", maxKept, maxKeptBytes>>20)

// kept are the conversations of responses, by their ids. The oldest are dropped.
type kept struct {
	mu    sync.Mutex
	byID  map[string]*list.Element
	order *list.List // of *conversation, the oldest first
	bytes int
}

type conversation struct {
	id, account string
	turns       []byte // as JSON
}

func newKept() *kept { return &kept{byID: map[string]*list.Element{}, order: list.New()} }

// keep keeps a conversation of an account.
func (k *kept) keep(id, account string, turns []llm.Turn) {
	text, err := json.Marshal(turns)
	c := &conversation{id, account, text}
	if err != nil || len(text) > maxOneKept { // or it is nested too deeply
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byID[id] = k.order.PushBack(c)
	for k.bytes += len(c.turns); k.bytes > maxKeptBytes || k.order.Len() > maxKept; {
		oldest := k.order.Remove(k.order.Front()).(*conversation)
		delete(k.byID, oldest.id)
		k.bytes -= len(oldest.turns)
	}
}

// find returns the conversation of a response, an empty one for the id "". A conversation of
// another account is not found.
func (k *kept) find(id, account string) (turns []llm.Turn, found bool) {
	if id == "" {
		return nil, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.byID[id]
	if e == nil || e.Value.(*conversation).account != account {
		return nil, false
	}
	_ = json.Unmarshal(e.Value.(*conversation).turns, &turns) // it is our own JSON
	return turns, true
}

// fail answers a failed call. In a stream that has begun, the error is the last event, and the
// stream is cut so that the client notices, unless its API has an end for that.
func (e *exchange) fail(err error) {
	failed := errorOf(err)
	if !e.w.Streaming() {
		e.hint(err)
		e.json(failed.Status, llm.EncodeError(e.api, failed))
		return
	}
	complete := e.writer().Fail(failed)
	_ = e.flush()
	if complete {
		e.tap.EventsEnd()
		return
	}
	e.w.Break()
}

// hint tells the client when to retry: what the backend says, or when the budget begins anew.
func (e *exchange) hint(err error) {
	after := func(seconds float64) { e.w.Set("Retry-After", strconv.Itoa(int(math.Ceil(seconds)))) }
	if pe, ok := errors.AsType[*provider.Error](err); ok {
		for name, values := range pe.Hints {
			if name != "Retry-After" && len(values) > 0 && printable(values[0]) {
				e.w.Set(name, values[0])
			}
		}
		if pe.Code == "insufficient_quota" && pe.Hints.Get("X-Should-Retry") == "" { // only OpenAI's API has the word
			e.w.Set("X-Should-Retry", "false")
		}
		if pe.RetryAfter > 0 {
			after(pe.RetryAfter.Seconds())
		}
	}
	if spent, ok := errors.AsType[*broker.BudgetError](err); ok {
		if !spent.Reserved {
			e.w.Set("X-Should-Retry", "false") // OpenAI's and Anthropic's clients respect this
		}
		if spent.Wait > 0 {
			after(spent.Wait.Seconds())
		}
	}
}

// explain describes a failure for the client. Of a provider's answer it has only the status
// and the error code.
func explain(err error) string {
	var pe *provider.Error
	if !errors.As(err, &pe) {
		return broker.Message(err)
	}
	if errors.Is(err, broker.ErrHubLost) {
		return broker.Message(err)
	}
	answer := fmt.Sprintf("HTTP %d", pe.Status)
	if pe.Code != "" && pe.Code != strconv.Itoa(pe.Status) {
		answer += ", " + pe.Code
	}
	switch {
	case pe.Shown != "":
		return pe.Shown
	case errors.Is(err, broker.ErrOpen):
		return "The provider failed too often recently, and gets no calls for a while"
	case pe.Status == 0 && pe.Cause == provider.Overloaded:
		return "The provider's answer is invalid"
	case pe.Status == 0 && pe.Cause == provider.Unreachable:
		return "The provider cannot be reached, or broke off the connection: wirectl serve --log FILE logs the cause"
	case pe.Status == 0 && pe.Cause == provider.TimedOut:
		return "The provider did not answer in time: wirectl serve --log FILE logs which timeout ended the call"
	case pe.Status == 0:
		return broker.Message(err)
	case pe.KeyRefused():
		return "The provider rejected the broker's key (" + answer + ")"
	case pe.Cause == provider.RateLimited:
		return "The provider's rate limit was exceeded (" + answer + ")"
	case pe.Cause == provider.Refused:
		return "The provider refused the request (" + answer + ")"
	}
	return "The provider failed (" + answer + ")"
}

// errorOf is a failure for clients: with the status, the words and the hints of the provider, but
// without its text.
func errorOf(err error) *llm.Error {
	e := &llm.Error{Status: http.StatusInternalServerError, Message: explain(err)}
	pe, failed := errors.AsType[*provider.Error](err)
	_, unknown := errors.AsType[*broker.UnknownModelError](err)
	_, spent := errors.AsType[*broker.BudgetError](err)
	_, large := errors.AsType[*provider.TooLargeError](err)
	switch {
	case unknown:
		e.Status, e.Code, e.Param = http.StatusNotFound, "model_not_found", "model"
	case spent:
		e.Status, e.Type, e.Code = http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota"
	case large:
		e.Status = http.StatusBadGateway
	case errors.Is(err, broker.ErrCannotCount), errors.Is(err, broker.ErrCannotEmbed):
		e.Status = http.StatusNotFound
	case errors.Is(err, broker.ErrShutdown):
		e.Status = http.StatusServiceUnavailable
	case failed:
		e.Status = statusOf(pe)
		if !pe.KeyRefused() {
			e.Code, e.Type, e.RetryAfter = pe.Code, pe.Type, pe.RetryAfter
		}
		if pe.Cause == provider.Unsupported {
			e.Param = pe.Param
		}
	}
	return e
}

// statusOf returns the HTTP status of a provider's error: its own, unless it is about the broker.
func statusOf(pe *provider.Error) int {
	switch {
	case pe.KeyRefused():
		return http.StatusBadGateway
	case pe.Status >= 400:
		return pe.Status
	case pe.Status != 0: // such as a redirect
		return http.StatusBadGateway
	}
	return cmp.Or(map[provider.Cause]int{
		provider.TimedOut: http.StatusGatewayTimeout, provider.RateLimited: http.StatusTooManyRequests, provider.Unreachable: http.StatusBadGateway,
		provider.Overloaded: http.StatusBadGateway, provider.Unsupported: http.StatusBadRequest,
	}[pe.Cause], http.StatusInternalServerError)
}

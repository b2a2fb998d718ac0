// Package openai is the broker's front door for clients of the HTTP APIs of models: OpenAI's chat
// completions, responses, embeddings and list of models, Anthropic's messages, and Gemini's
// generateContent. A client whose API is that of the backend gets its bytes unchanged.
package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
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

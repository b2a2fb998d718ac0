package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// geminiPath is the path of Gemini's API.
const geminiPath = "/v1beta/models"

func isGemini(path string) bool { return path == geminiPath || strings.HasPrefix(path, geminiPath+"/") }

// A generation is a completion that a client requests by Gemini's API. A backend of that API
// gets the request unchanged, and the client its answer; other backends get a translation.
type generation struct {
	exchange
	asked *contents
}

// gemini serves the models and their methods.
func (h *handler) gemini(ctx context.Context, r *web.Request, w *web.Response) {
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), geminiPath), "/")
	method := ""
	if at := strings.LastIndexByte(name, ':'); at >= 0 && r.Method == http.MethodPost {
		name, method = name[:at], name[at+1:]
	}
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	fail := func(status int, text string) { w.JSON(status, geminiFailure(text, status)) }
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		h.geminiModels(name, w)
	case method == "streamGenerateContent" && r.URL.Query().Get("alt") != "sse":
		fail(http.StatusBadRequest, "Invalid value at 'alt': expected sse, the form that streams have here")
	case method == "generateContent", method == "streamGenerateContent", method == "countTokens":
		g := generation{exchange: h.open(r, w)}
		defer g.tap.Close()
		g.complete(ctx, name, method)
	case r.Method == http.MethodPost:
		fail(http.StatusNotFound, "Unknown request URL: POST "+r.URL.Path+" (a model has the methods generateContent, streamGenerateContent and countTokens)")
	default:
		w.Set("Allow", "GET, HEAD, POST")
		fail(http.StatusMethodNotAllowed, "Not allowed to "+r.Method+" here")
	}
}

// geminiModels describes the model of a name, or all if that is "".
func (h *handler) geminiModels(name string, w *web.Response) {
	if name != "" {
		if err := h.broker.Find(name); err != nil {
			w.JSON(http.StatusNotFound, geminiFailure(broker.Message(err), http.StatusNotFound))
			return
		}
		w.JSON(http.StatusOK, jsonscan.MustMarshal(newGeminiModel(name)))
		return
	}
	list := []geminiModel{}
	for _, name := range h.broker.Named() {
		list = append(list, newGeminiModel(name))
	}
	w.JSON(http.StatusOK, jsonscan.MustMarshal(map[string]any{"models": list}))
}

type geminiModel struct {
	Name    string   `json:"name"`
	Display string   `json:"displayName"`
	Methods []string `json:"supportedGenerationMethods"`
}

func newGeminiModel(name string) geminiModel {
	return geminiModel{"models/" + name, name, []string{"generateContent", "countTokens"}}
}

func (g *generation) complete(ctx context.Context, model, method string) {
	g.tap.HTTP(frame.C2U, g.r.Start(), g.r.Body)
	counts := method == "countTokens"
	q, fault := readContents(g.r.Body, counts)
	if fault != "" {
		g.json(http.StatusBadRequest, geminiFailure(fault, http.StatusBadRequest))
		return
	}
	g.asked = q
	g.stream = method == "streamGenerateContent"
	g.call.Model, g.call.Own, g.call.Dialect = model, g.r.Body, provider.GeminiContents
	g.call.Chat, g.call.ChatErr = q.chat(model, g.stream)
	g.call.Choices = choices(q.config["candidateCount"])
	if counts {
		g.does = g.broker.Count
	}
	if g.stream {
		g.call.Emit, g.call.Most = g.emit, mostKept
	}
	err := g.do(ctx)
	c := &g.call.Completion
	switch {
	case err != nil:
		g.fail(err)
	case g.stream:
		g.end()
		g.tap.EventsEnd()
	case c.Own != nil:
		g.json(http.StatusOK, c.Own)
	case counts:
		g.json(http.StatusOK, fmt.Appendf(nil, `{"totalTokens":%d}`, c.Usage.Input))
	default:
		g.whole()
	}
}

// whole answers with the candidates of a backend of another API.
func (g *generation) whole() {
	c := &g.call.Completion
	var parts []geminiPart
	if c.Thoughts != nil && g.asked.thoughts {
		parts = append(parts, geminiPart{Text: c.Thoughts, Thought: true})
	}
	if string(c.Text) != `""` {
		parts = append(parts, geminiPart{Text: c.Text})
	}
	body, err := jsonscan.Marshal(g.answerOf(append(parts, geminiCalls(c)...), c))
	if err != nil { // the arguments of a tool are nested too deeply
		g.fail(err)
		return
	}
	g.json(http.StatusOK, body)
}

// The JSON of Gemini's API.
type (
	geminiAnswer struct {
		Candidates []candidate  `json:"candidates"`
		Usage      *geminiUsage `json:"usageMetadata,omitempty"`
		Model      string       `json:"modelVersion"`
		ID         string       `json:"responseId"`
	}
	candidate struct {
		Content geminiContent `json:"content"`
		Finish  string        `json:"finishReason,omitempty"`
		Index   int           `json:"index"`
	}
	geminiContent struct {
		Role  string       `json:"role"`
		Parts []geminiPart `json:"parts"`
	}
	geminiPart struct {
		Text    json.RawMessage `json:"text,omitempty"`
		Thought bool            `json:"thought,omitempty"`
		Call    *geminiCall     `json:"functionCall,omitempty"`
	}
	geminiCall struct {
		ID   string          `json:"id,omitempty"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	}
	geminiUsage struct {
		Prompt   int64 `json:"promptTokenCount"`
		Cached   int64 `json:"cachedContentTokenCount,omitempty"`
		Answer   int64 `json:"candidatesTokenCount"`
		Thoughts int64 `json:"thoughtsTokenCount,omitempty"`
		Total    int64 `json:"totalTokenCount"`
	}
)

// answerOf returns an answer. With c, it is complete or the end of a stream; without, it is a
// part of a stream.
func (g *generation) answerOf(parts []geminiPart, c *provider.Completion) *geminiAnswer {
	if parts == nil {
		parts = []geminiPart{}
	}
	a := &geminiAnswer{Model: g.call.Name, ID: fmt.Sprint("resp-", g.call.ID)}
	for i := range max(g.call.Completion.Choices, 1) {
		one := candidate{Content: geminiContent{"model", parts}, Index: i}
		if c != nil {
			one.Finish = geminiFinish(c.Finish)
		}
		a.Candidates = append(a.Candidates, one)
	}
	if c != nil {
		u := c.Usage
		a.Usage = &geminiUsage{u.Input, u.Cached, u.Output - u.Thinking, u.Thinking, u.Input + u.Output}
	}
	return a
}

func geminiFinish(finish string) string {
	switch finish {
	case "length":
		return "MAX_TOKENS"
	case "content_filter":
		return "SAFETY"
	}
	return "STOP"
}

func geminiCalls(c *provider.Completion) (parts []geminiPart) {
	for _, call := range c.ToolCalls {
		parts = append(parts, geminiPart{Call: &geminiCall{call.ID, call.Name, call.Input()}})
	}
	return parts
}

// emit writes a part of a streamed answer at once. The events of a backend of the same API
// pass unchanged.
func (g *generation) emit(p provider.Part) error {
	g.begin()
	if p.Event != nil {
		g.native = true
		g.send(p.Event)
		return g.flush()
	}
	if p.Thought != nil && g.asked.thoughts {
		g.send(jsonscan.MustMarshal(g.answerOf([]geminiPart{{Text: p.Thought, Thought: true}}, nil)))
	}
	if p.Text != nil {
		g.send(jsonscan.MustMarshal(g.answerOf([]geminiPart{{Text: p.Text}}, nil)))
	}
	return g.flush()
}

// end ends the stream. For a backend of another API it first sends the tool calls and the
// finish reason.
func (g *generation) end() {
	g.begin()
	if !g.native {
		c := &g.call.Completion
		body, err := jsonscan.Marshal(g.answerOf(geminiCalls(c), c))
		if err != nil { // the arguments of a tool are nested too deeply
			g.fail(err)
			return
		}
		g.send(body)
	}
	_ = g.flush()
}

func (g *generation) fail(err error) {
	status, _ := statusOf(err)
	g.failWith("", err, status, geminiFailure(explain(err), status))
}

// geminiStatuses are Gemini's names of statuses.
var geminiStatuses = map[int]string{
	http.StatusUnauthorized:        "UNAUTHENTICATED",
	http.StatusForbidden:           "PERMISSION_DENIED",
	http.StatusNotFound:            "NOT_FOUND",
	http.StatusTooManyRequests:     "RESOURCE_EXHAUSTED",
	http.StatusBadGateway:          "UNAVAILABLE",
	http.StatusServiceUnavailable:  "UNAVAILABLE",
	http.StatusGatewayTimeout:      "DEADLINE_EXCEEDED",
	http.StatusInternalServerError: "INTERNAL",
}

// geminiFailure writes an error as Gemini does.
func geminiFailure(text string, status int) []byte {
	word := geminiStatuses[status]
	if word == "" {
		word = "INVALID_ARGUMENT"
	}
	return jsonscan.MustMarshal(map[string]any{"error": map[string]any{"code": status, "message": text, "status": word}})
}

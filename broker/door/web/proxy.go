package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol/rlm"
)

// ProxyName is the door's name in calls and metrics.
const ProxyName = "proxy"

// A Query is a request for completions.
type Query struct {
	Prompts []json.RawMessage
	Model   string // "" is the default
	Nested  bool   // asks for a child run
	Batch   bool
}

// An Answer is the outcome of a prompt. The error is for the client.
type Answer struct {
	Text json.RawMessage // a string
	Err  error
}

// An Ask answers prompts, in order.
type Ask func(ctx context.Context, q Query) []Answer

// NewProxy returns a server of the door. The publisher may be nil.
func NewProxy(b *broker.Broker, p *observe.Publisher, a Access) *Server {
	a.Containers = true
	return serve(&proxyHandler{broker: b, publish: p, access: a})
}

// NewProxyFor returns a server of the door that answers by a function, and supports child runs.
func NewProxyFor(ask Ask, p *observe.Publisher, a Access) *Server {
	return serve(&proxyHandler{ask: ask, publish: p, access: a})
}

func serve(h *proxyHandler) *Server {
	return New(Config{
		Handler: h.serve, Limit: rlm.Limit, Access: h.access,
		Fault: func(_ string, f *Fault) []byte { return proxyFailure(f.Message) },
	})
}

type proxyHandler struct {
	broker  *broker.Broker
	ask     Ask // instead of a broker
	publish *observe.Publisher
	access  Access
}

// A query is the body of a request. Missing values are nil.
type query struct {
	prompt, prompts, model, id []byte
	nested, batched            bool
}

func (h *proxyHandler) serve(ctx context.Context, r *Request, w *Response) {
	kind, batched := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, h.access.Prefix), "_batched")
	nested := kind == "/rlm_query" && h.ask != nil
	if r.Method != "POST" || kind != "/llm_query" && !nested {
		w.JSON(404, proxyFailure("Not found"))
		return
	}
	tap := h.publish.Open("proxy client "+r.RemoteAddr, "json", frame.HTTP)
	defer tap.Close()
	tap.HTTP(frame.C2U, strings.Replace(r.Start(), h.access.Prefix, "", 1), r.Body)
	status, body := h.answer(ctx, r, nested, batched, tap)
	tap.Response(status, body)
	w.JSON(status, body)
}

func (h *proxyHandler) answer(ctx context.Context, r *Request, nested, batched bool, tap *observe.Conn) (int, []byte) {
	q, fault := read(r)
	if fault != "" {
		return 400, proxyFailure(fault)
	}
	if fault := q.check(batched); fault != "" {
		return 200, proxyFailure(fault)
	}
	q.nested, q.batched = nested, batched
	answers, err := h.answers(ctx, r, q, tap)
	if err == nil && !batched {
		err = answers[0].Err
	}
	switch {
	case err != nil:
		return 200, proxyFailure(err.Error())
	case batched:
		return 200, responses(q.prompts, answers)
	}
	return 200, jsonscan.MustMarshal(map[string]json.RawMessage{"response": answers[0].Text})
}

// answers answers the valid prompts.
func (h *proxyHandler) answers(ctx context.Context, r *Request, q query, tap *observe.Conn) ([]Answer, error) {
	if h.ask != nil {
		return h.ask(ctx, Query{q.valid(), provider.Unquote(q.model), q.nested, q.batched}), nil
	}
	if q.batched {
		if err := h.broker.Admit(call(r, q, q.prompts, tap)); err != nil {
			return nil, errors.New(broker.Message(err))
		}
	}
	var calls []*broker.Call
	for _, prompt := range q.valid() {
		calls = append(calls, call(r, q, prompt, tap))
	}
	answers := make([]Answer, len(calls))
	for i, err := range h.broker.Batch(ctx, calls, nil) {
		if answers[i].Text = calls[i].Completion.Text; err != nil {
			answers[i].Err = errors.New(broker.Message(err))
		}
	}
	return answers, nil
}

// valid returns the valid prompts.
func (q *query) valid() (list []json.RawMessage) {
	if !q.batched {
		return []json.RawMessage{q.prompt}
	}
	for _, prompt := range llm.Elements(q.prompts) {
		if provider.ValidPrompt(prompt) {
			list = append(list, prompt)
		}
	}
	return list
}

// read reads the body. The fault is a sentence for the client.
func read(r *Request) (q query, fault string) {
	switch {
	case !r.HasLength():
		return q, "Missing Content-Length"
	case len(r.Body) == 0:
		return q, "Missing request body"
	}
	object, err := provider.ReadMembers(r.Body, map[string]*[]byte{"prompt": &q.prompt, "prompts": &q.prompts, "model": &q.model, "correlation_id": &q.id})
	switch {
	case err != nil:
		return q, door.InvalidJSON(r.Body, err)
	case !object:
		return q, "Request body must be a JSON object"
	}
	return q, ""
}

func (q *query) check(batched bool) string {
	isString := func(raw []byte) bool {
		kind := jsonscan.KindOf(raw)
		return kind == jsonscan.String || kind == jsonscan.Null || raw == nil
	}
	fault := ""
	if batched {
		fault = q.checkPrompts()
	}
	switch {
	case fault != "":
		return fault
	case !batched && !provider.ValidPrompt(q.prompt):
		return "Invalid prompt"
	case !isString(q.model):
		return "Invalid model"
	case !isString(q.id):
		return "Invalid correlation_id"
	}
	return ""
}

func (q *query) checkPrompts() string {
	if jsonscan.KindOf(q.prompts) != jsonscan.Array {
		return "Invalid prompts"
	}
	count := 0
	for range llm.Elements(q.prompts) {
		if count++; count > broker.MaxBatch {
			return fmt.Sprintf("Too many prompts (max %d)", broker.MaxBatch)
		}
	}
	return ""
}

func call(r *Request, q query, prompt []byte, tap *observe.Conn) *broker.Call {
	return &broker.Call{
		Door: ProxyName, Client: r.Client, Account: r.Account, Ref: provider.Unquote(q.id), Model: provider.Unquote(q.model),
		Prompt: prompt, Parent: r.Header.Get("Traceparent"), Tap: tap.Tap(),
	}
}

// responses writes the answer to a batch: a text for each prompt, in order. The answers are
// for the valid prompts only.
func responses(prompts []byte, answers []Answer) []byte {
	texts := []any{}
	for _, prompt := range llm.Elements(prompts) {
		if !provider.ValidPrompt(prompt) {
			texts = append(texts, "Error: Invalid prompt")
			continue
		}
		if err := answers[0].Err; err != nil {
			texts = append(texts, "Error: "+err.Error())
		} else {
			texts = append(texts, answers[0].Text)
		}
		answers = answers[1:]
	}
	return jsonscan.MustMarshal(map[string]any{"responses": texts})
}

func proxyFailure(message string) []byte {
	return jsonscan.MustMarshal(map[string]string{"error": message})
}

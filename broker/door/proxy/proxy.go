// Package proxy is the broker's front door for code in containers: completions
// by plain HTTP, without framing or ids to keep.
package proxy

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/protocol/rlm"
)

// Name is the door's name in calls and metrics.
const Name = "proxy"

// New returns a server of the door. The publisher may be nil.
func New(b *broker.Broker, p *publish.Publisher, a web.Access) *web.Server {
	h := handler{b, p}
	a.Containers = true
	return web.New(web.Config{
		Handler: h.serve, Limit: rlm.Limit, Access: a,
		Fault: func(_ string, f *web.Fault) []byte { return failure(f.Message) },
	})
}

type handler struct {
	broker  *broker.Broker
	publish *publish.Publisher
}

// A query is the body of a request. nil is a value that is missing.
type query struct{ prompt, prompts, model, id []byte }

func (h *handler) serve(ctx context.Context, r *web.Request, w *web.Response) {
	batched := r.URL.Path == "/llm_query_batched"
	if r.Method != "POST" || !batched && r.URL.Path != "/llm_query" {
		w.JSON(404, failure("Not found"))
		return
	}
	tap := h.publish.Open("proxy client "+r.RemoteAddr, "json", frame.HTTP)
	defer tap.Close()
	tap.HTTP(frame.C2U, r.Start(), r.Body)
	status, body := h.answer(ctx, r, batched, tap)
	tap.Response(status, body)
	w.JSON(status, body)
}

func (h *handler) answer(ctx context.Context, r *web.Request, batched bool, tap *publish.Conn) (int, []byte) {
	q, fault := read(r)
	if fault != "" {
		return 400, failure(fault)
	}
	if fault := q.check(batched); fault != "" {
		return 200, failure(fault)
	}
	calls := h.calls(r, q, batched, tap)
	if batched {
		if err := h.broker.Admit(call(r, q, q.prompts, tap)); err != nil {
			return 200, failure(broker.Message(err))
		}
	}
	errs := h.broker.Batch(ctx, calls, nil)
	if batched {
		return 200, responses(q.prompts, calls, errs)
	}
	if errs[0] != nil {
		return 200, failure(broker.Message(errs[0]))
	}
	return 200, jsonscan.MustMarshal(map[string]json.RawMessage{"response": calls[0].Completion.Text})
}

// read reads the body. The fault is a sentence for the client.
func read(r *web.Request) (q query, fault string) {
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
	for range provider.Elements(q.prompts) {
		if count++; count > broker.MaxBatch {
			return fmt.Sprintf("Too many prompts (max %d)", broker.MaxBatch)
		}
	}
	return ""
}

func (h *handler) calls(r *web.Request, q query, batched bool, tap *publish.Conn) []*broker.Call {
	if !batched {
		return []*broker.Call{call(r, q, q.prompt, tap)}
	}
	var calls []*broker.Call
	for prompt := range provider.Elements(q.prompts) {
		if provider.ValidPrompt(prompt) {
			calls = append(calls, call(r, q, prompt, tap))
		}
	}
	return calls
}

func call(r *web.Request, q query, prompt []byte, tap *publish.Conn) *broker.Call {
	return &broker.Call{
		Door: Name, Client: r.Client, Account: r.Account, Ref: provider.Unquote(q.id), Model: provider.Unquote(q.model),
		Prompt: prompt, Parent: r.Header.Get("Traceparent"), Tap: tap.Tap(),
	}
}

// responses is the answer to a batch: a text for each prompt, in order. The calls
// are those of the valid prompts.
func responses(prompts []byte, calls []*broker.Call, errs []error) []byte {
	texts := []any{}
	for prompt := range provider.Elements(prompts) {
		if !provider.ValidPrompt(prompt) {
			texts = append(texts, "Error: Invalid prompt")
			continue
		}
		if errs[0] != nil {
			texts = append(texts, "Error: "+broker.Message(errs[0]))
		} else {
			texts = append(texts, json.RawMessage(calls[0].Completion.Text))
		}
		calls, errs = calls[1:], errs[1:]
	}
	return jsonscan.MustMarshal(map[string]any{"responses": texts})
}

func failure(message string) []byte {
	return jsonscan.MustMarshal(map[string]string{"error": message})
}

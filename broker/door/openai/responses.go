package openai

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// responsesPath is where OpenAI's newer clients ask.
const responsesPath = "/v1/responses"

// A response is a completion that a client asks for as one of OpenAI's responses.
type response struct {
	exchange
	asked *responseRequest
	id    string
	made  []outputItem // complete
	open  *outputItem  // still streaming; nil if none is
	said  []byte       // the text of the open item, a string token
	seq   int          // the number of the next event
}

func (h *handler) respond(ctx context.Context, r *web.Request, w *web.Response) {
	e := response{exchange: h.open(r, w)}
	defer e.tap.Close()
	e.complete(ctx)
}

func (e *response) complete(ctx context.Context) {
	e.tap.HTTP(frame.C2U, e.r.Start(), e.r.Body)
	q, fault, param := readResponseRequest(e.r.Body)
	if fault != "" {
		e.json(http.StatusBadRequest, failure(fault, invalid, param, ""))
		return
	}
	before, found := e.kept.find(q.Previous, e.r.Account)
	if !found {
		e.json(http.StatusBadRequest, failure("Previous response with id '"+q.Previous+"' not found: "+keptSentence, invalid, "previous_response_id", "previous_response_not_found"))
		return
	}
	e.asked, e.id = q, "resp_"+strings.ToLower(rand.Text())
	e.call.Model, e.call.Own, e.call.Dialect = provider.Unquote(q.members["model"]), e.r.Body, provider.OpenAIResponses
	e.call.Chat, e.call.ChatErr = q.chat(before)
	if e.stream = q.Stream; e.stream {
		e.call.Emit = e.emit
	}
	if err := e.do(ctx); err != nil {
		e.fail(err)
		return
	}
	if q.store {
		e.kept.keep(e.id, e.r.Account, q.conversation(before, &e.call.Completion))
	}
	if e.stream {
		e.end()
		e.tap.EventsEnd()
		return
	}
	e.addAll()
	status, why := responseStatus(e.call.Completion.Finish)
	body, err := jsonscan.Marshal(e.object(status, why, nil))
	if err != nil { // the echoed members are nested too deeply
		e.fail(err)
		return
	}
	e.json(http.StatusOK, body)
}

// responseStatus says in the words of OpenAI's responses how a completion ended.
func responseStatus(finish string) (status, why string) {
	switch finish {
	case "length":
		return "incomplete", "max_output_tokens"
	case "content_filter":
		return "incomplete", "content_filter"
	}
	return "completed", ""
}

// The JSON of OpenAI's responses.
type (
	// A responseObject is a response. It echoes the request's parameters.
	responseObject struct {
		ID                 string            `json:"id"`
		Object             string            `json:"object"`
		CreatedAt          int64             `json:"created_at"`
		Status             string            `json:"status"`
		Background         bool              `json:"background"`
		Error              *responseError    `json:"error"`
		IncompleteDetails  *incompleteReason `json:"incomplete_details"`
		Instructions       json.RawMessage   `json:"instructions"`
		MaxOutputTokens    json.RawMessage   `json:"max_output_tokens"`
		Metadata           json.RawMessage   `json:"metadata"`
		Model              string            `json:"model"`
		Output             []outputItem      `json:"output"`
		ParallelToolCalls  json.RawMessage   `json:"parallel_tool_calls"`
		PreviousResponseID *string           `json:"previous_response_id"`
		Reasoning          json.RawMessage   `json:"reasoning"`
		Store              bool              `json:"store"`
		Temperature        json.RawMessage   `json:"temperature"`
		Text               json.RawMessage   `json:"text"`
		ToolChoice         json.RawMessage   `json:"tool_choice"`
		Tools              json.RawMessage   `json:"tools"`
		TopP               json.RawMessage   `json:"top_p"`
		Truncation         string            `json:"truncation"`
		Usage              *responseUsage    `json:"usage"`
	}
	responseError struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	incompleteReason struct {
		Reason string `json:"reason"`
	}
	responseUsage struct {
		Input   int64 `json:"input_tokens"`
		OfInput struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Output   int64 `json:"output_tokens"`
		OfOutput struct {
			Thinking int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
		Total int64 `json:"total_tokens"`
	}
	// An outputItem is a message, the call of a tool, or reasoning.
	outputItem struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		Status    string          `json:"status,omitempty"`
		Role      string          `json:"role,omitempty"`
		Content   []outputPart    `json:"content,omitzero"`
		Summary   []outputPart    `json:"summary,omitzero"`
		CallID    string          `json:"call_id,omitempty"`
		Namespace string          `json:"namespace,omitempty"`
		Name      string          `json:"name,omitempty"`
		Arguments *string         `json:"arguments,omitempty"`
		Input     json.RawMessage `json:"input,omitempty"`
	}
	outputPart struct {
		Type        string          `json:"type"`
		Text        json.RawMessage `json:"text"`
		Annotations []struct{}      `json:"annotations,omitzero"`
		Logprobs    []struct{}      `json:"logprobs,omitzero"`
	}
)

// object returns the response as it is now.
func (e *response) object(status, incomplete string, failed *responseError) *responseObject {
	q := e.asked
	if e.created == 0 {
		e.created = e.call.Started.Unix()
	}
	o := &responseObject{
		ID: e.id, Object: "response", CreatedAt: e.created, Status: status, Error: failed, Model: e.call.Name, Output: e.made,
		Instructions: or(q.get("instructions"), "null"), MaxOutputTokens: or(q.get("max_output_tokens"), "null"), Metadata: or(q.get("metadata"), "{}"),
		ParallelToolCalls: or(q.get("parallel_tool_calls"), "true"), PreviousResponseID: orNull(q.Previous), Reasoning: or(q.get("reasoning"), `{"effort":null,"summary":null}`),
		Store: q.store, Temperature: or(q.get("temperature"), "1"), Text: or(q.get("text"), `{"format":{"type":"text"}}`),
		ToolChoice: or(q.get("tool_choice"), `"auto"`), Tools: or(q.get("tools"), "[]"), TopP: or(q.get("top_p"), "1"), Truncation: "disabled",
	}
	if o.Output == nil {
		o.Output = []outputItem{}
	}
	if incomplete != "" {
		o.IncompleteDetails = &incompleteReason{incomplete}
	}
	if status == "completed" || status == "incomplete" {
		counted := e.call.Completion.Usage
		u := &responseUsage{Input: counted.Input, Output: counted.Output, Total: counted.Input + counted.Output}
		u.OfInput.Cached, u.OfOutput.Thinking = counted.Cached, counted.Thinking
		o.Usage = u
	}
	return o
}

// or returns a value, or the usual one if it is nil.
func or(value json.RawMessage, usual string) json.RawMessage {
	if value == nil {
		return json.RawMessage(usual)
	}
	return value
}

// addAll adds the items of a completion that was not streamed.
func (e *response) addAll() {
	c := &e.call.Completion
	if c.Thoughts != nil {
		e.made = append(e.made, e.thought(c.Thoughts))
	}
	if string(c.Text) != `""` || len(c.ToolCalls) == 0 {
		e.made = append(e.made, e.message("completed", c.Text))
	}
	for _, call := range c.ToolCalls {
		e.made = append(e.made, e.called(call))
	}
}

// itemID is the id of the next item.
func (e *response) itemID(prefix string) string {
	return fmt.Sprintf("%s_%s_%d", prefix, strings.TrimPrefix(e.id, "resp_"), len(e.made))
}

func (e *response) message(status string, text []byte) outputItem {
	item := outputItem{ID: e.itemID("msg"), Type: "message", Status: status, Role: "assistant", Content: []outputPart{}}
	if text != nil {
		item.Content = []outputPart{newOutputText(text)}
	}
	return item
}

func newOutputText(text []byte) outputPart {
	return outputPart{Type: "output_text", Text: text, Annotations: []struct{}{}, Logprobs: []struct{}{}}
}

func newSummary(text []byte) outputPart { return outputPart{Type: "summary_text", Text: text} }

func (e *response) thought(text []byte) outputItem {
	item := outputItem{ID: e.itemID("rs"), Type: "reasoning", Summary: []outputPart{}}
	if text != nil {
		item.Summary = []outputPart{newSummary(text)}
	}
	return item
}

func (e *response) called(call provider.ToolCall) outputItem {
	item := outputItem{ID: e.itemID("fc"), Type: "function_call", Status: "completed", CallID: call.ID, Name: call.Name}
	if of, known := e.asked.spaces[call.Name]; known {
		item.Namespace, item.Name = of.space, of.name
	}
	if call.Custom || e.asked.custom[call.Name] {
		item.ID, item.Type, item.Input = e.itemID("ctc"), "custom_tool_call", customInput(call)
		return item
	}
	arguments := string(call.Arguments)
	item.Arguments = &arguments
	return item
}

// customInput is the text for a custom tool. A model that was not told that the tool takes
// text may have put it into an object.
func customInput(call provider.ToolCall) json.RawMessage {
	if jsonscan.KindOf(call.Arguments) == jsonscan.String {
		return call.Arguments
	}
	if input, ok := jsonscan.Get(call.Arguments, "input"); ok && jsonscan.KindOf(input) == jsonscan.String {
		return input
	}
	return provider.Quote(string(call.Arguments))
}

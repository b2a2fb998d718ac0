package openai

import (
	"encoding/json"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A responseEvent is one of a streamed response. Each kind has some of its members.
type responseEvent struct {
	Type     string          `json:"type"`
	Seq      int             `json:"sequence_number"`
	Response *responseObject `json:"response,omitempty"`
	ItemID   string          `json:"item_id,omitempty"`
	Output   *int            `json:"output_index,omitempty"`
	Content  *int            `json:"content_index,omitempty"`
	Summary  *int            `json:"summary_index,omitempty"`
	Item     *outputItem     `json:"item,omitempty"`
	Part     *outputPart     `json:"part,omitempty"`
	Delta    json.RawMessage `json:"delta,omitempty"`
	Text     json.RawMessage `json:"text,omitempty"`
	Logprobs []struct{}      `json:"logprobs,omitzero"`

	Arguments *string         `json:"arguments,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

// tell appends an event to the output.
func (e *response) tell(v responseEvent) {
	v.Seq = e.seq
	e.seq++
	data, err := jsonscan.Marshal(v)
	if err != nil { // the echoed members are nested too deeply
		v.Response = &responseObject{ID: e.id, Object: "response", Status: v.Response.Status, Output: []outputItem{}}
		data = jsonscan.MustMarshal(v)
	}
	e.event(v.Type, data)
}

// start begins the stream and the response.
func (e *response) start() {
	if e.w.Streaming() {
		return
	}
	e.begin()
	for _, kind := range [...]string{"response.created", "response.in_progress"} {
		e.tell(responseEvent{Type: kind, Response: e.object("in_progress", "", nil)})
	}
}

// emit writes a part of a streamed response at once.
func (e *response) emit(p provider.Part) error {
	e.start()
	if p.Thought != nil {
		e.addItem(e.thought, "reasoning", p.Thought)
	}
	if p.Text != nil && string(p.Text) != `""` {
		e.addItem(func(text []byte) outputItem { return e.message("in_progress", text) }, "message", p.Text)
	}
	return e.flush()
}

// addItem adds text to the open item, or to a new one if that has another type.
func (e *response) addItem(item func([]byte) outputItem, kind string, text []byte) {
	if e.open == nil || e.open.Type != kind {
		e.closeItem()
		begun := item(nil)
		e.open, e.said = &begun, []byte(`""`)
		e.ofItem(responseEvent{Type: "response.output_item.added", Item: e.open})
		empty := e.part([]byte(`""`))
		e.ofPart(responseEvent{Type: e.partKind() + ".added", Part: &empty})
	}
	e.said = append(append(e.said[:len(e.said)-1], text[1:len(text)-1]...), '"')
	e.ofText(responseEvent{Type: e.textKind() + ".delta", Delta: text})
}

// closeItem ends the open item, if any.
func (e *response) closeItem() {
	if e.open == nil {
		return
	}
	e.ofText(responseEvent{Type: e.textKind() + ".done", Text: e.said})
	part := e.part(e.said)
	e.ofPart(responseEvent{Type: e.partKind() + ".done", Part: &part})
	if e.open.Type == "reasoning" {
		e.open.Summary = []outputPart{part}
	} else {
		e.open.Status, e.open.Content = "completed", []outputPart{part}
	}
	e.finish()
}

// finish announces the end of the open item.
func (e *response) finish() {
	e.ofItem(responseEvent{Type: "response.output_item.done", Item: e.open})
	e.made = append(e.made, *e.open)
	e.open = nil
}

func (e *response) part(text []byte) outputPart {
	if e.open.Type == "reasoning" {
		return newSummary(text)
	}
	return newOutputText(text)
}

func (e *response) partKind() string {
	if e.open.Type == "reasoning" {
		return "response.reasoning_summary_part"
	}
	return "response.content_part"
}

func (e *response) textKind() string {
	if e.open.Type == "reasoning" {
		return "response.reasoning_summary_text"
	}
	return "response.output_text"
}

// ofItem sends an event about the open item, ofPart one about its only part, and ofText one
// about the text of that part.
func (e *response) ofItem(v responseEvent) {
	at := len(e.made)
	v.Output = &at
	e.tell(v)
}

func (e *response) ofPart(v responseEvent) {
	first := 0
	v.ItemID = e.open.ID
	if e.open.Type == "reasoning" {
		v.Summary = &first
	} else {
		v.Content = &first
	}
	e.ofItem(v)
}

func (e *response) ofText(v responseEvent) {
	if e.open.Type != "reasoning" {
		v.Logprobs = []struct{}{}
	}
	e.ofPart(v)
}

// end ends the stream with the calls of tools and the whole response.
func (e *response) end() {
	e.start()
	c := &e.call.Completion
	e.closeItem()
	if len(e.made) == 0 && len(c.ToolCalls) == 0 { // an answer without text
		e.addItem(func([]byte) outputItem { return e.message("in_progress", nil) }, "message", []byte(`""`))
		e.closeItem()
	}
	for _, call := range c.ToolCalls {
		e.tellCall(e.called(call))
	}
	status, why := responseStatus(c.Finish)
	e.tell(responseEvent{Type: "response." + status, Response: e.object(status, why, nil)})
	_ = e.flush()
}

func (e *response) tellCall(item outputItem) {
	whole := item
	item.Status = "in_progress"
	none, kind, delta := "", "response.function_call_arguments", item.Input
	if item.Arguments != nil {
		item.Arguments, delta = &none, provider.Quote(*whole.Arguments)
	} else {
		item.Input, kind = []byte(`""`), "response.custom_tool_call_input"
	}
	e.ofItem(responseEvent{Type: "response.output_item.added", Item: &item})
	e.ofItem(responseEvent{Type: kind + ".delta", ItemID: item.ID, Delta: delta})
	e.ofItem(responseEvent{Type: kind + ".done", ItemID: item.ID, Arguments: whole.Arguments, Input: whole.Input})
	e.open = &whole
	e.finish()
}

// fail answers a failed call. In a stream that has begun, the last event is the failure.
func (e *response) fail(err error) {
	if !e.w.Streaming() {
		e.exchange.fail(err)
		return
	}
	code := "server_error"
	if broker.CauseOf(err) == provider.RateLimited {
		code = "rate_limit_exceeded"
	}
	e.tell(responseEvent{Type: "response.failed", Response: e.object("failed", "", &responseError{code, explain(err)})})
	_ = e.flush()
	e.tap.EventsEnd()
}

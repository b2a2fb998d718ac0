package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// The paths of Anthropic's API: for messages, and for counting the tokens of one.
const (
	messagesPath = "/v1/messages"
	countPath    = messagesPath + "/count_tokens"
)

// A message is a completion that a client requests by Anthropic's API. A backend of that
// API gets the request unchanged, and the client its answer; other backends get a translation.
type message struct {
	exchange
	blocks int  // how many blocks of content are complete
	inside bool // another block is open
}

func (h *handler) message(ctx context.Context, r *web.Request, w *web.Response) {
	if r.Method != http.MethodPost {
		w.Set("Allow", "POST")
		w.JSON(http.StatusMethodNotAllowed, messageFailure("Method not allowed", http.StatusMethodNotAllowed))
		return
	}
	m := message{exchange: h.open(r, w)}
	defer m.tap.Close()
	m.complete(ctx)
}

func (m *message) complete(ctx context.Context) {
	m.tap.HTTP(frame.C2U, m.r.Start(), m.r.Body)
	var q question
	if fault := q.read(m.r.Body); fault != "" {
		m.json(http.StatusBadRequest, messageFailure(fault, http.StatusBadRequest))
		return
	}
	m.call.Model, m.call.Own, m.call.Dialect = provider.Unquote(q.members["model"]), m.r.Body, provider.AnthropicMessages
	m.call.Chat, m.call.ChatErr = q.chat()
	m.call.OwnHeader = handedOn(m.r)
	count := m.r.URL.Path == countPath
	if count {
		m.does = m.broker.Count
	}
	if m.stream = q.streams() && !count; m.stream {
		m.call.Emit, m.call.Most = m.emit, mostKept
	}
	switch err := m.do(ctx); {
	case err != nil:
		m.fail(err)
	case m.stream:
		m.end()
		m.tap.EventsEnd()
	case count && m.call.Completion.Own == nil:
		m.json(http.StatusOK, fmt.Appendf(nil, `{"input_tokens":%d}`, m.call.Completion.Usage.Input))
	case m.call.Completion.Own != nil:
		m.json(http.StatusOK, m.call.Completion.Own)
	default:
		m.whole()
	}
}

// handedOn returns the client's headers for a backend of the same API.
func handedOn(r *web.Request) http.Header {
	var header http.Header
	for _, name := range [...]string{"Anthropic-Version", "Anthropic-Beta"} {
		if value := r.Header.Get(name); value != "" && printable(value) {
			if header == nil {
				header = http.Header{}
			}
			header.Set(name, value)
		}
	}
	return header
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// whole answers with the message of a backend of another API.
func (m *message) whole() {
	c := &m.call.Completion
	content := []messagePart{}
	if string(c.Text) != `""` {
		content = append(content, messagePart{Type: "text", Text: c.Text})
	}
	for _, call := range c.ToolCalls {
		content = append(content, messagePart{Type: "tool_use", ID: &call.ID, Name: &call.Name, Input: call.Input()})
	}
	body, err := jsonscan.Marshal(m.made(content, stopReason(c.Finish), newMessageUsage(c.Usage)))
	if err != nil { // the arguments of a tool are nested too deeply
		m.fail(err)
		return
	}
	m.json(http.StatusOK, body)
}

// The JSON of Anthropic's API.
type (
	madeMessage struct {
		ID      string        `json:"id"`
		Type    string        `json:"type"`
		Role    string        `json:"role"`
		Model   string        `json:"model"`
		Content []messagePart `json:"content"`
		messageEnd
		Usage messageUsage `json:"usage"`
	}
	messageEnd struct {
		Reason   *string   `json:"stop_reason"`
		Sequence *struct{} `json:"stop_sequence"`
	}
	messageUsage struct {
		Input  int64 `json:"input_tokens"` // without what came from a cache
		Cached int64 `json:"cache_read_input_tokens,omitempty"`
		Output int64 `json:"output_tokens"`
	}
	// A messagePart is content, a delta of content, or an error.
	messagePart struct {
		Type    string          `json:"type"`
		Text    json.RawMessage `json:"text,omitempty"`
		ID      *string         `json:"id,omitempty"`
		Name    *string         `json:"name,omitempty"`
		Input   json.RawMessage `json:"input,omitempty"`
		Partial string          `json:"partial_json,omitempty"`
		Message *string         `json:"message,omitempty"`
	}
	messageEvent struct {
		Type    string        `json:"type"`
		Message *madeMessage  `json:"message,omitempty"`
		Index   *int          `json:"index,omitempty"`
		Block   *messagePart  `json:"content_block,omitempty"`
		Delta   any           `json:"delta,omitempty"`
		Usage   *messageUsage `json:"usage,omitempty"`
		Error   *messagePart  `json:"error,omitempty"`
	}
)

// made returns a message: a whole one, or the start of a streamed one, without a stop reason.
func (m *message) made(content []messagePart, stop string, u messageUsage) *madeMessage {
	id := fmt.Sprint("msg_", m.call.ID)
	return &madeMessage{id, "message", "assistant", m.call.Name, content, messageEnd{Reason: orNull(stop)}, u}
}

func newMessageUsage(u provider.Usage) messageUsage {
	return messageUsage{max(u.Input-u.Cached, 0), u.Cached, u.Output}
}

// stopReason translates a finish reason for Anthropic's clients.
func stopReason(finish string) string {
	switch finish {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	case "content_filter":
		return "refusal"
	}
	return "end_turn"
}

// emit writes a part of a streamed message at once. The events of a backend of the same API
// pass unchanged.
func (m *message) emit(p provider.Part) error {
	switch {
	case p.Event != nil:
		m.begin()
		m.native = true
		kind, _ := jsonscan.Get(p.Event, "type")
		m.event(provider.Unquote(kind), p.Event)
	case p.Text != nil:
		m.start()
		if !m.inside {
			m.block(messagePart{Type: "text", Text: []byte(`""`)})
		}
		m.event("content_block_delta", fmt.Appendf(nil, `{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%s}}`, m.blocks, p.Text))
	default:
		return nil
	}
	return m.flush()
}

// end ends the stream. For a backend of another API it first sends the tool calls and the
// stop reason.
func (m *message) end() {
	if m.native {
		return
	}
	m.start()
	m.stop()
	c := &m.call.Completion
	for _, call := range c.ToolCalls {
		m.block(messagePart{Type: "tool_use", ID: &call.ID, Name: &call.Name, Input: []byte("{}")})
		m.ofBlock("content_block_delta", nil, messagePart{Type: "input_json_delta", Partial: string(call.Input())})
		m.stop()
	}
	usage := newMessageUsage(c.Usage)
	m.tell(messageEvent{Type: "message_delta", Delta: messageEnd{Reason: orNull(stopReason(c.Finish))}, Usage: &usage})
	m.tell(messageEvent{Type: "message_stop"})
	_ = m.flush()
}

// start begins the stream and the message. The usage is not known yet.
func (m *message) start() {
	if m.w.Streaming() {
		return
	}
	m.begin()
	m.tell(messageEvent{Type: "message_start", Message: m.made([]messagePart{}, "", messageUsage{})})
}

// block begins a block of content.
func (m *message) block(content messagePart) {
	m.ofBlock("content_block_start", &content, nil)
	m.inside = true
}

// stop ends the open block, if any.
func (m *message) stop() {
	if m.inside {
		m.ofBlock("content_block_stop", nil, nil)
		m.inside = false
		m.blocks++
	}
}

// ofBlock appends an event of the open block.
func (m *message) ofBlock(kind string, content *messagePart, delta any) {
	m.tell(messageEvent{Type: kind, Index: &m.blocks, Block: content, Delta: delta})
}

// tell appends an event of the broker's own.
func (m *message) tell(e messageEvent) { m.event(e.Type, jsonscan.MustMarshal(e)) }

// event appends an event with a name to the output.
func (e *exchange) event(name string, data []byte) {
	e.chunks = append(append(append(e.chunks, "event: "...), name...), '\n')
	e.send(data)
}

func (m *message) fail(err error) {
	status, _ := statusOf(err)
	m.failWith("error", err, status, messageFailure(explain(err), status))
}

// kinds are Anthropic's error types, by status.
var kinds = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

// messageFailure writes an error as Anthropic does.
func messageFailure(text string, status int) []byte {
	kind := kinds[status]
	switch {
	case kind != "":
	case status >= 500:
		kind = "api_error"
	default:
		kind = invalid
	}
	return jsonscan.MustMarshal(messageEvent{Type: "error", Error: &messagePart{Type: kind, Message: &text}})
}

package openai

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// messagesPath is where clients of Anthropic's ask, and countPath where they ask
// how many tokens a question is.
const (
	messagesPath = "/v1/messages"
	countPath    = messagesPath + "/count_tokens"
)

// A message is a completion that a client asks for in Anthropic's words. A
// backend that speaks them gets them as they are, and the client its answer; for
// others they are translated.
type message struct {
	exchange
	blocks int  // of content that have ended
	inside bool // a further one is open
}

func (h *handler) message(ctx context.Context, r *web.Request, w *web.Response) {
	if r.Method != http.MethodPost {
		w.Set("Allow", "POST")
		w.JSON(http.StatusMethodNotAllowed, messageFailure("Method not allowed", http.StatusMethodNotAllowed))
		return
	}
	var m message
	m.open(h, r, w)
	m.complete(ctx)
	m.tap.Close()
}

func (m *message) complete(ctx context.Context) {
	m.tap.HTTP(frame.C2U, m.r.Start(), m.r.Body)
	var q question
	if fault := q.read(m.r.Body); fault != "" {
		m.json(http.StatusBadRequest, messageFailure(fault, http.StatusBadRequest))
		return
	}
	m.call.Model, m.call.Message = provider.Unquote(q.Model), m.r.Body
	m.call.Chat, m.call.ChatErr = q.chat()
	m.call.MessageHeader = handedOn(m.r)
	m.count = m.r.Path == countPath
	if m.stream = q.streams() && !m.count; m.stream {
		m.call.Emit = m.emit
	}
	switch err := m.do(ctx); {
	case err != nil:
		m.fail(err)
	case m.stream:
		m.end()
		m.tap.EventsEnd()
	case m.call.Completion.Message != nil:
		m.json(http.StatusOK, m.call.Completion.Message)
	default:
		m.json(http.StatusOK, m.whole())
	}
}

// handedOn returns the headers of a client that mean something to a backend that
// speaks as it does.
func handedOn(r *web.Request) http.Header {
	var header http.Header
	for _, name := range [...]string{"Anthropic-Version", "Anthropic-Beta"} {
		if value := r.Header(name); value != "" && printable(value) {
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

// whole writes the message of a backend that speaks otherwise.
func (m *message) whole() []byte {
	c := &m.call.Completion
	var content []byte
	if string(c.Text) != `""` {
		content = appendText(content, c.Text)
	}
	for _, call := range c.ToolCalls {
		if content != nil {
			content = append(content, ',')
		}
		content = appendTool(content, call, call.Input())
	}
	return m.appendMessage(nil, content, stopReason(c.Finish), c.Usage)
}

// appendMessage appends a message, whole or as it is at its beginning. The
// content is the blocks in it.
func (m *message) appendMessage(b, content []byte, stop string, u provider.Usage) []byte {
	b = strconv.AppendInt(append(b, `{"id":"msg_`...), m.call.ID, 10)
	b = jsonscan.AppendQuote(append(b, `","type":"message","role":"assistant","model":`...), []byte(m.call.Name))
	b = append(append(append(b, `,"content":[`...), content...), `],`...)
	b = append(appendStop(b, stop), `,"usage":`...)
	return append(appendTokens(b, u), '}')
}

// appendStop appends why a message ended; "" is that it has not.
func appendStop(b []byte, stop string) []byte {
	if b = append(b, `"stop_reason":`...); stop == "" {
		b = append(b, "null"...)
	} else {
		b = jsonscan.AppendQuote(b, []byte(stop))
	}
	return append(b, `,"stop_sequence":null`...)
}

func appendTokens(b []byte, u provider.Usage) []byte {
	b = strconv.AppendInt(append(b, `{"input_tokens":`...), u.Input, 10)
	b = strconv.AppendInt(append(b, `,"output_tokens":`...), u.Output, 10)
	return append(b, '}')
}

func appendText(b, token []byte) []byte {
	return append(append(append(b, `{"type":"text","text":`...), token...), '}')
}

func appendTool(b []byte, call provider.ToolCall, input []byte) []byte {
	b = jsonscan.AppendQuote(append(b, `{"type":"tool_use","id":`...), []byte(call.ID))
	b = jsonscan.AppendQuote(append(b, `,"name":`...), []byte(call.Name))
	return append(append(append(b, `,"input":`...), input...), '}')
}

// stopReason says in Anthropic's words why a completion ended.
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

// emit writes a part of a streamed message at once. The events of a backend that
// speaks so pass as they are.
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
			m.block(appendText(nil, []byte(`""`)))
		}
		m.delta(`"text_delta","text":`, p.Text)
	default:
		return nil
	}
	return m.flush()
}

// end ends the stream. Where the backend speaks otherwise, nothing of the tool
// calls and the reason for the end has been told yet.
func (m *message) end() {
	if m.native {
		return
	}
	m.start()
	m.stop()
	c := &m.call.Completion
	for _, call := range c.ToolCalls {
		m.block(appendTool(nil, call, []byte("{}")))
		m.delta(`"input_json_delta","partial_json":`, jsonscan.AppendQuote(nil, call.Input()))
		m.stop()
	}
	b := appendStop([]byte(`{"type":"message_delta","delta":{`), stopReason(c.Finish))
	m.event("message_delta", append(appendTokens(append(b, `},"usage":`...), c.Usage), '}'))
	m.event("message_stop", []byte(`{"type":"message_stop"}`))
	_ = m.flush()
}

// start begins the stream and the message, whose usage is not known yet.
func (m *message) start() {
	if m.w.Streaming() {
		return
	}
	m.begin()
	b := m.appendMessage([]byte(`{"type":"message_start","message":`), nil, "", provider.Usage{})
	m.event("message_start", append(b, '}'))
}

// block begins a block of content.
func (m *message) block(content []byte) {
	m.ofBlock("content_block_start", append([]byte(`,"content_block":`), content...))
	m.inside = true
}

// delta adds to the block that is open.
func (m *message) delta(kind string, token []byte) {
	b := append([]byte(`,"delta":{"type":`), kind...)
	m.ofBlock("content_block_delta", append(append(b, token...), '}'))
}

// stop ends the block that is open, if one is.
func (m *message) stop() {
	if m.inside {
		m.ofBlock("content_block_stop", nil)
		m.inside = false
		m.blocks++
	}
}

// ofBlock appends an event of the block that is open.
func (m *message) ofBlock(kind string, members []byte) {
	b := append(append([]byte(`{"type":"`), kind...), `","index":`...)
	b = strconv.AppendInt(b, int64(m.blocks), 10)
	m.event(kind, append(append(b, members...), '}'))
}

// event appends an event to what is written next.
func (m *message) event(kind string, data []byte) {
	m.chunks = append(append(append(m.chunks, "event: "...), kind...), '\n')
	m.send(data)
}

// fail answers a call that failed. In a stream that has begun the error is its
// last event, and the stream is seen to be cut.
func (m *message) fail(err error) {
	status, _ := statusOf(err)
	body := messageFailure(explain(err), status)
	if !m.w.Streaming() {
		m.retryAfter(err)
		m.json(status, body)
		return
	}
	m.event("error", body)
	_ = m.flush()
	m.w.Break()
}

// kinds are Anthropic's words for what a status means.
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
	b := jsonscan.AppendQuote([]byte(`{"type":"error","error":{"type":`), []byte(kind))
	b = jsonscan.AppendQuote(append(b, `,"message":`...), []byte(text))
	return append(b, "}}"...)
}

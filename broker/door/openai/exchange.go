package openai

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
)

// An exchange is a completion that a client requests.
type exchange struct {
	*handler
	r    *web.Request
	w    *web.Response
	tap  *observe.Conn
	call broker.Call
	does func(context.Context, *broker.Call) error // how the broker serves the call; nil completes

	api     llm.API
	head    llm.Head
	stream  bool
	request *llm.Request // of Responses
	made    *llm.Writer
	native  bool   // the backend's own events are passed on
	last    string // the type of the last of them, of Messages
	chunks  []byte // output that is not flushed yet
}

func (h *handler) open(r *web.Request, w *web.Response, api llm.API) *exchange {
	return &exchange{handler: h, r: r, w: w, api: api, tap: h.publish.Open("openai client "+r.RemoteAddr, "json", frame.HTTP)}
}

func (e *exchange) complete(ctx context.Context) {
	e.tap.HTTP(frame.C2U, e.r.Start(), e.r.Body)
	embeds := e.r.URL.Path == embeddingsPath
	c, body := &e.call, e.r.Body
	api := e.api
	if embeds { // its input is as free as that of Responses
		api = llm.Responses
	}
	if inner, ok := jsonscan.Get(body, "generateContentRequest"); ok && e.api == llm.Contents && jsonscan.Valid(body) == nil {
		body = inner
	}
	var fault *llm.Fault
	if e.head, fault = llm.ReadHead(api, body); fault != nil {
		e.json(http.StatusBadRequest, failure(e.api, http.StatusBadRequest, fault.Message, fault.Param, fault.Code))
		return
	}
	c.API, c.Body, c.Choices, c.MaxTokens, c.Header = e.api, e.r.Body, e.head.Choices, e.head.MaxTokens, passedOn(e.r)
	if e.api != llm.Contents {
		c.Model, e.stream = e.head.Model, e.head.Stream && e.does == nil
	}
	if e.api == llm.Responses {
		previous, _ := jsonscan.Get(body, "previous_response_id")
		before, found := e.kept.find(llm.Unquote(previous), e.r.Account)
		if !found {
			text := "Previous response with id '" + llm.Unquote(previous) + "' not found: " + keptSentence
			e.json(http.StatusBadRequest, failure(e.api, http.StatusBadRequest, text, "previous_response_id", "previous_response_not_found"))
			return
		}
		c.Before, e.request = before, llm.Decode(e.api, body, before...)
	}
	if e.stream {
		c.Emit, c.Alive = e.emit, e.alive
		if e.api != llm.Responses { // which repeats the text at the end
			c.Most = mostKept
		}
	}
	if err := e.do(ctx); err != nil {
		e.fail(err)
		return
	}
	if e.api == llm.Responses && string(e.request.Members["store"]) != "false" {
		e.kept.keep(e.writer().ID(), e.r.Account, e.request.Remember(&c.Completion.Answer))
	}
	switch {
	case e.stream:
		e.end()
	case c.Completion.Body != nil:
		e.json(http.StatusOK, c.Completion.Body)
	case e.does != nil:
		e.json(http.StatusOK, fmt.Appendf(nil, `{"%s":%d}`, map[llm.API]string{llm.Messages: "input_tokens", llm.Contents: "totalTokens"}[e.api], c.Completion.Usage.Input))
	default:
		answer, err := e.writer().Whole(&c.Completion.Answer)
		if err != nil { // the arguments of a tool are nested too deeply
			e.fail(err)
			return
		}
		e.json(http.StatusOK, answer)
	}
}

// do makes the call, which ends early if the client leaves.
func (e *exchange) do(ctx context.Context) error {
	c := &e.call
	c.Door, c.Client, c.Account, c.Ref = Name, e.r.Client, e.r.Account, e.r.Header.Get("X-Request-Id")
	c.Parent, c.Tap = e.r.Header.Get("Traceparent"), e.tap.Tap()
	if e.does == nil {
		return e.broker.Do(ctx, c)
	}
	return e.does(ctx, c)
}

func (e *exchange) json(status int, body []byte) {
	e.tap.Response(status, body)
	e.w.JSON(status, body)
}

// passedOn returns the client's headers for a backend of the same API.
func passedOn(r *web.Request) http.Header {
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

// writer returns the writer of an answer that is not the backend's own.
func (e *exchange) writer() *llm.Writer {
	if e.made == nil {
		reply := &llm.Reply{
			ID: fmt.Sprint(map[llm.API]string{llm.Chat: "chatcmpl-", llm.Messages: "msg_", llm.Contents: "resp-"}[e.api], e.call.ID), Model: cmp.Or(e.call.Name, e.call.Model),
			Created: time.Now().Unix(), Choices: e.call.Completion.Choices, Usage: e.head.Usage, Thoughts: e.head.IncludeThoughts, Request: e.request, Send: e.send,
		}
		if e.api == llm.Responses {
			reply.ID, reply.Created = "resp_"+strings.ToLower(rand.Text()), e.call.Started.Unix()
		}
		e.made = llm.NewWriter(e.api, reply)
	}
	return e.made
}

// emit writes a part of a streamed completion at once. The events of a backend of the same API
// pass unchanged.
func (e *exchange) emit(p provider.Part) error {
	e.begin()
	switch {
	case p.Event != nil:
		e.native = true
		name := ""
		if e.api == llm.Messages {
			kind, _ := jsonscan.Get(p.Event, "type")
			name = llm.Unquote(kind)
			e.last = name
		}
		e.send(name, p.Event)
	case !e.native:
		e.writer().Delta(&p.Delta)
	}
	return e.flush()
}

// alive keeps the client's connection open while the backend works.
func (e *exchange) alive() error {
	e.begin()
	e.chunks = append(e.chunks, ": still at work\n\n"...)
	return e.flush()
}

// begin begins the stream.
func (e *exchange) begin() {
	if e.w.Streaming() {
		return
	}
	e.w.Set("Cache-Control", "no-cache")
	e.w.Stream(http.StatusOK)
	e.tap.Events(http.StatusOK)
}

// end ends the stream, with the end mark that the backend may have left out.
func (e *exchange) end() {
	e.begin()
	switch {
	case !e.native:
		e.writer().Finish(&e.call.Completion.Answer)
	case e.api == llm.Chat:
		e.send("", []byte("[DONE]"))
	case e.api == llm.Messages && e.last != "message_stop":
		e.send("message_stop", []byte(`{"type":"message_stop"}`))
	}
	_ = e.flush()
	e.tap.EventsEnd()
}

// send appends an event to the output. Its name may be "".
func (e *exchange) send(name string, data []byte) {
	e.tap.Event(data)
	if name != "" {
		e.chunks = append(append(append(e.chunks, "event: "...), name...), '\n')
	}
	e.chunks = append(e.chunks, "data: "...)
	if bytes.IndexByte(data, '\n') >= 0 {
		data = jsonscan.AppendCompact(nil, data)
	}
	e.chunks = append(append(e.chunks, data...), "\n\n"...)
}

func (e *exchange) flush() error {
	if len(e.chunks) == 0 {
		return nil
	}
	err := e.w.Chunk(e.chunks)
	if e.chunks = e.chunks[:0]; cap(e.chunks) > keptChunks {
		e.chunks = nil
	}
	return err
}

// keptChunks limits the buffer that an open call keeps. Only the events that begin a response
// need more.
const keptChunks = 1 << 10

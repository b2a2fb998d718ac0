package openai

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// emit writes a part of a streamed completion at once. The chunks of a backend
// that speaks OpenAI pass as they are.
func (e *exchange) emit(p provider.Part) error {
	first := !e.w.Streaming()
	e.begin()
	switch {
	case p.Chunk != nil:
		e.native = true
		e.send(p.Chunk)
	case p.Text != nil:
		for i := range max(e.call.Completion.Choices, 1) {
			b := e.delta(i)
			if first {
				b = append(b, `"role":"assistant",`...)
			}
			b = append(append(b, `"content":`...), p.Text...)
			e.send(append(b, `},"logprobs":null,"finish_reason":null}]}`...))
		}
	}
	return e.flush()
}

// delta is what a chunk begins with that adds to a choice.
func (e *exchange) delta(choice int) []byte {
	b := append(e.head("chat.completion.chunk"), `"choices":[{"index":`...)
	return append(strconv.AppendInt(b, int64(choice), 10), `,"delta":{`...)
}

// begin begins the stream.
func (e *exchange) begin() {
	if e.w.Streaming() {
		return
	}
	e.w.Set("Cache-Control", "no-cache")
	e.w.Stream(http.StatusOK)
	e.tap.Events(web.StatusLine(http.StatusOK))
}

// end ends the stream. Where the backend does not speak OpenAI, nothing of the
// tool calls and the reason for the end has been told yet.
func (e *exchange) end() {
	e.begin()
	if !e.native {
		c := &e.call.Completion
		for i := range max(c.Choices, 1) {
			b := e.delta(i)
			if calls := appendToolCalls(nil, c.ToolCalls, true); calls != nil {
				b = append(b, calls[len(","):]...)
			}
			b = append(b, `},"logprobs":null,"finish_reason":`...)
			e.send(append(appendFinish(b, c.Finish), `}]}`...))
		}
		if e.withUsage {
			b := append(e.head("chat.completion.chunk"), `"choices":[],`...)
			e.send(append(appendUsage(b, c.Usage), '}'))
		}
	}
	e.send([]byte("[DONE]"))
	_ = e.flush()
}

// send appends an event to what is written next.
func (e *exchange) send(data []byte) {
	e.tap.Event(data)
	e.chunks = append(e.chunks, "data: "...)
	if bytes.IndexByte(data, '\n') >= 0 {
		data = jsonscan.AppendCompact(nil, data)
	}
	e.chunks = append(append(e.chunks, data...), "\n\n"...)
}

func (e *exchange) flush() error {
	err := e.w.Chunk(e.chunks)
	e.chunks = e.chunks[:0]
	return err
}

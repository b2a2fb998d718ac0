package openai

import (
	"bytes"
	"net/http"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// emit writes a part of a streamed completion at once. The chunks of a backend of the same
// API pass unchanged.
func (e *exchange) emit(p provider.Part) error {
	e.begin()
	switch {
	case p.Chunk != nil:
		e.native = true
		e.send(p.Chunk)
	case p.Text != nil:
		e.delta(&content{Text: p.Text}, nil)
	}
	return e.flush()
}

// delta sends a delta of each choice. The first one has the role.
func (e *exchange) delta(delta *content, finish *string) {
	if !e.begun {
		delta.Role, e.begun = "assistant", true
	}
	for i := range max(e.call.Completion.Choices, 1) {
		e.send(e.answer(chunk, []choice{{Index: i, Delta: delta, Finish: finish}}, nil))
	}
}

const chunk = "chat.completion.chunk"

// begin begins the stream.
func (e *exchange) begin() {
	if e.w.Streaming() {
		return
	}
	e.w.Set("Cache-Control", "no-cache")
	e.w.Stream(http.StatusOK)
	e.tap.Events(http.StatusOK)
}

// end ends the stream. For a backend of another API it first sends the tool calls and the
// finish reason.
func (e *exchange) end() {
	e.begin()
	if !e.native {
		c := &e.call.Completion
		e.delta(&content{Calls: toolCalls(c.ToolCalls, true)}, finish(c))
		if e.withUsage {
			e.send(e.answer(chunk, []choice{}, newUsage(c)))
		}
	}
	e.send([]byte("[DONE]"))
	_ = e.flush()
}

// send appends an event to the output.
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
	if e.chunks = e.chunks[:0]; cap(e.chunks) > keptChunks {
		e.chunks = nil
	}
	return err
}

// keptChunks limits the buffer that an open call keeps. Only the events that begin a response
// need more.
const keptChunks = 1 << 10

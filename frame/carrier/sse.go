package carrier

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/sse"
)

// An event is an incomplete server-sent event.
type event struct {
	sse.Parser
	given  int   // events
	size   int64 // of them, in bytes
	packed bool  // the stream is compressed: its lines are not bytes of the connection
	held   int   // bytes counted in Carrier.held
}

// reset begins a stream of events.
func (e *event) reset() {
	e.Reset()
	e.given, e.size = 0, 0
}

// charge updates Carrier.held.
func (e *event) charge(h *half) {
	n := e.Held()
	h.c.held += n - e.held
	e.held = n
}

// takeLine consumes data up to the end of a line, and returns how many bytes it took.
func (e *event) takeLine(b *body, h *half, data []byte) int {
	room := min(h.c.limit+maxLine-e.held, maxHeld(h.c.limit)-h.c.held)
	if room <= 0 {
		b.tooLarge(h, 0)
		return 0
	}
	n, ended := e.Next(data[:min(len(data), room)], h.at())
	e.charge(h)
	switch {
	case ended != nil:
		if !e.packed {
			h.pos += n
		}
		e.dispatch(b, h, ended)
	case !e.packed:
		h.advance(n)
	}
	return n
}

// endLastLine ends a last line whose CR is not followed by LF.
func (e *event) endLastLine(b *body, h *half) {
	if ended := e.Settle(); ended != nil {
		e.dispatch(b, h, ended)
	}
	e.charge(h)
}

// dispatch emits an event.
func (e *event) dispatch(b *body, h *half, ended *sse.Event) {
	if n := len(ended.Data); n > h.c.limit {
		b.tooLarge(h, uint64(n))
		return
	}
	m := frame.Meta{Framing: frame.HTTP, Encoding: b.encoding, Event: ended.Name, EventID: ended.ID}
	if !BeginsJSON(ended.Data) {
		m.Signal = frame.Event
	}
	e.given++
	e.size += int64(len(ended.Data))
	payload := span{ended.Begin, ended.End, ended.Data}
	if e.packed {
		h.c.unpacked += len(ended.Data)
		payload.end = -1 // nowhere
	}
	payload.payload(h, h.give(b.stream, m), 0)
}

package carrier

import (
	"bytes"

	"github.com/wirectl/wirectl/frame"
)

// An event is a server-sent event that is being read. Its lines end in LF, which
// CR may precede.
type event struct {
	line     span // the line at hand
	data     span
	lines    int // of data
	name, id string
}

func (e *event) reset() {
	e.line.reset()
	e.data.reset()
	e.lines, e.name, e.id = 0, "", ""
}

// idle reports whether there is no event that was begun.
func (e *event) idle() bool { return e.lines == 0 && len(e.line.data) == 0 }

// take takes in up to the end of a line, n bytes at most, and returns how many
// it took.
func (e *event) take(b *body, h *half, n int) int {
	data := h.rest()[:n]
	i := bytes.IndexByte(data, '\n')
	if i >= 0 {
		n = i + 1
	}
	room := h.c.limit + maxLine - len(e.line.data) - len(e.data.data)
	switch {
	case room <= 0:
		b.tooLarge(h, 0)
		return 0
	case n > room:
		n, i = room, -1
	}
	e.line.add(h, n)
	if i < 0 {
		h.advance(n)
		return n
	}
	line := bytes.TrimSuffix(e.line.data[:len(e.line.data)-1], []byte("\r"))
	if len(line) > 0 {
		h.advance(n)
		e.field(line)
		e.line.reset()
		return n
	}
	h.pos += n
	e.line.reset()
	e.dispatch(b, h)
	return n
}

// field takes in a line, which begins at e.line.begin.
func (e *event) field(line []byte) {
	name, value, colon := bytes.Cut(line, []byte(":"))
	at := len(name)
	if colon {
		at++
	}
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
		at++
	}
	switch string(name) {
	case "data":
		if e.lines++; e.lines > 1 {
			e.data.data = append(e.data.data, '\n')
			e.data.data = append(e.data.data, value...)
			e.data.end = -1 // in pieces
			return
		}
		e.data.data = append(e.data.data, value...)
		e.data.begin = e.line.begin + int64(at)
		e.data.end = e.data.begin + int64(len(value))
		if e.line.end-e.line.begin != int64(len(e.line.data)) {
			e.data.end = -1
		}
	case "event":
		e.name = string(value[:min(len(value), 256)])
	case "id":
		e.id = string(value[:min(len(value), 256)])
	}
}

// dispatch gives out the event that an empty line ended, if it has data. What
// has none belongs to the wrapper of the next.
func (e *event) dispatch(b *body, h *half) {
	if e.lines == 0 {
		e.reset()
		return
	}
	m := frame.Meta{Framing: frame.HTTP, Event: e.name, EventID: e.id}
	if !beginsJSON(e.data.data) {
		m.Signal = frame.Event
	}
	f := h.give(b.stream, m)
	e.data.payload(h, f, 0)
	e.reset()
}

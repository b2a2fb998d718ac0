package carrier

import (
	"bytes"

	"github.com/wirectl/wirectl/frame"
)

// An event is a server-sent event that is being read. Its lines end in LF, in CR,
// or in both.
type event struct {
	given  int   // events
	size   int64 // of them, in bytes
	packed bool  // the stream is compressed: its lines are no bytes of the connection
	begun  bool  // the first line of the stream was read
	line   span  // the current line
	cr     bool  // it has ended in CR, which LF may follow
	data   span
	held   int // bytes of both, among those that all streams hold
	lines  int // of data
	name   string
	id     string
}

// reset begins a stream of events.
func (e *event) reset() {
	e.line.reset()
	e.given, e.size, e.begun, e.cr = 0, 0, false, false
	e.clear()
}

// clear begins an event.
func (e *event) clear() {
	e.data.reset()
	e.lines, e.name, e.id = 0, "", ""
}

// idle reports whether there is no event that was begun.
func (e *event) idle() bool { return e.lines == 0 && len(e.line.data) == 0 }

// charge counts what the event holds among what all streams hold.
func (e *event) charge(h *half) {
	n := len(e.line.data) + len(e.data.data)
	h.c.held += n - e.held
	e.held = n
}

// takeLine reads up to the end of a line, but no more than data, and returns how many
// bytes it consumed.
func (e *event) takeLine(b *body, h *half, data []byte) int {
	defer e.charge(h)
	n := len(data)
	if e.cr {
		n = 0
		if data[0] == '\n' {
			n = 1
		}
		e.addToLine(h, data[:n])
		e.ended(b, h, n)
		return n
	}
	i := bytes.IndexAny(data, "\r\n")
	if i >= 0 {
		n = i + 1
	}
	room := min(h.c.limit+maxLine-e.held, maxHeld(h.c.limit)-h.c.held)
	switch {
	case room <= 0:
		b.tooLarge(h, 0)
		return 0
	case n > room:
		n, i = room, -1
	}
	e.addToLine(h, data[:n])
	if i >= 0 && data[i] == '\n' {
		e.ended(b, h, n)
		return n
	}
	e.cr = i >= 0
	e.advance(h, n)
	return n
}

// addToLine adds data to the current line. Unless compressed, data are the next bytes of
// h.
func (e *event) addToLine(h *half, data []byte) {
	if !e.packed {
		e.line.extend(h, len(data))
		return
	}
	e.line.data = append(e.line.data, data...)
	e.line.end = -1 // nowhere
}

// advance is that of h, which is ahead already of what was compressed.
func (e *event) advance(h *half, n int) {
	if !e.packed {
		h.advance(n)
	}
}

// endLastLine ends a line whose CR was the last byte of the body.
func (e *event) endLastLine(b *body, h *half) {
	if e.cr {
		e.ended(b, h, 0)
	}
}

// ended handles the current line. Its last n bytes are the next bytes of h.
func (e *event) ended(b *body, h *half, n int) {
	if !e.begun {
		e.begun = true
		if rest, ok := bytes.CutPrefix(e.line.data, byteOrderMark); ok {
			e.line.data = rest
			e.line.begin += int64(len(byteOrderMark))
		}
	}
	line := bytes.TrimRight(e.line.data, "\r\n")
	if len(line) > 0 {
		e.advance(h, n)
		e.field(line)
	} else {
		if !e.packed {
			h.pos += n
		}
		e.dispatch(b, h)
	}
	e.line.reset()
	e.cr = false
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// field handles a line, which begins at e.line.begin.
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

// dispatch emits the event that an empty line ended, if it has data. An event without
// data belongs to the wrapper of the next one.
func (e *event) dispatch(b *body, h *half) {
	if e.lines == 0 {
		e.clear()
		return
	}
	if n := len(e.data.data); n > h.c.limit {
		b.tooLarge(h, uint64(n))
		return
	}
	m := frame.Meta{Framing: frame.HTTP, Encoding: b.encoding, Event: e.name, EventID: e.id}
	if !BeginsJSON(e.data.data) {
		m.Signal = frame.Event
	}
	e.given++
	e.size += int64(len(e.data.data))
	if e.packed {
		h.c.unpacked += len(e.data.data)
	}
	f := h.give(b.stream, m)
	e.data.payload(h, f, 0)
	e.clear()
}

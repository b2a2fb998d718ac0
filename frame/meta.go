package frame

import (
	"bytes"
	"strings"
)

// Meta is what a carrier knows of a frame beside its payload. Frames of plain
// streams have none.
type Meta struct {
	// Framing is how the payload was delimited in the carrier: ws, http, or
	// the framing that ran on the stream.
	Framing string
	// Signal says what the frame is if it carries no message of the protocol
	// that is spoken: the head of a request, a ping, a reset. It is "" for a
	// frame that carries one.
	Signal Signal
	// Apart says that the payload is Data and not a part of Raw, because it
	// was masked, compressed or in pieces on the wire.
	Apart bool
	Data  []byte
	// Encoding is the compression that was undone, and "" if there was none.
	Encoding string
	// Opcode is that of a WebSocket message.
	Opcode Opcode
	// Head is what stands at the beginning of an HTTP request or response, or
	// at its end as trailers; nil if it has been given out with another frame.
	Head *Head
	// Event and EventID are the type and the id of a server-sent event.
	Event, EventID string
	// Code is the reason of a reset, a close or a goaway, and Text its words.
	Code uint32
	Text string
}

// A Signal is what a carrier says for itself.
type Signal string

const (
	NoSignal Signal = ""
	Request  Signal = "request"  // a request, or its head
	Response Signal = "response" // a response, or its head
	Trailers Signal = "trailers" // what follows a body
	Event    Signal = "event"    // a server-sent event that carries no message
	End      Signal = "end"      // the end of a response that is not told by what came before, as of server-sent events
	Ping     Signal = "ping"
	Pong     Signal = "pong"
	Close    Signal = "close"  // the end of a WebSocket
	Reset    Signal = "reset"  // the end of a stream ahead of time
	GoAway   Signal = "goaway" // the end of a connection
	// Damaged is a message whose compression cannot be undone.
	Damaged Signal = "damaged"
	// Wrapping is not a frame but a gap: bytes of the carrier itself that no frame
	// follows, or too many to wait for one.
	Wrapping Signal = "wrapping"
)

// An Opcode is the type of a WebSocket message.
type Opcode uint8

const (
	NoOpcode Opcode = 0
	TextMsg  Opcode = 1
	BinMsg   Opcode = 2
)

// String returns "text", "binary" or "".
func (o Opcode) String() string {
	switch o {
	case TextMsg:
		return "text"
	case BinMsg:
		return "binary"
	}
	return ""
}

// A Head is the first line of an HTTP request or response, and its fields. It
// is never changed once it was given out.
type Head struct {
	// Start is the request line or status line; for HTTP/2, which has none, the
	// one that says the same.
	Start  string
	Fields []Field
}

// A Field is a line of a head, as it was written.
type Field struct{ Name, Value string }

// Get returns the value of the first field of that name, whose case does not
// matter.
func (h *Head) Get(name string) string {
	if h != nil {
		for _, f := range h.Fields {
			if strings.EqualFold(f.Name, name) {
				return f.Value
			}
		}
	}
	return ""
}

// Method and Target are those of a request line, and "" of any other head.
func (h *Head) Method() string {
	method, _ := h.request()
	return method
}

// Target is what a request asks for.
func (h *Head) Target() string {
	_, target := h.request()
	return target
}

func (h *Head) request() (method, target string) {
	if h == nil || strings.HasPrefix(h.Start, "HTTP/") {
		return "", ""
	}
	method, rest, _ := strings.Cut(h.Start, " ")
	target, _, _ = strings.Cut(rest, " ")
	return method, target
}

// Status is the status of a response, three digits, and "" of a request.
func (h *Head) Status() string {
	if h == nil || !strings.HasPrefix(h.Start, "HTTP/") {
		return ""
	}
	_, rest, _ := strings.Cut(h.Start, " ")
	status, _, _ := strings.Cut(rest, " ")
	return status
}

// Clone returns the meta with bytes of its own; nil of nil.
func (m *Meta) Clone() *Meta {
	if m == nil {
		return nil
	}
	c := *m
	c.Data = bytes.Clone(m.Data)
	return &c
}

// Names of what only carriers delimit.
const (
	WS   = "ws"   // one WebSocket message
	HTTP = "http" // one request or response body, or one server-sent event
)

// IsCarried reports whether a framing is one that only carriers have: its frames
// cannot be told by the bytes alone.
func IsCarried(name string) bool { return name == WS || name == HTTP }

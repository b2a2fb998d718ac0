package frame

import (
	"bytes"
	"strings"
)

// Meta is a carrier's information about a frame. Frames of plain streams have none.
type Meta struct {
	// Framing delimits the payload in the carrier: ws, http, or the framing on
	// the stream.
	Framing string
	// Signal is the kind of a frame that carries no message of the protocol, such
	// as the head of a request, a ping or a reset; "" for a frame with a message.
	Signal Signal
	// Apart means that the payload is Data and not a part of Raw, because it was
	// masked, compressed or fragmented on the wire.
	Apart bool
	Data  []byte
	// Encoding is the compression that was decoded; "" if there was none.
	Encoding string
	// Opcode is that of a WebSocket message.
	Opcode Opcode
	// Head is the head of an HTTP request or response, or its trailers; nil if
	// another frame has it.
	Head *Head
	// Event and EventID are the type and the id of a server-sent event.
	Event, EventID string
	// Code is the reason of a reset, a close or a goaway, and Text its description.
	Code uint32
	Text string
}

// A Signal is a carrier's own kind of frame.
type Signal string

const (
	NoSignal Signal = ""
	Request  Signal = "request"  // a request, or its head
	Response Signal = "response" // a response, or its head
	Trailers Signal = "trailers" // what follows a body
	Event    Signal = "event"    // a server-sent event that carries no message
	End      Signal = "end"      // the end of a response whose length was not known, such as server-sent events
	Ping     Signal = "ping"
	Pong     Signal = "pong"
	Close    Signal = "close"  // the end of a WebSocket
	Reset    Signal = "reset"  // the early end of a stream
	GoAway   Signal = "goaway" // the end of a connection
	// Damaged is a message that cannot be decompressed.
	Damaged Signal = "damaged"
	// Wrapping is a gap: bytes of the carrier itself without a frame after them, or
	// too many to wait for one.
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

// A Head is the first line of an HTTP request or response, and its fields. It is
// immutable.
type Head struct {
	// Start is the request line or status line; for HTTP/2, an equivalent one.
	Start  string
	Fields []Field
}

// AbsentField is the field of a head that stands for a message that was not recorded.
const AbsentField = "Wirectl-Absent"

// IsAbsent reports whether the message was not recorded; see [AbsentField].
func (h *Head) IsAbsent() bool { return h.Get(AbsentField) != "" }

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

// Values returns the values of all fields of that name.
func (h *Head) Values(name string) (values []string) {
	for _, f := range h.Fields {
		if strings.EqualFold(f.Name, name) {
			values = append(values, f.Value)
		}
	}
	return values
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

// Names of framings that only carriers have.
const (
	WS   = "ws"   // one WebSocket message
	HTTP = "http" // one request or response body, or one server-sent event
)

// IsCarried reports whether a framing only occurs in carriers.
func IsCarried(name string) bool { return name == WS || name == HTTP }

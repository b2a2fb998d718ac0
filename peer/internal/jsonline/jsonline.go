// Package jsonline carries messages as lines, as they are recorded, where the transport has
// its own bounds of messages.
package jsonline

import (
	"bytes"
	"context"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/transport"
)

// Frame frames a payload as a line. JSON of several lines is compacted.
func Frame(payload []byte) frame.Frame {
	line := payload
	if bytes.ContainsAny(payload, "\r\n") && jsonscan.Valid(payload) == nil {
		line = jsonscan.AppendCompact(nil, payload)
	}
	return frame.Frame{Raw: append(bytes.Clone(line), '\n'), End: len(line)}
}

// A Conn adapts a Messenger to a stream of lines: each text message is a line. Context
// bounds its reads and writes.
type Conn struct {
	transport.Messenger

	Context context.Context
	rest    []byte // of the current line
}

func (c *Conn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		m, err := c.ReadMessage(c.Context)
		if err != nil {
			return 0, err
		}
		c.rest = Frame(bytes.TrimSpace(m.Data)).Raw
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write sends p, which is a complete line.
func (c *Conn) Write(p []byte) (int, error) {
	return len(p), c.WriteMessage(c.Context, transport.Message{Text: true, Data: bytes.TrimRight(p, "\r\n")})
}

package client

import (
	"bytes"
	"context"

	"github.com/wirectl/wirectl/transport"
)

// lined is a connection that keeps the bounds of messages, as one of lines: each text
// message is one, without the framing that a stream needs.
type lined struct {
	transport.Messenger
	rest []byte // of the line that is being read
}

func (c *lined) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		m, err := c.ReadMessage(context.Background())
		if err != nil {
			return 0, err
		}
		c.rest = asLine(bytes.TrimSpace(m.Data)).Raw
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write sends a whole line.
func (c *lined) Write(p []byte) (int, error) {
	return len(p), c.WriteMessage(context.Background(), transport.Message{Text: true, Data: bytes.TrimSuffix(p, []byte("\n"))})
}

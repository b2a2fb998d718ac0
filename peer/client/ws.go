package client

import (
	"bytes"
	"context"

	"github.com/wirectl/wirectl/transport"
)

// lined adapts a Messenger to a stream of lines: each text message is a line.
type lined struct {
	transport.Messenger
	rest []byte // of the current line
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

// Write sends p, which is a complete line.
func (c *lined) Write(p []byte) (int, error) {
	return len(p), c.WriteMessage(context.Background(), transport.Message{Text: true, Data: bytes.TrimSuffix(p, []byte("\n"))})
}

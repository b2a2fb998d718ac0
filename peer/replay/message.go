package replay

import (
	"bytes"
	"context"
	"io"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/transport"
)

// overWire returns the stream of frames that a connection carries. Where frames
// are lines and the transport keeps the bounds of messages, a message is a payload
// without the end of its line, as in JSON over WebSocket.
func overWire(ctx context.Context, conn transport.Conn, framing frame.Framing) io.ReadWriter {
	if m, ok := conn.(transport.Messenger); ok && framing == frame.Line {
		return &lines{ctx: ctx, conn: m}
	}
	return conn
}

// lines makes messages of lines, and lines of messages.
type lines struct {
	ctx  context.Context
	conn transport.Messenger
	rest []byte // of the message that is being read
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		m, err := l.conn.ReadMessage(l.ctx)
		if err != nil {
			return 0, err
		}
		l.rest = append(m.Data, '\n')
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *lines) Write(p []byte) (int, error) {
	err := l.conn.WriteMessage(l.ctx, transport.Message{Text: true, Data: bytes.TrimRight(p, "\r\n")})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

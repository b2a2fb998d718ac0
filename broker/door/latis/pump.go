package latis

import (
	"context"
	"io"
	"net"
	"os"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/broker"
)

// A pumped connection can end its input without closing the WebSocket, which is still needed
// for answers. A read deadline would close it.
type pumped struct {
	net.Conn
	ws    *websocket.Conn
	from  *io.PipeReader
	to    *io.PipeWriter
	timer *time.Timer
	done  chan struct{}
}

func pump(ctx context.Context, ws *websocket.Conn) *pumped {
	from, to := io.Pipe()
	p := &pumped{Conn: websocket.NetConn(ctx, ws, websocket.MessageBinary), ws: ws, from: from, to: to, done: make(chan struct{})}
	p.timer = time.AfterFunc(time.Hour, func() {
		to.CloseWithError(os.ErrDeadlineExceeded)
		_ = ws.CloseNow() // it is not worth a handshake
	})
	go p.run()
	return p
}

func (p *pumped) run() {
	defer close(p.done)
	buf := make([]byte, 4<<10) // small, since most connections are silent
	for {
		n, err := p.Conn.Read(buf)
		if n > 0 {
			_, _ = p.to.Write(buf[:n]) // fails if the input has ended
		}
		if err != nil {
			if err == io.EOF { //nolint:errorlint // a WebSocket has no half-close
				err = broker.ErrGone
			}
			p.to.CloseWithError(err)
			return
		}
	}
}

func (p *pumped) Read(b []byte) (int, error) { return p.from.Read(b) }

// Write writes. If it fails, the connection is closed without a handshake.
func (p *pumped) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	if err != nil {
		_ = p.ws.CloseNow()
	}
	return n, err
}

// SetReadDeadline sets when reading fails for good.
func (p *pumped) SetReadDeadline(t time.Time) error {
	p.timer.Reset(time.Until(t))
	return nil
}

// closeOutput ends the input.
func (p *pumped) closeOutput() { p.to.Close() }

func (p *pumped) Close() error {
	p.timer.Stop()
	p.from.Close()
	defer func() { <-p.done }()
	return p.Conn.Close()
}

package latis

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/transport"
)

// A pumped connection can end its input without closing the WebSocket, which is still needed
// for answers. A read deadline would close it.
type pumped struct {
	net.Conn // for addresses and write deadlines
	ws       *websocket.Conn
	messages latis.WebSocket
	from     *io.PipeReader
	to       *io.PipeWriter
	timer    *time.Timer
	done     chan struct{}
}

func pump(ctx context.Context, ws *websocket.Conn) *pumped {
	from, to := io.Pipe()
	p := &pumped{Conn: websocket.NetConn(ctx, ws, websocket.MessageBinary), ws: ws, from: from, to: to, done: make(chan struct{})}
	p.timer = time.AfterFunc(time.Hour, func() {
		to.CloseWithError(os.ErrDeadlineExceeded)
		_ = ws.CloseNow() // it is not worth a handshake
	})
	go p.run(ctx)
	return p
}

func (p *pumped) run(ctx context.Context) {
	defer close(p.done)
	to := ignoring{p.to}
	for {
		kind, message, err := p.ws.Reader(ctx)
		switch {
		case err != nil:
		case kind != websocket.MessageBinary:
			err = errors.New("a text message")
			_ = p.ws.Close(websocket.StatusUnsupportedData, "messages are binary")
		default:
			err = p.messages.CopyFrames(to, message)
		}
		if err != nil {
			if code := websocket.CloseStatus(err); code == websocket.StatusNormalClosure || code == websocket.StatusGoingAway { // a WebSocket has no half-close
				err = broker.ErrGone
			}
			p.to.CloseWithError(err)
			return
		}
	}
}

// ignoring writes to a pipe, and reads on if its input has ended.
type ignoring struct{ to *io.PipeWriter }

func (w ignoring) Write(b []byte) (int, error) {
	_, _ = w.to.Write(b)
	return len(b), nil
}

func (p *pumped) Read(b []byte) (int, error) { return p.from.Read(b) }

// Write writes. If it fails, the connection is closed without a handshake.
func (p *pumped) Write(b []byte) (int, error) {
	send := func(m []byte) error {
		_, err := p.Conn.Write(m)
		return err
	}
	err := error(nil)
	if p.messages.Bare() {
		err = p.messages.SendFrames(b, send)
	} else {
		err = send(b)
	}
	if err != nil {
		_ = p.ws.CloseNow()
		return 0, err
	}
	return len(b), nil
}

// SetReadDeadline sets when reading fails for good.
func (p *pumped) SetReadDeadline(t time.Time) error {
	p.timer.Reset(time.Until(t))
	return nil
}

// closeOutput ends the input.
func (p *pumped) closeOutput() { p.to.Close() }

func (p *pumped) Close() error {
	return p.closeWith(websocket.CloseError{Code: websocket.StatusNormalClosure})
}

// Abort closes the connection for a client that broke the framing.
func (p *pumped) Abort(why error) error { return p.closeWith(transport.CloseError(why)) }

func (p *pumped) closeWith(e websocket.CloseError) error {
	p.timer.Stop()
	p.from.Close()
	defer func() { <-p.done }()
	return errors.Join(p.ws.Close(e.Code, e.Reason), p.Conn.Close())
}

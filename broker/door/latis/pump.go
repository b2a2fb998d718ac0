package latis

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/broker"
)

// A pumped connection can be told the end of its stream while it is read from:
// a read deadline would close the WebSocket, which has to take answers yet.
type pumped struct {
	net.Conn
	ws      *websocket.Conn
	watched *watchedConn
	from    *io.PipeReader
	to      *io.PipeWriter
	timer   *time.Timer
	done    chan struct{}
}

func pump(ctx context.Context, ws *websocket.Conn, watched *watchedConn) *pumped {
	from, to := io.Pipe()
	p := &pumped{Conn: websocket.NetConn(ctx, ws, websocket.MessageBinary), ws: ws, watched: watched, from: from, to: to, done: make(chan struct{})}
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
		p.watched.whole()
		if n > 0 {
			_, _ = p.to.Write(buf[:n]) // to nobody, if reading has ended
		}
		if err != nil {
			if err == io.EOF { //nolint:errorlint // a WebSocket does not end on one side alone
				err = broker.ErrGone
			}
			p.to.CloseWithError(err)
			return
		}
	}
}

func (p *pumped) Read(b []byte) (int, error) { return p.from.Read(b) }

// Write writes. A peer that does not take it is not worth a handshake either.
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

// end tells the end of the stream.
func (p *pumped) end() { p.to.Close() }

func (p *pumped) Close() error {
	p.timer.Stop()
	p.from.Close()
	err := p.Conn.Close()
	<-p.done
	p.watched.over()
	return err
}

// A watchedConn closes itself when a peer takes too long for a part of a message:
// the WebSocket above it says nothing of parts.
type watchedConn struct {
	net.Conn

	mu     sync.Mutex
	limit  time.Duration // 0 while it is not watched
	timer  *time.Timer
	partly bool // something came that is not whole yet
}

type watchedKey struct{}

type watchedListener struct{ net.Listener }

func (l watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: c}, nil
}

func (c *watchedConn) begin(limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case n == 0 || c.limit == 0 || c.partly:
	case c.timer == nil:
		c.timer = time.AfterFunc(c.limit, func() { c.Close() })
	default:
		c.timer.Reset(c.limit)
	}
	c.partly = c.limit > 0 && (c.partly || n > 0)
	return n, err
}

// whole tells that what came was whole.
func (c *watchedConn) whole() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.partly = false; c.timer != nil {
		c.timer.Stop()
	}
}

// over ends the watch.
func (c *watchedConn) over() {
	c.whole()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = 0
}

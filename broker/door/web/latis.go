package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/transport"
)

// Name is the door's name in calls and metrics.
const Name = "latis"

// A Peer identifies a client in its calls.
type Peer struct {
	Client string
	Tap    *observe.Conn
}

// Serve serves one connection and closes it.
type Serve func(ctx context.Context, c *door.Stream, p Peer)

// idle is how long a controller may be silent: people think about prompts.
const idle = 30 * time.Minute

// NewLatis returns a server of the door over TCP. The publisher may be nil.
func NewLatis(serve Serve, p *observe.Publisher) *door.Server {
	return &door.Server{Limits: door.Limits{Times: door.Times{Idle: idle}}, Handle: func(ctx context.Context, c *door.Conn) {
		tap := p.Open("latis client "+c.RemoteAddr().String(), "latis", "len32")
		defer tap.Close()
		serve(ctx, c.Stream(tap), Peer{c.Client, tap})
	}}
}

// A WS is a server of the door over WebSocket, with length-prefixed messages in binary ones.
type wS struct {
	*Server
	serve    Serve
	publish  *observe.Publisher
	stopping context.Context // ends when connections should end
	stop     context.CancelFunc
}

// NewWS returns such a server. The publisher may be nil.
func NewWS(serve Serve, p *observe.Publisher) *wS {
	s := &wS{serve: serve, publish: p}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.Server = New(Config{
		Handler: func(ctx context.Context, r *Request, w *Response) {
			w.Serve(r, http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) { s.upgrade(ctx, hw, hr, r.Client) }))
		},
		Fault: func(_ string, f *Fault) []byte {
			return jsonscan.MustMarshal(map[string]string{"error": f.Message})
		},
	})
	s.Times.Idle = idle
	return s
}

func (s *wS) upgrade(ctx context.Context, w http.ResponseWriter, r *http.Request, client string) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled, InsecureSkipVerify: true}) // the door has verified the origin
	if err != nil {
		return // it has answered
	}
	nc := pump(context.WithoutCancel(ctx), ws) // answers are still written after ctx has ended
	defer nc.Close()
	defer context.AfterFunc(s.stopping, nc.closeOutput)()
	defer context.AfterFunc(ctx, func() { // a connection that takes too long for its last answer is closed
		time.AfterFunc(door.Cleanup, func() { _ = ws.CloseNow() })
	})()
	tap := s.publish.Open("latis client "+r.RemoteAddr+" by WebSocket", "latis", "len32")
	defer tap.Close()
	s.serve(ctx, door.NewStream(nc, func() bool { return s.stopping.Err() != nil }, s.Times, tap), Peer{client, tap})
}

// Stop ends listening, and tells connections to end.
func (s *wS) Stop() {
	s.stop()
	s.Server.Stop()
}

// Shutdown stops, waits for running calls until ctx ends, and cancels the rest.
func (s *wS) Shutdown(ctx context.Context) {
	s.stop()
	s.Server.Shutdown(ctx)
}

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

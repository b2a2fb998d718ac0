// Package latis is the broker's front door for controllers of latis units, over TCP and
// WebSocket. It accepts connections; the unit that serves them is passed in.
package latis

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/internal/jsonscan"
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

// New returns a server of the door over TCP. The publisher may be nil.
func New(serve Serve, p *observe.Publisher) *door.Server {
	return &door.Server{Limits: door.Limits{Times: door.Times{Idle: idle}}, Handle: func(ctx context.Context, c *door.Conn) {
		tap := p.Open("latis client "+c.RemoteAddr().String(), "latis", "len32")
		defer tap.Close()
		serve(ctx, c.Stream(tap), Peer{c.Client, tap})
	}}
}

// A WS is a server of the door over WebSocket, with length-prefixed messages in binary ones.
type WS struct {
	*web.Server
	serve    Serve
	publish  *observe.Publisher
	stopping context.Context // ends when connections should end
	stop     context.CancelFunc
}

// NewWS returns such a server. The publisher may be nil.
func NewWS(serve Serve, p *observe.Publisher) *WS {
	s := &WS{serve: serve, publish: p}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.Server = web.New(web.Config{
		Handler: func(ctx context.Context, r *web.Request, w *web.Response) {
			w.Serve(r, http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) { s.upgrade(ctx, hw, hr, r.Client) }))
		},
		Fault: func(_ string, f *web.Fault) []byte {
			return jsonscan.MustMarshal(map[string]string{"error": f.Message})
		},
	})
	s.Times.Idle = idle
	return s
}

func (s *WS) upgrade(ctx context.Context, w http.ResponseWriter, r *http.Request, client string) {
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
func (s *WS) Stop() {
	s.stop()
	s.Server.Stop()
}

// Shutdown stops, waits for running calls until ctx ends, and cancels the rest.
func (s *WS) Shutdown(ctx context.Context) {
	s.stop()
	s.Server.Shutdown(ctx)
}

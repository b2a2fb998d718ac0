// Package latis is the broker's front door for controllers of latis units, over
// TCP and over WebSocket. It takes connections; whoever opens the door gives it
// the unit that serves them.
package latis

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/netutil"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/transport"
)

// Name is the door's name in calls and metrics.
const Name = "latis"

// A Peer is a client as its calls tell of it.
type Peer struct {
	Client string
	Tap    *publish.Conn
}

// Serve serves one connection and closes it.
type Serve func(ctx context.Context, c *door.Stream, p Peer)

// idle is how long a controller may say nothing: prompts may take long.
const idle = 30 * time.Minute

// New returns a server of the door over TCP. The publisher may be nil.
func New(serve Serve, p *publish.Publisher) *door.Server {
	return &door.Server{Limits: door.Limits{Times: door.Times{Idle: idle}}, Handle: func(ctx context.Context, c *door.Conn) {
		tap := p.Open("latis client "+c.RemoteAddr().String(), "latis", "len32")
		defer tap.Close()
		serve(ctx, c.Stream(tap), Peer{c.Client, tap})
	}}
}

// A WS is a server of the door over WebSocket: length-prefixed messages inside
// binary ones.
type WS struct {
	door.Limits

	serve    Serve
	publish  *publish.Publisher
	http     http.Server
	stopping atomic.Bool
	group    sync.WaitGroup

	mu     sync.Mutex
	cancel context.CancelCauseFunc
	conns  map[*pumped]struct{}
}

// NewWS returns such a server. The publisher may be nil.
func NewWS(serve Serve, p *publish.Publisher) *WS {
	return &WS{serve: serve, publish: p, conns: map[*pumped]struct{}{}, Limits: door.Limits{Times: door.Times{Idle: idle}}}
}

// limit bounds a message, in bytes.
const limit = 16<<20 + 4

// Serve serves the connections of ln until Shutdown.
func (s *WS) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	if s.stopping.Load() { // before it began
		s.mu.Unlock()
		return ln.Close()
	}
	s.cancel = cancel
	s.http = http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.upgrade(ctx, w, r) }),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, watchedKey{}, c)
		},
		ReadHeaderTimeout: cmp.Or(s.Times.Read, door.ReadTime), IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.mu.Unlock()
	err := s.http.Serve(watchedListener{netutil.LimitListener(ln, cmp.Or(s.MaxConns, door.MaxConns))})
	s.group.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *WS) upgrade(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if !transport.LocalHost(r.Host) {
		http.Error(w, `{"error":"Forbidden host"}`, http.StatusForbidden)
		return
	}
	watched := r.Context().Value(watchedKey{}).(*watchedConn)
	heard := func(context.Context, []byte) { watched.whole() }
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		CompressionMode: websocket.CompressionDisabled,
		OnPingReceived:  func(ctx context.Context, p []byte) bool { heard(ctx, p); return true },
		OnPongReceived:  heard,
	})
	if err != nil {
		return // it has answered
	}
	s.group.Add(1)
	defer s.group.Done()
	ws.SetReadLimit(limit)
	watched.begin(cmp.Or(s.Times.Read, door.ReadTime))
	nc := pump(context.WithoutCancel(ctx), ws, watched) // which takes answers yet when ctx has ended
	defer nc.Close()
	s.keep(nc, true)
	defer s.keep(nc, false)
	tap := s.publish.Open("latis client "+r.RemoteAddr+" by WebSocket", "latis", "len32")
	defer tap.Close()
	client, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.serve(ctx, door.NewStream(nc, s.stopping.Load, s.Times, tap), Peer{client, tap})
}

func (s *WS) keep(nc *pumped, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.conns[nc] = struct{}{}
	} else {
		delete(s.conns, nc)
	}
}

// Stop ends listening, and tells connections that no more is wanted.
func (s *WS) Stop() {
	s.stopping.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for nc := range s.conns {
		nc.end()
	}
}

// closeLate waits for the last words of all connections, and closes those that
// take too long for them.
func (s *WS) closeLate(ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-time.After(door.Cleanup):
	}
	s.mu.Lock()
	for nc := range s.conns {
		_ = nc.ws.CloseNow()
	}
	s.mu.Unlock()
	<-ended
}

// Shutdown stops, waits for what runs until ctx ends, and cancels the rest.
func (s *WS) Shutdown(ctx context.Context) {
	s.Stop()
	closing := make(chan struct{})
	go func() {
		defer close(closing)
		_ = s.http.Shutdown(ctx)
	}()
	ended := make(chan struct{})
	go func() { s.group.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		s.mu.Lock()
		if s.cancel != nil {
			s.cancel(broker.ErrShutdown)
		}
		s.mu.Unlock()
		s.closeLate(ended)
	}
	<-closing
	_ = s.http.Close()
}

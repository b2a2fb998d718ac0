// Package door is what the broker's front doors share: a server that accepts connections
// and shuts down in an orderly way, and a connection that uses no memory while it is
// silent and notices a client that has left. The sub-packages know the protocols.
package door

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/broker"
)

// A Server takes connections and serves each in a goroutine of its own.
type Server struct {
	// Handle serves a connection until it ends. The context's cause, when it
	// ends, says why.
	Handle func(ctx context.Context, c *Conn)
	Limits

	mu       sync.Mutex
	conns    map[*Conn]struct{}
	listener net.Listener
	stopping atomic.Bool
	group    sync.WaitGroup
	cancel   context.CancelCauseFunc
}

// Limits are the limits of a server.
type Limits struct {
	// MaxConns is how many connections are open at once; 0 is [MaxConns].
	// Further ones wait to be accepted.
	MaxConns int
	Times    Times
}

// Bounds returns the limits, which may be changed before Serve.
func (l *Limits) Bounds() *Limits { return l }

// MaxConns is how many connections a door takes at once unless told otherwise.
const MaxConns = 20_000

// ReadTime is how long a request may take unless told otherwise.
const ReadTime = 30 * time.Second

// Times are how long a peer may take.
type Times struct {
	// Idle is the time between two requests; 0 is two minutes.
	Idle time.Duration
	// Read is the time for a whole request, and a 64th of it more for each 64 KiB; 0 is 30
	// seconds.
	Read time.Duration
	// Write is the time for an answer to make progress; 0 is 30 seconds.
	Write time.Duration
}

// SetDefaults gives the times that are 0 their usual values.
func (t *Times) SetDefaults() {
	for _, d := range []*time.Duration{&t.Read, &t.Write} {
		if *d == 0 {
			*d = 30 * time.Second
		}
	}
	if t.Idle == 0 {
		t.Idle = 2 * time.Minute
	}
}

// acceptPause is how long a server waits when there are too many connections or
// descriptors.
const acceptPause = 5 * time.Millisecond

// Serve takes connections from ln until [Server.Shutdown], and returns when all
// have ended.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	s.Times.SetDefaults()
	s.listener, s.cancel = ln, cancel
	s.mu.Unlock()
	if s.stopping.Load() {
		ln.Close()
	}
	err := s.accept(ctx, ln)
	s.group.Wait()
	cancel(nil)
	if s.stopping.Load() {
		return nil
	}
	return err
}

func (s *Server) accept(ctx context.Context, ln net.Listener) error {
	most := cmp.Or(s.MaxConns, MaxConns)
	for {
		nc, err := ln.Accept()
		switch {
		case err != nil && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)):
			time.Sleep(acceptPause)
			continue
		case err != nil:
			return err
		}
		for s.open() >= most && !s.stopping.Load() {
			time.Sleep(acceptPause)
		}
		c := s.openConn(nc)
		s.group.Go(func() { s.handle(ctx, c) })
	}
}

// ServeConn serves one connection, of any transport, and returns when it has
// ended.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) { s.handle(ctx, s.openConn(nc)) }

func (s *Server) handle(ctx context.Context, c *Conn) {
	defer s.remove(c)
	s.Handle(ctx, c)
}

func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *Server) openConn(nc net.Conn) *Conn {
	c := newConn(nc, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Times.SetDefaults()
	if s.conns == nil {
		s.conns = map[*Conn]struct{}{}
	}
	s.conns[c] = struct{}{}
	return c
}

func (s *Server) remove(c *Conn) {
	c.Close()
	c.release()
	c.Rest()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Stopping reports whether connections should end after their next answer.
func (s *Server) Stopping() bool { return s.stopping.Load() }

// Stop ends listening and closes the silent connections.
func (s *Server) Stop() {
	s.stopping.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		s.listener.Close()
	}
	for c := range s.conns {
		if c.idle.Load() {
			c.interrupt()
		}
	}
}

// Cleanup is how long connections may take to write their last answer.
const Cleanup = 2 * time.Second

// Shutdown stops, waits for running calls until ctx ends, cancels the rest, lets them be
// answered, and closes the connections that are still open.
func (s *Server) Shutdown(ctx context.Context) {
	s.Stop()
	ended := make(chan struct{})
	go func() { s.group.Wait(); close(ended) }()
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	if s.cancel != nil {
		s.cancel(broker.ErrShutdown)
	}
	s.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(Cleanup):
		s.mu.Lock()
		for c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		<-ended
	}
}

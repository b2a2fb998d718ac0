// Package door is what the broker's front doors share: a server that accepts connections
// and shuts down in an orderly way, and a connection that uses no memory while it is
// silent and notices a client that has left. The sub-packages know the protocols.
package door

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/internal/jsonscan"
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

// InvalidJSON is the error message for a payload that is not JSON. It names NaN and Infinity,
// which Python writes by default.
func InvalidJSON(payload []byte, err error) string {
	const sentence = "Invalid JSON payload"
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok && syntax.Offset < len(payload) {
		at := payload[max(0, syntax.Offset-1):] // -Infinity fails at its second byte
		word := strings.TrimLeft(string(at[:min(len(at), 10)]), "-:,[ ")
		if strings.HasPrefix(word, "NaN") || strings.HasPrefix(word, "Infinity") {
			return sentence + ": NaN and Infinity are not JSON"
		}
	}
	return sentence
}

// watchDelay is how long a call runs before its client is watched. Most calls to nearby
// providers end earlier, and cost no goroutine.
const watchDelay = 10 * time.Millisecond

// Watch returns a context that ends with [broker.ErrGone] when the client leaves. A client
// that has closed its side may be gone, or may only have no more requests. To find out, Watch
// writes first early, the byte that the answer is sure to begin with: the system of a client
// that is gone rejects it. Nobody may read until stop is called; use the context only until then.
func (c *Conn) Watch(ctx context.Context, first byte) (_ context.Context, stop func()) {
	if c.raw == nil || !canWatch {
		return ctx, func() {}
	}
	_ = c.Flush() // a failure is returned again with the answer
	ctx, cancel := context.WithCancelCause(ctx)
	var over atomic.Bool
	ended := make(chan struct{})
	timer := time.AfterFunc(watchDelay, func() {
		defer close(ended)
		_ = c.SetReadDeadline(time.Time{})
		if c.isGone(first, &over) {
			cancel(broker.ErrGone)
		}
	})
	return ctx, func() {
		over.Store(true)
		if !timer.Stop() {
			c.interrupt()
			<-ended
		}
		cancel(nil)
	}
}

// isGone waits until the client is gone or the call is over, and reports whether it is gone.
func (c *Conn) isGone(first byte, over *atomic.Bool) (gone bool) {
	half := false
	err := c.raw.Read(func(fd uintptr) bool {
		if over.Load() { // the interrupt may have come before the deadline was removed
			return true
		}
		ended, broken := state(fd)
		if ended && !half && !broken {
			half = true
			broken = c.writeEarly(first) != nil // a rejection arrives as another event
		}
		gone = broken
		return broken
	})
	return err == nil && gone
}

// A Conn is a client's connection. It is read and written by one goroutine.
type Conn struct {
	net.Conn
	Client string // the client's host

	server *Server
	small  [512]byte // the read buffer while the client is silent
	buf    []byte    // nil while the client is silent
	r, w   int       // buf[r:w] was read and not consumed
	out    []byte    // answers to be written
	idle   atomic.Bool
	raw    syscall.RawConn // nil where there is no socket

	writing sync.Mutex
	early   int   // how many bytes of the next answer are written already
	failed  error // the first failure to write, which lasts
}

func newConn(nc net.Conn, s *Server) *Conn {
	c := &Conn{Conn: nc, server: s}
	if sc, ok := nc.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	c.Client, _, _ = net.SplitHostPort(nc.RemoteAddr().String())
	return c
}

// smallBuffer is large enough for most requests, in bytes.
const smallBuffer = 16 << 10

var smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}

func (c *Conn) release() {
	keep(c.buf)
	c.buf, c.r, c.w = nil, 0, 0
}

// keep returns a buffer to the pool.
func keep(b []byte) {
	if cap(b) == smallBuffer {
		smallBuffers.Put((*[smallBuffer]byte)(b[:smallBuffer]))
	}
}

// grow makes room after the bytes that were read, for n bytes in all.
func (c *Conn) grow(n int) {
	if len(c.buf)-c.r >= n && c.w < len(c.buf) {
		return
	}
	old := c.buf[c.r:c.w]
	if n <= len(c.buf) && len(old) < len(c.buf) {
		c.w = copy(c.buf, old)
		c.r = 0
		return
	}
	fresh := buffer(max(n, 2*len(old)))
	n = copy(fresh, old)
	c.release()
	c.buf, c.w = fresh, n
}

func buffer(n int) []byte {
	if n <= smallBuffer {
		return smallBuffers.Get().(*[smallBuffer]byte)[:]
	}
	return make([]byte, n)
}

// Await waits for the first byte of a request, unless some of it was read already. It
// returns io.EOF when the client has closed, or the server is stopping.
func (c *Conn) Await() error {
	if c.w > c.r {
		return nil
	}
	c.release()
	c.idle.Store(true)
	if c.server.Stopping() {
		return io.EOF
	}
	if err := c.SetReadDeadline(time.Now().Add(c.server.Times.Idle)); err != nil {
		return err
	}
	if c.server.Stopping() { // since the deadline was set
		c.interrupt()
	}
	c.buf = c.small[:]
	n, err := c.Conn.Read(c.buf)
	c.idle.Store(false)
	c.w = n
	if n > 0 {
		return nil
	}
	if err == nil || c.server.Stopping() && errors.Is(err, os.ErrDeadlineExceeded) {
		return io.EOF
	}
	return err
}

// longAgo is a deadline that ends a waiting read.
var longAgo = time.Unix(1, 0)

func (c *Conn) interrupt() { _ = c.SetReadDeadline(longAgo) }

// Begin sets the deadline for the rest of a request, of n bytes as far as known. A server
// that is stopping still reads a request that has begun.
func (c *Conn) Begin(n int) { _ = c.SetReadDeadline(time.Now().Add(scaled(c.server.Times.Read, n))) }

// scaled returns the time limit d extended for n bytes.
func scaled(d time.Duration, n int) time.Duration { return d + time.Duration(n>>16)*d/64 }

// Buffered returns the bytes that were read and not consumed. They are valid until the next
// call of a method that reads.
func (c *Conn) Buffered() []byte { return c.buf[c.r:c.w] }

// Consume drops the first n bytes of Buffered.
func (c *Conn) Consume(n int) { c.r += n }

// Fill reads until at least n bytes are buffered. Memory grows with the bytes that arrive,
// not with the announced length.
func (c *Conn) Fill(n int) error {
	for c.w-c.r < n {
		c.grow(min(n, 16*(c.w-c.r)+smallBuffer))
		m, err := c.Conn.Read(c.buf[c.w:])
		c.w += m
		if err != nil && c.w-c.r < n {
			return err
		}
	}
	return nil
}

// Drain reads and discards up to n bytes for a short time, so that a client that is still
// writing gets to read its answer.
func (c *Conn) Drain(n int64) {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = cw.CloseWrite()
	}
	_ = c.SetReadDeadline(time.Now().Add(drainTime))
	c.r, c.w = 0, 0
	c.grow(smallBuffer)
	for n > 0 {
		m, err := c.Conn.Read(c.buf)
		n -= int64(m)
		if err != nil {
			return
		}
	}
}

const drainTime = 3 * time.Second

// Out returns the buffer of answers. Append to it, and pass the result to SetOut.
func (c *Conn) Out() []byte {
	if c.out == nil {
		c.out = buffer(smallBuffer)[:0]
	}
	return c.out
}

// SetOut sets the buffer of answers.
func (c *Conn) SetOut(b []byte) { c.out = b }

// Flush writes the answers.
func (c *Conn) Flush() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if len(c.out) == 0 {
		return c.failed
	}
	out := c.out[min(c.early, len(c.out)):]
	c.early = max(0, c.early-len(c.out))
	if c.failed == nil {
		c.failed = c.setWrite(len(out))
	}
	if c.failed == nil {
		_, c.failed = c.Conn.Write(out)
	}
	c.out = c.out[:0]
	return c.failed
}

// setWrite sets the deadline for a write of n bytes.
func (c *Conn) setWrite(n int) error {
	return c.SetWriteDeadline(time.Now().Add(scaled(c.server.Times.Write, n)))
}

// Rest releases the buffer of answers once they are written, because silent clients should
// take no memory.
func (c *Conn) Rest() {
	keep(c.out)
	c.out = nil
}

func (c *Conn) writeEarly(first byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.setWrite(0)
	if c.early > 0 {
		return nil // the rest of the answer will be refused
	}
	n, err := c.Conn.Write([]byte{first})
	c.early += n
	return err
}

package door

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

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

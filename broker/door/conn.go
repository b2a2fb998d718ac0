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
	// Number numbers the connections of a door, from 1.
	Number int64
	// Client is the host that the client is at.
	Client string

	server *Server
	small  [512]byte // what a client is read into that was silent
	buf    []byte    // nil while the client is silent
	r, w   int       // what was read and not consumed is buf[r:w]
	out    []byte    // what is to be written
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

// smallBuffer is what a usual request fits in, in bytes.
const smallBuffer = 16 << 10

var smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}

func (c *Conn) release() {
	keep(c.buf)
	c.buf, c.r, c.w = nil, 0, 0
}

// keep keeps a buffer for others.
func keep(b []byte) {
	if cap(b) == smallBuffer {
		smallBuffers.Put((*[smallBuffer]byte)(b[:smallBuffer]))
	}
}

// grow makes room behind what was read, for n bytes in all.
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

// Await waits for the first byte of a request, unless some of it is there. It
// returns io.EOF when the client has ended, or the server is stopping.
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

// longAgo ends a read that waits.
var longAgo = time.Unix(1, 0)

func (c *Conn) interrupt() { _ = c.SetReadDeadline(longAgo) }

// Begin sets the time for a request that has begun, of n bytes as far as is known. A
// server that is stopping takes in what has begun.
func (c *Conn) Begin(n int) { _ = c.SetReadDeadline(time.Now().Add(scaled(c.server.Times.Read, n))) }

// scaled is a time with what is added to it for n bytes.
func scaled(d time.Duration, n int) time.Duration { return d + time.Duration(n>>16)*d/64 }

// Buffered returns what was read and not consumed. It is valid until the next
// call of a method that reads.
func (c *Conn) Buffered() []byte { return c.buf[c.r:c.w] }

// Consume takes n bytes off what was read.
func (c *Conn) Consume(n int) { c.r += n }

// Fill reads until n bytes, at least, were read and not consumed. Memory is
// taken as bytes come, not as they are announced.
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

// More reads what there is, at least a byte, behind what was read.
func (c *Conn) More() error { return c.Fill(c.w - c.r + 1) }

// Drain reads and forgets up to n bytes for a short time, so that a client that
// is still writing gets to read its answer.
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

// Out returns the buffer of answers, to be appended to and given to SetOut.
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

// Rest lets go of the buffer of answers, which have been written, as it is to be
// when the client is silent.
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

// Stopping reports whether the connection should end after its next answer.
func (c *Conn) Stopping() bool { return c.server.Stopping() }

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
	buf    []byte // nil while the client is silent
	r, w   int    // what was read and not consumed is buf[r:w]
	out    []byte // what is to be written
	idle   atomic.Bool
	readBy time.Time // the read deadline that is set for the next request, if any
	first  firstRead
	raw    syscall.RawConn // nil where there is no socket

	writing sync.Mutex
	writeBy time.Time // the write deadline that is set
	early   int       // how many bytes of the next answer are written already
	failed  error     // the first failure to write, which lasts
}

func newConn(nc net.Conn, s *Server) *Conn {
	c := &Conn{Conn: nc, server: s}
	if sc, ok := nc.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	c.Client = host(nc.RemoteAddr())
	return c
}

// host returns the host of an address, without a string made for this machine's.
func host(addr net.Addr) string {
	if a, ok := addr.(*net.TCPAddr); ok && a.Zone == "" && a.IP.Equal(loopback) {
		return "127.0.0.1"
	}
	name, _, _ := net.SplitHostPort(addr.String())
	return name
}

var loopback = net.IPv4(127, 0, 0, 1)

// Buffers that are used again: what a usual request fits in, and what large ones
// grew to, up to a limit.
const (
	smallBuffer = 16 << 10
	largeBuffer = 1 << 20
	keptBuffer  = 4 << 20
)

var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	largeBuffers sync.Pool
)

func (c *Conn) release() {
	keep(c.buf)
	c.buf, c.r, c.w = nil, 0, 0
}

// keep keeps a buffer for others.
func keep(b []byte) {
	if cap(b) == smallBuffer {
		smallBuffers.Put((*[smallBuffer]byte)(b[:smallBuffer]))
		return
	}
	if n := cap(b); n >= largeBuffer && n <= keptBuffer {
		kept := b[:n]
		largeBuffers.Put(&kept)
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
	switch {
	case n <= smallBuffer:
		return smallBuffers.Get().(*[smallBuffer]byte)[:]
	case n < largeBuffer:
		return make([]byte, n)
	}
	if b, ok := largeBuffers.Get().(*[]byte); ok {
		if cap(*b) >= n {
			return (*b)[:cap(*b)]
		}
		largeBuffers.Put(b)
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
	if err := c.setIdle(time.Now()); err != nil {
		return err
	}
	if c.server.Stopping() { // since the deadline was set
		c.interrupt()
	}
	n, err := c.readFirst()
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

// setIdle sets the deadline for the next request. To set one costs as much as to
// find the model: the one that is set stays while it is far enough away.
func (c *Conn) setIdle(now time.Time) error {
	idle := c.server.Times.Idle
	if c.readBy.Sub(now) >= idle {
		return nil
	}
	c.readBy = now.Add(idle + idle/8)
	return c.SetReadDeadline(c.readBy)
}

// setRead sets another deadline for reading.
func (c *Conn) setRead(t time.Time) {
	c.readBy = time.Time{}
	_ = c.SetReadDeadline(t)
}

// longAgo ends a read that waits.
var longAgo = time.Unix(1, 0)

func (c *Conn) interrupt() { _ = c.SetReadDeadline(longAgo) }

// Begin sets the time for a request that has begun. A server that is stopping
// takes in what has begun.
func (c *Conn) Begin() {
	c.setRead(time.Now().Add(c.server.Times.Read))
}

// Extend gives a request of n bytes the further time that its size allows it.
func (c *Conn) Extend(n int) {
	if steps := n >> 16; steps > 0 {
		c.setRead(time.Now().Add(c.server.Times.Read + time.Duration(steps)*c.server.Times.Read/64))
	}
}

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
	c.setRead(time.Now().Add(drainTime))
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
		c.failed = c.setWrite(time.Duration(len(out)>>16) * c.server.Times.Write / 64)
	}
	if c.failed == nil {
		_, c.failed = c.Conn.Write(out)
	}
	c.out = c.out[:0]
	return c.failed
}

// setWrite sets the deadline for a write that may take so much longer than usual.
// As in setIdle, one that is far enough away stays.
func (c *Conn) setWrite(longer time.Duration) error {
	now, limit := time.Now(), c.server.Times.Write+longer
	if left := c.writeBy.Sub(now); left >= limit && left <= 2*limit {
		return nil
	}
	c.writeBy = now.Add(limit + limit/8)
	return c.SetWriteDeadline(c.writeBy)
}

// Reserve makes room for n bytes of answers.
func (c *Conn) Reserve(n int) {
	if n <= cap(c.out)-len(c.out) {
		return
	}
	fresh := append(buffer(len(c.out) + n)[:0], c.out...)
	c.Rest()
	c.out = fresh
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

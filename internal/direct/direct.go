// Package direct reads and writes sockets and pipes, and reads files, without telling
// Go's scheduler of it.
//
// The scheduler is told of a call of the system because it may take long; that of
// a descriptor which does not block never does, and that of a file seldom. Where calls come one at a time, telling
// has its price: between two of them nothing runs, the thread that watches over the
// others goes to sleep, and each call that the scheduler is told of wakes it up, on
// a processor that a peer could have had.
package direct

import (
	"io"
	"net"
	"os"
	"syscall"
)

// A Conn is a connection that one goroutine at a time reads, and one writes. All
// but that is the business of the connection below.
type Conn struct {
	net.Conn
	raw         syscall.RawConn // nil where there is no socket
	read, write call
}

// A call is one of the system, as it is made again and again.
type call struct {
	p   []byte
	n   int
	err error
	try func(fd uintptr) (done bool) // made once, since each function made takes memory
}

// Over returns a Conn over nc, which may be of any kind.
func Over(nc net.Conn) *Conn {
	c := &Conn{Conn: nc}
	if sc, ok := nc.(syscall.Conn); ok && possible {
		c.raw, _ = sc.SyscallConn()
	}
	c.read.try, c.write.try = c.tryRead, c.tryWrite
	return c
}

// Raw gives access to the socket, nil if there is none.
func (c *Conn) Raw() syscall.RawConn { return c.raw }

// Read reads what there is, at least a byte.
func (c *Conn) Read(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		return c.Conn.Read(p)
	}
	r := &c.read
	r.p = p
	err := c.raw.Read(r.try)
	r.p = nil
	switch {
	case err != nil:
		return 0, err
	case r.err != nil:
		return 0, c.failed("read", r.err)
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

func (c *Conn) tryRead(fd uintptr) bool {
	c.read.n, c.read.err = Read(fd, c.read.p)
	return c.read.err != syscall.EAGAIN
}

// short is how much is written directly: the time for it is no more than that of
// a wake-up.
const short = 64 << 10

// Write writes all of p.
func (c *Conn) Write(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 || len(p) > short {
		return c.Conn.Write(p)
	}
	w := &c.write
	w.p, w.n = p, 0
	err := c.raw.Write(w.try)
	w.p = nil
	if err == nil && w.err != nil {
		err = c.failed("write", w.err)
	}
	return w.n, err
}

func (c *Conn) tryWrite(fd uintptr) bool {
	w := &c.write
	for w.n < len(w.p) {
		var n int
		if n, w.err = Write(fd, w.p[w.n:]); w.err != nil {
			return w.err != syscall.EAGAIN
		}
		w.n += n
	}
	return true
}

func (c *Conn) failed(what string, err error) error {
	return &net.OpError{Op: what, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(what, err)}
}

//go:build unix

package door

import "syscall"

// A firstRead is the outcome of a read by the connection's descriptor.
type firstRead struct {
	n    int
	err  error
	read func(fd uintptr) bool // made once, since each function made takes memory
}

// readFirst reads what comes next. It takes a buffer when there is something to
// read, so that a silent connection holds none.
func (c *Conn) readFirst() (int, error) {
	if c.raw == nil {
		c.grow(smallBuffer)
		return c.Conn.Read(c.buf)
	}
	if c.first.read == nil {
		c.first.read = c.tryFirst
	}
	if err := c.raw.Read(c.first.read); err != nil {
		return 0, err
	}
	return c.first.n, c.first.err
}

// tryFirst reads and reports whether there was something to read.
func (c *Conn) tryFirst(fd uintptr) bool {
	c.grow(smallBuffer)
	n, err := syscall.Read(int(fd), c.buf)
	for err == syscall.EINTR { //nolint:errorlint // it is bare
		n, err = syscall.Read(int(fd), c.buf)
	}
	c.first.n, c.first.err = max(n, 0), err
	if err == syscall.EAGAIN { //nolint:errorlint // it is bare
		c.release()
		return false
	}
	return true
}

//go:build unix

package door

import "syscall"

// readFirst reads what comes next. It takes a buffer when there is something to
// read, so that a silent connection holds none.
func (c *Conn) readFirst() (n int, err error) {
	if c.raw == nil {
		c.grow(smallBuffer)
		return c.Conn.Read(c.buf)
	}
	waited := c.raw.Read(func(fd uintptr) bool {
		c.grow(smallBuffer)
		for {
			n, err = syscall.Read(int(fd), c.buf)
			if err != syscall.EINTR { //nolint:errorlint // what syscall returns is bare
				break
			}
		}
		if err == syscall.EAGAIN { //nolint:errorlint // as above
			c.release()
			return false
		}
		return true
	})
	if waited != nil {
		return 0, waited
	}
	return max(n, 0), err
}

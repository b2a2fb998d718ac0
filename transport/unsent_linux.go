package transport

import (
	"net"

	"golang.org/x/sys/unix"
)

// unsent returns how many bytes were written to a socket that its peer has not yet.
func unsent(c *net.TCPConn) (n int) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	}
	return n
}

//go:build unix

package transport

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ownerOnly gives a socket its mode before it gets its name, so that there is no
// moment at which others may connect. Where a socket without a name has no mode,
// the one that is set later has to do.
func ownerOnly(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
}

// HungUp reports whether it is known that nobody reads any more what is written to a
// connection: the reader of a pipe has closed it, or the peer of a socket both directions.
func HungUp(c Conn) (hungUp bool) {
	d, ok := c.(Descriptors)
	if !ok {
		return false
	}
	_, write, err := d.Descriptors()
	if err != nil {
		return false
	}
	_ = write.Control(func(fd uintptr) { // of an open file
		const hangup = unix.POLLERR | unix.POLLHUP
		fds := []unix.PollFd{{Fd: int32(fd), Events: hangup}}
		n, err := unix.Poll(fds, 0)
		hungUp = err == nil && n > 0 && fds[0].Revents&hangup != 0
	})
	return hungUp
}

package httpproxy

import (
	"golang.org/x/sys/unix"

	"github.com/wirectl/wirectl/transport"
)

// watch waits until a client that has nothing more to say is gone, or its connection
// is closed. The end of what it sends leaves that open: a server that wants to know
// writes ahead what its answer begins with, and a client that is gone refuses it.
func (c *conn) watch() {
	client, ok := c.client.(transport.Descriptors)
	if !ok {
		return
	}
	read, _, err := client.Descriptors()
	if err != nil {
		return
	}
	gone := false
	_ = read.Read(func(fd uintptr) bool {
		gone = wasReset(fd)
		return gone
	})
	if gone {
		c.abort(errGone)
	}
}

// wasReset reports whether the peer refused what was sent to it.
func wasReset(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&unix.POLLERR != 0
}

package door

import "golang.org/x/sys/unix"

const canWatch = true

// state reports whether the peer has closed its side, and whether the connection is broken.
// It reads nothing.
func state(fd uintptr) (ended, broken bool) {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	if n, err := unix.Poll(p, 0); err != nil || n == 0 {
		return false, false
	}
	const dead = unix.POLLERR | unix.POLLHUP | unix.POLLNVAL
	return p[0].Revents&unix.POLLRDHUP != 0, p[0].Revents&dead != 0
}

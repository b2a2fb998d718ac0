//go:build unix && (!linux || race)

package direct

import "syscall"

const possible = true

// Read reads from a descriptor that does not block, or from a file: syscall.EAGAIN says
// that there is nothing to be read. The detector of races learns from it what happens before.
func Read(fd uintptr, p []byte) (int, error) { return again(syscall.Read, fd, p) }

// Write writes to one, as far as there is room.
func Write(fd uintptr, p []byte) (int, error) { return again(syscall.Write, fd, p) }

func again(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	n, err := call(int(fd), p)
	for err == syscall.EINTR { //nolint:errorlint // what syscall returns is bare
		n, err = call(int(fd), p)
	}
	return max(n, 0), err
}

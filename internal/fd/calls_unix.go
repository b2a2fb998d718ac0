//go:build unix && (!linux || race)

package fd

import "syscall"

const possible = true

// Read reads from a non-blocking descriptor, or from a file. The error is syscall.EAGAIN if
// there is nothing to read. The race detector sees the call.
func Read(fd uintptr, p []byte) (int, error) { return again(syscall.Read, fd, p) }

// Write writes to a non-blocking descriptor as much as there is room for.
func Write(fd uintptr, p []byte) (int, error) { return again(syscall.Write, fd, p) }

func again(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	n, err := call(int(fd), p)
	for err == syscall.EINTR { //nolint:errorlint // errors of package syscall are not wrapped
		n, err = call(int(fd), p)
	}
	return max(n, 0), err
}

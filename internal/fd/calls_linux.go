//go:build linux && !race

package fd

import (
	"syscall"
	"unsafe"
)

const possible = true

// Read reads from a non-blocking descriptor, or from a file. The error is syscall.EAGAIN if
// there is nothing to read.
func Read(fd uintptr, p []byte) (int, error) { return call3(syscall.SYS_READ, fd, p) }

// Write writes to a non-blocking descriptor as much as there is room for.
func Write(fd uintptr, p []byte) (int, error) { return call3(syscall.SYS_WRITE, fd, p) }

func call3(number, fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return 0, syscall.EAGAIN // boxed once
		}
		return 0, errno
	}
}

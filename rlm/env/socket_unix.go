//go:build unix

package env

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketPair makes the wire to a worker. The host's end is blocking: the poller of the runtime
// would wake a thread for each message.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("make a wire to the interpreter: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "host"), nil
}

// writeSome writes as much as fits without waiting, and returns how much that was.
func writeSome(f *os.File, b []byte) (n int) {
	control(f, func(fd int) { n, _ = unix.SendmsgN(fd, b, nil, nil, unix.MSG_DONTWAIT) })
	return max(0, n)
}

// hangUp ends reads and writes of a socket, which closing it does not.
func hangUp(f *os.File) { control(f, func(fd int) { _ = unix.Shutdown(fd, unix.SHUT_RDWR) }) }

func control(f *os.File, do func(fd int)) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { do(int(fd)) })
	}
}

//go:build unix

package env

import (
	"fmt"
	"os"
	"syscall"
)

// socketPair makes the wire to a worker. The runtime waits for our end.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err == nil {
		err = syscall.SetNonblock(fds[0], true)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make a wire to the interpreter: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "host"), nil
}

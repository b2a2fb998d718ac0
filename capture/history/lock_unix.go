//go:build !windows

package history

import (
	"os"

	"golang.org/x/sys/unix"
)

// hold marks a capture as being written, until it is closed or the process ends.
func hold(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_EX) }

// held reports whether a capture is being written.
func held(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

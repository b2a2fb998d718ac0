//go:build !windows

package history

import (
	"os"

	"golang.org/x/sys/unix"
)

// Hold marks a file as being written, until it is closed or the process ends.
func Hold(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_EX) }

// Held reports whether a file is being written.
func Held(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

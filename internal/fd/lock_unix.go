//go:build !windows

package fd

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock locks a file until it is closed or the process ends. It returns false if another
// process has locked it.
func TryLock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

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

// CloseLocked closes a file that [TryLock] has locked. Closing alone would leave it locked while a program that is just
// being started still has it.
func CloseLocked(file *os.File) error {
	return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
}

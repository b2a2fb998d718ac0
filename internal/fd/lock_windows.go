package fd

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks a file until it is closed or the process ends. It returns false if another
// process has locked it. The locked byte is far after the end of the file.
func TryLock(file *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// CloseLocked closes a file that [TryLock] has locked.
func CloseLocked(file *os.File) error { return file.Close() }

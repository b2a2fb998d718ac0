package history

import (
	"os"

	"golang.org/x/sys/windows"
)

// place is the locked position in a capture. It lies far beyond the end, because others
// cannot read locked bytes.
func place() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// Hold marks a file as being written, until it is closed or the process ends.
func Hold(file *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, place())
}

// Held reports whether a file is being written.
func Held(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	return Hold(file) == windows.ERROR_LOCK_VIOLATION
}

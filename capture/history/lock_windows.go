package history

import (
	"os"

	"golang.org/x/sys/windows"
)

// place is the locked position in a capture. It lies far beyond the end, because others
// cannot read locked bytes.
func place() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// hold marks a capture as being written, until it is closed or the process ends.
func hold(file *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, place())
}

// held reports whether a capture is being written.
func held(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	return hold(file) == windows.ERROR_LOCK_VIOLATION
}

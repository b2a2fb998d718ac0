//go:build unix

package door_test

import "syscall"

// mayOpen reports whether n files may be open at once.
func mayOpen(n uint64) bool {
	var limit syscall.Rlimit
	return syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && uint64(limit.Cur) >= n
}

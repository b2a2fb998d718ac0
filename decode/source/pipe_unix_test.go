//go:build !windows

package source

import "syscall"

func pipe(name string) error { return syscall.Mkfifo(name, 0o600) }

//go:build !unix

package direct

import "syscall"

const possible = false

// Read is for systems whose sockets are files.
func Read(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

// Write is, too.
func Write(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

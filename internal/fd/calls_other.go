//go:build !unix

package fd

import "syscall"

const possible = false

// Read is not possible on this system.
func Read(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

// Write is not possible on this system.
func Write(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

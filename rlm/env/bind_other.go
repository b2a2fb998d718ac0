//go:build !linux

package env

import "syscall"

// Elsewhere, containers run in a virtual machine, and no address of it is ours.
var freeBind func(network, address string, c syscall.RawConn) error

//go:build unix

package transport

import "syscall"

// ownerOnly gives a socket its mode before it gets its name, so that there is no
// moment at which others may connect. Where a socket without a name has no mode,
// the one that is set later has to do.
func ownerOnly(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
}

package env

import "syscall"

// freeBind lets a socket have an address that this machine does not have yet.
func freeBind(_, _ string, c syscall.RawConn) (err error) {
	if controlled := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_FREEBIND, 1)
	}); controlled != nil {
		return controlled
	}
	return err
}

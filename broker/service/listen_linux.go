package service

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenConfig has connections looked after as net does, every 15 seconds. On
// Linux they have that from the listener, which saves each of them four calls of
// the system, of twenty that a short one makes.
var listenConfig = net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		// A listener that refuses these listens all the same.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9)
	})
}}

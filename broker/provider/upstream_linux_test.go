package provider_test

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"
)

// The timeout also covers a backend that accepts no connection, here because its queue is
// full.
func TestConnectTimeoutWithoutTLS(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", sa.(*syscall.SockaddrInet4).Port)
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		cancel()
		if err != nil { // the queue is full
			timesOut(t, "http://"+addr)
			return
		}
		defer conn.Close()
	}
	t.Fatal("the queue does not fill up")
}

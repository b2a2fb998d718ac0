package httpproxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A server that asks a client which ended its stream whether it is still there, with
// the first byte of the answer, learns that it is not, as without the proxy.
func TestAskWhetherTheClientIsGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address, _, _ := start(t, &httptest.Server{URL: "http://" + l.Addr().String()}, "")
	client, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := io.Copy(io.Discard, server); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(server, "H")
	if err := server.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	raw, err := server.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd)}}
		n, _ := unix.Poll(p, 0)
		return n > 0 && p[0].Revents&unix.POLLERR != 0
	})
	if err != nil {
		t.Errorf("the server was not told: %v", err)
	}
}

package agent

import (
	"bufio"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// dialAs connects as this user, or as another one.
func dialAs(t *testing.T, address string, other bool) net.Conn {
	t.Helper()
	if other {
		if os.Getuid() != 0 {
			t.Skip("only root can be another user")
		}
		// The owner of a socket is that of the thread that makes it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		const nobody = 65534
		_ = syscall.Setfsuid(nobody)
		defer func() { _ = syscall.Setfsuid(0) }()
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Without the token, a socket of another user is refused.
func TestAnotherUserIsRefused(t *testing.T) {
	p, _ := newTestProxy(t, nil, nil)
	request := "CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, want := range map[string]string{"own": " 502 ", "other": " 407 "} {
		c := dialAs(t, p.listener.Addr().String(), name == "other")
		_, _ = io.WriteString(c, request)
		if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, want) {
			t.Errorf("%s user: %q", name, line)
		}
		c.Close()
	}
}

// What remains is called by its program, and by its script if it has one.
func TestProgramOf(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/bin/node --max-old-space-size=9 /opt/qwen -p hello": "node qwen",
		"/bin/sleep 77": "sleep",
		"python3 -":     "python3",
		"":              ".",
	} {
		if got := programOf(strings.Split(command, " ")); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

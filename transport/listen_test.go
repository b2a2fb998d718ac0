package transport_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/test/kit/transporttest"
	"github.com/wirectl/wirectl/transport"
)

// listened are addresses of every kind that can be listened at.
func listened(t *testing.T) []string {
	return []string{
		"tcp://127.0.0.1:0", "tls://127.0.0.1:0", "ws://127.0.0.1:0", "wss://127.0.0.1:0",
		"unix://" + filepath.Join(t.TempDir(), "s"),
	}
}

func tryDial(t *testing.T, ctx context.Context, address string, opts transport.Options) error {
	t.Helper()
	e, err := transport.Parse([]string{address}, opts)
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Dial(ctx)
	if err == nil {
		c.Close()
	}
	return err
}

// Where nobody listens any more, the error says where, what and what to try.
func TestRefused(t *testing.T) {
	for _, address := range listened(t) {
		l := listen(t, address, transport.Options{})
		if err := l.Close(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		want := l.Addr() + ": connection refused: nothing listens there; start the peer, or check the address"
		if strings.HasPrefix(address, "unix:") {
			want = l.Addr() + ": no such file or directory: start the peer, or check the path"
		}
		if err := tryDial(t, bounded(t), l.Addr(), transport.Options{}); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestDialCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	addresses := []string{"stdio"}
	for _, address := range listened(t) {
		addresses = append(addresses, listen(t, address, transport.Options{}).Addr())
	}
	opts := transport.Options{Stdin: strings.NewReader(""), Stdout: new(strings.Builder)}
	for _, address := range addresses {
		if err := tryDial(t, ctx, address, opts); err == nil {
			t.Errorf("%s was dialled", address)
		}
	}
	e, err := transport.Parse(child(transporttest.Echoes), transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a process: %v", err)
	}
}

// Accepting ends with its context, and goes on with another.
func TestAcceptCancelled(t *testing.T) {
	for _, address := range listened(t) {
		l := listen(t, address, transport.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := l.Accept(ctx)
			ended <- err
		}()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", address, err)
		}
		accepted := make(chan error)
		go func() {
			c, err := l.Accept(t.Context())
			if err == nil {
				c.Close()
			}
			accepted <- err
			_, err = l.Accept(t.Context())
			ended <- err
		}()
		e, err := transport.Parse([]string{l.Addr()}, transport.Options{TLS: transport.TLS{Insecure: true}})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := e.Dial(t.Context()); err != nil {
			t.Errorf("%s: %v", address, err)
		} else {
			defer c.Close()
		}
		if err := <-accepted; err != nil {
			t.Errorf("%s, with another context: %v", address, err)
		}
		l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s, closed: %v", address, err)
		}
	}
}

// Other machines may connect only when somebody said so.
func TestListenBeyondLoopback(t *testing.T) {
	for _, address := range []string{"tcp://0.0.0.0:0", "ws://[::]:0", "tls://192.0.2.1:0"} {
		_, err := transport.Listen(t.Context(), address, transport.Options{})
		if err == nil || !strings.Contains(err.Error(), "is not loopback: other machines could connect; give --remote if they may") {
			t.Errorf("%s: %v", address, err)
		}
		if wrong := (*transport.AddressError)(nil); !errors.As(err, &wrong) {
			t.Errorf("%s: %v does not say that the address is to blame", address, err)
		}
	}
	l := listen(t, "tcp://:0", transport.Options{})
	if !strings.HasPrefix(l.Addr(), "tcp://127.0.0.1:") {
		t.Errorf("without a host it listens at %s", l.Addr())
	}
	var told string
	listen(t, "tcp://0.0.0.0:0", transport.Options{Remote: true, Notice: func(text string) { told = text }})
	if !strings.Contains(told, "anyone who reaches 0.0.0.0:0 can use it") {
		t.Errorf("told %q", told)
	}
	_, err := transport.Listen(t.Context(), "tls://0.0.0.0:0", transport.Options{Remote: true})
	if err == nil || !strings.Contains(err.Error(), "needs a certificate") {
		t.Errorf("TLS for others: %v", err)
	}
}

func TestListenWrongly(t *testing.T) {
	for address, want := range map[string]string{
		"tcp://127.0.0.1":                     "no port: want tcp://HOST:PORT",
		"tcp://127.0.0.1:1/x":                 "want only tcp://HOST:PORT",
		"tcp://127.0.0.1:http":                "invalid port",
		"unix://":                             "no path: want unix:///PATH",
		"stdio":                               "cannot listen there: the address begins with tcp://",
		"tpc://127.0.0.1:1":                   "cannot listen there",
		"unx:///s":                            "(did you mean unix?)",
		"7000":                                "(did you mean tcp://127.0.0.1:7000?)",
		":7000":                               "(did you mean tcp://127.0.0.1:7000?)",
		"[::1]:7000":                          "(did you mean tcp://[::1]:7000?)",
		"unix:///" + strings.Repeat("x", 200): "the path has 201 bytes, and a socket's has at most 107",
	} {
		_, err := transport.Listen(t.Context(), address, transport.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}

func TestPortInUse(t *testing.T) {
	l := listen(t, "tcp://127.0.0.1:0", transport.Options{})
	_, err := transport.Listen(t.Context(), l.Addr(), transport.Options{})
	if err == nil || !strings.Contains(err.Error(), "stop the program that listens there, or use another address") {
		t.Error(err)
	}
}

// A socket that a killed program left is replaced. One that is in use is not,
// and neither is anything else.
func TestUnixSocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()

	l := listen(t, "unix://"+path, transport.Options{})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
	if _, err := transport.Listen(t.Context(), "unix://"+path, transport.Options{}); err == nil || !strings.Contains(err.Error(), "stop the program that listens there") {
		t.Errorf("in use: %v", err)
	}
	if err := tryDial(t, bounded(t), l.Addr(), transport.Options{}); err != nil {
		t.Errorf("the one in use was touched: %v", err)
	}
	l.Close()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a closed listener leaves its socket: %v", err)
	}

	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := transport.Listen(t.Context(), "unix://"+path, transport.Options{}); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a file: %v", err)
	}
}

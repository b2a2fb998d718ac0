package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// socketPath returns the PATH of unix://PATH.
func socketPath(address string) string { return strings.TrimPrefix(address, "unix://") }

// longestPath bounds the path of a Unix socket, in bytes: 107 on Linux, down to 103 on
// other systems.
const longestPath = 107

func checkUnix(address string) error {
	switch path := socketPath(address); {
	case path == "":
		return errors.New("no path: want unix:///PATH")
	case len(path) > longestPath:
		return fmt.Errorf("the path has %d bytes, and a socket's has at most %d: use a shorter one, such as one relative to the working directory", len(path), longestPath)
	}
	return nil
}

func dialUnix(ctx context.Context, address string, _ Options) (Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socketPath(address))
	if err != nil {
		return nil, err
	}
	return socket{c.(*net.UnixConn)}, nil
}

// listenUnix listens on a socket that only its owner may connect to.
func listenUnix(ctx context.Context, address string, _ Options) (Listener, error) {
	path := socketPath(address)
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	cfg := net.ListenConfig{Control: ownerOnly}
	l, err := cfg.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	// The net package removes the socket when the listener is closed.
	return &socketListener{l.(*net.UnixListener), "unix://" + path}, nil
}

// removeStale removes a socket without a listener, which remains after a listener was
// killed.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("a file of that name exists and is not a socket: remove it, or use another path")
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		c.Close()
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/muesli/cancelreader"

	"github.com/wirectl/wirectl/internal/fd"
)

// A stdioEndpoint is our own standard input and output.
type stdioEndpoint struct{ opts Options }

func (stdioEndpoint) String() string { return "stdio" }

func (e stdioEndpoint) Dial(ctx context.Context) (Conn, error) {
	if e.opts.Stdin == nil || e.opts.Stdout == nil {
		return nil, &Error{"stdio", errors.ErrUnsupported, "there is no standard input or output here"}
	}
	return &stdio{in: e.opts.Stdin, out: e.opts.Stdout}, ctx.Err()
}

type stdio struct {
	in  io.Reader
	out io.Writer

	open    sync.Once
	reading sync.Mutex // held while r is in use
	r       cancelreader.CancelReader
	closed  bool
}

// reader makes reads that Close interrupts, even from a pipe or a terminal. It is created on
// the first read, so that nothing reads descriptors that the caller uses itself. Files,
// which cannot be polled, are read directly.
func (s *stdio) reader() {
	r, err := fd.NewCancelReader(s.in)
	if err != nil {
		r, _ = cancelreader.NewReader(onlyReader{s.in}) // cannot fail for what is not a file
	}
	s.r = r
}

type onlyReader struct{ io.Reader }

func (s *stdio) Read(p []byte) (int, error) {
	s.open.Do(s.reader)
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.closed {
		return 0, os.ErrClosed
	}
	n, err := s.r.Read(p)
	if errors.Is(err, cancelreader.ErrCanceled) {
		err = os.ErrClosed
	}
	return n, err
}

func (s *stdio) Write(p []byte) (int, error) { return s.out.Write(p) }

// CloseWrite closes standard output, which is the only way to signal the end.
func (s *stdio) CloseWrite() error {
	if c, ok := s.out.(io.Closer); ok {
		return c.Close()
	}
	return errors.ErrUnsupported
}

// Close ends reading, and closes standard output. Standard input stays open for other
// programs that share it.
func (s *stdio) Close() error {
	s.open.Do(s.reader)
	s.r.Cancel()
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.CloseWrite()
	if errors.Is(err, os.ErrClosed) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, s.r.Close())
}

// Descriptors returns those of standard input and output, where they are files.
func (s *stdio) Descriptors() (read, write syscall.RawConn, err error) {
	in, inOK := s.in.(*os.File)
	out, outOK := s.out.(*os.File)
	if !inOK || !outOK {
		return nil, nil, errors.ErrUnsupported
	}
	if read, err = in.SyscallConn(); err != nil {
		return nil, nil, err
	}
	write, err = out.SyscallConn()
	return read, write, err
}

// LogStderr logs the lines of a process's standard error, with args, until its end. Without
// a log it only reads them, so that the process never blocks.
func LogStderr(p Process, log *slog.Logger, args ...any) {
	lines := bufio.NewReader(p.Stderr())
	for {
		line, _, err := lines.ReadLine() // very long lines come in pieces
		if err != nil {
			return
		}
		if log != nil {
			log.Info(string(line), args...)
		}
	}
}

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

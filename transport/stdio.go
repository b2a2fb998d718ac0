package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"

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

// Package transport turns an address into an endpoint that reads and writes bytes:
// a process, ssh, a container, TCP, TLS, a Unix socket, a WebSocket, QUIC, gRPC,
// the standard streams. It does not interpret the bytes.
package transport

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"
)

// A Conn is an open connection to an endpoint. One goroutine may read while another
// writes. Close ends both, also from a third goroutine, and may be called again.
type Conn interface {
	io.ReadWriteCloser
	// CloseWrite ends our direction; reading continues. If the transport has no
	// half-close, the error is errors.ErrUnsupported.
	CloseWrite() error
}

// A Messenger is a Conn with messages, such as WebSocket. Its Read returns the bytes of
// the messages as a stream, and each Write is one message.
type Messenger interface {
	Conn
	ReadMessage(ctx context.Context) (Message, error)
	WriteMessage(ctx context.Context, m Message) error
}

// A Message is a message of a Messenger.
type Message struct {
	Text bool // a text message, else a binary one
	Data []byte
}

// A Process is a Conn to the standard streams of a process that we started. Its streams end
// with the process, after everything that was written until then, even if other processes
// hold them open. Close ends the process and waits for it; if that takes a signal, it ends
// its process group. Where the system can do that, the process ends when we are killed.
type Process interface {
	Conn
	// Stderr is the process's standard error, which must be read.
	Stderr() io.Reader
	// CloseRead ends reading of standard output, so that writes to it fail.
	CloseRead() error
	Pid() int
	// Signal sends a signal to the process group.
	Signal(os.Signal) error
	// Forward passes on a signal that we received: to the process as we got it or, from
	// a terminal, to its group.
	Forward(os.Signal) error
	// Wait waits for the process to end. Standard output must be read to its end
	// first.
	Wait() (Exit, error)
	// Outlived reports whether the process has exited by itself and left processes of
	// its group running.
	Outlived() bool
}

// An Exit is the end of a process: with a status, or by a signal.
type Exit struct {
	Status int
	Signal os.Signal // nil if it ended by itself
	Told   bool      // its group was asked to end, or killed
}

// An Endpoint is one end of a relay, not yet connected.
type Endpoint interface {
	// String is the endpoint as a person would type it.
	String() string
	// Dial connects. The context bounds connecting, not the connection.
	Dial(ctx context.Context) (Conn, error)
}

// A Listener accepts connections.
type Listener interface {
	// Accept waits for the next connection, or for the end of ctx.
	Accept(ctx context.Context) (Conn, error)
	// Addr is the address to dial, for [Parse].
	Addr() string
	// Close ends listening; accepted connections stay open.
	Close() error
}

// Descriptors is implemented by a Conn that consists of file descriptors: one for
// reading and one, perhaps the same, for writing. Use either the descriptors or Read and
// Write, never both.
type Descriptors interface {
	Conn
	Descriptors() (read, write syscall.RawConn, err error)
}

// Options configure endpoints and listeners. The zero value is usable.
type Options struct {
	// Stdin and Stdout are read and written by the endpoint stdio.
	Stdin  io.Reader
	Stdout io.Writer

	// Quote makes ssh pass each argument of the remote command as one word of the
	// remote shell. Otherwise ssh joins them with spaces, for the shell to split.
	Quote bool
	// Env is the environment of programs; nil is our own.
	Env []string
	// Runtime is the container runtime; "" means to look for one.
	Runtime string
	// Grace is how long a process may take to end after its standard input was
	// closed, and again after SIGTERM; 0 is [DefaultGrace].
	Grace time.Duration

	// Subprotocols are offered by clients and accepted by servers, for WebSocket
	// and for ALPN in TLS and QUIC.
	Subprotocols []string
	// Header is added to the requests of WebSocket clients.
	Header http.Header
	// Unanswered makes WebSocket listeners return clients before the handshake is
	// answered; [Answer] or [Abort] does that.
	Unanswered bool
	// Limit is the largest message of a Messenger; 0 is [DefaultLimit].
	Limit int64

	TLS TLS

	// Remote allows listening for other machines, not only on loopback.
	Remote bool
	// Origins are those of the web pages that may use an HTTP listener, besides pages of
	// this machine. They are from [ParseOrigin].
	Origins []string
	// Schemes are added to the built-in ones.
	Schemes []Scheme
	// Notice, if set, gets messages for the user, such as the fingerprint of a
	// certificate made for a listener. It must be safe for concurrent use.
	Notice func(string)
}

const (
	// DefaultGrace is the Grace of zero Options.
	DefaultGrace = 5 * time.Second
	// DefaultLimit is the Limit of zero Options.
	DefaultLimit = 16 << 20
)

func (o *Options) grace() time.Duration { return cmp.Or(max(o.Grace, 0), DefaultGrace) }

// MessageLimit is Limit, or its default.
func (o *Options) MessageLimit() int64 { return cmp.Or(max(o.Limit, 0), DefaultLimit) }

func (o *Options) notice(text string) {
	if o.Notice != nil {
		o.Notice(text)
	}
}

// A Scheme is a kind of address, the Name in Name://REST. Packages with large
// dependencies offer theirs for [Options].Schemes.
type Scheme struct {
	Name string
	Dial func(ctx context.Context, address string, opts Options) (Conn, error)
	// Listen is nil if the scheme has no listeners.
	Listen func(ctx context.Context, address string, opts Options) (Listener, error)
	// Check validates an address before it is used; nil accepts any.
	Check func(address string) error
}

func (s *Scheme) checkAddress(address string) error {
	if s.Check == nil {
		return nil
	}
	if err := s.Check(address); err != nil {
		return fmt.Errorf("%q: %w", address, err)
	}
	return nil
}

// Package transport turns an address into an endpoint that yields and takes
// bytes: a process, ssh, a container, TCP, TLS, a Unix socket, a WebSocket,
// QUIC, gRPC, the standard streams. It knows no protocol: what the bytes mean is
// the business of the packages above.
package transport

import (
	"context"
	"io"
	"os"
	"syscall"
)

// A Conn is an open connection to an endpoint. Read yields what the far side
// wrote, and Write brings it bytes; one goroutine may read while another writes.
// Close ends both, also from a third goroutine, and may be called again.
type Conn interface {
	io.ReadWriteCloser
	// CloseWrite tells the far side that nothing more will come; reading goes
	// on. Where a transport has no half-close the error is errors.ErrUnsupported.
	CloseWrite() error
}

// A Messenger is a Conn that keeps the bounds of messages, as WebSocket does. Its
// Read and Write are those of a stream of the messages' bytes: each Write is one
// message.
type Messenger interface {
	Conn
	ReadMessage(ctx context.Context) (Message, error)
	WriteMessage(ctx context.Context, m Message) error
}

// A Message is what one message of a Messenger carries.
type Message struct {
	Text bool // a text message, else a binary one
	Data []byte
}

// A Process is a Conn to the standard streams of a process that we started. Its
// Close ends the process and everything in its process group, and waits for it.
type Process interface {
	Conn
	// Stderr is the process's standard error, which somebody has to read.
	Stderr() io.Reader
	// Pid is the process's id.
	Pid() int
	// Signal sends a signal to the process's group.
	Signal(os.Signal) error
	// Wait waits for the process to end. Standard output has to be read to its
	// end first.
	Wait() (Exit, error)
}

// An Exit is how a process ended: with a status, or by a signal.
type Exit struct {
	Status int
	Signal os.Signal // nil if it ended by itself
	Told   bool      // Close had told it to, as it had not ended with its standard input
}

// An Endpoint is one end of a relay, not yet connected.
type Endpoint interface {
	// String is the endpoint as a person would type it.
	String() string
	// Dial connects. The context bounds connecting, not the connection.
	Dial(ctx context.Context) (Conn, error)
}

// A Listener takes connections from the endpoints that come to it.
type Listener interface {
	// Accept waits for the next connection, or for the end of ctx.
	Accept(ctx context.Context) (Conn, error)
	// Addr is the address to dial, as [Parse] takes it.
	Addr() string
	// Close ends listening; connections that were accepted stay open.
	Close() error
}

// Descriptors is implemented by a Conn that is nothing but file descriptors, of
// which one is read and one, perhaps the same, is written. Bytes may be moved by
// the descriptors instead of Read and Write, never by both.
type Descriptors interface {
	Conn
	Descriptors() (read, write syscall.RawConn, err error)
}

package transport

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Options are what a person may choose about endpoints and listeners. The zero
// Options suit most.
type Options struct {
	// Stdin and Stdout are what the endpoint stdio reads and writes.
	Stdin  io.Reader
	Stdout io.Writer

	// Quote has ssh pass each argument of the remote command as one word of the
	// remote shell; without, ssh joins them with spaces for the shell to split.
	Quote bool
	// Runtime is the program that reaches containers; found if "".
	Runtime string
	// Grace is how long a process that is to end may take to do so, once after its
	// standard input was closed and once more after SIGTERM; [DefaultGrace] if 0.
	Grace time.Duration

	// Subprotocols are offered by clients and taken by servers: those of a
	// WebSocket, and those that ALPN agrees on in TLS and QUIC.
	Subprotocols []string
	// Header goes with the requests of WebSocket clients.
	Header http.Header
	// Unanswered has WebSocket listeners hand on clients that were not answered yet:
	// [Answer] is to do that, or [Abort].
	Unanswered bool
	// Limit is how large a message of a Messenger may be; [DefaultLimit] if 0.
	Limit int64

	TLS TLS

	// Remote permits listening for other machines, and not on loopback alone.
	Remote bool
	// Schemes are those beyond the ones that are built in.
	Schemes []Scheme
	// Notice, if set, is told what a person should know, such as the fingerprint
	// of a certificate made for a listener. Any goroutine may call it.
	Notice func(string)
}

const (
	// DefaultGrace is the Grace of zero Options.
	DefaultGrace = 5 * time.Second
	// DefaultLimit is the Limit of zero Options.
	DefaultLimit = 16 << 20
)

func (o *Options) grace() time.Duration {
	if o.Grace > 0 {
		return o.Grace
	}
	return DefaultGrace
}

// MessageLimit is Limit, or what stands for it.
func (o *Options) MessageLimit() int64 {
	if o.Limit > 0 {
		return o.Limit
	}
	return DefaultLimit
}

func (o *Options) notice(text string) {
	if o.Notice != nil {
		o.Notice(text)
	}
}

// A Scheme is a kind of address, the Name in Name://REST. Packages that are too
// heavy for everyone who needs a transport offer theirs for [Options].Schemes.
type Scheme struct {
	Name string
	// Dial connects to an address, whose scheme is Name.
	Dial func(ctx context.Context, address string, opts Options) (Conn, error)
	// Listen listens at an address, whose scheme is Name; nil if nobody can.
	Listen func(ctx context.Context, address string, opts Options) (Listener, error)
	// Check says what is wrong with an address before anybody dials it; nil if
	// only dialling can tell.
	Check func(address string) error
}

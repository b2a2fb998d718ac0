package transport

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Options configure endpoints and listeners. The zero value is usable.
type Options struct {
	// Stdin and Stdout are read and written by the endpoint stdio.
	Stdin  io.Reader
	Stdout io.Writer

	// Quote makes ssh pass each argument of the remote command as one word of the
	// remote shell. Otherwise ssh joins them with spaces, for the shell to split.
	Quote bool
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

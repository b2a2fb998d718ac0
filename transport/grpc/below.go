package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"

	"github.com/wirectl/wirectl/transport"
)

// Below are grpc:// and grpcs:// for a relay between a gRPC client and server that
// does not take part in the calls: a connection is the one that carries HTTP/2, with or
// without TLS. Any service passes unchanged, with metadata, deadlines, compression
// and resets.
var Below = []transport.Scheme{
	{Name: "grpc", Dial: dialBelow, Listen: listenBelow, Check: transport.CheckHostPort},
	{Name: "grpcs", Dial: dialBelow, Listen: listenBelow, Check: transport.CheckHostPort},
}

// alpn is the ALPN protocol of gRPC over TLS.
const alpn = "h2"

var errNotAgreed = errors.New("the server speaks TLS, but not HTTP/2: it did not agree on " + alpn)

// below returns the address of the connection that carries a gRPC address.
func below(address string, opts *transport.Options) string {
	scheme, hostPort, _ := strings.Cut(address, "://")
	if scheme == "grpc" {
		return "tcp://" + hostPort
	}
	opts.Subprotocols = []string{alpn}
	return "tls://" + hostPort
}

func dialBelow(ctx context.Context, address string, opts transport.Options) (transport.Conn, error) {
	e, err := transport.Parse([]string{below(address, &opts)}, opts)
	if err != nil {
		return nil, err
	}
	c, err := e.Dial(ctx)
	if err != nil {
		return nil, err
	}
	if s, ok := c.(interface{ ConnectionState() tls.ConnectionState }); ok && s.ConnectionState().NegotiatedProtocol != alpn {
		c.Close()
		return nil, errNotAgreed
	}
	return c, nil
}

func listenBelow(ctx context.Context, address string, opts transport.Options) (transport.Listener, error) {
	scheme, _, _ := strings.Cut(address, "://")
	l, err := transport.Listen(ctx, below(address, &opts), opts)
	if err != nil {
		return nil, err
	}
	return named{l, scheme}, nil
}

// A named listener replaces the scheme of its address.
type named struct {
	transport.Listener
	scheme string
}

func (l named) Addr() string {
	_, hostPort, _ := strings.Cut(l.Listener.Addr(), "://")
	return l.scheme + "://" + hostPort
}

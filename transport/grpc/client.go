package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/wirectl/wirectl/transport"
)

func dial(ctx context.Context, address string, opts transport.Options) (transport.Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	var cfg *tls.Config
	if u.Scheme == "grpcs" {
		if cfg, err = opts.ClientTLS(u.Hostname()); err != nil {
			return nil, err
		}
	}
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	return Client(ctx, raw, u.Host, cfg, opts)
}

// Client calls the service over a connection for HTTP/2, which it takes over, by TLS unless
// cfg is nil. The context bounds the TLS handshake.
func Client(ctx context.Context, raw net.Conn, authority string, cfg *tls.Config, opts transport.Options) (transport.Conn, error) {
	if cfg != nil {
		secure, err := handshake(ctx, raw, cfg)
		if err != nil {
			raw.Close()
			return nil, err
		}
		raw = secure
	}
	limit := opts.MessageLimit()
	cc, err := over(raw, authority, grpc.MaxCallRecvMsgSize(int(limit)), grpc.ForceCodecV2(rawCodec))
	if err != nil {
		raw.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	end := func() {
		cancel()
		cc.Close()
		raw.Close()
	}
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+service+"/"+method)
	if err != nil {
		end()
		return nil, ended(err)
	}
	return newConn(s, limit, end, s.CloseSend), nil
}

// over returns a client that only uses the connection raw.
func over(raw net.Conn, authority string, calls ...grpc.CallOption) (*grpc.ClientConn, error) {
	var used atomic.Bool
	return grpc.NewClient("passthrough:///"+authority,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // TLS is below
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errors.New("the connection ended")
			}
			return raw, nil
		}),
		grpc.WithDefaultCallOptions(calls...),
		grpc.WithUserAgent("wirectl"), grpc.WithIdleTimeout(0),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy())
}

// handshake negotiates TLS, and HTTP/2 in it.
func handshake(ctx context.Context, raw net.Conn, cfg *tls.Config) (net.Conn, error) {
	cfg = cfg.Clone()
	cfg.NextProtos = []string{alpn}
	secure := tls.Client(raw, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if secure.ConnectionState().NegotiatedProtocol != alpn {
		return nil, errNotAgreed
	}
	return secure, nil
}

package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/wirectl/wirectl/transport"
)

// readFrame is how large a frame of HTTP/2 may be that is sent to us.
const readFrame = 256 << 10

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

// Client calls the service over a connection that carries HTTP/2, by TLS unless
// cfg is nil, and takes it over. The context bounds the beginning.
func Client(ctx context.Context, raw net.Conn, authority string, cfg *tls.Config, opts transport.Options) (transport.Conn, error) {
	c, err := over(ctx, raw, authority, cfg)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return newConn(c.call(context.WithoutCancel(ctx), method, c.Close), &opts), nil
}

// A client is one connection to a server.
type client struct {
	*http.ClientConn
	base url.URL
}

// over returns a client of the connection raw, and of no other.
func over(ctx context.Context, raw net.Conn, authority string, cfg *tls.Config) (*client, error) {
	c := &client{base: url.URL{Scheme: "http", Host: authority}}
	if cfg != nil {
		c.base.Scheme = "https"
		secure, err := agree(ctx, raw, cfg)
		if err != nil {
			return nil, err
		}
		raw = secure
	}
	hand := func(context.Context, string, string) (net.Conn, error) { return raw, nil }
	t := &http.Transport{
		DialContext: hand, DialTLSContext: hand,
		Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReadFrameSize: readFrame},
		DisableCompression: true,
	}
	t.Protocols.SetHTTP2(true)
	t.Protocols.SetUnencryptedHTTP2(true)
	var err error
	c.ClientConn, err = t.NewClientConn(ctx, c.base.Scheme, "peer:0") // the address is of no use to hand
	return c, err
}

// agree agrees on TLS, and on HTTP/2 in it.
func agree(ctx context.Context, raw net.Conn, cfg *tls.Config) (net.Conn, error) {
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

// A call is one that this side began, and that may not be answered yet.
type call struct {
	*io.PipeWriter // what is asked
	cancel         context.CancelFunc
	release        func() error // what the call was alone to use

	answered chan struct{} // closed when there is an answer, or an error
	answer   *http.Response
	err      error
}

// call begins a call. Its end releases what it was given.
func (c *client) call(ctx context.Context, path string, release func() error) *call {
	ctx, cancel := context.WithCancel(ctx)
	in, out := io.Pipe()
	u := c.base
	u.Path = path
	request := (&http.Request{
		Method: http.MethodPost, URL: &u, Body: in, ContentLength: -1,
		Header: http.Header{"Content-Type": {mediaType}, "Te": {"trailers"}, "User-Agent": {"wirectl"}},
	}).WithContext(ctx)
	k := &call{PipeWriter: out, cancel: cancel, release: release, answered: make(chan struct{})}
	go func() {
		defer close(k.answered)
		k.answer, k.err = c.RoundTrip(request) //nolint:bodyclose // hangUp does
		if k.err != nil {
			k.err = broken(k.err)
		} else {
			k.err = foreign(k.answer)
		}
		if k.err != nil {
			in.CloseWithError(io.ErrClosedPipe)
		}
	}()
	return k
}

// foreign says what is wrong with an answer that is not one of gRPC.
func foreign(answer *http.Response) error {
	kind := answer.Header.Get("Content-Type")
	if answer.Header.Get(statusField) != "" || answer.StatusCode == http.StatusOK && isGRPC(kind) {
		return nil
	}
	return fmt.Errorf("the peer speaks HTTP/2, and no gRPC: it answers %s with content of the type %q", answer.Status, kind)
}

// broken says what a call that nobody ended is.
func broken(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return statusf(unavailable, "the connection ended in the middle of the call")
	}
	return statusf(unavailable, "%v", err)
}

func (k *call) Read(p []byte) (int, error) {
	<-k.answered
	if k.err != nil {
		return 0, k.err
	}
	n, err := k.answer.Body.Read(p)
	switch err {
	case nil:
	case io.EOF:
		err = k.end()
	default:
		err = broken(err)
	}
	return n, err
}

// end reads how the call ended.
func (k *call) end() error {
	err, ended := told(k.answer.Trailer)
	if !ended {
		err, ended = told(k.answer.Header)
	}
	switch {
	case !ended:
		return statusf(internal, "the server ended the call without a status")
	case err != nil:
		return err
	}
	return io.EOF
}

func (k *call) CloseWrite() error { return k.PipeWriter.Close() }

// hangUp ends the call as a cancel, unless it has ended.
func (k *call) hangUp() {
	k.cancel()
	<-k.answered
	if k.answer != nil {
		k.answer.Body.Close()
	}
	_ = k.release()
}

// Package grpc carries frames in the gRPC stream of
// latis.v1.LatisService/Connect: a connection is one call, and a frame is one
// message of it.
//
// As a stream of bytes, each message follows its length: four bytes, big-endian,
// as the same peers write it without gRPC. So a gRPC connection can replace any
// other. The package does not interpret the messages.
//
// Calls, compression and reflection are those of google.golang.org/grpc.
package grpc

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip"
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/transport"
)

// Schemes are grpc:// and, by TLS, grpcs://.
var Schemes = []transport.Scheme{
	{Name: "grpc", Dial: dial, Listen: listen, Check: transport.CheckHostPort},
	{Name: "grpcs", Dial: dial, Listen: listen, Check: transport.CheckHostPort},
}

const (
	service = "latis.v1.LatisService"
	method  = "Connect"
)

// An opaque is a message as raw bytes.
type opaque []byte

// A codec passes opaque messages unchanged, and others to protobuf's codec.
type codec struct{ encoding.CodecV2 }

var rawCodec = codec{encoding.GetCodecV2("proto")}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*opaque); ok {
		return mem.BufferSlice{mem.SliceBuffer(*m)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*opaque); ok {
		*m = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// A stream is one end of a call. [grpc.ClientStream] and [grpc.ServerStream] are
// streams.
type stream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// prefix is the size of the length of a message, in bytes.
const prefix = 4

// A conn is one end of a call.
type conn struct {
	stream stream
	limit  int64
	// end ends the call, and may be called again. On the client it cancels the call,
	// unless the server has ended it.
	end func()
	// closeSend ends our direction. A server has no half-close.
	closeSend func() error

	fault  atomic.Pointer[failure] // of the call, if it failed
	unread []byte                  // the rest of the current message

	sending sync.Mutex
	unsent  []byte // an incomplete frame

	closing sync.Once
	closed  chan struct{}
}

func newConn(s stream, limit int64, end func(), closeSend func() error) *conn {
	return &conn{stream: s, limit: limit, end: end, closeSend: closeSend, closed: make(chan struct{})}
}

func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.unread) == 0 {
		var m opaque
		if err := c.stream.RecvMsg(&m); err != nil {
			return 0, c.cause(err)
		}
		c.unread = append(binary.BigEndian.AppendUint32(make([]byte, 0, prefix+len(m)), uint32(len(m))), m...)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// Write sends the complete frames, and keeps an incomplete one.
func (c *conn) Write(p []byte) (int, error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	rest := append(c.unsent, p...)
	for len(rest) >= prefix {
		size := int64(binary.BigEndian.Uint32(rest))
		if size > c.limit {
			return 0, fmt.Errorf("a frame of %d bytes is over the limit of %d: gRPC carries len32 framing", size, c.limit)
		}
		if int64(len(rest)) < prefix+size {
			break
		}
		m := opaque(rest[prefix : prefix+size])
		if err := c.stream.SendMsg(&m); err != nil {
			if err == io.EOF { // the call is over: Read returns the reason
				err = io.ErrClosedPipe
			}
			return 0, c.cause(err)
		}
		rest = rest[prefix+size:]
	}
	c.unsent = append([]byte(nil), rest...) // the library still uses the bytes that were sent
	return len(p), nil
}

// cause returns the reason for the end of a call.
func (c *conn) cause(err error) error {
	if err == io.EOF {
		return err
	}
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
	}
	err = ended(err)
	if f, ok := errors.AsType[*failure](err); ok {
		c.fault.Store(f)
	}
	return err
}

// ended is the library's error for the end of a call, in fewer words.
func ended(err error) error {
	s, ok := status.FromError(err)
	switch {
	case !ok:
		return err
	case s.Code() == codes.Unimplemented && !strings.HasPrefix(s.Message(), "unexpected HTTP status"): // which is not gRPC
		return fmt.Errorf("%s: the peer speaks gRPC, but has no %s", s.Message(), service)
	}
	return &failure{s}
}

// A failure is the error of a failed call.
type failure struct{ *status.Status }

func (e *failure) Error() string {
	if e.Message() == "" {
		return e.Code().String()
	}
	return e.Code().String() + ": " + e.Message()
}

func (e *failure) GRPCStatus() *status.Status { return e.Status }

func (c *conn) CloseWrite() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	err := c.closeSend()
	if len(c.unsent) > 0 {
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	return err
}

// Abort ends the call as unavailable. A client can only cancel it.
func (c *conn) Abort(why error) error {
	c.unavailable("the other end failed: " + why.Error())
	return c.Close()
}

// GoAway makes a server end the call as unavailable; see [transport.GoAway].
func (c *conn) GoAway() { c.unavailable("this end goes away") }

func (c *conn) unavailable(why string) {
	c.fault.CompareAndSwap(nil, &failure{status.New(codes.Unavailable, why)})
}

func (c *conn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		c.end()
	})
	return nil
}

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

// A Server accepts calls of the service, each of which is a connection. It also answers
// reflection, for other tools.
type Server struct {
	grpc  *grpc.Server
	calls *transport.Inbox[transport.Conn]
	limit int64
}

// NewServer returns a server that accepts the HTTP/2 connections of l, by TLS unless
// cfg is nil, and puts their calls into an inbox. Its Close closes both.
func NewServer(l net.Listener, calls *transport.Inbox[transport.Conn], cfg *tls.Config, opts transport.Options) *Server {
	security := insecure.NewCredentials()
	if cfg != nil {
		security = credentials.NewTLS(cfg)
	}
	s := &Server{calls: calls, limit: opts.MessageLimit()}
	s.grpc = grpc.NewServer(grpc.Creds(security), grpc.ForceServerCodecV2(rawCodec), grpc.MaxRecvMsgSize(int(s.limit)))
	s.grpc.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, Metadata: "latis/v1/latis.proto",
		Streams: []grpc.StreamDesc{{StreamName: method, ClientStreams: true, ServerStreams: true, Handler: s.connect}},
	}, nil)
	reflection.Register(s.grpc)
	go func() {
		_ = s.grpc.Serve(l) // ends with Close
		s.calls.Close()
	}()
	return s
}

// connect handles a call, which is a connection, until either side closes it.
func (s *Server) connect(_ any, call grpc.ServerStream) error {
	c := newConn(call, s.limit, func() {}, func() error { return errors.ErrUnsupported })
	if !s.calls.Put(call.Context(), c) {
		return status.Error(codes.Unavailable, "the server accepts no more connections")
	}
	select {
	case <-c.closed:
		if fault := c.fault.Load(); fault != nil {
			return fault
		}
	case <-call.Context().Done():
	}
	return status.FromContextError(call.Context().Err()).Err() // nil unless the client has gone, or its time is over
}

// parting is how long closed calls may take to inform their peers.
const parting = time.Second

// Close stops accepting calls. Accepted calls continue. If there are none, Close waits a
// moment until their peers have been informed.
func (s *Server) Close() {
	s.calls.Close()
	over := make(chan struct{})
	go func() {
		s.grpc.GracefulStop() // returns with the last call
		close(over)
	}()
	wait.Done(over, parting)
}

// A listener is a server with a socket of its own.
type listener struct {
	*Server
	net  net.Listener
	addr string
}

func (l *listener) Addr() string { return l.addr }

func (l *listener) Accept(ctx context.Context) (transport.Conn, error) { return l.calls.Accept(ctx) }

func (l *listener) Close() error {
	err := l.net.Close()
	l.Server.Close()
	return err
}

func listen(ctx context.Context, address string, opts transport.Options) (transport.Listener, error) {
	l, cfg, scheme, err := opts.Bind(ctx, address)
	if err != nil {
		return nil, err
	}
	return &listener{NewServer(l, transport.NewInbox[transport.Conn](), cfg, opts), l, scheme + "://" + l.Addr().String()}, nil
}

// Package grpc carries messages in a gRPC stream, that of
// latis.v1.LatisService/Connect: a connection is one call, and a frame is one
// message of it. The messages pass as they are; what they mean is left to the
// packages above.
package grpc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/transport"
)

// Schemes are grpc:// and, by TLS, grpcs://.
var Schemes = []transport.Scheme{
	{Name: "grpc", Dial: dial, Listen: listen, Check: check},
	{Name: "grpcs", Dial: dial, Listen: listen, Check: check},
}

const (
	service = "latis.v1.LatisService"
	method  = "Connect"
)

func check(address string) error {
	_, err := transport.HostPort(address)
	return err
}

// A codec passes messages that are bytes as they are. Those of other services,
// such as reflection, are protobuf.
type codec struct{}

func (codec) Name() string { return "proto" }

// Marshal copies: the library sends the bytes after the caller got back its own.
func (codec) Marshal(v any) ([]byte, error) {
	if b, ok := v.(*[]byte); ok {
		return append([]byte{}, *b...), nil
	}
	return proto.Marshal(v.(proto.Message))
}

// Unmarshal keeps what the library made for it.
func (codec) Unmarshal(data []byte, v any) error {
	if b, ok := v.(*[]byte); ok {
		*b = data
		return nil
	}
	return proto.Unmarshal(data, v.(proto.Message))
}

// A stream is the common part of both ends of a call.
type stream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// A conn is one end of a call.
type conn struct {
	stream  stream
	sending sync.Mutex // the library wants one sender at a time
	rest    []byte     // of the message that Read is in

	server    bool
	closeSend func() error
	closing   sync.Once
	closed    chan struct{}
	onClose   func()
}

func newConn(s stream, closeSend func() error, onClose func()) *conn {
	return &conn{stream: s, closeSend: closeSend, closed: make(chan struct{}), onClose: onClose}
}

func (c *conn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 && len(p) > 0 {
		if err := c.receive(&c.rest); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ReadMessage returns the next message. A context that ends closes the
// connection.
func (c *conn) ReadMessage(ctx context.Context) (m transport.Message, err error) {
	defer context.AfterFunc(ctx, func() { c.Close() })()
	err = c.receive(&m.Data)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return m, err
}

// WriteMessage writes a message. A context that ends closes the connection.
func (c *conn) WriteMessage(ctx context.Context, m transport.Message) error {
	defer context.AfterFunc(ctx, func() { c.Close() })()
	err := c.send(m.Data)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return err
}

func (c *conn) receive(b *[]byte) error { return c.cause(c.stream.RecvMsg(b)) }

func (c *conn) send(b []byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	err := c.stream.SendMsg(&b)
	if err == io.EOF { // the call has ended: only receiving tells why
		err = io.ErrClosedPipe
	}
	return c.cause(err)
}

// cause says why a call ended, without the library's preamble.
func (c *conn) cause(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
	}
	s := status.Convert(err)
	switch {
	case c.server && (s.Code() == codes.Canceled || errors.Is(err, context.Canceled)):
		return io.EOF // the client has gone, as clients do
	case s.Code() == codes.Unimplemented:
		return errors.New(s.Message() + ": the peer speaks gRPC, and has no " + service)
	}
	return errors.New(s.Code().String() + ": " + s.Message())
}

func (c *conn) CloseWrite() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.closeSend()
}

func (c *conn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		c.onClose()
	})
	return nil
}

func dial(ctx context.Context, address string, opts transport.Options) (transport.Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if u.Scheme == "grpcs" {
		cfg, err := opts.ClientTLS(u.Hostname())
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(cfg)
	}
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	return Client(ctx, raw, u.Host, creds, opts)
}

// Client calls the service over a connection that carries HTTP/2, and takes it
// over. The context bounds the beginning.
func Client(ctx context.Context, raw net.Conn, authority string, creds credentials.TransportCredentials, opts transport.Options) (transport.Conn, error) {
	dialled := make(chan net.Conn, 1)
	dialled <- raw
	limit := int(opts.MessageLimit())
	cc, err := grpc.NewClient("passthrough:///"+authority,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case c := <-dialled:
				return c, nil
			default:
				return nil, net.ErrClosed // there is no second one
			}
		}),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(limit), grpc.MaxCallSendMsgSize(limit)))
	if err != nil {
		raw.Close()
		return nil, err
	}
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	desc := &grpc.StreamDesc{StreamName: method, ClientStreams: true, ServerStreams: true}
	s, err := cc.NewStream(call, desc, "/"+service+"/"+method)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		cc.Close()
		raw.Close()
		return nil, err
	}
	return newConn(s, s.CloseSend, func() { cancel(); cc.Close() }), nil
}

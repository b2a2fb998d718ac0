// Package grpc carries frames in a gRPC stream, that of
// latis.v1.LatisService/Connect: a connection is one call, and a frame is one
// message of it.
//
// As a stream of bytes each message stands behind its length, four bytes with the
// highest first: what the same peers write where there is no gRPC. So a gRPC
// connection can take the place of any other. What the messages mean is left to
// the packages above.
package grpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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

// prefix is how many bytes the length of a message takes.
const prefix = 4

// A conn is one end of a call.
type conn struct {
	stream stream
	limit  int64
	unread []byte // the rest of the message that Read is in

	sending sync.Mutex // the library wants one sender at a time
	unsent  []byte     // the beginning of a frame that was not written whole

	server    bool
	closeSend func() error
	closing   sync.Once
	closed    chan struct{}
	onClose   func()
}

func newConn(s stream, opts *transport.Options, closeSend func() error, onClose func()) *conn {
	return &conn{stream: s, limit: opts.MessageLimit(), closeSend: closeSend, closed: make(chan struct{}), onClose: onClose}
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		var message []byte
		if err := c.receive(&message); err != nil {
			return 0, err
		}
		c.unread = binary.BigEndian.AppendUint32(make([]byte, 0, prefix+len(message)), uint32(len(message)))
		c.unread = append(c.unread, message...)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// Write sends the frames that are whole, and keeps the beginning of another.
func (c *conn) Write(p []byte) (int, error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.unsent = append(c.unsent, p...)
	rest := c.unsent
	for len(rest) >= prefix {
		size := int64(binary.BigEndian.Uint32(rest))
		if size > c.limit {
			return 0, fmt.Errorf("a frame of %d bytes is over the limit of %d: in gRPC goes what has len32 framing", size, c.limit)
		}
		if int64(len(rest)) < prefix+size {
			break
		}
		if err := c.send(rest[prefix : prefix+size]); err != nil {
			return 0, err
		}
		rest = rest[prefix+size:]
	}
	c.unsent = append(c.unsent[:0], rest...)
	return len(p), nil
}

func (c *conn) receive(b *[]byte) error { return c.cause(c.stream.RecvMsg(b)) }

func (c *conn) send(b []byte) error {
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
	if len(c.unsent) > 0 {
		return errors.Join(io.ErrUnexpectedEOF, c.closeSend())
	}
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
	creds := newGreeting(insecure.NewCredentials())
	if u.Scheme == "grpcs" {
		cfg, err := opts.ClientTLS(u.Hostname())
		if err != nil {
			return nil, err
		}
		creds = newGreeting(credentials.NewTLS(cfg))
	}
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	c, err := Client(ctx, raw, u.Host, creds, opts)
	if err != nil {
		return nil, creds.cause(err)
	}
	return c, nil
}

// A greeting keeps why it failed: the library passes on only the text of that.
type greeting struct {
	credentials.TransportCredentials
	failed chan error
}

func newGreeting(creds credentials.TransportCredentials) *greeting {
	return &greeting{creds, make(chan error, 1)}
}

// ClientHandshake greets a server.
func (g *greeting) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := g.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		select {
		case g.failed <- err:
		default: // the first failure tells
		}
	}
	return c, info, err
}

// Clone returns a copy whose failures are ours.
func (g *greeting) Clone() credentials.TransportCredentials {
	return &greeting{g.TransportCredentials.Clone(), g.failed}
}

// cause returns why the greeting failed; else err.
func (g *greeting) cause(err error) error {
	select {
	case failed := <-g.failed:
		return failed
	default:
		return err
	}
}

// over returns a client of the connection raw, which carries HTTP/2, and no other.
func over(raw net.Conn, authority string, creds credentials.TransportCredentials, limit int) (*grpc.ClientConn, error) {
	dialled := make(chan net.Conn, 1)
	dialled <- raw
	return grpc.NewClient("passthrough:///"+authority,
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
}

// Client calls the service over a connection that carries HTTP/2, and takes it
// over. The context bounds the beginning.
func Client(ctx context.Context, raw net.Conn, authority string, creds credentials.TransportCredentials, opts transport.Options) (transport.Conn, error) {
	cc, err := over(raw, authority, creds, int(opts.MessageLimit()))
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
	return newConn(s, &opts, s.CloseSend, func() { cancel(); cc.Close() }), nil
}

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
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // peers may compress their messages
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

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

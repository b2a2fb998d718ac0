// Package grpc carries frames in a gRPC stream, that of
// latis.v1.LatisService/Connect: a connection is one call, and a frame is one
// message of it.
//
// As a stream of bytes each message stands behind its length, four bytes with the
// highest first: what the same peers write where there is no gRPC. So a gRPC
// connection can take the place of any other. What the messages mean is left to
// the packages above.
//
// The HTTP/2 is that of net/http: a call is a request and an answer whose bodies
// are streams of messages, and whose end is told in trailers.
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

	"github.com/wirectl/wirectl/transport"
)

// Schemes are grpc:// and, by TLS, grpcs://.
var Schemes = []transport.Scheme{
	{Name: "grpc", Dial: dial, Listen: listen, Check: check},
	{Name: "grpcs", Dial: dial, Listen: listen, Check: check},
}

const (
	service = "latis.v1.LatisService"
	method  = "/" + service + "/Connect"
)

func check(address string) error {
	_, err := transport.HostPort(address)
	return err
}

// mediaType is that of the bodies of calls. What stands behind it, as in
// application/grpc+proto, is about the messages.
const mediaType = "application/grpc"

func isGRPC(contentType string) bool {
	rest, begins := strings.CutPrefix(contentType, mediaType)
	return begins && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// A wire is one end of a call, as bytes. The last error of Read tells how the call
// ended. What is written has left when Write returns.
type wire interface {
	io.ReadWriter
	// CloseWrite fails on the end whose last byte is the end of the call.
	CloseWrite() error
	// hangUp ends the call.
	hangUp()
}

// errGone is the end of a call whose client has gone, as clients do.
var errGone = errors.New("the client has gone")

// prefix is how many bytes the length of a message takes.
const prefix = 4

// A conn is one end of a call.
type conn struct {
	wire  wire
	limit int64

	in     messages
	first  [prefix]byte
	length []byte // what is left of first, the prefix of the message that Read is in
	left   int64  // what is left of the message

	sending sync.Mutex
	unsent  []byte // the beginning of a frame that was not written whole
	out     []byte // the messages that are being sent

	fault   atomic.Pointer[status] // of the peer's messages
	closing sync.Once
	closed  chan struct{}
}

func newConn(w wire, opts *transport.Options) *conn {
	limit := opts.MessageLimit()
	return &conn{wire: w, limit: limit, in: newMessages(w, limit), closed: make(chan struct{})}
}

func (c *conn) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.length) == 0 && c.left == 0 {
		size, err := c.in.next()
		if err != nil {
			return 0, c.cause(err)
		}
		c.length, c.left = binary.BigEndian.AppendUint32(c.first[:0], size), int64(size)
	}
	n = copy(p, c.length)
	c.length = c.length[n:]
	p = p[n:min(int64(len(p)), int64(n)+c.left)]
	if len(p) == 0 || n > 0 && c.in.in.Buffered() == 0 {
		return n, nil
	}
	m, err := c.in.in.Read(p)
	c.left -= int64(m)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n + m, c.cause(cut(err))
}

// Write sends the frames that are whole, and keeps the beginning of another.
func (c *conn) Write(p []byte) (int, error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	rest := p
	if len(c.unsent) > 0 {
		c.unsent = append(c.unsent, p...)
		rest = c.unsent
	}
	c.out = c.out[:0]
	for len(rest) >= prefix {
		size := int64(binary.BigEndian.Uint32(rest))
		if size > c.limit {
			return 0, fmt.Errorf("a frame of %d bytes is over the limit of %d: in gRPC goes what has len32 framing", size, c.limit)
		}
		if int64(len(rest)) < prefix+size {
			break
		}
		c.out = appendMessage(c.out, rest[prefix:prefix+size])
		rest = rest[prefix+size:]
	}
	c.unsent = append(c.unsent[:0], rest...)
	if len(c.out) == 0 {
		return len(p), nil
	}
	if _, err := c.wire.Write(c.out); err != nil {
		return 0, c.cause(err)
	}
	return len(p), nil
}

// cause says why a call ended.
func (c *conn) cause(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
	}
	var s *status
	switch {
	case errors.Is(err, errGone):
		return io.EOF
	case !errors.As(err, &s):
		return err
	case s.code == unimplemented:
		return errors.New(s.message + ": the peer speaks gRPC, and has no " + service)
	}
	c.fault.Store(s)
	return s
}

func (c *conn) CloseWrite() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if len(c.unsent) > 0 {
		return errors.Join(io.ErrUnexpectedEOF, c.wire.CloseWrite())
	}
	return c.wire.CloseWrite()
}

func (c *conn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		c.wire.hangUp()
	})
	return nil
}

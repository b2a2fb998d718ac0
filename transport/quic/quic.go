// Package quic carries a connection in one stream of a QUIC connection. What is in
// the stream was agreed on by ALPN: plain bytes, or HTTP/2 with the gRPC service
// that package grpc speaks.
package quic

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/grpc"
)

// The protocols that ALPN agrees on.
const (
	Frames = "latis-frames" // bytes, as on TCP
	GRPC   = "latis"        // HTTP/2 without TLS of its own, with gRPC in it
)

// Schemes is quic://.
var Schemes = []transport.Scheme{{Name: "quic", Dial: dial, Listen: listen, Check: transport.CheckHostPort}}

// protocols are those to agree on: plain bytes first, which cost less, and which
// have a half-close. Subprotocols that a person names come in their place.
func protocols(opts *transport.Options) []string {
	if len(opts.Subprotocols) > 0 {
		return opts.Subprotocols
	}
	return []string{Frames, GRPC}
}

func config() *quic.Config {
	return &quic.Config{
		MaxIncomingStreams: 1,
		// A connection that is only quiet stays.
		KeepAlivePeriod: 10 * time.Second,
		// What was written ahead of a reset arrives, between two of us.
		EnableStreamResetPartialDelivery: true,
		// A fast peer on the same machine outruns the library's defaults.
		InitialStreamReceiveWindow:     4 << 20,
		InitialConnectionReceiveWindow: 4 << 20,
	}
}

// prepare makes a TLS configuration one for QUIC.
func prepare(cfg *tls.Config, opts *transport.Options) *tls.Config {
	cfg.MinVersion = tls.VersionTLS13
	cfg.NextProtos = protocols(opts)
	return cfg
}

func dial(ctx context.Context, address string, opts transport.Options) (transport.Conn, error) {
	hostPort, cfg, err := opts.ClientTLSAt(address)
	if err != nil {
		return nil, err
	}
	qc, err := quic.DialAddr(ctx, hostPort, prepare(cfg, &opts), config())
	if err != nil {
		return nil, explained(err)
	}
	s, err := qc.OpenStreamSync(ctx)
	gone := errors.Is(end(err), io.EOF)
	if err != nil && !gone {
		_ = qc.CloseWithError(failed, "")
		return nil, err
	}
	// A peer that says goodbye before there is a stream has ended without a word.
	c := &conn{quic: qc, client: true, stream: s, open: make(chan struct{}), err: err}
	close(c.open)
	if gone || qc.ConnectionState().TLS.NegotiatedProtocol != GRPC {
		return c, nil
	}
	return grpc.Client(ctx, netConn{c}, hostPort, nil, opts)
}

// explained says what a failure to connect means where the library speaks of
// QUIC's insides.
func explained(err error) error {
	var te *quic.TransportError
	var idle *quic.IdleTimeoutError
	var handshake *quic.HandshakeTimeoutError
	switch {
	case errors.As(err, &te) && te.ErrorCode.IsCryptoError() && te.Remote:
		return errors.New("the peer refused: " + te.Error())
	case errors.As(err, &idle), errors.As(err, &handshake):
		return fmt.Errorf("nobody answers: %w", err)
	}
	return err
}

// The codes that a connection is closed with.
const (
	done   quic.ApplicationErrorCode = 0
	failed quic.ApplicationErrorCode = 1
)

// A conn is the one stream of a QUIC connection.
type conn struct {
	quic   *quic.Conn
	client bool
	stream *quic.Stream  // valid when open is closed
	open   chan struct{} // closed when the client has opened the stream
	err    error         // why it did not
	ending sync.Once

	closed  atomic.Bool
	reading sync.Mutex // held while reading the stream
}

// await waits for the client's stream: it exists when its first byte arrives.
func (c *conn) await() error {
	<-c.open
	return c.err
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.await(); err != nil {
		return 0, end(err)
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.stream.Read(p)
	if err != nil && c.closed.Load() {
		err = net.ErrClosed
	}
	return n, end(err)
}

// end makes a peer's clean goodbye the end of the stream.
func end(err error) error {
	var app *quic.ApplicationError
	if errors.As(err, &app) {
		switch {
		case app.ErrorCode == done && app.Remote:
			return io.EOF
		case app.ErrorCode == done:
			return net.ErrClosed
		}
	}
	return err
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.await(); err != nil {
		return 0, err
	}
	return c.stream.Write(p)
}

func (c *conn) CloseWrite() error {
	if err := c.await(); err != nil {
		return err
	}
	return c.stream.Close()
}

// goodbye is how long the peer may take to get what was written last: closing a
// QUIC connection throws away what is on its way.
const goodbye = time.Second

// Close ends our direction, and waits a moment for the peer to have all of it and
// to end its own.
func (c *conn) Close() error {
	c.endConn(c.linger, done)
	return nil
}

// Abort resets the stream, after what was written if the peer can take that.
func (c *conn) Abort(error) error {
	c.endConn(c.reset, failed)
	return nil
}

// endConn ends the stream, if there is one, and the connection.
func (c *conn) endConn(part func(), code quic.ApplicationErrorCode) {
	c.ending.Do(func() {
		c.closed.Store(true)
		select {
		case <-c.open:
			if c.err == nil {
				part()
			}
		default:
		}
		_ = c.quic.CloseWithError(code, "")
		<-c.open
	})
}

// reset resets both directions of the stream, and leaves closing to the peer for a
// moment: closing would take from it what it has not read yet.
func (c *conn) reset() {
	c.stream.SetReliableBoundary()
	c.stream.CancelWrite(quic.StreamErrorCode(failed))
	c.stream.CancelRead(quic.StreamErrorCode(failed))
	select {
	case <-c.quic.Context().Done():
	case <-time.After(goodbye):
	}
}

// linger leaves closing to the client. The client knows that both sides have
// everything when it might open a second stream: the server allows one at a time,
// and counts the first one until all of it was read and acknowledged.
func (c *conn) linger() {
	ctx, cancel := context.WithTimeout(c.quic.Context(), goodbye)
	defer cancel()
	_ = c.stream.Close()
	// A reader that is in the middle of it reads no more: it would miss what is read here.
	_ = c.stream.SetReadDeadline(time.Now())
	c.reading.Lock()
	defer c.reading.Unlock()
	deadline, _ := ctx.Deadline()
	_ = c.stream.SetReadDeadline(deadline)
	_, _ = io.Copy(io.Discard, c.stream)
	if c.client {
		_, _ = c.quic.OpenStreamSync(ctx)
		return
	}
	<-ctx.Done()
}

// A netConn is a conn as package net has it.
type netConn struct{ *conn }

func (c netConn) LocalAddr() net.Addr  { return c.quic.LocalAddr() }
func (c netConn) RemoteAddr() net.Addr { return c.quic.RemoteAddr() }

func (c netConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c netConn) SetReadDeadline(t time.Time) error {
	if err := c.await(); err != nil {
		return err
	}
	return c.stream.SetReadDeadline(t)
}

func (c netConn) SetWriteDeadline(t time.Time) error {
	if err := c.await(); err != nil {
		return err
	}
	return c.stream.SetWriteDeadline(t)
}

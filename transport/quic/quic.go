// Package quic carries a connection in one stream of a QUIC connection. ALPN negotiates
// the content of the stream: plain bytes, or HTTP/2 with the gRPC service of package
// grpc.
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

	"github.com/wirectl/wirectl/internal/wait"
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

// protocols are the protocols to offer: plain bytes first, which cost less and have a
// half-close. Configured subprotocols replace them.
func protocols(opts *transport.Options) []string {
	if len(opts.Subprotocols) > 0 {
		return opts.Subprotocols
	}
	return []string{Frames, GRPC}
}

func config() *quic.Config {
	return &quic.Config{
		MaxIncomingStreams: 1,
		// An idle connection stays open.
		KeepAlivePeriod: 10 * time.Second,
		// Bytes written before a reset arrive, if both sides support it.
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

// explained explains failures to connect for which the library reports details of QUIC.
func explained(err error) error {
	te, refused := errors.AsType[*quic.TransportError](err)
	_, idle := errors.AsType[*quic.IdleTimeoutError](err)
	_, late := errors.AsType[*quic.HandshakeTimeoutError](err)
	switch {
	case refused && te.ErrorCode.IsCryptoError() && te.Remote:
		return errors.New("the peer refused: " + te.Error())
	case idle, late:
		return fmt.Errorf("no answer: %w", err)
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

// end turns the clean close of the peer into io.EOF.
func end(err error) error {
	if app, ok := errors.AsType[*quic.ApplicationError](err); ok {
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

// goodbye is how long the peer may take to receive the last bytes: closing a QUIC connection
// discards data in flight.
const goodbye = time.Second

// Close ends our direction, and waits a moment for the peer to receive it and to end its
// own.
func (c *conn) Close() error {
	c.endConn(c.linger, done)
	return nil
}

// Abort resets the stream, after the written bytes if the peer supports that.
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

// reset resets both directions of the stream, and gives the peer a moment to close: closing
// first would discard bytes that it has not read yet.
func (c *conn) reset() {
	c.stream.SetReliableBoundary()
	c.stream.CancelWrite(quic.StreamErrorCode(failed))
	c.stream.CancelRead(quic.StreamErrorCode(failed))
	wait.Done(c.quic.Context().Done(), goodbye)
}

// linger leaves closing to the client. The client knows that both sides have received
// everything once it may open a second stream: the server allows one at a time, and
// counts the first one until all of it was read and acknowledged.
func (c *conn) linger() {
	ctx, cancel := context.WithTimeout(c.quic.Context(), goodbye)
	defer cancel()
	_ = c.stream.Close()
	// This stops a concurrent reader, which would miss the bytes that are read here.
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

// A netConn is a conn as a net.Conn.
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

// A listener accepts QUIC connections. If gRPC was negotiated, it passes them to a gRPC
// server, whose calls are then the connections.
type listener struct {
	transport *quic.Transport
	quic      *quic.Listener
	inbox     *transport.Inbox[transport.Conn]
	grpc      *grpc.Server
	streams   streams
}

func listen(ctx context.Context, address string, opts transport.Options) (transport.Listener, error) {
	hostPort, cfg, err := opts.ServerTLSAt(address)
	if err != nil {
		return nil, err
	}
	udp, err := new(net.ListenConfig).ListenPacket(ctx, "udp", hostPort)
	if err != nil {
		return nil, err
	}
	l := &listener{
		transport: &quic.Transport{Conn: udp},
		inbox:     transport.NewInbox[transport.Conn](),
		streams:   streams{transport.NewInbox[net.Conn](), udp.LocalAddr()},
	}
	if l.quic, err = l.transport.Listen(prepare(cfg, &opts), config()); err != nil {
		udp.Close()
		return nil, err
	}
	l.grpc = grpc.NewServer(l.streams, l.inbox, nil, opts)
	go l.acceptConns()
	return l, nil
}

func (l *listener) Addr() string { return "quic://" + l.transport.Conn.LocalAddr().String() }

func (l *listener) Accept(ctx context.Context) (transport.Conn, error) { return l.inbox.Accept(ctx) }

// Close ends listening. Accepted connections continue; the socket that they share is closed
// with the last one.
func (l *listener) Close() error {
	l.inbox.Close()
	l.grpc.Close()
	return l.quic.Close()
}

func (l *listener) acceptConns() {
	var conns sync.WaitGroup
	for {
		qc, err := l.quic.Accept(context.Background())
		if err != nil {
			break
		}
		conns.Go(func() { l.greet(qc) })
	}
	l.inbox.Close()
	conns.Wait()
	_ = l.transport.Close()
	_ = l.transport.Conn.Close()
}

// greet passes on a connection, and waits for its end.
func (l *listener) greet(qc *quic.Conn) {
	c := &conn{quic: qc, open: make(chan struct{})}
	go func() {
		c.stream, c.err = qc.AcceptStream(qc.Context())
		close(c.open)
	}()
	var taken bool
	if qc.ConnectionState().TLS.NegotiatedProtocol == GRPC {
		taken = l.streams.inbox.Put(qc.Context(), netConn{c})
	} else {
		taken = l.inbox.Put(qc.Context(), c)
	}
	if !taken {
		_ = qc.CloseWithError(failed, "the listener is closed")
	}
	<-qc.Context().Done()
	<-c.open
}

// streams are the connections for the gRPC server.
type streams struct {
	inbox *transport.Inbox[net.Conn]
	addr  net.Addr
}

func (s streams) Accept() (net.Conn, error) { return s.inbox.Accept(context.Background()) }
func (s streams) Addr() net.Addr            { return s.addr }

func (s streams) Close() error {
	s.inbox.Close()
	return nil
}

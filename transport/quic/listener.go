package quic

import (
	"context"
	"net"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/grpc"
	"github.com/wirectl/wirectl/transport/internal/inbox"
)

// A listener accepts QUIC connections. If gRPC was negotiated, it passes them to a gRPC
// server, whose calls are then the connections.
type listener struct {
	transport *quic.Transport
	quic      *quic.Listener
	inbox     *inbox.Inbox[transport.Conn]
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
		inbox:     inbox.New[transport.Conn](),
		streams:   streams{inbox.New[net.Conn](), udp.LocalAddr()},
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
	inbox *inbox.Inbox[net.Conn]
	addr  net.Addr
}

func (s streams) Accept() (net.Conn, error) { return s.inbox.Accept(context.Background()) }
func (s streams) Addr() net.Addr            { return s.addr }

func (s streams) Close() error {
	s.inbox.Close()
	return nil
}

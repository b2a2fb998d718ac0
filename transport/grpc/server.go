package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/internal/inbox"
)

// A Server accepts calls of the service, each of which is a connection. It also answers
// reflection, for other tools.
type Server struct {
	grpc  *grpc.Server
	calls *inbox.Inbox[transport.Conn]
	limit int64
}

// NewServer returns a server that accepts the HTTP/2 connections of l, by TLS unless
// cfg is nil, and puts their calls into an inbox. Its Close closes both.
func NewServer(l net.Listener, calls *inbox.Inbox[transport.Conn], cfg *tls.Config, opts transport.Options) *Server {
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
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	var hostPort string
	var cfg *tls.Config
	if u.Scheme == "grpcs" {
		hostPort, cfg, err = opts.ServerTLSAt(address)
	} else {
		hostPort, err = opts.ListenOn(u.Host)
	}
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", hostPort)
	if err != nil {
		return nil, err
	}
	return &listener{NewServer(l, inbox.New[transport.Conn](), cfg, opts), l, u.Scheme + "://" + l.Addr().String()}, nil
}

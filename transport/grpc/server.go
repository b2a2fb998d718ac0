package grpc

import (
	"context"
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

	latisv1 "github.com/wirectl/wirectl/proto/latis/v1"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/internal/inbox"
)

// A Server takes calls of the service, each of which is a connection. It also
// answers reflection, so that other tools can ask what the service is.
type Server struct {
	grpc  *grpc.Server
	calls *inbox.Inbox[transport.Conn]
	opts  transport.Options
}

// NewServer returns a server that takes the HTTP/2 connections of l, and puts
// their calls into an inbox. It closes both with itself.
func NewServer(l net.Listener, calls *inbox.Inbox[transport.Conn], creds credentials.TransportCredentials, opts transport.Options) *Server {
	limit := int(opts.MessageLimit())
	s := &Server{
		grpc:  grpc.NewServer(grpc.Creds(creds), grpc.ForceServerCodec(codec{}), grpc.MaxRecvMsgSize(limit), grpc.MaxSendMsgSize(limit)),
		calls: calls,
		opts:  opts,
	}
	s.grpc.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		Streams:     []grpc.StreamDesc{{StreamName: method, Handler: s.serve, ClientStreams: true, ServerStreams: true}},
		Metadata:    latisv1.File_latis_v1_latis_proto.Path(),
	}, nil)
	reflection.Register(s.grpc)
	go func() {
		_ = s.grpc.Serve(l) // ends with Close
		s.calls.Close()
	}()
	return s
}

// serve is one call, from its beginning until the connection is closed on either
// side.
func (s *Server) serve(_ any, call grpc.ServerStream) error {
	// The end of our direction is the end of the call.
	c := newConn(call, &s.opts, func() error { return errors.ErrUnsupported }, func() {})
	c.server = true
	if !s.calls.Put(call.Context(), c) {
		return status.Error(codes.Unavailable, "nobody accepts connections any more")
	}
	select {
	case <-c.closed:
	case <-call.Context().Done():
	}
	return nil
}

// parting is how long the calls that are closed may take to tell it to their peers.
const parting = time.Second

// Close ends taking calls. Those that were accepted go on; what serves them ends
// with the last of them. If none is left, Close returns when their peers have been
// told, or could have been.
func (s *Server) Close() {
	s.calls.Close()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop()
	}()
	patience := time.NewTimer(parting)
	defer patience.Stop()
	select {
	case <-stopped:
	case <-patience.C:
	}
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
	hostPort, err := opts.ListenOn(u.Host)
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if u.Scheme == "grpcs" {
		host, _, err := net.SplitHostPort(hostPort)
		if err != nil {
			return nil, err
		}
		cfg, err := opts.ServerTLS(host)
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(cfg)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", hostPort)
	if err != nil {
		return nil, err
	}
	return &listener{NewServer(l, inbox.New[transport.Conn](), creds, opts), l, u.Scheme + "://" + l.Addr().String()}, nil
}

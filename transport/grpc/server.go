package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/internal/inbox"
)

// A Server takes calls of the service, each of which is a connection. It also
// answers reflection, so that other tools can ask what the service is.
type Server struct {
	http  *http.Server
	calls *inbox.Inbox[transport.Conn]
	opts  transport.Options
}

const (
	// greeting is how long a client may take to say that it speaks HTTP/2.
	greeting = 2 * time.Minute
	// maxCalls bounds the calls of one client connection at a time.
	maxCalls = 1 << 16
)

// NewServer returns a server that takes the HTTP/2 connections of l, by TLS unless
// cfg is nil, and puts their calls into an inbox. It closes both with itself.
func NewServer(l net.Listener, calls *inbox.Inbox[transport.Conn], cfg *tls.Config, opts transport.Options) *Server {
	s := &Server{calls: calls, opts: opts}
	s.http = &http.Server{
		Handler:           s,
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxReadFrameSize: readFrame, MaxConcurrentStreams: maxCalls},
		TLSConfig:         cfg,
		ReadHeaderTimeout: greeting,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	serve := s.http.Serve
	if cfg == nil {
		s.http.Protocols.SetUnencryptedHTTP2(true)
	} else {
		s.http.Protocols.SetHTTP2(true)
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	go func() {
		_ = serve(l) // ends with Close
		s.calls.Close()
	}()
	return s
}

// ServeHTTP is one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost:
		http.Error(w, "calls of gRPC are made by POST", http.StatusMethodNotAllowed)
		return
	case !isGRPC(r.Header.Get("Content-Type")):
		http.Error(w, "calls of gRPC have the content type "+mediaType, http.StatusUnsupportedMediaType)
		return
	}
	w.Header()["Date"] = nil // left out
	w.Header().Set("Content-Type", mediaType)
	c := &served{w: w, control: http.NewResponseController(w), body: r.Body}
	err := s.serve(r, c)
	if err == io.EOF {
		err = nil
	}
	if cause := (*status)(nil); err != nil && !errors.As(err, &cause) {
		err = &status{unknown, err.Error()}
	}
	c.end(err)
}

// serve is one call, from its beginning until it is ended on either side.
func (s *Server) serve(r *http.Request, c *served) error {
	ctx := r.Context()
	if text := r.Header.Get("Grpc-Timeout"); text != "" {
		d, err := timeout(text)
		if err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	if encoding := r.Header.Get("Grpc-Encoding"); encoding != "" && encoding != "identity" {
		c.w.Header().Set("Grpc-Accept-Encoding", "identity")
		return statusf(unimplemented, "messages are compressed with %q, which is not known here", encoding)
	}
	switch r.URL.Path {
	case method:
		return s.connect(ctx, c)
	case reflectionPath("v1"), reflectionPath("v1alpha"):
		return reflect(c)
	}
	name, _ := path.Split(r.URL.Path)
	if name == path.Dir(method)+"/" {
		return statusf(unimplemented, "unknown method %s", r.URL.Path)
	}
	return statusf(unimplemented, "unknown service %s", r.URL.Path)
}

// connect is a call that is a connection, until that is closed on either side.
func (s *Server) connect(ctx context.Context, w *served) error {
	c := newConn(w, &s.opts)
	if !s.calls.Put(ctx, c) {
		return statusf(unavailable, "nobody accepts connections any more")
	}
	select {
	case <-c.closed:
		if fault := c.fault.Load(); fault != nil {
			return fault
		}
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return statusf(deadlineExceeded, "the time that the client gave the call is over")
		}
	}
	return nil
}

// units are those of a timeout.
var units = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second,
	'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// timeout reads how long a call may take: at most eight digits and a unit.
func timeout(text string) (time.Duration, error) {
	last := len(text) - 1
	n, err := strconv.ParseUint(text[:last], 10, 32)
	unit, known := units[text[last]]
	if err != nil || !known || last > 8 {
		return 0, statusf(internal, "the timeout %q is not a number and a unit", text)
	}
	return time.Duration(min(n, uint64(1<<63-1)/uint64(unit))) * unit, nil
}

// served is the end of a call that came to us.
type served struct {
	w       http.ResponseWriter
	control *http.ResponseController
	body    io.ReadCloser

	mu    sync.Mutex
	begun bool // there are messages
	over  bool
}

func (c *served) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	if err != nil && err != io.EOF {
		err = errGone
	}
	return n, err
}

func (c *served) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return 0, io.ErrClosedPipe
	}
	c.begun = true
	_, err := c.w.Write(p)
	if err == nil {
		err = c.control.Flush()
	}
	if err != nil {
		return 0, io.ErrClosedPipe // the call is over: why, receiving tells
	}
	return len(p), nil
}

// CloseWrite fails: the end of our direction is the end of the call.
func (c *served) CloseWrite() error { return errors.ErrUnsupported }

func (c *served) hangUp() {}

// patience is how long a message may take to leave when its call ends.
const patience = 100 * time.Millisecond

// end tells how the call ended. Nothing is written to it any more.
func (c *served) end(err error) {
	over := make(chan struct{})
	go func() {
		c.mu.Lock()
		c.over = true
		c.mu.Unlock()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(patience): // the client takes nothing
		_ = c.control.SetWriteDeadline(time.Now())
		<-over
	}
	where := "" // in the head of the answer
	if c.begun {
		where = http.TrailerPrefix
	}
	s := &status{code: ok}
	if errors.As(err, &s) && s.message != "" {
		c.w.Header().Set(where+messageField, url.PathEscape(s.message))
	}
	c.w.Header().Set(where+statusField, strconv.Itoa(int(s.code)))
}

// parting is how long the calls that are closed may take to tell it to their peers.
const parting = time.Second

// Close ends taking calls. Those that were accepted go on; what serves them ends
// with the last of them. If none is left, Close returns when their peers have been
// told, or could have been.
func (s *Server) Close() {
	s.calls.Close()
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	_ = s.http.Shutdown(ctx) // the error is that of ctx
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
	var cfg *tls.Config
	if u.Scheme == "grpcs" {
		host, _, err := net.SplitHostPort(hostPort)
		if err != nil {
			return nil, err
		}
		if cfg, err = opts.ServerTLS(host); err != nil {
			return nil, err
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", hostPort)
	if err != nil {
		return nil, err
	}
	return &listener{NewServer(l, inbox.New[transport.Conn](), cfg, opts), l, u.Scheme + "://" + l.Addr().String()}, nil
}

// Package web has the common parts of the broker's HTTP doors, on top of net/http:
// authorization, limits of sizes and times, and cancelling the call of a client that has left.
package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
)

// A Handler answers one request. The context ends with [broker.ErrGone] when the client
// leaves, and with [broker.ErrShutdown] when the door shuts.
type Handler func(ctx context.Context, r *Request, w *Response)

// A Config is how a door differs from others.
type Config struct {
	Handler Handler
	// Limit is the largest body, in bytes.
	Limit int64
	// Fault returns the JSON body for a request that does not reach the handler.
	Fault func(path string, f *Fault) []byte
	Access
	// Pages admits web pages of this machine: the server answers preflight requests.
	Pages bool
}

// A Fault is what is wrong with a request.
type Fault struct {
	Status  int
	Message string
}

const maxHead = 32 << 10

// A Server serves a door. Set its fields before Serve.
type Server struct {
	door.Limits

	cfg      Config
	mu       sync.Mutex
	http     *http.Server
	listener net.Listener
	ctx      context.Context // of the server, while it serves
	cancel   context.CancelCauseFunc
	stopping bool
	silent   map[net.Conn]struct{} // connections without a request yet
	calls    sync.WaitGroup
	shutting sync.Once
	down     chan struct{} // closed when Shutdown has ended
}

// New returns a server of a door.
func New(cfg Config) *Server {
	cfg.Limit = cmp.Or(cfg.MaxBody, cfg.Limit)
	return &Server{cfg: cfg, ctx: context.Background(), silent: map[net.Conn]struct{}{}, down: make(chan struct{})}
}

// Serve accepts connections from ln until [Server.Shutdown], and returns when all have ended.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	s.Times.SetDefaults()
	s.listener, s.ctx, s.cancel = ln, ctx, cancel
	s.http = &http.Server{
		Handler:     s,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ReadTimeout: s.Times.Read, IdleTimeout: s.Times.Idle, MaxHeaderBytes: maxHead,
		ConnState: s.note,
		ErrorLog:  log.New(io.Discard, "", 0), // clients are told their errors
	}
	if s.stopping {
		ln.Close()
	}
	s.mu.Unlock()
	err := s.http.Serve(netutil.LimitListener(ln, cmp.Or(s.MaxConns, door.MaxConns)))
	s.mu.Lock()
	stopping := s.stopping
	s.mu.Unlock()
	if !stopping {
		return err
	}
	<-s.down
	s.calls.Wait()
	return nil
}

// Stop ends listening and closes the connections that are idle.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	if s.http != nil {
		s.http.SetKeepAlivesEnabled(false)
		s.listener.Close()
	}
	for c := range s.silent {
		c.Close()
	}
}

// hasEnded waits for running calls, and reports whether they ended before ctx.
func (s *Server) hasEnded(ctx context.Context) bool {
	ended := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// note tracks the connections that have sent nothing. net/http considers them busy, and would
// wait for seconds when it shuts down.
func (s *Server) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != http.StateNew {
		delete(s.silent, c)
		return
	}
	s.silent[c] = struct{}{}
	if s.stopping {
		c.Close()
	}
}

// Shutdown stops, waits for running calls until ctx ends, cancels the rest, lets them be
// answered, and closes the connections that are still open.
func (s *Server) Shutdown(ctx context.Context) {
	s.Stop()
	s.mu.Lock()
	srv, cancel := s.http, s.cancel
	s.mu.Unlock()
	defer s.shutting.Do(func() { close(s.down) })
	if srv == nil || srv.Shutdown(ctx) == nil && s.hasEnded(ctx) {
		return
	}
	cancel(broker.ErrShutdown)
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), door.Cleanup)
	defer done()
	if srv.Shutdown(ctx) != nil {
		srv.Close()
	}
}

// Context returns the context of the server, which ends when the door shuts. It is
// for handlers.
func (s *Server) Context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx
}

// Go does work in the background; Serve waits for it. It is for handlers.
func (s *Server) Go(work func()) { s.calls.Go(work) }

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	defer s.calls.Done()
	out := &Response{w: w, control: http.NewResponseController(w), write: s.Times.Write}
	req := &Request{Request: r, Client: r.RemoteAddr}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		req.Client = host
	}
	account, fault := s.cfg.admit(r, out)
	req.Account = account
	if fault == nil && s.cfg.isPreflight(r) {
		allow(out)
		return
	}
	if fault == nil {
		defer func() { inFlight.Add(-int64(cap(req.Body))) }()
		fault = s.readBody(req, out)
	}
	if fault != nil {
		out.refuse(fault.Status, s.cfg.Fault(r.URL.Path, fault), r.Body, 4*s.cfg.Limit+1<<20)
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(r.Context(), func() {
		cause := context.Cause(r.Context())
		if !errors.Is(cause, broker.ErrShutdown) {
			cause = broker.ErrGone
		}
		cancel(cause)
	})()
	s.cfg.Handler(ctx, req, out)
	out.finish()
}

// inFlight is the memory of the bodies of all requests, in bytes.
var inFlight atomic.Int64

// maxInFlight bounds inFlight.
const maxInFlight = 256 << 20

// readStep is the first buffer of a body. It grows with the bytes that arrive, not with the
// announced length.
const readStep = 16 << 10

// readBody reads the body to its end. Only then does net/http notice when the client leaves.
func (s *Server) readBody(r *Request, w *Response) *Fault {
	if r.ContentLength > s.cfg.Limit {
		return s.tooLarge()
	}
	begun, src := time.Now(), r.Request.Body
	for {
		if len(r.Body) == cap(r.Body) {
			if int64(len(r.Body)) > s.cfg.Limit {
				return s.tooLarge()
			}
			if len(r.Body) > 0 { // the time limit grows with the size, for slow links
				_ = w.control.SetReadDeadline(begun.Add(s.Times.Read + time.Duration(len(r.Body)>>16)*s.Times.Read/64))
			}
			if !r.grow(s.cfg.Limit) {
				return &Fault{http.StatusServiceUnavailable, "The broker is reading too many large requests at once: try again"}
			}
		}
		n, err := src.Read(r.Body[len(r.Body):cap(r.Body)])
		r.Body = r.Body[:len(r.Body)+n]
		switch {
		case err == io.EOF && int64(len(r.Body)) > s.cfg.Limit:
			return s.tooLarge()
		case err == io.EOF:
			_ = w.control.SetReadDeadline(time.Time{})
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &Fault{http.StatusRequestTimeout, "Request timed out"}
		case errors.Is(err, io.ErrUnexpectedEOF):
			return &Fault{http.StatusBadRequest, "Request body ended too early"}
		case err != nil:
			return &Fault{http.StatusBadRequest, "Malformed request body"}
		}
	}
}

// grow makes room for more of the body, unless the bodies of all requests take too much
// memory.
func (r *Request) grow(limit int64) bool {
	size := int64(max(readStep, 2*cap(r.Body)))
	if n := r.ContentLength; n >= 0 {
		size = min(size, n+1) // one more, to see the end
	}
	size = min(size, limit+1)
	if inFlight.Add(size) > maxInFlight {
		inFlight.Add(-size)
		return false
	}
	body := make([]byte, len(r.Body), size)
	copy(body, r.Body)
	inFlight.Add(-int64(cap(r.Body)))
	r.Body = body
	return true
}

func (s *Server) tooLarge() *Fault {
	return &Fault{http.StatusRequestEntityTooLarge, "Request body too large (max " + strconv.FormatInt(s.cfg.Limit, 10) + " bytes)"}
}

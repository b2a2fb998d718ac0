// Package web has the common parts of the broker's HTTP doors, on top of net/http:
// authorization, limits of sizes and times, and cancelling the call of a client that has left.
package web

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/transport"
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

// containerHosts are the names of the host machine in containers.
var containerHosts = []string{"host.docker.internal", "host.containers.internal", "gateway.docker.internal"}

// ContainerHost reports whether a Host header is a container's name for this machine
// and the peer is on this machine or on a container bridge. The name alone proves
// nothing, since anybody can resolve it to this machine.
func ContainerHost(host string, peer net.Addr) bool {
	if !slices.Contains(containerHosts, strings.ToLower(transport.Hostname(host))) {
		return false
	}
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return peer != nil && peer.Network() == "unix"
	}
	return tcp.IP.IsLoopback() || slices.ContainsFunc(links(), func(l link) bool { return l.reaches(tcp.IP) })
}

// A link is an address of a network interface.
type link struct {
	name string
	net  *net.IPNet // the address itself, and the mask
}

func links() []link {
	var all []link
	interfaces, _ := net.Interfaces() // without them, only loopback is admitted
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				all = append(all, link{i.Name, n})
			}
		}
	}
	return all
}

// bridges are the prefixes of the names of container engines' bridges.
var bridges = []string{"docker", "br-", "podman", "cni", "nerdctl", "lxcbr", "lxdbr", "incusbr"}

// reaches reports whether ip is the link's own address, or an address on a container bridge.
func (l link) reaches(ip net.IP) bool {
	isBridge := slices.ContainsFunc(bridges, func(b string) bool { return strings.HasPrefix(l.name, b) })
	return l.net.IP.Equal(ip) || isBridge && l.net.Contains(ip)
}

// A Request is one request, with its whole body. Its bytes are valid until the
// handler returns.
type Request struct {
	*http.Request
	// Body is the whole body, chunks joined.
	Body []byte
	// Client is the client's host.
	Client string
	// Account is the name of the client whose token was sent, "" for the broker's token.
	Account string
}

// HasLength reports whether the request says how long its body is, by a
// Content-Length or by chunks.
func (r *Request) HasLength() bool {
	return r.ContentLength != 0 || r.Header.Get("Content-Length") != ""
}

// Start returns the request line, for taps, without the key that Gemini's clients may put
// there.
func (r *Request) Start() string {
	target := r.RequestURI
	if strings.ContainsAny(target, "?&;") {
		target = keys.ReplaceAllString(target, "${1}***")
	}
	return r.Method + " " + target + " " + r.Proto
}

// keys are those in a query, however their name is escaped.
var keys = regexp.MustCompile(`(?i)([?&;](?:k|%6b)(?:e|%65)(?:y|%79)=)[^&;]*`)

// A Response is the answer to one request: one call of JSON, Send or Serve, or else Stream
// and any number of calls of Chunk.
type Response struct {
	w       http.ResponseWriter
	control *http.ResponseController
	write   time.Duration // the time limit of a write

	sent, streaming, broken bool
	err                     error
}

// Set adds a header.
func (w *Response) Set(name, value string) { w.w.Header().Set(name, value) }

// Close ends the connection after the answer.
func (w *Response) Close() { w.Set("Connection", "close") }

// JSON answers with a JSON body.
func (w *Response) JSON(status int, body []byte) { w.Send(status, "application/json", body) }

// Send answers with a body.
func (w *Response) Send(status int, contentType string, body []byte) {
	w.Set("Content-Type", contentType)
	w.Set("Content-Length", strconv.Itoa(len(body)))
	w.sent = true
	w.extend(len(body))
	w.w.WriteHeader(status)
	_, w.err = w.w.Write(body)
}

// Serve lets a handler of net/http answer.
func (w *Response) Serve(r *Request, h http.Handler) {
	w.sent = true
	h.ServeHTTP(extending{w.w, w}, r.Request)
}

// extending sets the deadline of each write of such a handler.
type extending struct {
	http.ResponseWriter
	of *Response
}

// Unwrap lets such a handler hijack the connection.
func (e extending) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e extending) Write(p []byte) (int, error) {
	e.of.extend(len(p))
	return e.ResponseWriter.Write(p)
}

// Stream begins an answer of events, which Chunk continues.
func (w *Response) Stream(status int) {
	w.Set("Content-Type", "text/event-stream")
	w.sent, w.streaming = true, true
	w.w.WriteHeader(status)
}

// Chunk writes and flushes the next piece of a stream. The error is [broker.ErrGone].
func (w *Response) Chunk(p []byte) error {
	if w.err == nil && len(p) > 0 {
		w.extend(len(p))
		_, err := w.w.Write(p)
		if err != nil || w.control.Flush() != nil {
			w.err = broker.ErrGone
		}
	}
	return w.err
}

// extend sets the deadline for a write of n bytes.
func (w *Response) extend(n int) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.write + time.Duration(n>>16)*w.write/64))
}

// Streaming reports whether a stream has begun.
func (w *Response) Streaming() bool { return w.streaming }

// Break cuts a stream so that the client notices.
func (w *Response) Break() { w.broken = true }

func (w *Response) finish() {
	if !w.sent {
		w.JSON(http.StatusInternalServerError, []byte("{}"))
	}
	if w.broken {
		panic(http.ErrAbortHandler)
	}
}

// drainTime is how long a rejected client may keep writing before the connection closes.
const drainTime = 3 * time.Second

// refuse answers a request without its body, and closes the connection. Some of the body is
// read first: a reset would lose the answer.
func (w *Response) refuse(status int, answer []byte, rest io.Reader, most int64) {
	_ = w.control.EnableFullDuplex()
	w.Close()
	w.JSON(status, answer)
	if w.control.Flush() == nil {
		_ = w.control.SetReadDeadline(time.Now().Add(drainTime))
		_, _ = io.CopyN(io.Discard, rest, most)
	}
}

// An Access says which requests are admitted. Without a token, web pages of other machines
// are not: a browser would send their requests to any door of this machine.
type Access struct {
	// Token is the token that clients must send, as a bearer token, as X-Api-Key or as
	// Gemini's clients do; "" admits all.
	Token string
	// Clients are the names of clients with tokens of their own, by token.
	Clients map[string]string
	// Prefix is a secret at the start of each request's path; "" is none.
	Prefix string
	// AnyHost accepts requests for any host. If false, web pages cannot reach the door by
	// a name that resolves to this machine.
	AnyHost bool
	// Containers accepts the names by which containers call this machine, from peers
	// that [ContainerHost] admits.
	Containers bool
	// MaxBody replaces the door's own limit of bodies, unless it is 0.
	MaxBody int64
}

// NeedsToken reports whether clients must send a token.
func (a *Access) NeedsToken() bool { return a.Token != "" || len(a.Clients) > 0 }

// admit returns the client of a request, or a fault if the request is not admitted. It does
// not look at the body.
func (c *Config) admit(r *http.Request, w *Response) (account string, fault *Fault) {
	if len(r.Header["Origin"]) > 0 && c.Pages && !isForeign(r) {
		w.Set("Access-Control-Allow-Origin", "*")
	}
	account, known := c.whose(r)
	switch {
	case !c.hasPrefix(r.URL.Path):
		return "", &Fault{http.StatusNotFound, "Not found"}
	case !c.AnyHost && !transport.LocalHost(r.Host) && !(c.Containers && isContainer(r)):
		return "", &Fault{http.StatusForbidden, "Forbidden host: ask this machine by an address, or as localhost"}
	case isForeign(r):
		return "", &Fault{http.StatusForbidden, "Forbidden origin: web pages of other machines may not ask a broker"}
	case c.NeedsToken() && !c.isPreflight(r) && !known:
		return "", &Fault{http.StatusUnauthorized, "Unauthorized: show the broker's token as Authorization: Bearer TOKEN"}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return "", &Fault{http.StatusUnsupportedMediaType, "Content-Encoding is not supported: send the body as it is"}
	}
	return account, nil
}

// hasPrefix reports whether a path begins with the secret prefix, in constant time.
func (a *Access) hasPrefix(path string) bool {
	return len(path) >= len(a.Prefix) && subtle.ConstantTimeCompare([]byte(path[:len(a.Prefix)]), []byte(a.Prefix)) == 1
}

// isContainer reports whether a request comes from a container, by its name for this machine.
func isContainer(r *http.Request) bool {
	peer, err := net.ResolveTCPAddr("tcp", r.RemoteAddr)
	return err == nil && ContainerHost(r.Host, peer)
}

// whose returns the client whose token a request has, and whether the token is known. All
// tokens are compared, so that the time reveals nothing.
func (c *Config) whose(r *http.Request) (account string, known bool) {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if shown = strings.TrimSpace(shown); !strings.EqualFold(scheme, "Bearer") { // as clients of Anthropic's and Gemini's APIs send it
		shown = cmp.Or(r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key"))
	}
	if c.Token != "" {
		known = subtle.ConstantTimeCompare([]byte(shown), []byte(c.Token)) == 1
	}
	for token, name := range c.Clients {
		if subtle.ConstantTimeCompare([]byte(shown), []byte(token)) == 1 {
			account, known = name, true
		}
	}
	return account, known
}

// isPreflight reports whether a request is a browser's preflight request, which has no token.
func (c *Config) isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && c.Pages && r.Header.Get("Access-Control-Request-Method") != ""
}

// allow answers a preflight request.
func allow(w *Response) {
	w.Set("Access-Control-Allow-Methods", "GET, POST")
	w.Set("Access-Control-Allow-Headers", "Authorization, *")
	w.Set("Access-Control-Max-Age", "600")
	w.Send(http.StatusOK, "text/plain", nil)
}

// isForeign reports whether a request is that of a web page of another machine, or of an unknown
// one. Programs send no origin, or one with a scheme of their own, which no page has.
func isForeign(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Origin"], func(origin string) bool {
		scheme, _, ok := strings.Cut(origin, "://")
		isPrograms := ok && !slices.Contains([]string{"http", "https", "file"}, scheme) && !strings.HasSuffix(scheme, "-extension")
		return origin != "" && !isPrograms && !transport.OwnPage(origin, r.Host)
	})
}

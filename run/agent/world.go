package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/relay/wrap"
)

// A World answers for everything outside of a run, so that nothing leaves it unless the World sends it.
type World struct {
	// Handler answers requests. The URL of a request has the scheme and the host that the agent has asked.
	Handler http.Handler
	// Refuses says why a host, HOST:PORT, cannot be reached; nil if it can. Listed are model APIs and hosts that
	// the agent's configuration names.
	Refuses func(address string, listed bool) error
	// Servers tells the hooks which servers over stdio are played.
	Servers Servers
	// Replays is the id of the run that is played.
	Replays string
	// Isolate gives the agent a network of its own, in which there is only the proxy.
	Isolate bool
	// Tell returns the beginning of the line at the end, given what the servers have played.
	Tell func([]ServerNote) string
}

// Servers are the servers over stdio that hooks play.
type Servers struct {
	// Files are the records of a server, by the name of its wire, in the order in which it was started.
	Files map[string][]string `json:"files"`
	// Tools are programs that the agent has spoken with as with servers, but not in a protocol of such.
	Tools []string `json:"tools,omitempty"`
	// Live are the names of servers that run for real; AllLive means all.
	Live    []string `json:"live,omitempty"`
	AllLive bool     `json:"all_live,omitempty"`
	// Recorded are those that are played even then.
	Recorded []string `json:"recorded,omitempty"`
}

// Plays reports whether a server is played.
func (s *Servers) Plays(name string) bool {
	if s != nil && slices.Contains(s.Tools, fileName(name)) {
		return false
	}
	return s != nil && (slices.Contains(s.Recorded, name) || !s.AllLive && !slices.Contains(s.Live, name))
}

// FilesOf returns the records of a server.
func (s *Servers) FilesOf(name string) []string { return s.Files[fileName(name)] }

// A ServerNote is what a hook tells of a server that it plays, as it happens: an agent may kill it at any time.
type ServerNote struct {
	Name string `json:"name"`
	// Recorded are the requests in the record of this start: frame number and what they are.
	Recorded map[int64]string `json:"recorded,omitempty"`
	// Played is the frame of a request that was answered, and Refused says why one was not.
	Played  int64  `json:"played,omitempty"`
	Refused string `json:"refused,omitempty"`
	// Time is set when the note is written.
	Time time.Time `json:"time"`
}

// A within serves a World on connections inside this process. Clients may speak TLS, whose certificates are of
// the run's authority.
type within struct {
	handler http.Handler
	secure  *tls.Config
	server  http.Server
	conns   chan net.Conn
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

// An addressed connection knows what its client has asked for.
type addressed struct {
	net.Conn
	address string
}

type addressKey struct{}

func newWithin(handler http.Handler, a *authority) *within {
	w := &within{handler: handler, conns: make(chan net.Conn)}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.secure = &tls.Config{NextProtos: []string{"h2", "http/1.1"}, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name := hello.ServerName
		if name == "" {
			name, _, _ = net.SplitHostPort(hello.Conn.(*addressed).address)
		}
		leaf, err := a.leaf(name)
		if err != nil {
			return nil, err
		}
		return &tls.Config{Certificates: []tls.Certificate{*leaf}, NextProtos: []string{"h2", "http/1.1"}}, nil
	}}
	w.server = http.Server{
		ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return w.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn()
			}
			return context.WithValue(ctx, addressKey{}, c.(*addressed).address)
		},
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			address, _ := r.Context().Value(addressKey{}).(string)
			r.URL.Scheme, r.URL.Host = "http", address
			if r.TLS != nil {
				r.URL.Scheme = "https"
			}
			handler.ServeHTTP(rw, r)
		}),
	}
	w.running.Go(func() { _ = w.server.Serve(w) })
	return w
}

// dial returns a connection to the world. The first byte shows whether its client speaks TLS.
func (w *within) dial(address string) (net.Conn, error) {
	near, far := net.Pipe()
	client, server := &halfPipe{Conn: near}, &halfPipe{Conn: far}
	client.other, server.other = server, client
	if w.ctx.Err() != nil {
		near.Close()
		return nil, net.ErrClosed
	}
	w.running.Go(func() {
		c := &buffered{Conn: server}
		stop := context.AfterFunc(w.ctx, func() { c.Close() })
		defer stop()
		first, err := c.peek()
		if err != nil {
			c.Close()
			return
		}
		var conn net.Conn = &addressed{c, address}
		const handshake = 0x16
		if first == handshake {
			conn = tls.Server(conn, w.secure)
		}
		select {
		case w.conns <- conn:
		case <-w.ctx.Done():
			c.Close()
		}
	})
	return client, nil
}

// Accept, Close and Addr make it the listener of its own server.
func (w *within) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing; see close.
func (w *within) Close() error { return nil }

// Addr has no meaning.
func (w *within) Addr() net.Addr { return &net.UnixAddr{Name: "world"} }

// close ends all connections, and waits for their requests.
func (w *within) close() {
	w.stop()
	_ = w.server.Close()
	w.running.Wait()
}

// A halfPipe is an end of net.Pipe with a half-close.
type halfPipe struct {
	net.Conn
	other *halfPipe

	mu    sync.Mutex
	ended bool // the other end sends no more
}

// CloseWrite has the other end read the end.
func (h *halfPipe) CloseWrite() error {
	o := h.other
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	return o.Conn.SetReadDeadline(time.Unix(1, 0)) // wakes a reader
}

func (h *halfPipe) isEnded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

func (h *halfPipe) Read(b []byte) (int, error) {
	if h.isEnded() {
		return 0, io.EOF
	}
	n, err := h.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && h.isEnded() {
		err = io.EOF
	}
	return n, err
}

// SetReadDeadline keeps that of the end.
func (h *halfPipe) SetReadDeadline(t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil
	}
	return h.Conn.SetReadDeadline(t)
}

func (h *halfPipe) SetDeadline(t time.Time) error {
	return errors.Join(h.SetReadDeadline(t), h.SetWriteDeadline(t))
}

// replays returns the id of the run that a World plays, which may be nil.
func replays(w *World) string {
	if w == nil {
		return ""
	}
	return w.Replays
}

// Outside returns the transport by which requests of a run leave it: through the user's own proxy, and to servers that
// the user's programs trust.
func Outside(getenv func(string) string) *http.Transport {
	onward := proxyOf(getenv)
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) { return onward(r.URL) }, DisableCompression: true, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: userRoots(getenv)}, IdleConnTimeout: 90 * time.Second,
	}
}

// A door is a port on loopback at which a run serves its agent. An isolated one has its own loopback, where serve
// gets the same port.
type door struct {
	port  int
	serve func(net.Listener)
}

// insideKey marks the requests from within the network of an isolated agent: only its processes are there.
type insideKey struct{}

// serveInside serves the proxy there.
func (p *proxy) serveInside(l net.Listener) {
	s := http.Server{
		ErrorLog: p.server.ErrorLog, ReadHeaderTimeout: patience, Handler: p.server.Handler,
		BaseContext: func(net.Listener) context.Context { return context.WithValue(p.ctx, insideKey{}, true) },
	}
	p.running.Go(func() {
		defer context.AfterFunc(p.ctx, func() { _ = s.Close() })()
		_ = s.Serve(l)
	})
}

// An isolationError says why an agent got no network of its own.
type isolationError struct{ error }

func (e *isolationError) Error() string {
	return "--isolate: the system gives the agent no network of its own: " + e.error.Error() + "; without --isolate, what the agent asks past its proxy is not refused"
}

func (e *isolationError) Unwrap() error { return e.error }

// ServerNames returns the names of an agent's MCP servers over HTTP, by HOST:PORT.
func ServerNames(program string, getenv func(string) string) map[string]string {
	here, _ := os.Getwd()
	names := map[string]string{}
	for _, file := range (&overrides{getenv: getenv, here: here}).settings(KindOf(program).Name) {
		for _, s := range wrap.ServersIn(file) {
			if u, err := url.Parse(s.URL); err == nil && u.Host != "" && (s.Project == "" || s.Project == here) {
				port := u.Port()
				if port == "" {
					port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
				}
				names[net.JoinHostPort(u.Hostname(), port)] = s.Short()
			}
		}
	}
	return names
}

package agent

import (
	"bufio"
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"
	socks "golang.org/x/net/proxy"

	"github.com/wirectl/wirectl/decode/pin"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/render"
	relayhttp "github.com/wirectl/wirectl/relay/httpproxy"
)

// A proxy is the forward proxy of a run. It opens the connections to some hosts, and passes on all others unread.
type proxy struct {
	listener  net.Listener
	token     string
	authority *authority
	roots     *x509.CertPool                   // of servers
	record    *Recorder                        // nil opens nothing
	onward    func(*url.URL) (*url.URL, error) // the user's own proxy
	server    http.Server
	late      func() []string // the hosts that a run within this one has added
	world     *within         // takes the place of all servers, if not nil
	refuses   func(address string, listed bool) error

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	conns  map[io.Closer]bool // nil when the proxy is closed
	listed []string           // patterns of hosts to open: HOST or HOST:PORT
	hosts  map[string]*host   // that were reached, by HOST:PORT
}

// A host is what a run knows of one that its agent has reached.
type host struct {
	opened, unread int             // connections
	up, down       int64           // bytes of those that were not read
	refused        map[string]bool // the TLS clients that refused our certificate
	fluent         map[string]bool // the TLS clients that accepted it, and spoke
	blind          string          // why it is not opened although it is listed
	failure        string          // why a connection to it could not be made
	isAlien        bool            // it is not to be opened, and could not be reached
}

func (p *proxy) url(user string) *url.URL {
	return &url.URL{Scheme: "http", User: url.UserPassword(user, p.token), Host: p.listener.Addr().String()}
}

// newProxy returns a proxy that listens on loopback.
func newProxy(a *authority, token string, record *Recorder, getenv func(string) string) (*proxy, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		return nil, err
	}
	p := &proxy{ctx: ctx, cancel: cancel, listener: l, token: token, authority: a, record: record, roots: userRoots(getenv), hosts: map[string]*host{}, conns: map[io.Closer]bool{}}
	p.onward = proxyOf(getenv)
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host }, Transport: p.plain(), FlushInterval: -1,
		ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "wirectl: "+err.Error(), http.StatusBadGateway)
		},
	}
	p.server = http.Server{
		ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: patience, BaseContext: func(net.Listener) context.Context { return p.ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, inside := r.Context().Value(insideKey{}).(bool)
			switch {
			case !p.admits(r) && !(inside && r.Header.Get("Proxy-Authorization") == ""):
				w.Header().Set("Proxy-Authenticate", `Basic realm="wirectl run"`)
				http.Error(w, "wirectl: this proxy is for one run only", http.StatusProxyAuthRequired)
			case r.Method == http.MethodConnect:
				p.connect(w, r)
			case r.URL.Scheme == "http" && r.URL.Host != "":
				_ = http.NewResponseController(w).EnableFullDuplex() // else an answer that is faster than its request is cut
				forward.ServeHTTP(w, r)
			default:
				http.Error(w, "wirectl: this is a proxy: it takes CONNECT, and requests for http:// addresses", http.StatusBadRequest)
			}
		}),
	}
	p.running.Go(func() { _ = p.server.Serve(l) })
	return p, nil
}

// proxyOf returns the function that finds the user's own proxy for an address; nil for none.
func proxyOf(getenv func(string) string) func(*url.URL) (*url.URL, error) {
	either := func(name string) string { return cmp.Or(getenv(name), getenv(strings.ToLower(name))) }
	every := either("ALL_PROXY")
	cfg := httpproxy.Config{HTTPProxy: cmp.Or(either("HTTP_PROXY"), every), HTTPSProxy: cmp.Or(either("HTTPS_PROXY"), every), NoProxy: either("NO_PROXY")}
	cfg.HTTPProxy, cfg.HTTPSProxy = escaped(cfg.HTTPProxy), escaped(cfg.HTTPSProxy)
	return cfg.ProxyFunc()
}

// escaped returns the address of a proxy as a URL. Most programs take passwords with characters that should be escaped.
func escaped(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "http", address
	}
	at := strings.LastIndexByte(rest, '@')
	if _, err := url.Parse(scheme + "://" + rest); err == nil || at < 0 {
		return address
	}
	name, password, _ := strings.Cut(rest[:at], ":")
	for _, text := range []*string{&name, &password} {
		if plain, err := url.PathUnescape(*text); err == nil {
			*text = plain
		}
	}
	return scheme + "://" + url.UserPassword(name, password).String() + rest[at:]
}

// close ends all connections, and waits until they are recorded.
func (p *proxy) close() {
	p.cancel()
	_ = p.server.Close()
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for c := range conns {
		c.Close()
	}
	if p.world != nil {
		p.world.close()
	}
	p.running.Wait()
}

// inhabit puts a world in the place of all servers.
func (p *proxy) inhabit(w *World) {
	p.world, p.refuses = newWithin(w.Handler, p.authority), w.Refuses
	p.roots = p.roots.Clone()
	p.roots.AddCert(p.authority.cert)
	p.onward = func(*url.URL) (*url.URL, error) { return nil, nil }
}

// track notes a connection that close ends and waits for, unless the proxy is closed. The caller must untrack it.
func (p *proxy) track(c io.Closer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return false
	}
	p.conns[c] = true
	p.running.Add(1)
	return true
}

func (p *proxy) untrack(c io.Closer) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	p.running.Done()
}

// admits reports whether a client may use the proxy: by its credentials, or without any as a process of this user.
func (p *proxy) admits(r *http.Request) bool {
	if given := r.Header.Get("Proxy-Authorization"); given != "" {
		kind, text, _ := strings.Cut(given, " ")
		pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		_, token, _ := strings.Cut(string(pair), ":")
		return err == nil && strings.EqualFold(kind, "basic") && subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) == 1
	}
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	server, failed := netip.ParseAddrPort(p.listener.Addr().String())
	return err == nil && failed == nil && isOwn(client, server)
}

// at returns what is known of the host at an address.
func (p *proxy) at(address string) *host {
	h := p.hosts[address]
	if h == nil {
		h = &host{refused: map[string]bool{}, fluent: map[string]bool{}}
		p.hosts[address] = h
	}
	return h
}

// list adds hosts to open.
func (p *proxy) list(hosts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range hosts {
		if h = strings.ToLower(strings.TrimSpace(h)); h != "" && !slices.Contains(p.listed, h) {
			p.listed = append(p.listed, h)
		}
	}
}

// opens reports whether connections to an address are opened.
func (p *proxy) opens(address string) bool {
	return p.record != nil && (p.world != nil || p.isListed(address))
}

func (p *proxy) isListed(address string) bool {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	p.mu.Lock()
	listed := matches(p.listed, name, address)
	p.mu.Unlock()
	return listed || p.late != nil && matches(p.late(), name, address)
}

// matches reports whether one of some patterns matches one of the names of a host.
func matches(patterns []string, names ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return slices.ContainsFunc(names, func(name string) bool { found, _ := path.Match(pattern, name); return found })
	})
}

// dial connects to an address, through the user's own proxy if there is one.
func (p *proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	via, err := p.onward(&url.URL{Scheme: "https", Host: address})
	if err != nil {
		return nil, err
	}
	if via == nil {
		return p.dialTCP(ctx, "tcp", address)
	}
	port := map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[via.Scheme]
	via.Host = net.JoinHostPort(via.Hostname(), cmp.Or(via.Port(), port, "80"))
	if strings.HasPrefix(via.Scheme, "socks") {
		dialer, err := socks.FromURL(via, dialer(p.dialTCP))
		if err != nil {
			return nil, err
		}
		return dialer.(socks.ContextDialer).DialContext(ctx, "tcp", address)
	}
	c, err := p.dialTCP(ctx, "tcp", via.Host)
	if err == nil && via.Scheme == "https" {
		secure := tls.Client(c, &tls.Config{ServerName: via.Hostname(), RootCAs: p.roots})
		if err = secure.HandshakeContext(ctx); err != nil {
			c.Close()
		}
		c = secure
	}
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if via.User != nil {
		password, _ := via.User.Password()
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(via.User.Username()+":"+password)))
	}
	reader := bufio.NewReader(c)
	err = request.Write(c)
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(reader, request) //nolint:bodyclose // what follows is the tunnel
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the proxy %s answered %s", via.Host, answer.Status)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	ahead, _ := reader.Peek(reader.Buffered())
	return &buffered{Conn: c, ahead: ahead}, nil
}

// A dialer is a function as an interface.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d(context.Background(), network, address)
}

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}

var errItself = errors.New("the proxy does not connect to itself")

func (p *proxy) dialTCP(ctx context.Context, network, address string) (net.Conn, error) {
	if p.world != nil {
		address = strings.ToLower(address)
		if err := p.refuses(address, p.isListed(address)); err != nil {
			return nil, err
		}
		return p.world.dial(address)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err == nil && c.RemoteAddr().String() == p.listener.Addr().String() {
		c.Close()
		return nil, errItself
	}
	return c, err
}

// connect answers CONNECT.
func (p *proxy) connect(w http.ResponseWriter, r *http.Request) {
	address := strings.ToLower(r.Host)
	if _, _, err := net.SplitHostPort(address); err != nil {
		http.Error(w, "wirectl: CONNECT takes HOST:PORT", http.StatusBadRequest)
		return
	}
	server, err := p.dial(r.Context(), address)
	if err != nil {
		p.markFailed(r.Context(), address, err)
		http.Error(w, "wirectl: "+err.Error(), http.StatusBadGateway)
		return
	}
	conn, stream, err := http.NewResponseController(w).Hijack()
	if err != nil {
		server.Close()
		return
	}
	ahead, _ := stream.Reader.Peek(stream.Reader.Buffered())
	c := &buffered{Conn: conn, ahead: slices.Clone(ahead)}
	if !p.track(c) {
		abort(c, server)
		return
	}
	defer p.untrack(c)
	defer context.AfterFunc(p.ctx, func() { server.Close() })()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		abort(c, server)
		return
	}
	if p.opens(address) {
		p.openTLS(c, server, address)
	} else {
		p.tunnel(c, server, address)
	}
}

// tunnel passes on a connection unread.
func (p *proxy) tunnel(c *buffered, server net.Conn, address string) {
	up, down := p.relay(c, server, nil, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.at(address)
	h.unread, h.up, h.down = h.unread+1, h.up+up, h.down+down
}

// patience is how long a server may take for the handshake of TLS, and a client for the head of a request.
const patience = time.Minute

// errUnread ends a handshake of TLS in favour of a tunnel.
var errUnread = errors.New("the connection is passed on unread")

// openTLS is between the two ends of a connection, each of which speaks TLS with us. The server comes
// first, so that the client gets the protocol that the server has chosen.
func (p *proxy) openTLS(c *buffered, server net.Conn, address string) {
	name, _, _ := net.SplitHostPort(address)
	first, err := c.peek()
	if err != nil {
		abort(c, server)
		return
	}
	const handshake = 0x16
	if first != handshake { // as for ws://
		p.speak(c, server, "http://"+address, carrier.HTTP1, address, "")
		return
	}
	var stack, why string
	var upstream *tls.Conn
	c.hold()
	secure := tls.Server(c, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		stack = stackOf(hello)
		if p.isRefused(address, stack) {
			return nil, errUnread
		}
		name := cmp.Or(strings.ToLower(hello.ServerName), name)
		wants := false
		cfg := &tls.Config{
			ServerName: name, RootCAs: p.roots, NextProtos: hello.SupportedProtos,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				wants = true // which only the client has
				return nil, errUnread
			},
		}
		if p.record.refuses != nil && !matches(modelHosts, name) { // only in HTTP/1 can the answer to one request be changed
			cfg.NextProtos = slices.DeleteFunc(slices.Clone(cfg.NextProtos), func(name string) bool { return name == "h2" })
		}
		upstream = tls.Client(server, cfg)
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		if err := upstream.HandshakeContext(ctx); err != nil {
			if why = err.Error(); wants {
				why = "it asks for a certificate of the client"
			}
			return nil, errUnread
		}
		leaf, err := p.authority.leaf(name)
		if err != nil {
			return nil, err
		}
		mine := &tls.Config{Certificates: []tls.Certificate{*leaf}}
		if chosen := upstream.ConnectionState().NegotiatedProtocol; chosen != "" {
			mine.NextProtos = []string{chosen}
		}
		c.release()
		return mine, nil
	}})
	err = secure.HandshakeContext(p.ctx)
	switch {
	case errors.Is(err, errUnread):
		c.rewind()
		if why != "" { // the server has been spoken to
			server.Close()
			p.mu.Lock()
			p.at(address).blind = why
			p.mu.Unlock()
			if server, err = p.dial(p.ctx, address); err != nil {
				abort(c)
				return
			}
			defer context.AfterFunc(p.ctx, func() { server.Close() })()
		}
		p.tunnel(c, server, address)
	case err != nil:
		if upstream != nil && !c.isHeld() && p.ctx.Err() == nil {
			p.markRefused(address, stack)
		}
		abort(c, server)
	default:
		kind := carrier.HTTP1
		if upstream.ConnectionState().NegotiatedProtocol == "h2" {
			kind = carrier.H2
		}
		p.speak(secure, upstream, "https://"+strings.TrimSuffix(address, ":443"), kind, address, stack)
	}
}

// speak relays and records an opened connection.
func (p *proxy) speak(c, server net.Conn, name string, kind carrier.Kind, address, stack string) {
	tap, pass := p.record.connect(kind, name)
	up, _ := p.relay(c, server, tap, pass)
	p.mu.Lock()
	h := p.at(address)
	h.opened++
	spoke := up > 0
	refused := !spoke && stack != "" && !h.fluent[stack] && p.ctx.Err() == nil
	if spoke {
		h.fluent[stack] = true
	}
	p.mu.Unlock()
	if refused { // some clients only close the connection
		p.markRefused(address, stack)
	}
}

// markRefused remembers that a TLS client has refused our certificate for a host.
func (p *proxy) markRefused(address, stack string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at(address).refused[stack] = true
}

// markFailed remembers why a host to open cannot be reached, unless the client has left.
func (p *proxy) markFailed(ctx context.Context, address string, err error) {
	if ctx.Err() != nil || p.world != nil { // whose refusals are told apart
		return
	}
	opens := p.opens(address)
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.at(address); opens {
		h.failure = err.Error()
	} else {
		h.isAlien = true
	}
}

// unread returns the hosts that were not read.
func (p *proxy) unread() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(p.hosts)) {
		if h := p.hosts[address]; h.unread > 0 || h.isAlien || h.failure != "" && h.opened == 0 {
			names = append(names, strings.TrimSuffix(address, ":443"))
		}
	}
	return names
}

// hasFailed reports whether a host to open could not be reached.
func (p *proxy) hasFailed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hosts {
		if h.failure != "" {
			return true
		}
	}
	return false
}

func (p *proxy) isRefused(address, stack string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[address]
	return h != nil && h.refused[stack]
}

// stackOf tells one TLS client from another by what it offers.
func stackOf(hello *tls.ClientHelloInfo) string {
	const grease = 0x0a0a // RFC 8701: these values are random
	ciphers := slices.DeleteFunc(slices.Clone(hello.CipherSuites), func(c uint16) bool { return c&0x0f0f == grease })
	return fmt.Sprint(ciphers, hello.SignatureSchemes)
}

// relay moves bytes between both ends until both directions have ended, and closes them. It returns the
// bytes that the client and the server have sent.
func (p *proxy) relay(c, server net.Conn, tap *relayhttp.Tap, pass passFunc) (up, down int64) {
	move := func(dir frame.Dir, from, to net.Conn) (n int64) {
		err := error(nil)
		if tap == nil {
			n, err = io.Copy(to, from)
		} else {
			n, err = copyTapped(to, from, dir, tap, pass)
		}
		switch {
		case errors.Is(err, pin.ErrRefused) && n > 0: // the client is answered
			closeWrite(to, true)
			server.Close()
		case err == nil || errors.Is(err, io.ErrUnexpectedEOF): // which is the end of TLS without its farewell
			tap.HalfClose(dir)
			closeWrite(to, err == nil)
		default:
			abort(c, server)
		}
		return n
	}
	var both sync.WaitGroup
	both.Go(func() { up = move(frame.C2U, c, server) })
	down = move(frame.U2C, server, c)
	both.Wait()
	c.Close()
	server.Close()
	if p.ctx.Err() != nil {
		tap.Stop()
	}
	tap.Close(frame.U2C)
	return up, down
}

// copyTapped copies until the end, which is no error. The tap gets bytes before they are forwarded, as far as they pass.
func copyTapped(to io.Writer, from io.Reader, dir frame.Dir, tap *relayhttp.Tap, pass passFunc) (n int64, err error) {
	buf := make([]byte, 64<<10)
	for {
		m, err := from.Read(buf)
		if m > 0 {
			tap.Feed(dir, buf[:m])
		}
		out, refused := buf[:m], error(nil)
		if pass != nil && (m > 0 || err == io.EOF) {
			out, refused = pass(dir, out)
		}
		if n += int64(len(out)); len(out) > 0 {
			if _, err := to.Write(out); err != nil {
				return n, err
			}
		}
		if refused != nil {
			return int64(len(out)), refused
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// closeWrite ends a direction, with the farewell of TLS if the other end has said its own.
func closeWrite(c net.Conn, farewell bool) {
	if t, ok := c.(*tls.Conn); ok {
		if farewell {
			_ = t.CloseWrite()
		}
		c = t.NetConn()
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// abort closes connections so that the ends see a failure.
func abort(conns ...net.Conn) {
	for _, c := range conns {
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn()
		}
		if held, ok := c.(*buffered); ok {
			c = held.Conn
		}
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		c.Close()
	}
}

// A buffered connection is one of which some bytes have been read. While it is held, what is read is kept,
// and nothing is written.
type buffered struct {
	net.Conn
	ahead []byte
	held  bool
	kept  []byte
}

func (c *buffered) Read(b []byte) (n int, err error) {
	if len(c.ahead) > 0 {
		n = copy(b, c.ahead)
		c.ahead = c.ahead[n:]
	} else {
		n, err = c.Conn.Read(b)
	}
	if c.held {
		c.kept = append(c.kept, b[:n]...)
	}
	return n, err
}

func (c *buffered) Write(b []byte) (int, error) {
	if c.held {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *buffered) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// peek returns the first byte, which stays to be read.
func (c *buffered) peek() (byte, error) {
	if len(c.ahead) == 0 {
		var b [1]byte
		if _, err := io.ReadFull(c.Conn, b[:]); err != nil {
			return 0, err
		}
		c.ahead = b[:]
	}
	return c.ahead[0], nil
}

func (c *buffered) hold()        { c.held = true }
func (c *buffered) isHeld() bool { return c.held }
func (c *buffered) release()     { c.held, c.kept = false, nil }

// rewind makes what was read while the connection was held to be read again.
func (c *buffered) rewind() { c.held, c.ahead, c.kept = false, append(c.kept, c.ahead...), nil }

// plain returns what sends requests for http://. Those for listed hosts have connections of their own, which
// are recorded.
func (p *proxy) plain() http.RoundTripper {
	via := func(opened bool) *http.Transport {
		return &http.Transport{
			Proxy: func(r *http.Request) (*url.URL, error) { return p.onward(r.URL) }, DisableCompression: true,
			IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 64,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := p.dialTCP(ctx, network, address)
				if err != nil {
					return nil, err
				}
				if !p.track(c) {
					c.Close()
					return nil, net.ErrClosed
				}
				t := &tapped{Conn: c, proxy: p, address: strings.ToLower(address)}
				if opened {
					t.tap, t.pass = p.record.connect(carrier.HTTP1, "http://"+strings.TrimSuffix(t.address, ":80"))
				}
				return t, nil
			},
		}
	}
	opened, unread := via(true), via(false)
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if p.opens(strings.ToLower(net.JoinHostPort(r.URL.Hostname(), cmp.Or(r.URL.Port(), "80")))) {
			return opened.RoundTrip(r)
		}
		return unread.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// tapped is a connection to a server that counts its bytes, or records them.
type tapped struct {
	net.Conn
	proxy   *proxy
	address string
	tap     *relayhttp.Tap // or nil
	pass    passFunc       // or nil
	ahead   []byte         // passed, and not read yet
	ended   error          // of reading, after that

	mu       sync.Mutex
	up, down int64
	closed   bool
}

func (t *tapped) Read(b []byte) (n int, err error) {
	if t.pass == nil {
		return t.read(b)
	}
	for len(t.ahead) == 0 && t.ended == nil {
		n, t.ended = t.read(b)
		if n == 0 && t.ended != io.EOF {
			break
		}
		out, refused := t.pass(frame.U2C, b[:n])
		if t.ahead = slices.Clone(out); refused != nil {
			t.ended = refused
		}
	}
	if len(t.ahead) == 0 {
		return 0, t.ended
	}
	n = copy(b, t.ahead)
	t.ahead = t.ahead[n:]
	return n, nil
}

func (t *tapped) read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.down += int64(n)
		t.tap.Feed(frame.U2C, b[:n])
		if err == io.EOF {
			t.tap.HalfClose(frame.U2C)
		}
	}
	return n, err
}

func (t *tapped) Write(b []byte) (int, error) {
	t.mu.Lock()
	if !t.closed {
		t.up += int64(len(b))
		t.tap.Feed(frame.C2U, b)
	}
	t.mu.Unlock()
	if t.pass != nil {
		_, _ = t.pass(frame.C2U, b) // only answers are refused
	}
	return t.Conn.Write(b)
}

func (t *tapped) Close() error {
	err := t.Conn.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return err
	}
	t.closed = true
	defer t.proxy.untrack(t.Conn)
	if t.proxy.ctx.Err() != nil {
		t.tap.Stop()
	}
	t.tap.Close(frame.U2C)
	t.proxy.mu.Lock()
	defer t.proxy.mu.Unlock()
	h := t.proxy.at(t.address)
	if t.tap != nil {
		h.opened++
	} else {
		h.unread, h.up, h.down = h.unread+1, h.up+t.up, h.down+t.down
	}
	return err
}

// seen returns the hosts of which something was recorded.
func (p *proxy) seen() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(p.hosts)) {
		if p.hosts[address].opened > 0 {
			names = append(names, strings.TrimSuffix(address, ":443"))
		}
	}
	return names
}

// unseen says what was not read, and why. An agent calls its own hosts for itself.
func (p *proxy) unseen(agent *Kind) (notes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var others []string
	var bytes, own int64
	for _, address := range slices.Sorted(maps.Keys(p.hosts)) {
		h, name := p.hosts[address], strings.TrimSuffix(address, ":443")
		if len(h.refused) > 0 {
			notes = append(notes, name+" (a program refuses the certificate of wirectl, and was passed on unread from then on)")
		}
		if h.blind != "" {
			notes = append(notes, name+" ("+h.blind+")")
		}
		if h.failure != "" && h.opened == 0 {
			notes = append(notes, name+" ("+h.failure+")")
		}
		if h.unread == 0 || len(h.refused) > 0 || h.blind != "" {
			continue
		}
		if matches(agent.Own, name) {
			own += h.up + h.down
			continue
		}
		bytes += h.up + h.down
		others = append(others, name)
	}
	if own > 0 {
		notes = append(notes, render.Count(own, "byte")+" for updates and telemetry of "+agent.Name)
	}
	if len(others) > 0 {
		const most = 5
		text := render.Count(bytes, "byte") + " of " + strings.Join(others[:min(most, len(others))], ", ")
		if more := len(others) - most; more > 0 {
			text += " and " + render.Count(int64(more), "other host")
		}
		notes = append(notes, text+" (passed on unread; --hosts opens more)")
	}
	return notes
}

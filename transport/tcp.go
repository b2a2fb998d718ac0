package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A socket is a connected TCP or Unix socket.
type socket struct{ streamSocket }

type streamSocket interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

func (s socket) lowest() net.Conn { return s.streamSocket }

// Abort resets TCP. A Unix socket has no reset: it ends.
func (s socket) Abort(error) error { return closed(reset(s.streamSocket)) }

// Close may be called again.
func (s socket) Close() error {
	linger(s.streamSocket, -1)
	return closed(s.streamSocket.Close())
}

// closed ignores that a connection was closed already.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Descriptors returns the one descriptor twice.
func (s socket) Descriptors() (read, write syscall.RawConn, err error) {
	rc, err := s.SyscallConn()
	return rc, rc, err
}

// CheckHostPort returns an error unless an address is SCHEME://HOST:PORT.
func CheckHostPort(address string) error {
	_, err := HostPort(address)
	return err
}

// HostPort returns the HOST:PORT of SCHEME://HOST:PORT.
func HostPort(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", cause(err)
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("want only %s://HOST:PORT", u.Scheme)
	}
	return u.Host, checkPort(u)
}

func checkPort(u *url.URL) error {
	if u.Port() == "" {
		return fmt.Errorf("no port: want %s://HOST:PORT", u.Scheme)
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil {
		return fmt.Errorf("invalid port %s: want a number up to 65535", u.Port())
	}
	return nil
}

func dialTCP(ctx context.Context, address string, _ Options) (Conn, error) {
	hostPort, err := HostPort(address)
	if err != nil {
		return nil, err
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", hostPort)
	if err != nil {
		return nil, err
	}
	return socket{c.(*net.TCPConn)}, nil
}

func listenTCP(ctx context.Context, address string, opts Options) (Listener, error) {
	l, err := listenStream(ctx, address, opts)
	if err != nil {
		return nil, err
	}
	return &socketListener{l, "tcp://" + l.Addr().String()}, nil
}

func listenStream(ctx context.Context, address string, opts Options) (*net.TCPListener, error) {
	hostPort, err := opts.listenAt(address)
	if err != nil {
		return nil, err
	}
	return listenHostPort(ctx, hostPort)
}

func listenHostPort(ctx context.Context, hostPort string) (*net.TCPListener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", hostPort)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// listenAt is ListenOn for an address.
func (o *Options) listenAt(address string) (string, error) {
	hostPort, err := HostPort(address)
	if err != nil {
		return "", err
	}
	return o.ListenOn(hostPort)
}

// ListenOn returns the HOST:PORT to listen on. Without a host that is loopback;
// other hosts need Remote.
func (o *Options) ListenOn(hostPort string) (string, error) {
	host, port, err := net.SplitHostPort(hostPort)
	switch {
	case err != nil:
		return "", err
	case host == "" && !o.Remote:
		return net.JoinHostPort("127.0.0.1", port), nil
	case !o.Remote && !IsLoopback(host):
		return "", &AddressError{fmt.Errorf("%s is not loopback: other machines could connect; give --remote if they may", host)}
	case !IsLoopback(host) && o.TLS.CA == "":
		o.notice("anyone who reaches " + hostPort + " can use it: a TLS listener with --tls-ca accepts only clients with a certificate of that CA")
	}
	return hostPort, nil
}

// HTTP is an endpoint for requests rather than for one connection. Dialling it fails;
// callers that make requests use its URL.
type HTTP struct{ address *url.URL }

func parseHTTP(address string) (Endpoint, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", address, cause(err))
	}
	if u.Host == "" {
		return nil, fmt.Errorf("%q: no host: want %s://HOST:PORT/PATH", address, u.Scheme)
	}
	return HTTP{u}, nil
}

func (e HTTP) String() string { return e.address.String() }

// URL is the endpoint's address.
func (e HTTP) URL() *url.URL {
	u := *e.address
	return &u
}

// Dial always fails.
func (e HTTP) Dial(context.Context) (Conn, error) {
	return nil, &Error{e.String(), errors.ErrUnsupported, "HTTP carries requests, not frames in both directions: use a command that sends requests"}
}

// LocalHost reports whether a Host header names this machine, or an address, which DNS
// rebinding cannot use.
func LocalHost(host string) bool {
	name := Hostname(host)
	return name == "" || name == "localhost" || net.ParseIP(name) != nil
}

// Hostname returns a Host header without its port and brackets.
func Hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") {
		host = host[:i]
	}
	return strings.Trim(host, "[]")
}

// IsLoopback reports whether a host is loopback, without asking a resolver.
func IsLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// OwnPage reports whether an Origin header is that of a page of this machine, or of the
// host that it asks. Browsers send null for pages whose origin is hidden.
func OwnPage(origin, host string) bool {
	u, err := url.Parse(origin)
	isPage := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	return isPage && (IsLoopback(u.Hostname()) || strings.EqualFold(u.Host, host))
}

// ParseOrigin returns an origin as browsers send it.
func ParseOrigin(text string) (string, error) {
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if text != "null" && (err != nil || u.Host == "" || *u != url.URL{Scheme: u.Scheme, Host: u.Host}) {
		return "", fmt.Errorf("%q: want an origin such as https://app.example, or null", text)
	}
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; port != "" {
		u.Host = strings.TrimSuffix(u.Host, port)
	}
	return strings.ToLower(u.String()), nil
}

// Refusal returns why an HTTP listener refuses a request; "" if it admits it. It refuses what
// pages of other sites can make a browser send, by DNS rebinding or from their own origin.
func (o *Options) Refusal(host string, origins []string) string {
	if !o.Remote && !LocalHost(host) {
		return fmt.Sprintf("the host %.200q is neither an IP address nor localhost: add --remote", host)
	}
	for _, origin := range origins {
		if origin != "" && !OwnPage(origin, host) && !slices.Contains(o.Origins, strings.ToLower(origin)) {
			return fmt.Sprintf("web pages of %.200q may not use this: allow them with --allow-origin", origin)
		}
	}
	return ""
}

// Admit reports whether a listener admits a request, and answers it otherwise.
func (o *Options) Admit(w http.ResponseWriter, r *http.Request) bool {
	refusal := o.Refusal(r.Host, r.Header["Origin"])
	if refusal != "" {
		http.Error(w, refusal, http.StatusForbidden)
	}
	return refusal == ""
}

// A socketListener accepts connections of a TCP or Unix socket.
type socketListener struct {
	net  deadlineListener
	addr string
}

type deadlineListener interface {
	net.Listener
	SetDeadline(time.Time) error
}

func (l *socketListener) Addr() string { return l.addr }

func (l *socketListener) Close() error { return l.net.Close() }

func (l *socketListener) Accept(ctx context.Context) (Conn, error) {
	c, err := accept(ctx, l.net)
	if err != nil {
		return nil, err
	}
	return socket{c.(streamSocket)}, nil
}

// crowded is how long a listener waits when the process has run out of descriptors.
const crowded = 100 * time.Millisecond

// accept waits for a connection, or for the end of ctx. The listener stays usable.
func accept(ctx context.Context, l deadlineListener) (net.Conn, error) {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)); close(woken) })
	defer func() {
		if !stop() {
			<-woken
			_ = l.SetDeadline(time.Time{})
		}
	}()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if c != nil {
				c.Close()
			}
			return nil, ctx.Err()
		case err == nil:
			return c, nil
		case errors.Is(err, syscall.ECONNABORTED): // the client left while it waited
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			select {
			case <-time.After(crowded):
			case <-ctx.Done():
			}
		default:
			return nil, err
		}
	}
}

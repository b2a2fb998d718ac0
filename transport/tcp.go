package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
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

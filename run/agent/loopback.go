package agent

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/relay"
	relayhttp "github.com/wirectl/wirectl/relay/httpproxy"
	"github.com/wirectl/wirectl/transport"
)

// A loopback is a relay on loopback in front of one server, for clients that use no proxy for it.
type loopback struct {
	host   string
	record *renumbered
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Relay starts a relay in front of an HTTP server, which is recorded with the model's wires, and returns the
// address by which the agent reaches it. It serves this user only.
func (s *Setup) Relay(ctx context.Context, target *url.URL) (string, error) {
	r := s.run
	if r.proxy != nil && r.proxy.world != nil {
		return r.front(ctx, target)
	}
	l, err := transport.Listen(ctx, "tcp://127.0.0.1:0", transport.Options{})
	if err != nil {
		return "", err
	}
	server := *target
	server.Path, server.RawPath, server.RawQuery = "", "", ""
	cfg := relayhttp.Config{Listener: &ownListener{l}, Target: &server, Warn: func(string) {}}
	record := &renumbered{to: r.recorder, numbers: map[int]int{}}
	if r.recorder != nil {
		cfg.Sink = relay.NewFan(r.remark, record)
	}
	if r.recorder != nil && r.recorder.refuses != nil {
		cfg.Guard = func(conn int) func(frame.Dir, []byte) ([]byte, error) {
			return r.recorder.guard(carrier.HTTP1, record.number(conn), server.String())
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b := &loopback{host: target.Host, record: record, cancel: cancel}
	b.done.Go(func() {
		if _, err := relayhttp.Serve(ctx, cfg); err != nil && ctx.Err() == nil {
			r.remark(server.Host + ": " + err.Error())
		}
	})
	r.relays = append(r.relays, b)
	moved := *target
	moved.Scheme, moved.Host = "http", strings.TrimPrefix(l.Addr(), "tcp://")
	return moved.String(), nil
}

// front starts a relay in front of the world, as Relay does in front of a server.
func (r *running) front(ctx context.Context, target *url.URL) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := net.JoinHostPort(target.Hostname(), cmp.Or(target.Port(), map[string]string{"http": "80", "https": "443"}[target.Scheme]))
	r.proxy.list(address)
	name := target.Scheme + "://" + target.Host
	listeners := []net.Listener{l}
	b := &loopback{host: target.Host, cancel: func() {
		for _, l := range listeners {
			l.Close()
		}
	}}
	accept := func(l net.Listener, inside bool) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			client, err := netip.ParseAddrPort(c.RemoteAddr().String())
			server, failed := netip.ParseAddrPort(c.LocalAddr().String())
			if err != nil || failed != nil || !inside && !isOwn(client, server) || !r.proxy.track(c) {
				abort(c)
				continue
			}
			go func() { // the proxy closes the connection, and waits
				defer r.proxy.untrack(c)
				if server, err := r.proxy.world.dial(address); err == nil {
					defer context.AfterFunc(r.proxy.ctx, func() { server.Close() })()
					r.proxy.speak(c, server, name, carrier.HTTP1, address, "")
				} else {
					abort(c)
				}
			}()
		}
	}
	b.done.Go(func() { accept(l, false) })
	r.doors = append(r.doors, door{l.Addr().(*net.TCPAddr).Port, func(l net.Listener) {
		listeners = append(listeners, l)
		b.done.Go(func() { accept(l, true) })
	}})
	r.relays = append(r.relays, b)
	moved := *target
	moved.Scheme, moved.Host = "http", l.Addr().String()
	return moved.String(), nil
}

func (b *loopback) close() {
	b.cancel()
	b.done.Wait()
}

var errStranger = errors.New("it is for one user only")

// An ownListener accepts connections of this user only, as far as the system tells.
type ownListener struct{ transport.Listener }

func (l *ownListener) Accept(ctx context.Context) (transport.Conn, error) {
	for {
		c, err := l.Listener.Accept(ctx)
		if err != nil {
			return nil, err
		}
		ends, ok := c.(interface {
			RemoteAddr() net.Addr
			LocalAddr() net.Addr
		})
		if !ok {
			_ = transport.Abort(c, errStranger)
			continue
		}
		client, err := netip.ParseAddrPort(ends.RemoteAddr().String())
		server, failed := netip.ParseAddrPort(ends.LocalAddr().String())
		if err == nil && failed == nil && isOwn(client, server) {
			return c, nil
		}
		_ = transport.Abort(c, errStranger)
	}
}

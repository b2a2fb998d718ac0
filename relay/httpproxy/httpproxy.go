// Package httpproxy is the relay between HTTP clients and an HTTP server, made
// for protocols that ride on HTTP: MCP over streamable HTTP and over SSE, nexus.
//
// It works on bytes: each connection of a client has one of its own to the
// server, and bytes read from one side go to the other at once, so that events
// stream, upgrades pass, and each side sees at once when the other goes away. Only the heads of requests are looked into, because
// two things in them have to change: Host names the server, and a request for
// "/" goes to the path that the server was named with. Since that takes from the
// server what it would know the pages of other sites by, the proxy refuses them.
package httpproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// Config says what to put the proxy between, and who watches.
type Config struct {
	// Listener takes the clients. Serve closes it.
	Listener transport.Listener
	// Target is the server: http:// or https://, with the path that requests
	// for "/" go to.
	Target *url.URL
	// Transport says how the server is to be reached.
	Transport transport.Options
	// Remote takes requests for any host, and not just for an address or localhost.
	Remote bool
	// Sink takes the records of what passes; nil means that nobody watches.
	Sink *relay.Fan
	// Limit is the largest payload, in bytes, of a frame; 0 is the default.
	Limit int
	// Warn, if not nil, is told what goes wrong with a connection.
	Warn func(text string)
}

// A Result is what a proxy did.
type Result struct {
	Conns                int64
	ToUnit, ToController relay.Traffic
}

// Serve accepts clients until ctx ends, and then closes the open connections. Every
// goroutine that it began has ended when it returns.
func Serve(ctx context.Context, cfg Config) (Result, error) {
	p := &proxy{cfg: cfg}
	unit, err := p.unit()
	if err != nil {
		return Result{}, err
	}
	p.watcher = watch()
	defer p.watcher.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for {
		client, err := cfg.Listener.Accept(ctx)
		if err != nil {
			cancel()
			running.Wait()
			closed := cfg.Listener.Close()
			if errors.Is(err, context.Canceled) {
				err = closed
			}
			return p.result(), err
		}
		number := int(p.conns.Add(1))
		running.Go(func() { p.serveClient(ctx, client, unit, number) })
	}
}

// A proxy is what the connections share.
type proxy struct {
	cfg     Config
	watcher *watcher
	conns   atomic.Int64
	traffic [3]struct{ frames, bytes atomic.Int64 } // by direction
}

func (p *proxy) result() Result {
	traffic := func(d frame.Dir) relay.Traffic {
		return relay.Traffic{Frames: p.traffic[d].frames.Load(), Bytes: p.traffic[d].bytes.Load()}
	}
	return Result{Conns: p.conns.Load(), ToUnit: traffic(frame.C2U), ToController: traffic(frame.U2C)}
}

// unit returns the endpoint that connections to the server are made to.
func (p *proxy) unit() (transport.Endpoint, error) {
	t := p.cfg.Target
	scheme, port := "tcp", "80"
	switch t.Scheme {
	case "http":
	case "https":
		scheme, port = "tls", "443"
	default:
		return nil, fmt.Errorf("%s: a proxy of HTTP is for http:// and https://", t)
	}
	address := scheme + "://" + net.JoinHostPort(t.Hostname(), cmp.Or(t.Port(), port))
	return transport.Parse([]string{address}, p.cfg.Transport)
}

// serveClient connects a client to the server by a connection of its own.
func (p *proxy) serveClient(ctx context.Context, client transport.Conn, unit transport.Endpoint, number int) {
	defer client.Close()
	server, err := unit.Dial(ctx)
	if err != nil {
		p.warn("connection %d: %v", number, err)
		defer context.AfterFunc(ctx, func() { client.Close() })()
		refuse(client, err)
		return
	}
	defer server.Close()
	transport.Guard(client, server)
	c := &conn{proxy: p, number: number, client: client, server: server, tap: p.tap(number)}
	defer context.AfterFunc(ctx, func() { c.abort(ctx.Err()) })()
	defer c.tap.drainAndClose()
	c.moveBytes()
}

func (p *proxy) warn(format string, args ...any) {
	if p.cfg.Warn != nil {
		p.cfg.Warn(fmt.Sprintf(format, args...))
	}
}

// refuse tells a client, as proxies do, that the server was not reached. It answers
// only after the request has begun, and does not wait for the rest, which may be
// long.
func refuse(client transport.Conn, err error) {
	stop := time.AfterFunc(asking, func() { client.Close() })
	_, silent := client.Read(make([]byte, 1))
	if stop.Stop(); silent != nil {
		return
	}
	finish(client, answer(http.StatusBadGateway, err.Error()))
}

// answer returns the last answer of a connection.
func answer(status int, text string) []byte {
	body := "wirectl: " + text + "\n"
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(body), body)
}

// finish gives a client that answer.
func finish(client transport.Conn, answer []byte) {
	_, _ = client.Write(answer) // a client that has left needs none
	if client.CloseWrite() == nil {
		drain(client)
	}
}

// asking is how long a client that is to be refused may take to ask.
const asking = 10 * time.Second

// drain reads what a client still sends, for a moment, so that closing does not
// take from it what was written.
func drain(client transport.Conn) {
	stop := time.AfterFunc(lingering, func() { client.Close() })
	defer stop.Stop()
	buf := make([]byte, readSize)
	for {
		if _, err := client.Read(buf); err != nil {
			return
		}
	}
}

// lingering is how long a connection stays open for the side that has not ended
// it, once the server has.
const lingering = 5 * time.Second

// readSize is what one read asks for.
const readSize = 64 << 10

// A conn is a client's connection and the one to the server that belongs to it.
type conn struct {
	*proxy
	number         int
	client, server transport.Conn
	tap            *tap
	answered       atomic.Bool // the server has ended what it says
}

// moveBytes moves bytes until both directions have ended.
func (c *conn) moveBytes() {
	var requests, watching sync.WaitGroup
	requests.Go(func() {
		r := &rewriter{host: c.cfg.Target.Host, path: c.cfg.Target.RequestURI(), remote: c.cfg.Remote}
		if c.move(frame.C2U, c.server, c.client, r) {
			watching.Go(c.watch)
			return
		}
		if r.state == refusing {
			c.forbid(r.foreign)
			c.closeEnds()
			return
		}
		c.abort(errGone) // the client is gone, or the server does not read any more
	})
	switch {
	case c.move(frame.U2C, c.client, c.server, &rewriter{state: passing}):
		// A server that has ended answers nothing more.
		c.answered.Store(true)
		stop := time.AfterFunc(lingering, c.closeEnds)
		requests.Wait()
		stop.Stop()
	default:
		c.abort(errGone) // the server is gone, or the client does not read any more
	}
	c.closeEnds()
	requests.Wait()
	watching.Wait()
}

// forbid tells a client that its request for a host is refused, which is recorded as an
// answer.
func (c *conn) forbid(host string) {
	c.warn("connection %d: a request for %q was refused: %s", c.number, host, transport.ForeignHost)
	forbidden := answer(http.StatusForbidden, transport.ForeignHost)
	c.tap.feed(frame.U2C, forbidden)
	finish(c.client, forbidden)
}

// errGone is why a connection is closed whose one side has failed.
var errGone = errors.New("one side has gone")

// abort closes both sides after one has failed, so that the other does not mistake the
// failure for an intended end.
func (c *conn) abort(why error) {
	if c.answered.Load() {
		c.closeEnds()
		return
	}
	_ = transport.Abort(c.client, why)
	_ = transport.Abort(c.server, why)
}

func (c *conn) closeEnds() {
	c.client.Close()
	c.server.Close()
}

// move moves bytes in one direction, as r makes them, up to its end, which it
// passes on. It reports false if that failed, or if r refuses a request.
func (c *conn) move(dir frame.Dir, to, from transport.Conn, r *rewriter) bool {
	buf := make([]byte, readSize)
	var out []byte
	for {
		n, err := from.Read(buf)
		if n > 0 {
			c.traffic[dir].bytes.Add(int64(n))
			c.tap.feed(dir, buf[:n])
			out = r.push(out[:0], buf[:n])
			if _, werr := to.Write(out); werr != nil {
				c.tap.refused[dir] = !errors.Is(werr, net.ErrClosed)
				return false
			}
			if r.state == refusing {
				return false
			}
		}
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				c.tap.endDirection(dir) // by its own side
			}
			if rest := r.unfinishedHead(); len(rest) > 0 {
				if _, werr := to.Write(rest); werr != nil {
					return false
				}
			}
			return ended(err) && to.CloseWrite() == nil
		}
	}
}

// A record of the capture says what the proxy changes.
func (p *proxy) opened(number int) []capture.Record {
	now := time.Now()
	opened := capture.Record{Kind: capture.Opened, Time: now, Text: []byte(p.cfg.Target.String())}
	text := "requests go on with Host: " + p.cfg.Target.Host
	if path := p.cfg.Target.RequestURI(); path != "/" {
		text += ", and those for / to " + path
	}
	note := capture.Record{Kind: capture.Note, Time: now, Text: []byte(text)}
	opened.Conn, note.Conn = number, number
	return []capture.Record{opened, note}
}

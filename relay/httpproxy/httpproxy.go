// Package httpproxy is the relay between HTTP clients and an HTTP server, for
// protocols over HTTP: MCP over streamable HTTP and over SSE, nexus.
//
// It works on bytes: each client connection has its own connection to the server,
// and bytes are forwarded at once, so that events stream, upgrades work, and each side
// notices at once when the other leaves. Only the heads of requests are parsed, because
// two things must change: Host must name the server, and a request for "/" goes to the
// path of the server's URL. As the server can then no longer recognize requests from
// pages of other sites, the proxy refuses those.
package httpproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// Config configures a proxy.
type Config struct {
	// Listener accepts the clients. Serve closes it.
	Listener transport.Listener
	// Target is the server: http:// or https://, with the path for requests of "/".
	Target *url.URL
	// Transport has the options for connecting to the server.
	Transport transport.Options
	// Remote accepts requests for any host, not only for an address or localhost.
	Remote bool
	// Sink receives the records; nil means no observers.
	Sink *relay.Fan
	// Limit is the largest payload, in bytes, of a frame; 0 is the default.
	Limit int
	// Warn, if not nil, is called for problems with a connection.
	Warn func(text string)
}

// A Result is the outcome of a proxy.
type Result struct {
	Conns                int64
	ToUnit, ToController relay.Traffic
}

// Serve accepts clients until ctx ends, and then closes the open connections. All its
// goroutines have ended when it returns.
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

// A proxy is the state that connections share.
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

// unit returns the endpoint of the server.
func (p *proxy) unit() (transport.Endpoint, error) {
	t := p.cfg.Target
	scheme, port := "tcp", "80"
	switch t.Scheme {
	case "http":
	case "https":
		scheme, port = "tls", "443"
	default:
		return nil, fmt.Errorf("%s: an HTTP proxy needs an http:// or https:// address", t)
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
	defer func() { c.tap.drainAndClose(ctx.Err() != nil) }()
	c.moveBytes()
}

func (p *proxy) warn(format string, args ...any) {
	if p.cfg.Warn != nil {
		p.cfg.Warn(fmt.Sprintf(format, args...))
	}
}

// refuse answers a client that the server could not be reached. It answers as soon as the
// request has begun, because the rest may be long.
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

// finish sends the last answer of a connection.
func finish(client transport.Conn, answer []byte) {
	_, _ = client.Write(answer) // best effort
	if client.CloseWrite() == nil {
		drain(client)
	}
}

// asking is how long a client that will be refused may take to send a request.
const asking = 10 * time.Second

// drain reads what a client still sends, for a moment: closing a connection with unread
// bytes would discard the answer.
func drain(client transport.Conn) {
	stop := time.AfterFunc(lingering, func() { client.Close() })
	defer stop.Stop()
	_, _ = io.Copy(io.Discard, client)
}

// lingering is how long a connection stays open for the client after the server has ended
// it.
const lingering = 5 * time.Second

// readSize is the size of a read.
const readSize = 64 << 10

// A conn is a client's connection and its connection to the server.
type conn struct {
	*proxy
	number         int
	client, server transport.Conn
	tap            *tap
	answered       atomic.Bool // the server has ended its side
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

// forbid answers a request for a foreign host, and records the answer.
func (c *conn) forbid(host string) {
	c.warn("connection %d: a request for %q was refused: %s", c.number, host, transport.ForeignHost)
	forbidden := answer(http.StatusForbidden, transport.ForeignHost)
	c.tap.feed(frame.U2C, forbidden)
	finish(c.client, forbidden)
}

// errGone is the reason for closing a connection after one side has failed.
var errGone = errors.New("one side closed the connection")

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

// move moves the bytes of one direction through r, and then its end. It reports false if
// that fails, or if r refuses a request.
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
			if len(r.held) > 0 { // a head that was cut short
				if _, werr := to.Write(r.held); werr != nil {
					return false
				}
			}
			return errors.Is(err, io.EOF) && to.CloseWrite() == nil
		}
	}
}

// opened returns the first records of a connection, which describe what the proxy changes.
func (p *proxy) opened(number int) []capture.Record {
	now := time.Now()
	opened := capture.Record{Kind: capture.Opened, Time: now, Text: []byte(p.cfg.Target.String())}
	text := "requests are forwarded with Host: " + p.cfg.Target.Host
	if path := p.cfg.Target.RequestURI(); path != "/" {
		text += ", and those for / to " + path
	}
	note := capture.Record{Kind: capture.Note, Time: now, Text: []byte(text)}
	opened.Conn, note.Conn = number, number
	return []capture.Record{opened, note}
}

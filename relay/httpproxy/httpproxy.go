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
	"bytes"
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
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// Config configures a proxy.
type Config struct {
	// Listener accepts the clients. Serve closes it.
	Listener transport.Listener
	// Target is the server: http:// or https://, with the path for requests of "/".
	Target *url.URL
	// Transport has the options for connecting to the server, and says which hosts and web
	// pages are admitted.
	Transport transport.Options
	// Sink receives the records; nil means no observers.
	Sink *relay.Fan
	// Limit is the largest payload, in bytes, of a frame; 0 is the default.
	Limit int
	// Guard, if not nil, returns what the bytes of a connection pass before they are forwarded, with what passes of them
	// and why the connection has to end, or nil. No bytes are the end of a direction.
	Guard func(conn int) func(dir frame.Dir, data []byte) ([]byte, error)
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
	if cfg.Sink != nil {
		p.taps = NewTaps(p.record, cfg.Limit)
		defer p.taps.Close()
	}
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
	taps    *Taps // nil without a sink
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
	c := &conn{proxy: p, number: number, client: client, server: server, tap: p.taps.Connect(number, p.opened()...)}
	if p.cfg.Guard != nil {
		c.guard = p.cfg.Guard(number)
	}
	defer context.AfterFunc(ctx, func() { c.abort(ctx.Err()) })()
	defer func() { c.closeTap(ctx.Err() != nil) }()
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
	_, _ = client.Write(answer(http.StatusBadGateway, err.Error())) // best effort
	if client.CloseWrite() == nil {
		drain(client)
	}
}

// answer returns the last answer of a connection.
func answer(status int, text string) []byte {
	body := "wirectl: " + text + "\n"
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(body), body)
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
	tap            *Tap
	guard          func(dir frame.Dir, data []byte) ([]byte, error) // or nil
	failed         [3]bool                                          // by direction: whether its receiver failed
	answered       atomic.Bool                                      // the server has ended its side, or a refusal has ended the connection

	writing sync.Mutex // held while bytes are written to the client
	answers answers
	refusal refusal // waits until the server has answered the requests before it
}

var (
	// errGone is the reason for closing a connection after one side has failed.
	errGone = errors.New("one side closed the connection")
	// errStopped means that no more requests are forwarded, but answers may still come.
	errStopped = errors.New("no more requests are forwarded")
)

// moveBytes moves bytes until both directions have ended.
func (c *conn) moveBytes() {
	var requests, watching sync.WaitGroup
	requests.Go(func() {
		err := c.moveRequests()
		if errors.Is(err, errStopped) {
			// Closing a connection with unread bytes would discard the answers.
			err = c.move(frame.C2U, c.client, func([]byte) error { return nil })
		}
		if err != nil {
			c.abort(errGone) // the client is gone
			return
		}
		watching.Go(c.watch)
	})
	if err := c.moveAnswers(); err != nil && !c.answered.Load() {
		c.abort(errGone) // the server is gone, or the client does not read any more
	} else {
		// A server that has ended answers nothing more.
		c.answered.Store(true)
		stop := time.AfterFunc(lingering, c.closeEnds)
		requests.Wait()
		stop.Stop()
	}
	c.closeEnds()
	requests.Wait()
	watching.Wait()
}

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

// moveRequests moves the bytes of the client until it ends its side, a request is refused,
// or the server does not read any more.
func (c *conn) moveRequests() error {
	r := &rewriter{host: c.cfg.Target.Host, path: c.cfg.Target.RequestURI(), opts: &c.cfg.Transport, forwards: c.answers.expect}
	var out []byte
	err := c.move(frame.C2U, c.client, func(data []byte) error {
		out = r.push(out[:0], data)
		if _, err := c.server.Write(out); err != nil {
			c.failed[frame.C2U] = !errors.Is(err, net.ErrClosed)
			return errStopped
		}
		if r.state == refusing {
			c.refuse(r.refusal)
			return errStopped
		}
		return nil
	})
	if len(r.held) > 0 && !errors.Is(err, errStopped) { // a head that was cut short
		if _, err := c.server.Write(r.held); err != nil {
			return errStopped
		}
	}
	if err != nil {
		return err
	}
	return c.server.CloseWrite()
}

// moveAnswers moves the bytes of the server until it ends its side, or a refusal ends the
// connection.
func (c *conn) moveAnswers() error {
	err := c.move(frame.U2C, c.server, func(data []byte) error {
		c.writing.Lock()
		defer c.writing.Unlock()
		if _, err := c.client.Write(data); err != nil {
			c.failed[frame.U2C] = !errors.Is(err, net.ErrClosed)
			return err
		}
		c.answers.push(data)
		c.sendRefusal()
		return nil
	})
	if err != nil {
		return err
	}
	return c.client.CloseWrite()
}

// refuse answers a request that is not forwarded.
func (c *conn) refuse(r refusal) {
	c.warn("connection %d: a request was refused: %s", c.number, r.text)
	c.writing.Lock()
	defer c.writing.Unlock()
	c.refusal = r
	c.sendRefusal()
}

// sendRefusal sends the refusal, and ends the connection, once the server has answered all
// requests before it.
func (c *conn) sendRefusal() {
	c.answers.mu.Lock()
	defer c.answers.mu.Unlock()
	switch {
	case c.refusal.status == 0 || c.answered.Load():
	case c.answers.lost:
		_ = c.server.CloseWrite() // the server ends the connection
	case len(c.answers.asked) == 0:
		text := answer(c.refusal.status, c.refusal.text)
		c.tap.Feed(frame.U2C, text)
		_, _ = c.client.Write(text) // best effort
		c.answered.Store(true)
		_ = c.client.CloseWrite()
		c.server.Close()
	}
}

// move passes the bytes of one direction to pass until its end. It returns nil if the sender
// has ended it.
func (c *conn) move(dir frame.Dir, from transport.Conn, pass func(data []byte) error) error {
	buf := make([]byte, readSize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			c.traffic[dir].bytes.Add(int64(n))
			c.tap.Feed(dir, buf[:n])
		}
		data, refused := buf[:n], error(nil)
		if c.guard != nil && (n > 0 || err == io.EOF) {
			data, refused = c.guard(dir, data)
		}
		if len(data) > 0 {
			if err := pass(data); err != nil {
				return err
			}
		}
		if refused != nil && len(data) > 0 {
			return nil // the client is answered
		} else if refused != nil {
			return refused
		}
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				c.tap.HalfClose(dir) // by its own side
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// closeTap ends the tap. A direction that its side has not ended was ended by the proxy. The
// server's comes first, because clients see the end from there, unless they stopped reading. If the
// proxy stops, no record says that a side has ended.
func (c *conn) closeTap(stopped bool) {
	first := frame.U2C
	if c.failed[frame.U2C] {
		first = frame.C2U
	}
	if stopped {
		c.tap.Stop()
	}
	c.tap.Close(first)
}

// record passes on a record of a tap.
func (p *proxy) record(r *capture.Record) {
	if r.Kind == capture.Frame && !r.Gap {
		p.traffic[r.Dir].frames.Add(1)
	}
	p.cfg.Sink.Write(r)
}

// opened returns the first records of a connection, which describe what the proxy changes.
func (p *proxy) opened() []capture.Record {
	now := time.Now()
	opened := capture.Record{Kind: capture.Opened, Time: now, Text: []byte(p.cfg.Target.String())}
	text := "requests are forwarded with Host: " + p.cfg.Target.Host
	if path := p.cfg.Target.RequestURI(); path != "/" {
		text += ", and those for / to " + path
	}
	note := capture.Record{Kind: capture.Note, Time: now, Text: []byte(text)}
	return []capture.Record{opened, note}
}

// answers follows the server's side of a connection, to know when it has answered every
// request.
type answers struct {
	mu    sync.Mutex
	asked []string // the methods of the requests that are not answered completely
	lost  bool     // what the server sends cannot be assigned to requests any more

	body carrier.Delimiter
	held []byte // the beginning of a head, or of the size of a chunk
}

// maxAsked bounds the requests that wait for their answers.
const maxAsked = 10_000

// expect adds a request.
func (a *answers) expect(method string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, method)
	a.lost = a.lost || len(a.asked) > maxAsked
}

// push reads what the server has sent.
func (a *answers) push(data []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.held) > 0 {
		data = append(a.held, data...)
	}
	a.held = nil
	for len(data) > 0 && !a.lost {
		n := a.next(data)
		if n == 0 {
			a.held = bytes.Clone(data)
			return
		}
		data = data[n:]
	}
	if a.lost {
		a.asked = nil
	}
}

// next reads a head, or a part of a body. If it returns 0, it needs more bytes.
func (a *answers) next(data []byte) int {
	if a.body.Ended() {
		return a.head(data)
	}
	n, _, err := a.body.Next(data)
	a.lost = err != nil
	a.end()
	return n
}

// end removes a request whose answer is complete.
func (a *answers) end() {
	if a.body.Ended() {
		a.asked = a.asked[1:]
	}
}

func (a *answers) head(data []byte) int {
	if blank := len(data) - len(bytes.TrimLeft(data, "\r\n")); blank > 0 {
		return blank
	}
	n := carrier.HeadEnd(data)
	if n == 0 {
		a.lost = len(data) > carrier.MaxHead
		return 0
	}
	head := carrier.ParseHead(data[:n])
	status := head.Status()
	size, ok := carrier.SizeOf(head)
	switch {
	case len(a.asked) == 0, status == "", status == "101", a.asked[0] == "CONNECT" && status[0] == '2':
		a.lost = true // it is no answer, or no more HTTP follows
		return 0
	case status[0] == '1':
		return n
	case a.asked[0] == "HEAD", status == "204", status == "304":
		size = carrier.BodySize{}
	case !ok:
		a.lost = true
		return 0
	}
	a.body.Begin(size)
	a.end()
	return n
}

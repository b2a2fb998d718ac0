package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/limit"
	"github.com/wirectl/wirectl/internal/sse"
	"github.com/wirectl/wirectl/transport"
)

// maxWebBody bounds bodies and events.
const maxWebBody = frame.DefaultLimit

var errWebBody = fmt.Errorf("a body is over the limit of %d bytes", maxWebBody)

// Schemes are the additional endpoints of a script that was recorded over HTTP.
func (s *Script) Schemes() []transport.Scheme {
	w, isWeb := s.Protocol.(web)
	if !isWeb {
		return nil
	}
	if w.grpc != nil {
		return []transport.Scheme{{Name: "grpc", Dial: w.dial, Listen: w.listen}, {Name: "grpcs", Dial: w.dial, Listen: w.listen}}
	}
	return []transport.Scheme{{Name: "http", Dial: w.dial, Listen: w.listen}, {Name: "https", Dial: w.dial}}
}

// dial returns a connection to a server. The first request shows whether it can be reached.
func (w web) dial(ctx context.Context, address string, opts transport.Options) (transport.Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	u.RawQuery, u.Fragment = "", ""
	t := http.DefaultTransport.(*http.Transport).Clone()
	if w.grpc != nil {
		u.Scheme = map[string]string{"grpc": "http", "grpcs": "https"}[u.Scheme]
		t.Protocols, t.DisableCompression = overHTTP2(), true
	}
	if u.Scheme == "https" {
		if t.TLSClientConfig, err = opts.ClientTLS(u.Hostname()); err != nil {
			return nil, err
		}
	}
	c := &webConn{base: strings.TrimSuffix(u.String(), "/"), calls: w.calls, grpc: w.grpc, header: opts.Header, open: map[int64]*webOpen{}}
	if u.Path = strings.TrimSuffix(u.Path, "/"); w.calls && u.Path != "" {
		c.endpoint = c.base
		u.Path, u.RawPath = "", ""
		c.base = u.String()
	}
	c.client.Transport = t
	c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.alive, c.stop = context.WithCancel(context.Background())
	c.lines, c.out = io.Pipe()
	return c, ctx.Err()
}

// A webConn turns lines into requests, and answers into lines.
type webConn struct {
	base   string // of each address
	calls  bool   // of JSON-RPC
	grpc   *callMethods
	header http.Header // of each request, instead of the recorded ones
	client http.Client

	endpoint string // the URL to post to; "" for the recorded path

	alive context.Context // ends with the connection
	stop  context.CancelFunc
	lines *io.PipeReader
	out   *io.PipeWriter
	work  sync.WaitGroup

	mu   sync.Mutex
	open map[int64]*webOpen
}

func (c *webConn) Read(p []byte) (int, error) { return c.lines.Read(p) }

// CloseWrite fails: there is no half-close.
func (c *webConn) CloseWrite() error { return errors.ErrUnsupported }

// Write takes one line.
func (c *webConn) Write(p []byte) (int, error) {
	var l webLine
	if err := json.Unmarshal(p, &l); err != nil {
		return 0, err
	}
	of, err := c.openFor(&l)
	if err == nil && c.grpc != nil && of != nil && l.Ref == 0 {
		err = c.sendMessage(of, &l)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// openFor returns the request that a line begins, continues or leaves; nil if it has ended.
func (c *webConn) openFor(l *webLine) (*webOpen, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.open[max(l.ID, l.Ref)]
	switch {
	case l.Ref != 0 && of != nil:
		of.leave()
	case l.Request == "":
	case c.alive.Err() != nil:
		return nil, io.ErrClosedPipe
	default:
		of = c.begin(l)
	}
	return of, nil
}

func (c *webConn) Close() error {
	c.mu.Lock()
	c.stop()
	for _, of := range c.open {
		of.leave()
	}
	c.mu.Unlock()
	_ = c.out.CloseWithError(io.ErrClosedPipe) // it never fails
	_ = c.lines.Close()
	c.work.Wait()
	c.client.CloseIdleConnections()
	return nil
}

// address returns the URL of a request.
func (c *webConn) address(l *webLine) string {
	switch target := l.target(); {
	case l.Home == "":
		return c.base + target
	case c.endpoint == "":
		return c.base + l.Home + strings.TrimPrefix(target, "/")
	default:
		return c.endpoint + strings.TrimPrefix(target, "/")
	}
}

// nameHeader repeats the subject of an MCP request.
const nameHeader = "Mcp-Name"

// request returns a request with the recorded header fields, except for those that were given.
func (c *webConn) request(ctx context.Context, l *webLine, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, l.Request, c.address(l), body)
	if err != nil {
		return nil, err
	}
	for name, value := range l.Head {
		req.Header.Set(name, value)
	}
	if l.Session != "" {
		req.Header.Set(sessionHeader, l.Session)
	}
	for name, values := range c.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	return req, nil
}

// exchange makes a request and writes its answer as lines.
func (c *webConn) exchange(ctx context.Context, l *webLine) error {
	body := l.content()
	req, err := c.request(ctx, l, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if task, ok := jsonscan.Get(body, "params", "taskId"); ok && req.Header.Get(nameHeader) != "" && c.header.Get(nameHeader) == "" {
		text, _ := jsonscan.Unquote(task)
		req.Header.Set(nameHeader, string(text)) // the live id
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := webLine{ID: l.ID, Call: l.Call, Version: l.Version, Status: resp.StatusCode, Session: resp.Header.Get(sessionHeader)}
	if isEvents(resp.Header) {
		answer.Events = true
		if err := c.tell(&answer); err != nil {
			return err
		}
		return c.events(ctx, l, resp.Body)
	}
	if body, err = limit.ReadAll(resp.Body, maxWebBody, errWebBody); err != nil {
		return err
	}
	answer.setContent(body, frame.U2C, c.calls)
	return c.tell(&answer)
}

// overHTTP2 are the protocols that carry gRPC.
func overHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

func isEvents(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// events writes each event as a line, and then the end, even if the stream breaks off.
func (c *webConn) events(ctx context.Context, asks *webLine, body io.Reader) error {
	end := webLine{ID: asks.ID, End: endWhole}
	for e, err := range sse.Events(body, maxWebBody, errWebBody) {
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errWebBody):
			return err
		case err != nil:
			end.End = endCut
			continue
		case e == sse.Comment, c.calls && len(e.Data) == 0:
			continue // an event with only an id
		}
		l := webLine{ID: asks.ID, Call: asks.Call, Version: asks.Version, Event: &e.Name}
		l.setContent(e.Data, frame.U2C, c.calls)
		if err := c.tell(&l); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return c.tell(&end)
}

func (c *webConn) tell(l *webLine) error {
	_, err := c.out.Write(l.bytes())
	return err
}

package replay

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/sse"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
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
	if body, err = inflate.ReadAll(resp.Body, maxWebBody, errWebBody); err != nil {
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

// A webListener serves HTTP. It accepts visits: all requests until the end of the session.
// The next request begins another visit.
type webListener struct {
	listener net.Listener
	server   http.Server
	serving  sync.WaitGroup
	opts     transport.Options
	calls    bool // of JSON-RPC
	rest     bool // of A2A over REST or gRPC
	grpc     *callMethods
	scheme   string
	accepted chan *webVisit
	closed   chan struct{}

	mu    sync.Mutex
	visit *webVisit // nil until the next request
}

func (w web) listen(ctx context.Context, address string, opts transport.Options) (transport.Listener, error) {
	l, cfg, scheme, err := opts.Bind(ctx, address)
	if err != nil {
		return nil, err
	}
	server := &webListener{listener: l, opts: opts, calls: w.calls, rest: w.rest, grpc: w.grpc, scheme: scheme, accepted: make(chan *webVisit), closed: make(chan struct{})}
	server.server = http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	if w.grpc != nil {
		server.server.Protocols = overHTTP2()
	}
	if cfg != nil {
		cfg.NextProtos = []string{"h2"}
		l = tls.NewListener(l, cfg)
	}
	server.serving.Go(func() { _ = server.server.Serve(l) }) // it ends with Close
	return server, nil
}

// Addr is the address to dial.
func (w *webListener) Addr() string { return w.scheme + "://" + w.listener.Addr().String() }

// Accept waits for the first request of a visit.
func (w *webListener) Accept(ctx context.Context) (transport.Conn, error) {
	select {
	case v := <-w.accepted:
		return v, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends listening, after pending answers have been written.
func (w *webListener) Close() error {
	close(w.closed)
	defer w.serving.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), quiet)
	defer cancel()
	if err := w.server.Shutdown(ctx); err != nil {
		return w.server.Close()
	}
	return nil
}

// ServeHTTP answers a request by its visit.
func (w *webListener) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !w.opts.Admit(rw, r) {
		return
	}
	v, err := w.join(r.Context())
	if err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer v.work.Done()
	if w.grpc != nil {
		v.serveCall(rw, r)
		return
	}
	v.serve(rw, r)
}

// join returns the visit of a request.
func (w *webListener) join(ctx context.Context) (*webVisit, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.visit == nil {
		v := &webVisit{listener: w, over: make(chan struct{}), open: map[int64]*webRequest{}}
		v.lines, v.out = io.Pipe()
		select {
		case w.accepted <- v:
		case <-w.closed:
			return nil, http.ErrServerClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		w.visit = v
	}
	w.visit.work.Add(1)
	return w.visit, nil
}

// A webVisit turns requests into lines, and lines into answers.
type webVisit struct {
	listener *webListener
	lines    *io.PipeReader
	out      *io.PipeWriter
	over     chan struct{} // closed with the visit
	ending   sync.Once
	work     sync.WaitGroup // requests

	mu     sync.Mutex
	last   int64
	home   string // the path to which JSON-RPC is posted
	routes a2a.Routes
	open   map[int64]*webRequest
}

// A webRequest is an open request.
type webRequest struct {
	answers chan *webLine
	gone    chan struct{}  // closed when answers are no longer read
	call    []byte         // the id of a JSON-RPC request, or nil
	reading sync.WaitGroup // of the messages of a gRPC call
}

func (v *webVisit) Read(p []byte) (int, error) { return v.lines.Read(p) }

// CloseWrite does nothing: requests end with the visit.
func (v *webVisit) CloseWrite() error { return nil }

func newWebRequest() *webRequest {
	return &webRequest{answers: make(chan *webLine), gone: make(chan struct{})}
}

// Write handles one line. Answers for a client that has left are dropped.
func (v *webVisit) Write(p []byte) (int, error) {
	l := new(webLine)
	if err := json.Unmarshal(p, l); err != nil {
		return 0, err
	}
	v.mu.Lock()
	of := v.open[l.ID]
	v.mu.Unlock()
	if of != nil {
		select {
		case of.answers <- l:
		case <-of.gone:
		}
	}
	return len(p), nil
}

// Close ends the visit, after each request has been answered or left.
func (v *webVisit) Close() error {
	v.ending.Do(func() {
		v.listener.mu.Lock()
		if v.listener.visit == v {
			v.listener.visit = nil
		}
		v.listener.mu.Unlock()
		close(v.over)
		_ = v.lines.Close()
	})
	v.work.Wait()
	return nil
}

// serve writes a request as a line, and answers it.
func (v *webVisit) serve(w http.ResponseWriter, r *http.Request) {
	body, err := inflate.ReadAll(r.Body, maxWebBody, errWebBody)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	l := &webLine{Request: r.Method, Session: r.Header.Get(sessionHeader)}
	l.setTarget(r.RequestURI)
	l.setContent(body, frame.C2U, v.listener.calls)
	if v.listener.rest {
		l.setCall(v.callOf(r))
	}
	of := newWebRequest()
	if _, ok := jsonscan.Get(body, "method"); ok && v.listener.calls {
		of.call, _ = jsonscan.Get(body, "id")
	}
	defer close(of.gone)
	id := v.register(l, of)
	defer v.forget(id)
	if _, err := v.out.Write(l.bytes()); err != nil {
		notRecorded(w, r)
		return
	}
	v.writeAnswer(w, r, id, of, func(l *webLine) bool { return l.write(w, "http://"+r.Host) })
}

// register gives a request its number.
func (v *webVisit) register(l *webLine, of *webRequest) (id int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.listener.calls && l.Request == http.MethodPost {
		v.home = l.path()
	}
	l.atHome(v.home)
	v.last++
	l.ID = v.last
	v.open[l.ID] = of
	return l.ID
}

// writeAnswer writes the answer to a request, line by line.
func (v *webVisit) writeAnswer(w http.ResponseWriter, r *http.Request, id int64, of *webRequest, write func(*webLine) (more bool)) {
	for begun := false; ; begun = true {
		select {
		case answer := <-of.answers:
			if !write(answer) {
				return
			}
		case <-r.Context().Done():
			of.reading.Wait() // the client sent them before it left
			leave := webLine{Ref: id}
			_, _ = v.out.Write(leave.bytes()) // the visit may be over
			return
		case <-v.over:
			if !begun {
				notRecorded(w, r)
				return
			}
			// The recorded client left before the end of the answer.
			wait.Done(r.Context().Done(), quiet)
			panic(http.ErrAbortHandler)
		}
	}
}

// callOf returns the call of A2A that a request is, or nil.
func (v *webVisit) callOf(r *http.Request) *a2a.Call {
	h := frame.Head{Start: r.Method + " " + r.RequestURI + " " + r.Proto}
	for name := range r.Header {
		h.Fields = append(h.Fields, frame.Field{Name: name, Value: r.Header.Get(name)})
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.routes.Call(&h)
}

func (v *webVisit) forget(id int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.open, id)
}

// refuse answers a request that was not recorded, with a status or a JSON-RPC error.
func (v *webVisit) refuse(m *protocol.Message, text string) {
	if v.listener.grpc != nil {
		v.refuseCall(m, text)
		return
	}
	l := webLine{Status: http.StatusNotImplemented, Head: map[string]string{"Content-Type": "application/json"}}
	l.ID, _ = strconv.ParseInt(string(m.ID.Text), 10, 64)
	l.Body = append(jsonscan.AppendQuote([]byte(`{"error":{"message":`), []byte(text)), "}}"...)
	v.mu.Lock()
	of := v.open[l.ID]
	v.mu.Unlock()
	if of != nil && of.call != nil {
		l.Status = http.StatusOK
		l.Body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%s}}`, of.call, jsonscan.AppendQuote(nil, []byte(text)))
	}
	_, _ = v.Write(l.bytes()) // it never fails
}

func notRecorded(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Te") == "trailers" { // gRPC
		failCall(w, codes.Unimplemented, "the recording has no answer to "+r.URL.Path)
		return
	}
	http.Error(w, fmt.Sprintf("the recording has no answer to %s %s", r.Method, r.URL.Path), http.StatusNotImplemented)
}

// write writes the part of an answer that a line has, for a unit with that origin. It reports
// whether more follows.
func (l *webLine) write(w http.ResponseWriter, origin string) bool {
	switch {
	case l.End == endCut:
		panic(http.ErrAbortHandler)
	case l.End != "":
		return false
	case l.Event != nil:
		l.writeEvent(w)
	default:
		for name, value := range l.Head {
			w.Header().Set(name, value)
		}
		if l.Session != "" {
			w.Header().Set(sessionHeader, l.Session)
		}
		w.WriteHeader(l.Status)
		_, _ = w.Write(l.contentAt(origin)) // the context ends if the client has left
	}
	_ = http.NewResponseController(w).Flush()
	return l.Events || l.Event != nil
}

func (l *webLine) writeEvent(w io.Writer) {
	var b strings.Builder
	if *l.Event != "" {
		b.WriteString("event: " + *l.Event + "\n")
	}
	for part := range strings.SplitSeq(string(l.content()), "\n") {
		b.WriteString("data: " + part + "\n")
	}
	_, _ = io.WriteString(w, b.String()+"\n")
}

package replay

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
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
	"github.com/wirectl/wirectl/protocol/all"
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

// A mailbox holds what a peer over HTTP has sent until a run reads it. It is a connection that
// carries parts instead of bytes.
type mailbox struct {
	parts chan *part
	ends  chan error // has a buffer of one
	alive context.Context
	stop  context.CancelFunc
	work  sync.WaitGroup // requests
}

func newMailbox() *mailbox {
	m := &mailbox{parts: make(chan *part), ends: make(chan error, 1)}
	m.alive, m.stop = context.WithCancel(context.Background())
	return m
}

// put waits until a part is read.
func (m *mailbox) put(p *part) error {
	select {
	case m.parts <- p:
		return nil
	case <-m.alive.Done():
		return io.ErrClosedPipe
	}
}

// fail ends the peer's side.
func (m *mailbox) fail(err error) {
	select {
	case m.ends <- err:
	default: // it has failed already
	}
}

// receive returns the next part.
func (m *mailbox) receive(ctx context.Context) (*part, error) {
	select {
	case p := <-m.parts:
		return p, nil
	case err := <-m.ends:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Read fails: there are no bytes.
func (*mailbox) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

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
	c := &httpClient{mailbox: newMailbox(), web: w, base: strings.TrimSuffix(u.String(), "/"), header: opts.Header, open: map[int64]*sending{}}
	if u.Path = strings.TrimSuffix(u.Path, "/"); w.isRPC && u.Path != "" {
		c.endpoint = c.base
		u.Path, u.RawPath = "", ""
		c.base = u.String()
	}
	c.client.Transport = t
	c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, ctx.Err()
}

// An httpClient turns our parts into requests, and answers into parts.
type httpClient struct {
	*mailbox
	web

	base     string      // of each address
	header   http.Header // of each request, instead of the recorded ones
	client   http.Client
	endpoint string // the URL to post to; "" for the recorded path

	mu   sync.Mutex
	open map[int64]*sending
}

// A sending is an open request of ours.
type sending struct {
	leave context.CancelFunc
	body  *io.PipeWriter // of a gRPC call, or nil
	path  string
}

// CloseWrite fails: there is no half-close.
func (c *httpClient) CloseWrite() error { return errors.ErrUnsupported }

// Write begins, continues or leaves a request, as a part in its JSON form says.
func (c *httpClient) Write(line []byte) (int, error) {
	p := new(part)
	if err := json.Unmarshal(line, p); err != nil {
		return 0, err
	}
	to, err := c.requestOf(p)
	if err == nil && to != nil && c.grpc != nil && p.Leaves == 0 {
		err = c.sendMessage(to, p)
	}
	if err != nil {
		return 0, err
	}
	return len(line), nil
}

// requestOf returns the request that a part begins, continues or leaves; nil if it has ended.
func (c *httpClient) requestOf(p *part) (*sending, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.open[max(p.ID, p.Leaves)]
	switch {
	case p.Leaves != 0 && to != nil:
		to.leave()
	case p.Method == "":
	case c.alive.Err() != nil:
		return nil, io.ErrClosedPipe
	default:
		to = c.begin(p)
	}
	return to, nil
}

func (c *httpClient) Close() error {
	c.mu.Lock()
	c.stop()
	for _, s := range c.open {
		s.leave()
	}
	c.mu.Unlock()
	c.work.Wait()
	c.client.CloseIdleConnections()
	return nil
}

// begin registers a request of ours, and starts it.
func (c *httpClient) begin(p *part) *sending {
	ctx, cancel := context.WithCancel(c.alive)
	s := &sending{leave: cancel, path: p.path()}
	content := p.content("")
	var body io.Reader = bytes.NewReader(content)
	if c.grpc != nil {
		var r *io.PipeReader
		r, s.body = io.Pipe()
		s.leave = func() { // the client of net/http notices the cancel with the end of the body
			cancel()
			_ = s.body.CloseWithError(context.Canceled) // it never fails
		}
		body = r
	}
	c.open[p.ID] = s
	c.work.Go(func() {
		defer s.leave()
		if err := c.exchange(ctx, p, body, content); err != nil && ctx.Err() == nil {
			c.fail(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, p.ID)
	})
	return s
}

// sendMessage writes the message in a part to a call, which may have ended.
func (c *httpClient) sendMessage(to *sending, p *part) error {
	method := c.grpc.of(to.path)
	if p.More || p.Method != "" && !method.streams {
		message, err := p.messageAt(method.request, "")
		if err != nil {
			return err
		}
		_, _ = to.body.Write(message)
		_, _ = to.body.Write(nil) // until the transport asks for more: it has then sent the message
	}
	if p.Last || p.Method != "" && !method.streams {
		return to.body.Close()
	}
	return nil
}

// address returns the URL of a request.
func (c *httpClient) address(p *part) string {
	switch target := p.target(); {
	case p.Home == "":
		return c.base + target
	case c.endpoint == "":
		return c.base + p.Home + strings.TrimPrefix(target, "/")
	default:
		return c.endpoint + strings.TrimPrefix(target, "/")
	}
}

// nameHeader repeats the subject of an MCP request.
const nameHeader = "Mcp-Name"

// newRequest returns a request with the recorded header fields, except for those that were given.
func (c *httpClient) newRequest(ctx context.Context, p *part, body io.Reader, content []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, p.Method, c.address(p), body)
	if err != nil {
		return nil, err
	}
	for name, value := range p.Head {
		req.Header.Set(name, value)
	}
	if p.Session != "" {
		req.Header.Set(sessionHeader, p.Session)
	}
	if c.grpc != nil {
		req.Header.Set("Te", "trailers")
	} else if task, ok := jsonscan.Get(content, "params", "taskId"); ok && req.Header.Get(nameHeader) != "" {
		text, _ := jsonscan.Unquote(task)
		req.Header.Set(nameHeader, string(text)) // the live id
	}
	for name, values := range c.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	return req, nil
}

// exchange makes a request and delivers its answer in parts.
func (c *httpClient) exchange(ctx context.Context, p *part, body io.Reader, content []byte) error {
	req, err := c.newRequest(ctx, p, body, content)
	if err != nil {
		return err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	common := part{ID: p.ID, Call: p.Call, Version: p.Version}
	head := common
	if c.grpc != nil {
		head.setHead(headOf("", resp.Header))
		head.setStatus(strconv.Itoa(resp.StatusCode))
	} else {
		head.Status, head.Session = resp.StatusCode, resp.Header.Get(sessionHeader)
		head.Events = strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	}
	if c.grpc == nil && !head.Events {
		whole, err := inflate.ReadAll(resp.Body, maxWebBody, errWebBody)
		if err != nil {
			return err
		}
		head.setContent(whole, frame.U2C, c.isRPC)
	}
	if err := c.put(&head); err != nil || !head.Events {
		return err
	}
	messages := c.events
	if c.grpc != nil {
		messages = c.messages
	}
	end := common
	end.End = endWhole
	for answer, err := range messages(p, resp) {
		switch {
		case ctx.Err() != nil:
			return nil
		case c.grpc == nil && errors.Is(err, errWebBody):
			return err
		case err != nil:
			end.End, end.Text = endCut, err.Error()
			continue
		}
		answer.ID, answer.Call, answer.Version = common.ID, common.Call, common.Version
		if err := c.put(answer); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case c.grpc == nil:
		end.Text = ""
	case end.End == endWhole:
		end.setHead(headOf("", resp.Trailer))
		end.setStatus("")
	}
	return c.put(&end)
}

// events yields the events of an answer.
func (c *httpClient) events(_ *part, resp *http.Response) iter.Seq2[*part, error] {
	return func(yield func(*part, error) bool) {
		for e, err := range sse.Events(resp.Body, maxWebBody, errWebBody) {
			p := new(part)
			switch {
			case err != nil:
			case e == sse.Comment, c.isRPC && len(e.Data) == 0:
				continue // an event with only an id
			default:
				name := e.Name
				p.Event = &name
				p.setContent(bytes.Clone(e.Data), frame.U2C, c.isRPC)
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// messages yields the messages of an answer of gRPC.
func (c *httpClient) messages(request *part, resp *http.Response) iter.Seq2[*part, error] {
	method := c.grpc.of(request.path())
	return func(yield func(*part, error) bool) {
		for message, err := range callMessages(resp.Body, resp.Header) {
			p := &part{Event: new(string)}
			if err == nil {
				p.setMessage(method.answer, message, frame.U2C, frame.C2U)
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// overHTTP2 are the protocols that carry gRPC.
func overHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// An httpServer accepts visits: all requests until the end of the session. The next request begins
// another visit.
type httpServer struct {
	web
	listener net.Listener
	server   http.Server
	serving  sync.WaitGroup
	opts     transport.Options
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
	server := &httpServer{web: w, listener: l, opts: opts, scheme: scheme, accepted: make(chan *webVisit), closed: make(chan struct{})}
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
func (w *httpServer) Addr() string { return w.scheme + "://" + w.listener.Addr().String() }

// Accept waits for the first request of a visit.
func (w *httpServer) Accept(ctx context.Context) (transport.Conn, error) {
	select {
	case v := <-w.accepted:
		return v, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends listening, after pending answers have been written.
func (w *httpServer) Close() error {
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
func (w *httpServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !w.opts.Admit(rw, r) {
		return
	}
	v, err := w.join(r.Context())
	if err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer v.work.Done()
	v.serve(rw, r)
}

// join returns the visit of a request.
func (w *httpServer) join(ctx context.Context) (*webVisit, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.visit == nil {
		v := &webVisit{mailbox: newMailbox(), web: w.web, server: w, open: map[int64]*webRequest{}}
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

// A webVisit turns requests into parts, and our parts into answers.
type webVisit struct {
	*mailbox
	web
	server *httpServer

	mu   sync.Mutex
	last int64
	home string // the path to which JSON-RPC is posted
	apis all.APIs
	open map[int64]*webRequest
}

// A webRequest is an open request.
type webRequest struct {
	answers chan *part
	left    chan struct{} // closed when answers are no longer read
	call    []byte        // the id of a JSON-RPC request, or nil
}

// CloseWrite does nothing: requests end with the visit.
func (v *webVisit) CloseWrite() error { return nil }

// Write answers as a part in its JSON form says.
func (v *webVisit) Write(line []byte) (int, error) {
	p := new(part)
	if err := json.Unmarshal(line, p); err != nil {
		return 0, err
	}
	v.answer(p)
	return len(line), nil
}

// answer passes on a part of an answer, unless the client has left.
func (v *webVisit) answer(p *part) {
	if to := v.requestOf(p.ID); to != nil {
		select {
		case to.answers <- p:
		case <-to.left:
		}
	}
}

func (v *webVisit) requestOf(id int64) *webRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.open[id]
}

// Close ends the visit, after each request has been answered or left.
func (v *webVisit) Close() error {
	v.server.mu.Lock()
	if v.server.visit == v {
		v.server.visit = nil
	}
	v.server.mu.Unlock()
	v.stop()
	v.work.Wait()
	return nil
}

// serve delivers a request, and answers it.
func (v *webVisit) serve(w http.ResponseWriter, r *http.Request) {
	to := &webRequest{answers: make(chan *part), left: make(chan struct{})}
	defer close(to.left)
	p := &part{Method: r.Method}
	p.setTarget(r.RequestURI)
	var method callMethod
	next, stop := iter.Pull2(callMessages(r.Body, r.Header))
	defer stop()
	if v.grpc != nil {
		method = v.grpc.of(p.path())
		if !method.streams {
			message, err, ok := next()
			if ok && err != nil {
				failCall(w, codes.InvalidArgument, err.Error())
				return
			}
			p.setMessage(method.request, message, frame.C2U, frame.U2C)
		}
	} else {
		body, err := inflate.ReadAll(r.Body, maxWebBody, errWebBody)
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		p.Session = r.Header.Get(sessionHeader)
		p.setContent(body, frame.C2U, v.isRPC)
		if _, ok := jsonscan.Get(body, "method"); ok && v.isRPC {
			to.call, _ = jsonscan.Get(body, "id")
		}
	}
	v.register(p, to, r)
	defer v.forget(p.ID)
	if v.put(p) != nil {
		notRecorded(w, r)
		return
	}
	var reading sync.WaitGroup // of the messages of a gRPC call
	if method.streams {
		defer reading.Wait()
		defer r.Body.Close()
		reading.Go(func() { v.readCall(next, method, p.ID) })
	}
	for started := false; ; started = true {
		select {
		case answer := <-to.answers:
			if !answer.write(w, v.web, method, "http://"+r.Host, started) {
				return
			}
		case <-r.Context().Done():
			reading.Wait()                 // the client sent them before it left
			_ = v.put(&part{Leaves: p.ID}) // the visit may be over
			return
		case <-v.alive.Done():
			if !started {
				notRecorded(w, r)
				return
			}
			// The recorded client left before the end of the answer.
			wait.Done(r.Context().Done(), quiet)
			panic(http.ErrAbortHandler)
		}
	}
}

// register gives a request its number.
func (v *webVisit) register(p *part, to *webRequest, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.api != nil {
		head := headOf(r.Method+" "+r.RequestURI+" "+r.Proto, r.Header)
		if c := v.apis.Call(&frame.Frame{Meta: &frame.Meta{Framing: frame.HTTP, Head: head}}); c != nil && c.Spec == v.api {
			p.setCall(c)
		}
	}
	if v.isRPC && p.Method == http.MethodPost {
		v.home = p.path()
	}
	p.atHome(v.home)
	v.last++
	p.ID = v.last
	v.open[p.ID] = to
}

func (v *webVisit) forget(id int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.open, id)
}

// readCall delivers the messages of a streamed request.
func (v *webVisit) readCall(next func() ([]byte, error, bool), method callMethod, id int64) {
	for {
		message, err, more := next()
		if err != nil {
			return // the client left
		}
		p := &part{ID: id, More: more, Last: !more}
		if more {
			p.setMessage(method.request, message, frame.C2U, frame.U2C)
		}
		if v.put(p) != nil || !more {
			return
		}
	}
}

// refuse answers a request that was not recorded, with a status or a JSON-RPC error.
func (v *webVisit) refuse(m *protocol.Message, text string) {
	id, _ := strconv.ParseInt(string(m.ID.Text), 10, 64)
	p := &part{Status: http.StatusNotImplemented, Head: map[string]string{"Content-Type": "application/json"}}
	switch to := v.requestOf(id); {
	case v.grpc != nil:
		p = failedCall(codes.Unimplemented, text)
	case to != nil && to.call != nil:
		p.Status = http.StatusOK
		p.Body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%s}}`, to.call, jsonscan.AppendQuote(nil, []byte(text)))
	default:
		p.Body = fmt.Appendf(nil, `{"error":{"message":%s}}`, jsonscan.AppendQuote(nil, []byte(text)))
	}
	p.ID = id
	v.answer(p)
}

func notRecorded(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Te") == "trailers" { // gRPC
		failCall(w, codes.Unimplemented, "the recording has no answer to "+r.URL.Path)
		return
	}
	http.Error(w, fmt.Sprintf("the recording has no answer to %s %s", r.Method, r.URL.Path), http.StatusNotImplemented)
}

// failCall ends a gRPC call with an error.
func failCall(w http.ResponseWriter, code codes.Code, text string) {
	failedCall(code, text).write(w, web{grpc: new(callMethods)}, callMethod{}, "", false)
}

// failedCall returns that end.
func failedCall(code codes.Code, text string) *part {
	return &part{End: callStatus + strconv.Itoa(int(code)), Text: text}
}

// write writes a part of an answer, for a unit with that origin. A status of gRPC before anything
// else is in the head. It reports whether more follows.
func (p *part) write(w http.ResponseWriter, as web, method callMethod, origin string, started bool) bool {
	code, isStatus := strings.CutPrefix(p.End, callStatus)
	switch {
	case p.End == endCut:
		panic(http.ErrAbortHandler)
	case isStatus:
		place := http.TrailerPrefix
		if !started {
			place = ""
			w.Header().Set("Content-Type", "application/grpc")
		}
		for name, value := range p.Head {
			w.Header().Set(place+name, value)
		}
		w.Header().Set(place+"Grpc-Status", code)
		w.Header().Set(place+"Grpc-Message", url.PathEscape(p.Text))
		return false
	case p.End == endWhole:
		return false
	case p.End != "":
		status, _ := strconv.Atoi(strings.TrimPrefix(p.End, "status "))
		w.WriteHeader(status)
		return false
	case p.Event != nil && as.grpc != nil:
		message, err := p.messageAt(method.answer, origin)
		if err != nil {
			return failedCall(codes.Internal, err.Error()).write(w, as, method, origin, started)
		}
		_, _ = w.Write(message) // the context ends if the client has left
	case p.Event != nil:
		p.writeEvent(w)
	default:
		for name, value := range p.Head {
			w.Header().Set(name, value)
		}
		if p.Session != "" {
			w.Header().Set(sessionHeader, p.Session)
		}
		if as.grpc == nil {
			w.WriteHeader(p.Status)
			_, _ = w.Write(p.content(origin))
		}
	}
	_ = http.NewResponseController(w).Flush()
	return p.Events || p.Event != nil
}

func (p *part) writeEvent(w io.Writer) {
	var b strings.Builder
	if *p.Event != "" {
		b.WriteString("event: " + *p.Event + "\n")
	}
	for part := range strings.SplitSeq(string(p.content("")), "\n") {
		b.WriteString("data: " + part + "\n")
	}
	_, _ = io.WriteString(w, b.String()+"\n")
}

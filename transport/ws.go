package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/frame"
)

// A wsConn is a WebSocket. It has no half-close: after our close frame no more messages
// arrive.
type wsConn struct {
	ws      *websocket.Conn
	raw     net.Conn                             // below ws
	message io.Reader                            // the rest of the message that Read is in; nil between two
	heard   atomic.Pointer[websocket.CloseError] // the peer's close frame
	parting atomic.Pointer[websocket.CloseError] // the close frame for Close; nil is the normal one
}

func newWSConn(ws *websocket.Conn, raw net.Conn, opts *Options) *wsConn {
	ws.SetReadLimit(opts.MessageLimit())
	return &wsConn{ws: ws, raw: raw}
}

func (c *wsConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if c.message == nil {
			_, r, err := c.ws.Reader(context.Background())
			if err != nil {
				return 0, c.streamError(err)
			}
			c.message = r
		}
		n, err := c.message.Read(p)
		if err == io.EOF {
			c.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, c.streamError(err)
		}
	}
}

// streamError returns io.EOF for the clean end of the WebSocket, and any other error
// unchanged.
func (c *wsConn) streamError(err error) error {
	said, closed := errors.AsType[websocket.CloseError](err)
	if !closed {
		return err
	}
	c.heard.Store(&said)
	switch said.Code {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
		return io.EOF
	}
	return err
}

func (c *wsConn) Write(p []byte) (int, error) {
	if err := c.ws.Write(context.Background(), websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ReadMessage returns the next message. If ctx ends, it closes the connection, perhaps in
// the middle of a message.
func (c *wsConn) ReadMessage(ctx context.Context) (Message, error) {
	kind, data, err := c.ws.Read(ctx)
	return Message{Text: kind == websocket.MessageText, Data: data}, c.streamError(err)
}

func (c *wsConn) WriteMessage(ctx context.Context, m Message) error {
	kind := websocket.MessageBinary
	if m.Text {
		kind = websocket.MessageText
	}
	return c.ws.Write(ctx, kind, m.Data)
}

func (c *wsConn) CloseWrite() error { return errors.ErrUnsupported }

// goodbye is how long the peer may take to answer our close frame.
const goodbye = time.Second

// Close sends a close frame, and waits a moment for the peer's.
func (c *wsConn) Close() error {
	// The library would wait five seconds, and as long again to write.
	hurry := time.AfterFunc(goodbye, func() { c.raw.Close() })
	defer hurry.Stop()
	said := websocket.CloseError{Code: websocket.StatusNormalClosure}
	if p := c.parting.Load(); p != nil {
		said = *p
	}
	linger(c.raw, -1)
	_ = c.ws.Close(said.Code, said.Reason)
	return nil
}

func (c *wsConn) lowest() net.Conn { return c.raw }

// ErrNotFramed means that a message does not fit into the framing.
var ErrNotFramed = errors.New("a message does not fit the framing")

// CloseError returns the close frame that gives a peer the reason for a failed end.
func CloseError(why error) websocket.CloseError {
	switch {
	case errors.Is(why, ErrNotFramed):
		return websocket.CloseError{Code: websocket.StatusInvalidFramePayloadData, Reason: ErrNotFramed.Error()}
	case frame.IsFault(why):
		return websocket.CloseError{Code: websocket.StatusProtocolError, Reason: "the stream broke its framing"}
	}
	return websocket.CloseError{Code: websocket.StatusBadGateway, Reason: "the other end of the relay failed"}
}

// Abort closes with the code for the reason, unless [PassGoodbye] has set another.
func (c *wsConn) Abort(why error) error {
	said := CloseError(why)
	c.parting.CompareAndSwap(nil, &said)
	return c.Close()
}

// PassGoodbye makes the Close of one WebSocket send the code and reason with which the peer
// of another has closed. It does nothing without such a close frame, or for other
// transports.
func PassGoodbye(from, to Conn) {
	f, spoken := from.(*wsConn)
	t, speaks := to.(*wsConn)
	if spoken && speaks {
		t.parting.Store(f.heard.Load())
	}
}

// Goodbye returns the code and the reason with which the peer of a WebSocket has closed
// it; false if it has not, or c is not a WebSocket.
func Goodbye(c Conn) (code uint32, reason string, said bool) {
	if ws, ok := c.(*wsConn); ok {
		if heard := ws.heard.Load(); heard != nil {
			return uint32(heard.Code), heard.Reason, true
		}
	}
	return 0, "", false
}

// GoAway makes the Close of a WebSocket, or of a gRPC server, tell the peer that this end
// goes away.
func GoAway(c Conn) {
	if g, speaks := c.(interface{ GoAway() }); speaks {
		g.GoAway()
	}
}

// GoAway is for [GoAway].
func (c *wsConn) GoAway() {
	c.parting.Store(&websocket.CloseError{Code: websocket.StatusGoingAway})
}

func checkWS(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return cause(err)
	case u.Host == "":
		return fmt.Errorf("no host: want %s://HOST:PORT/PATH", u.Scheme)
	}
	return nil
}

func dialWS(ctx context.Context, address string, opts Options) (Conn, error) {
	var raw net.Conn
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, hostPort string) (c net.Conn, err error) {
			raw, err = new(net.Dialer).DialContext(ctx, network, hostPort)
			return raw, err
		},
	}
	defer transport.CloseIdleConnections()
	if strings.HasPrefix(address, "wss:") {
		u, err := url.Parse(address)
		if err != nil {
			return nil, cause(err)
		}
		if transport.TLSClientConfig, err = opts.ClientTLS(u.Hostname()); err != nil {
			return nil, err
		}
	}
	//nolint:bodyclose // the library has read what there is of it
	ws, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPClient:   &http.Client{Transport: transport, CheckRedirect: stay},
		HTTPHeader:   opts.Header,
		Subprotocols: opts.Subprotocols,
	})
	switch {
	case err == nil:
		return newWSConn(ws, raw, &opts), nil
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, &RefusedError{resp.StatusCode, resp.Status}
	}
	return nil, err
}

// A RefusedError is the response of a server that refuses a WebSocket.
type RefusedError struct {
	Code   int
	Status string // with the code
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the server answered %q instead of switching to WebSocket", e.Status)
}

// stay follows no redirect, which would send headers, and so keys, to another server.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// A wsListener is an HTTP server that only accepts WebSockets.
type wsListener struct {
	addr   string
	path   string // the only one that is served; any if ""
	opts   Options
	inbox  *Inbox[Conn]
	server *http.Server
	served sync.WaitGroup
}

func listenWS(ctx context.Context, address string, opts Options) (Listener, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, cause(err)
	}
	if err := checkPort(u); err != nil {
		return nil, err
	}
	l, err := listenHTTP(ctx, u, opts)
	if err != nil {
		return nil, err
	}
	u.Host = l.Addr().String()
	wl := &wsListener{addr: u.String(), path: strings.TrimSuffix(u.Path, "/"), opts: opts, inbox: NewInbox[Conn]()}
	wl.server = &http.Server{
		Handler:           wl,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, rawKey{}, c) },
		ReadHeaderTimeout: greeting,
		ErrorLog:          log.New(noticeWriter(opts.notice), "", 0),
	}
	wl.served.Go(func() {
		_ = wl.server.Serve(l) // ends when it is closed
		wl.inbox.Close()
	})
	return wl, nil
}

// listenHTTP listens at the host of u, by TLS if its scheme says so.
func listenHTTP(ctx context.Context, u *url.URL, opts Options) (net.Listener, error) {
	if u.Scheme != "wss" {
		return listenStream(ctx, "tcp://"+u.Host, opts)
	}
	l, cfg, err := listenStreamTLS(ctx, "tls://"+u.Host, opts)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(l, cfg), nil
}

// rawKey finds the connection in the context of a request.
type rawKey struct{}

type noticeWriter func(string)

func (w noticeWriter) Write(p []byte) (int, error) {
	w(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

func (l *wsListener) Addr() string { return l.addr }

func (l *wsListener) Accept(ctx context.Context) (Conn, error) { return l.inbox.Accept(ctx) }

func (l *wsListener) Close() error {
	l.inbox.Close()
	err := l.server.Close()
	l.served.Wait()
	return err
}

// ServeHTTP takes one WebSocket.
func (l *wsListener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.path != "" && strings.TrimSuffix(r.URL.Path, "/") != l.path {
		http.NotFound(w, r)
		return
	}
	if !l.opts.Admit(w, r) {
		return
	}
	if l.opts.Unanswered && isUpgrade(r) {
		l.hold(w, r)
		return
	}
	c, err := l.agree(w, r, l.opts.Subprotocols)
	if err == nil && !l.inbox.Put(context.Background(), c) {
		_ = c.ws.CloseNow()
	}
}

// agree gives a client its WebSocket. If it cannot, the client has been told.
func (l *wsListener) agree(w http.ResponseWriter, r *http.Request, subprotocols []string) (*wsConn, error) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: subprotocols, InsecureSkipVerify: true}) // Admit has verified the origin
	if err != nil {
		return nil, err
	}
	return newWSConn(ws, r.Context().Value(rawKey{}).(net.Conn), &l.opts), nil
}

// A wsCall is a client that waits for the answer to its WebSocket handshake.
type wsCall struct {
	path     string // of the listener, without a slash at its end
	request  *http.Request
	verdict  chan verdict // has a buffer of one
	answered chan wsAnswer
}

// A verdict is the answer to a client.
type verdict struct {
	refused      error // nil to accept the WebSocket
	subprotocols []string
}

type wsAnswer struct {
	conn *wsConn
	err  error
}

// isUpgrade reports whether a request may get a WebSocket. The library refuses any other.
func isUpgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// hold passes a client to Accept, and answers it after the verdict.
func (l *wsListener) hold(w http.ResponseWriter, r *http.Request) {
	call := &wsCall{path: l.path, request: r, verdict: make(chan verdict, 1), answered: make(chan wsAnswer, 1)}
	if !l.inbox.Put(r.Context(), call) {
		http.Error(w, "the listener is closed", http.StatusServiceUnavailable)
		return
	}
	select {
	case v := <-call.verdict:
		if v.refused == nil {
			conn, err := l.agree(w, r, append(v.subprotocols, l.opts.Subprotocols...))
			call.answered <- wsAnswer{conn, err}
			return
		}
		code := http.StatusBadGateway
		if refused, ok := errors.AsType[*RefusedError](v.refused); ok && refused.Code >= http.StatusBadRequest {
			code = refused.Code
		}
		http.Error(w, "wirectl: the unit was not reached: "+v.refused.Error(), code)
	case <-r.Context().Done():
	}
	call.answered <- wsAnswer{err: errCallEnded}
}

// errCallEnded is the error for a client that left while it waited, or was refused.
var errCallEnded = errors.New("the client did not get its WebSocket")

func (c *wsCall) Read([]byte) (int, error)  { return 0, errors.ErrUnsupported }
func (c *wsCall) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (c *wsCall) CloseWrite() error         { return errors.ErrUnsupported }
func (c *wsCall) Close() error              { return c.Abort(errCallEnded) }

// Abort refuses the client, unless it was answered.
func (c *wsCall) Abort(why error) error {
	select {
	case c.verdict <- verdict{refused: why}:
		<-c.answered
	default:
	}
	return nil
}

// Onward returns the unit with the path, query and subprotocols that the client of a
// WebSocket requested. A request for the listener's own path gets the unit's own path;
// subprotocols that are configured for the unit stay.
func Onward(unit Endpoint, controller Conn) Endpoint {
	call, asked := controller.(*wsCall)
	e, dialled := unit.(urlEndpoint)
	if !asked || !dialled || e.scheme.Name != "ws" && e.scheme.Name != "wss" {
		return unit
	}
	u, err := url.Parse(e.address)
	if err != nil {
		return unit
	}
	if from := call.request.URL; strings.TrimSuffix(from.Path, "/") != call.path {
		u.Path, u.RawPath = from.Path, from.RawPath
	}
	if query := call.request.URL.RawQuery; query != "" {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+query, "&")
	}
	if e.path = u.RequestURI(); len(e.opts.Subprotocols) == 0 {
		for _, list := range call.request.Header.Values("Sec-WebSocket-Protocol") {
			for name := range strings.SplitSeq(list, ",") {
				e.opts.Subprotocols = append(e.opts.Subprotocols, strings.TrimSpace(name))
			}
		}
	}
	return e
}

// Answer accepts the client of a connection that a listener has not answered, with the
// subprotocol that the unit has accepted. It returns the connection to use.
func Answer(controller, unit Conn) (Conn, error) {
	call, ok := controller.(*wsCall)
	if !ok {
		return controller, nil
	}
	var v verdict
	if u, ok := unit.(*wsConn); ok && u.ws.Subprotocol() != "" {
		v.subprotocols = []string{u.ws.Subprotocol()}
	}
	call.verdict <- v
	a := <-call.answered
	if a.err != nil {
		return nil, a.err
	}
	return a.conn, nil
}

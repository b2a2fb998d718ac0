package transport

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// A wsCall is a client that asked for a WebSocket and was not answered yet.
type wsCall struct {
	path     string // of the listener, without a slash at its end
	request  *http.Request
	verdict  chan verdict // has room for one
	answered chan wsAnswer
}

// A verdict is what a client is to be told.
type verdict struct {
	refused      error // nil if it is to have its WebSocket
	subprotocols []string
}

type wsAnswer struct {
	conn *wsConn
	err  error
}

// isUpgrade reports whether a request may be given a WebSocket. What is wrong with
// any other the library tells the client.
func isUpgrade(r *http.Request) bool {
	if r.Method != http.MethodGet || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return false
	}
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin == "" || err == nil && strings.EqualFold(u.Host, r.Host)
}

// hold hands on a client, and answers it as it is told to.
func (l *wsListener) hold(w http.ResponseWriter, r *http.Request) {
	call := &wsCall{path: l.path, request: r, verdict: make(chan verdict, 1), answered: make(chan wsAnswer, 1)}
	if !l.inbox.Put(r.Context(), call) {
		http.Error(w, "nobody accepts connections any more", http.StatusServiceUnavailable)
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
		if refused := (*RefusedError)(nil); errors.As(v.refused, &refused) && refused.Code >= http.StatusBadRequest {
			code = refused.Code
		}
		http.Error(w, "wirectl: the unit was not reached: "+v.refused.Error(), code)
	case <-r.Context().Done():
	}
	call.answered <- wsAnswer{err: errCallEnded}
}

// errCallEnded is that of a client that went away while it waited, or was refused.
var errCallEnded = errors.New("the client was not given its WebSocket")

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

// Onward returns the unit as the client of a connection asked for it: that of a
// WebSocket by another one has said a path, a query and subprotocols. What a client
// asks for at the listener's own path is the unit's own; subprotocols that were
// chosen for the unit stay.
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

// Answer gives the client of a connection that a listener has not answered what it
// asked for, with the subprotocol that the unit has agreed to. It returns the
// connection to use.
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

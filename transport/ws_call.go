package transport

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

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

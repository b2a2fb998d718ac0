// Package nexus is the broker's front door for JSON-RPC 2.0 over HTTP: a
// conversation that keeps its context, whose answers can be cancelled.
package nexus

import (
	"context"
	"net/http"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Name is the door's name in calls and metrics.
const Name = "nexus"

// Limit is the largest body, in bytes, that peers accept.
const Limit = 1 << 20

// New returns a server of the door. shutdown is called when a client asks for it,
// once its answer is on the way. The publisher may be nil.
func New(b *broker.Broker, p *publish.Publisher, shutdown func()) *door.Server {
	h := &handler{publish: p, shutdown: shutdown, talk: newTalk(b)}
	return web.Server(web.Config{
		Handler: h.serve, Limit: Limit,
		Fault: func(_ string, f *web.Fault) []byte { return failure(nil, codeRequest, f.Message) },
	})
}

// The codes of errors.
const (
	codeParse   = -32700
	codeRequest = -32600
	codeMethod  = -32601
	codeParams  = -32602
	codeServer  = -32000
)

type handler struct {
	publish  *publish.Publisher
	shutdown func()
	talk     *talk
}

func (h *handler) serve(ctx context.Context, r *web.Request, w *web.Response) {
	switch {
	case r.Path != "/" && r.Path != "/rpc":
		w.JSON(http.StatusNotFound, failure(nil, codeRequest, "Not found"))
	case r.Method != http.MethodPost:
		w.Set("Allow", "POST")
		w.JSON(http.StatusMethodNotAllowed, failure(nil, codeRequest, "Method not allowed"))
	case r.Length == web.Invalid:
		w.JSON(http.StatusBadRequest, failure(nil, codeRequest, "Invalid Content-Length"))
	default:
		h.rpc(ctx, r, w)
	}
}

func (h *handler) rpc(ctx context.Context, r *web.Request, w *web.Response) {
	tap := h.publish.Open("nexus client "+r.Conn.RemoteAddr().String(), "nexus", frame.HTTP)
	defer tap.Close()
	tap.HTTP(frame.C2U, r.Start(), r.Body)
	req, fault := parse(r.Body)
	if fault != nil {
		body := failure(nil, fault.code, fault.message)
		tap.HTTP(frame.U2C, web.StatusLine(http.StatusBadRequest), body)
		w.JSON(http.StatusBadRequest, body)
		return
	}
	result, fault := h.call(ctx, r, req, tap)
	var body []byte
	switch {
	case req.id == nil: // a notification is never answered
	case fault != nil:
		body = failure(req.id, fault.code, fault.message)
	default:
		body = success(req.id, result)
	}
	tap.HTTP(frame.U2C, web.StatusLine(http.StatusOK), body)
	w.JSON(http.StatusOK, body)
	if req.method == "shutdown" && fault == nil {
		w.Close()
		h.shutdown()
	}
}

func (h *handler) call(ctx context.Context, r *web.Request, req *request, tap *publish.Conn) ([]byte, *fault) {
	switch req.method {
	case "send":
		return h.talk.send(ctx, r, req, tap)
	case "cancel":
		return h.talk.cancel(req)
	case "shutdown":
		return []byte(`{"success":true}`), nil
	case "get_tokens":
		return h.talk.tokens(), nil
	case "get_context":
		return h.talk.context(), nil
	}
	return nil, &fault{codeMethod, "Method not found: " + req.method}
}

func success(id, result []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(append(b, `,"result":`...), result...)
	return append(b, '}')
}

// failure writes an error. A nil id is null.
func failure(id []byte, code int, message string) []byte {
	if id == nil {
		id = []byte("null")
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"error":{"code":`...)
	b = appendInt(b, code)
	b = jsonscan.AppendQuote(append(b, `,"message":`...), []byte(message))
	return append(b, "}}"...)
}

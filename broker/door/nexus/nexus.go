// Package nexus is the broker's front door for JSON-RPC 2.0 over HTTP: conversations that
// keep their context, with answers that can be cancelled. Older clients share one, at / and
// /rpc; newer ones create any number, called agents, each at a path of its own.
package nexus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Name is the door's name in calls and metrics.
const Name = "nexus"

// Limit is the largest body, in bytes, that peers accept.
const Limit = 1 << 20

// New returns a server of the door. shutdown is called when a client asks for it, after its
// answer is sent. Without a token, all clients are admitted; older clients send none. The
// publisher may be nil.
func New(b *broker.Broker, p *observe.Publisher, token string, shutdown func()) *web.Server {
	h := &handler{publish: p, shutdown: shutdown, talk: newTalk(b, "", nil), agents: newAgents(b)}
	s := web.New(web.Config{
		Handler: h.serve, Limit: Limit, Access: web.Access{Token: token},
		Fault: func(_ string, f *web.Fault) []byte { return failure(nil, codeRequest, f.Message) },
	})
	h.agents.server = s
	return s
}

// The codes of errors.
const (
	codeParse   = -32700
	codeRequest = -32600
	codeMethod  = -32601
	codeParams  = -32602
	codeFailed  = -32603
	codeServer  = -32000
)

type handler struct {
	publish  *observe.Publisher
	shutdown func()
	talk     *talk
	agents   *agents
}

// agentPath is where the agents are.
const agentPath = "/agent/"

func (h *handler) serve(ctx context.Context, r *web.Request, w *web.Response) {
	id, ofAgent := strings.CutPrefix(r.URL.Path, agentPath)
	switch {
	case r.URL.Path != "/" && r.URL.Path != "/rpc" && !ofAgent:
		w.JSON(http.StatusNotFound, failure(nil, codeRequest, "Not found"))
	case r.Method != http.MethodPost:
		w.Set("Allow", "POST")
		w.JSON(http.StatusMethodNotAllowed, failure(nil, codeRequest, "Method not allowed"))
	case !ofAgent:
		h.rpc(ctx, r, w, nil)
	default:
		if a := h.agents.find(id); a != nil {
			h.rpc(ctx, r, w, a)
		} else {
			w.JSON(http.StatusNotFound, failure(nil, codeParams, "Agent not found: "+id))
		}
	}
}

// rpc answers a request to an agent or, if a is nil, to the server.
func (h *handler) rpc(ctx context.Context, r *web.Request, w *web.Response, a *agent) {
	tap := h.publish.Open("nexus client "+r.RemoteAddr, "nexus", frame.HTTP)
	defer tap.Close()
	tap.HTTP(frame.C2U, r.Start(), r.Body)
	req, fault := parse(r.Body)
	if fault != nil {
		body := failure(nil, fault.Code, fault.Message)
		tap.Response(http.StatusBadRequest, body)
		w.JSON(http.StatusBadRequest, body)
		return
	}
	result, fault := h.call(ctx, r, req, a, tap)
	var body []byte
	switch {
	case req.id == nil: // a notification is never answered
	case fault != nil:
		body = failure(req.id, fault.Code, fault.Message)
	default:
		body = jsonscan.MustMarshal(response{Version: "2.0", ID: req.id, Result: result})
	}
	tap.Response(http.StatusOK, body)
	ends := a == nil && (req.method == "shutdown" || req.method == "shutdown_server")
	if ends {
		w.Close()
	}
	w.JSON(http.StatusOK, body)
	if ends {
		h.shutdown()
	}
}

func (h *handler) call(ctx context.Context, r *web.Request, req *request, a *agent, tap *observe.Conn) (any, *fault) {
	talk := h.talk
	if a != nil {
		talk = a.talk
	}
	switch req.method {
	case "send":
		return talk.send(ctx, r, req, tap)
	case "cancel":
		return talk.cancel(req)
	case "shutdown":
		if a != nil {
			h.agents.remove(a.id)
		}
		return object(`{"success":true}`), nil
	case "get_tokens":
		return talk.tokens(), nil
	case "get_context":
		return talk.context(), nil
	case "get_messages":
		return talk.list(req, a)
	case "compact":
		return talk.compact(ctx, r, tap)
	}
	if a == nil {
		return h.global(ctx, r, req, tap)
	}
	return nil, unknownMethod(req)
}

// global serves the methods of the server that newer clients use.
func (h *handler) global(ctx context.Context, r *web.Request, req *request, tap *observe.Conn) (any, *fault) {
	switch req.method {
	case "create_agent":
		return h.agents.create(ctx, r, req, tap)
	case "destroy_agent":
		return h.agents.destroy(req)
	case "list_agents":
		return h.agents.list(), nil
	case "shutdown_server":
		return object(`{"success":true,"message":"Server shutting down"}`), nil
	}
	return nil, unknownMethod(req)
}

func unknownMethod(req *request) *fault {
	return &fault{codeMethod, "Method not found: " + req.method}
}

// A response is the answer to a request.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *fault          `json:"error,omitempty"`
}

// failure writes an error. A nil id is null.
func failure(id []byte, code int, message string) []byte {
	return jsonscan.MustMarshal(response{Version: "2.0", ID: id, Error: &fault{code, message}})
}

// object formats a result.
func object(format string, args ...any) json.RawMessage { return fmt.Appendf(nil, format, args...) }

// Package nexus is the broker's front door for JSON-RPC 2.0 over HTTP: conversations that
// keep their context, with answers that can be cancelled. Older clients share one, at / and
// /rpc; newer ones create any number, called agents, each at a path of its own.
package nexus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
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

// Agents are the conversations that newer clients create. Parameters for an agent with tools
// (a folder, permissions, a parent) are ignored.
type agents struct {
	broker *broker.Broker
	server *web.Server

	mu   sync.Mutex
	of   map[string]*agent
	made int // how many names were generated
}

type agent struct {
	*talk
	id      string
	created time.Time
}

// maxAgents bounds the agents that exist at once, each with its messages.
const maxAgents = 100

func newAgents(b *broker.Broker) *agents {
	return &agents{broker: b, of: map[string]*agent{}}
}

// find returns the agent of that name, or nil.
func (g *agents) find(id string) *agent {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[id]
}

// create makes an agent and sends its initial message, if any.
func (g *agents) create(ctx context.Context, r *web.Request, req *request, tap *observe.Conn) (any, *fault) {
	text := map[string][]byte{}
	for _, name := range []string{"agent_id", "model", "system_prompt", "initial_message"} {
		raw, f := req.textOf(name)
		if f != nil {
			return nil, f
		}
		text[name] = raw
	}
	wait, f := req.flag("wait_for_initial_response")
	if f != nil {
		return nil, f
	}
	model := plain(text["model"])
	if err := g.broker.Find(model); model != "" && err != nil {
		return nil, &fault{codeParams, broker.Message(err)}
	}
	t := newTalk(g.broker, model, text["system_prompt"])
	said, id := bytes.Clone(text["initial_message"]), newID()
	queued := said != nil && !wait
	var sending context.Context
	release := func() {}
	if queued { // before another client can send or cancel
		t.turn <- struct{}{}
		sending, release, _ = t.reserve(g.server.Context(), id)
	}
	a, f := g.addAgent(text["agent_id"], t)
	if f != nil {
		release()
		return nil, f
	}
	made := created{ID: a.id, URL: agentPath + a.id}
	if said != nil {
		made.Request = id
	}
	switch {
	case queued:
		made.Status = "queued"
		call := a.call(r, id, nil)
		g.server.Go(func() {
			defer release()
			defer a.pass()
			_, _ = a.exchange(sending, call, said) // a failure is in the log of calls
		})
	case said != nil:
		if made.Response, f = a.say(ctx, r, said, id, tap); f != nil {
			made.Response = map[string]any{"error": f}
		}
	}
	return made, nil
}

// created is the result of create_agent.
type created struct {
	ID       string          `json:"agent_id"`
	URL      string          `json:"url"`
	Request  json.RawMessage `json:"initial_request_id,omitempty"`
	Status   string          `json:"initial_status,omitempty"`
	Response any             `json:"response,omitempty"`
}

// addAgent registers an agent, with a generated name unless it has one.
func (g *agents) addAgent(token []byte, t *talk) (*agent, *fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := plain(token)
	for named := token != nil; !named; named = g.of[id] == nil {
		g.made++
		id = "." + strconv.Itoa(g.made)
	}
	switch {
	case !isName(id):
		return nil, &fault{codeParams, "agent_id must be 1 to 64 letters, digits, '.', '_' and '-', not dots alone"}
	case g.of[id] != nil:
		return nil, &fault{codeParams, "Agent already exists: " + id}
	case len(g.of) >= maxAgents:
		return nil, &fault{codeParams, fmt.Sprintf("There are too many agents (max %d)", maxAgents)}
	}
	a := &agent{t, id, time.Now().UTC()}
	g.of[id] = a
	return a, nil
}

// isName reports whether id can be the name of an agent, which is part of a path.
func isName(id string) bool {
	const bytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return len(id) <= 64 && strings.Trim(id, ".") != "" && strings.Trim(id, bytes) == ""
}

func (g *agents) destroy(req *request) (any, *fault) {
	raw, f := req.textOf("agent_id")
	switch {
	case f != nil:
		return nil, f
	case raw == nil:
		return nil, &fault{codeParams, "Missing required parameter: agent_id"}
	}
	return object(`{"success":%t,"agent_id":%s}`, g.remove(plain(raw)), raw), nil
}

// remove removes an agent and cancels its sends. It reports whether it existed.
func (g *agents) remove(id string) bool {
	g.mu.Lock()
	a := g.of[id]
	delete(g.of, id)
	g.mu.Unlock()
	if a == nil {
		return false
	}
	a.cancelAll()
	return true
}

// A listed agent is an entry of list_agents.
type listed struct {
	ID      string    `json:"agent_id"`
	Model   string    `json:"model"`
	Created time.Time `json:"created_at"`
	Count   int       `json:"message_count"`
}

// list describes the agents, in the order of their creation.
func (g *agents) list() any {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]listed, 0, len(g.of))
	for _, a := range g.of {
		list = append(list, listed{a.id, a.model, a.created, a.size()})
	}
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return map[string]any{"agents": list}
}

// A request is a parsed call. Its values point into the body.
type request struct {
	id     []byte // as it is written; nil for a notification
	method string
	params []byte // an object, or nil
}

// A fault is an error for the client.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func parse(body []byte) (*request, *fault) {
	req := &request{}
	var version, method []byte
	object, err := provider.ReadMembers(body, map[string]*[]byte{"jsonrpc": &version, "id": &req.id, "method": &method, "params": &req.params})
	if err != nil {
		return nil, &fault{codeParse, "Parse error"}
	}
	if jsonscan.KindOf(req.id) == jsonscan.Null {
		req.id = nil
	}
	if jsonscan.KindOf(req.params) == jsonscan.Null {
		req.params = nil
	}
	switch {
	case !object && jsonscan.KindOf(bytes.TrimLeft(body, " \t\r\n")) == jsonscan.Array:
		return nil, &fault{codeRequest, "Batches are not supported"}
	case !object:
		return nil, &fault{codeRequest, "Request must be an object"}
	case string(version) != `"2.0"`:
		return nil, &fault{codeRequest, `jsonrpc must be "2.0"`}
	case jsonscan.KindOf(method) != jsonscan.String:
		return nil, &fault{codeRequest, "method must be a string"}
	case req.id != nil && !isID(req.id):
		return nil, &fault{codeRequest, "id must be a string, an integer or null"}
	case req.params != nil && jsonscan.KindOf(req.params) != jsonscan.Object:
		return nil, &fault{codeRequest, "params must be an object"}
	}
	req.method = provider.Unquote(method)
	return req, nil
}

// isID reports whether a value is a string or an integer.
func isID(raw []byte) bool {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		return true
	case jsonscan.Number:
		return !bytes.ContainsAny(raw, ".eE")
	}
	return false
}

// param returns a parameter, nil if it is missing.
func (r *request) param(name string) []byte {
	if r.params == nil {
		return nil
	}
	raw, _ := jsonscan.Get(r.params, name)
	return raw
}

// textOf returns a parameter that is a string, as a token; nil if it is missing or
// null.
func (r *request) textOf(name string) ([]byte, *fault) {
	raw := r.param(name)
	switch jsonscan.KindOf(raw) {
	case jsonscan.Null, jsonscan.Invalid:
		return nil, nil
	case jsonscan.String:
		return raw, nil
	}
	return nil, &fault{codeParams, name + " must be string, got: " + pyType(raw)}
}

// flag returns a parameter that is a boolean; false if it is missing or null.
func (r *request) flag(name string) (bool, *fault) {
	raw := r.param(name)
	switch jsonscan.KindOf(raw) {
	case jsonscan.True:
		return true, nil
	case jsonscan.False, jsonscan.Null, jsonscan.Invalid:
		return false, nil
	}
	return false, &fault{codeParams, name + " must be boolean, got: " + pyType(raw)}
}

// count returns a parameter from least to most, the usual value if it is missing or null.
func (r *request) count(name string, usual, least, most int) (int, *fault) {
	raw := r.param(name)
	switch jsonscan.KindOf(raw) {
	case jsonscan.Null, jsonscan.Invalid:
		return usual, nil
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < least || n > most {
		return 0, &fault{codeParams, fmt.Sprintf("%s must be an integer from %d to %d", name, least, most)}
	}
	return n, nil
}

// pyType is the name of a value's type in Python, the language of other implementations.
func pyType(raw []byte) string {
	switch jsonscan.KindOf(raw) {
	case jsonscan.Null:
		return "NoneType"
	case jsonscan.True, jsonscan.False:
		return "bool"
	case jsonscan.String:
		return "str"
	case jsonscan.Array:
		return "list"
	case jsonscan.Object:
		return "dict"
	}
	if bytes.ContainsAny(raw, ".eE") {
		return "float"
	}
	return "int"
}

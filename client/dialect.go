package client

import (
	"context"
	"encoding/json"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

// A Dialect is how a protocol of the JSON-RPC family is spoken by one who asks.
type Dialect struct {
	Protocol protocol.Protocol
	framing  frame.Framing
	// begin and end are the handshake and the goodbye; nil if there is none.
	begin func(ctx context.Context, r *RPC) error
	end   func(ctx context.Context, r *RPC)
	// request makes a request, or without an id a notification.
	request func(id, method string, params []byte) []byte
	// cancel makes the message that cancels the request of that id; nil if
	// there is none.
	cancel func(r *RPC, id string, params []byte) []byte
	// plain turns a message into JSON-RPC's terms.
	plain func(*rpcMessage) *rpcMessage
	// result is what an answer says.
	result func(*rpcMessage) ([]byte, error)
	// part is what a notification says.
	part func(*rpcMessage) Part
	// serve answers what the peer asks; a refusal is an error.
	serve    func(r *RPC, m *rpcMessage) (result any, refusal *refusal)
	response func(r *RPC, m *rpcMessage, result any, refusal *refusal) []byte
}

// A refusal is an error that we answer with.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// The dialects.
var (
	Plain = &Dialect{
		Protocol: jsonrpc.Plain, framing: frame.Line, request: rpcRequest, plain: asIs, result: rpcResult,
		part: aside, serve: refuse, response: rpcResponse,
	}
	MCP = &Dialect{
		Protocol: jsonrpc.MCP, framing: frame.Line, begin: beginMCP, request: rpcRequest, cancel: cancelMCP,
		plain: asIs, result: rpcResult, part: aside, serve: serveMCP, response: rpcResponse,
	}
	ACP = &Dialect{
		Protocol: jsonrpc.ACP, framing: frame.Line, begin: beginACP, request: rpcRequest, cancel: cancelACP,
		plain: asIs, result: rpcResult, part: partACP, serve: serveACP, response: rpcResponse,
	}
	LSP = &Dialect{
		Protocol: jsonrpc.LSP, framing: frame.Header, begin: beginLSP, end: endLSP, request: rpcRequest, cancel: cancelLSP,
		plain: asIs, result: rpcResult, part: aside, serve: serveLSP, response: rpcResponse,
	}
	DAP = &Dialect{
		Protocol: jsonrpc.DAP, framing: frame.Header, begin: beginDAP, end: endDAP, request: dapRequest, cancel: cancelDAP,
		plain: fromDAP, result: dapResult, part: aside, serve: refuse, response: dapResponse,
	}
)

func rpcRequest(id, method string, params []byte) []byte {
	m := struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params,omitempty"`
	}{"2.0", json.RawMessage(id), method, params}
	return toJSON(m)
}

func rpcResponse(_ *RPC, m *rpcMessage, result any, no *refusal) []byte {
	if no != nil {
		return toJSON(struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Error   *refusal        `json:"error"`
		}{"2.0", m.ID, no})
	}
	return toJSON(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{"2.0", m.ID, result})
}

func asIs(m *rpcMessage) *rpcMessage { return m }

func rpcResult(m *rpcMessage) ([]byte, error) {
	if m.Error == nil {
		return m.Result, nil
	}
	return nil, peerError(m.Error)
}

// peerError reads the error member of an answer.
func peerError(raw []byte) error {
	var e struct {
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return faultf("the error is no error object: %s", raw)
	}
	return &PeerError{Code: string(e.Code), Message: e.Message, Data: e.Data}
}

func aside(m *rpcMessage) Part { return Part{Aside: true, Name: m.Method, JSON: m.Params} }

func refuse(_ *RPC, m *rpcMessage) (any, *refusal) {
	return nil, &refusal{-32601, "Method not found: " + m.Method}
}

// object is a JSON object that we write.
type object map[string]any

func (r *RPC) ask(ctx context.Context, method string, params any) ([]byte, error) {
	return r.request(ctx, method, toJSON(params), func(Part) {})
}

// MCP.

// mcpVersion is the newest version of MCP that we speak.
const mcpVersion = "2025-06-18"

func beginMCP(ctx context.Context, r *RPC) error {
	_, err := r.ask(ctx, "initialize", object{
		"protocolVersion": mcpVersion,
		"capabilities":    object{"roots": object{}},
		"clientInfo":      object{"name": "wirectl", "version": r.options.Version},
	})
	if err != nil {
		return err
	}
	return r.notify(ctx, "notifications/initialized", nil)
}

func cancelMCP(_ *RPC, id string, _ []byte) []byte {
	return rpcRequest("", "notifications/cancelled", toJSON(object{"requestId": json.RawMessage(id), "reason": "interrupted"}))
}

func serveMCP(r *RPC, m *rpcMessage) (any, *refusal) {
	switch m.Method {
	case "ping":
		return object{}, nil
	case "roots/list":
		roots := []object{}
		if r.options.Dir != "" {
			roots = append(roots, object{"uri": fileURI(r.options.Dir), "name": filepath.Base(r.options.Dir)})
		}
		return object{"roots": roots}, nil
	case "elicitation/create":
		return object{"action": "decline"}, nil
	case "sampling/createMessage":
		return nil, &refusal{-1, "the user refused: wirectl send has no model"}
	}
	return refuse(r, m)
}

// ACP.

func beginACP(ctx context.Context, r *RPC) error {
	_, err := r.ask(ctx, "initialize", object{
		"protocolVersion":    1,
		"clientCapabilities": object{"fs": object{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         object{"name": "wirectl", "version": r.options.Version},
	})
	return err
}

// NewSession opens a session of ACP, which prompts then belong to.
func (r *RPC) NewSession(ctx context.Context) (id string, err error) {
	result, err := r.ask(ctx, "session/new", object{"cwd": r.options.Dir, "mcpServers": []object{}})
	if err != nil {
		return "", err
	}
	var s struct {
		ID string `json:"sessionId"`
	}
	if err := json.Unmarshal(result, &s); err != nil || s.ID == "" {
		return "", faultf("the result of session/new names no session: %s", result)
	}
	r.session = s.ID
	return s.ID, nil
}

// Prompt is the call of ACP that sends a prompt in the session.
func (r *RPC) Prompt(text string) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		params := object{"sessionId": r.session, "prompt": []object{{"type": "text", "text": text}}}
		result, err := r.request(ctx, "session/prompt", toJSON(params), out)
		if err == nil {
			out(Part{Aside: true, Name: "result", JSON: result})
		}
		return err
	})
}

func cancelACP(r *RPC, _ string, params []byte) []byte {
	var p struct {
		ID string `json:"sessionId"`
	}
	_ = json.Unmarshal(params, &p) // a session that is not there is not named
	if p.ID == "" {
		p.ID = r.session
	}
	return rpcRequest("", "session/cancel", toJSON(object{"sessionId": p.ID}))
}

// partACP makes text of the chunks of an agent's message.
func partACP(m *rpcMessage) Part {
	var p struct {
		Update struct {
			Kind    string `json:"sessionUpdate"`
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"update"`
	}
	if m.Method == "session/update" && json.Unmarshal(m.Params, &p) == nil && p.Update.Kind == "agent_message_chunk" {
		return Part{Text: p.Update.Content.Text}
	}
	return aside(m)
}

func serveACP(r *RPC, m *rpcMessage) (any, *refusal) {
	if m.Method != "session/request_permission" {
		return refuse(r, m)
	}
	var p struct {
		Options []struct {
			ID   string `json:"optionId"`
			Kind string `json:"kind"`
		} `json:"options"`
	}
	_ = json.Unmarshal(m.Params, &p) // without options it is refused
	kind := "reject_"
	if r.options.Allow {
		kind = "allow_"
	}
	for _, o := range p.Options {
		if strings.HasPrefix(o.Kind, kind) {
			return object{"outcome": object{"outcome": "selected", "optionId": o.ID}}, nil
		}
	}
	return object{"outcome": object{"outcome": "cancelled"}}, nil
}

// LSP.

func beginLSP(ctx context.Context, r *RPC) error {
	_, err := r.ask(ctx, "initialize", object{
		"processId":    nil,
		"clientInfo":   object{"name": "wirectl", "version": r.options.Version},
		"rootUri":      fileURI(r.options.Dir),
		"capabilities": object{"window": object{"workDoneProgress": true}, "workspace": object{"configuration": true, "workspaceFolders": true}},
	})
	if err != nil {
		return err
	}
	return r.notify(ctx, "initialized", []byte("{}"))
}

func endLSP(ctx context.Context, r *RPC) {
	if _, err := r.request(ctx, "shutdown", nil, func(Part) {}); err == nil {
		_ = r.notify(ctx, "exit", nil) // a server that is gone has done its part
	}
}

func cancelLSP(_ *RPC, id string, _ []byte) []byte {
	return rpcRequest("", "$/cancelRequest", toJSON(object{"id": json.RawMessage(id)}))
}

func serveLSP(r *RPC, m *rpcMessage) (any, *refusal) {
	switch m.Method {
	case "window/workDoneProgress/create", "client/registerCapability", "client/unregisterCapability", "window/showMessageRequest":
		return nil, nil
	case "workspace/workspaceFolders":
		return []object{{"uri": fileURI(r.options.Dir), "name": filepath.Base(r.options.Dir)}}, nil
	case "workspace/applyEdit":
		return object{"applied": false, "failureReason": "wirectl send edits nothing"}, nil
	case "workspace/configuration":
		var p struct {
			Items []json.RawMessage `json:"items"`
		}
		_ = json.Unmarshal(m.Params, &p) // no items, no settings
		return make([]any, len(p.Items)), nil
	}
	return refuse(r, m)
}

// fileURI returns the URI of a folder.
func fileURI(dir string) string {
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return "file://" + (&url.URL{Path: path}).EscapedPath()
}

// DAP.

func dapRequest(id, command string, arguments []byte) []byte {
	return toJSON(struct {
		Seq       json.RawMessage `json:"seq"`
		Type      string          `json:"type"`
		Command   string          `json:"command"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}{json.RawMessage(id), "request", command, arguments})
}

func beginDAP(ctx context.Context, r *RPC) error {
	_, err := r.ask(ctx, "initialize", object{
		"clientID": "wirectl", "adapterID": "wirectl", "pathFormat": "path",
		"linesStartAt1": true, "columnsStartAt1": true,
	})
	return err
}

func endDAP(ctx context.Context, r *RPC) {
	_, _ = r.ask(ctx, "disconnect", object{}) // an adapter that is gone has done its part
}

func cancelDAP(r *RPC, id string, _ []byte) []byte {
	return dapRequest(r.nextID(), "cancel", toJSON(object{"requestId": json.RawMessage(id)}))
}

// nextID returns an id for a message whose answer nobody waits for.
func (r *RPC) nextID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	return strconv.Itoa(r.last)
}

// fromDAP turns a response into an answer, an event into a notification, and a
// reverse request into a request.
func fromDAP(m *rpcMessage) *rpcMessage {
	switch m.Type {
	case "response":
		m.ID, m.Method = m.RequestSeq, ""
	case "event":
		m.ID, m.Method, m.Params = nil, m.Event, m.Body
	default:
		m.ID, m.Method, m.Params = m.Seq, m.Command, m.Arguments
	}
	return m
}

func dapResult(m *rpcMessage) ([]byte, error) {
	if !m.Success {
		return nil, &PeerError{Code: m.Command, Message: m.Message, Data: m.Body}
	}
	if m.Body == nil {
		return []byte("{}"), nil
	}
	return m.Body, nil
}

func dapResponse(r *RPC, m *rpcMessage, _ any, no *refusal) []byte {
	return toJSON(object{
		"seq": json.RawMessage(r.nextID()), "type": "response", "request_seq": m.Seq,
		"success": false, "command": m.Command, "message": no.Message,
	})
}

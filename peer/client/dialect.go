package client

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

// A Dialect is the client side of a protocol of the JSON-RPC family.
type Dialect struct {
	Protocol protocol.Protocol
	framing  frame.Framing
	// begin and end are the handshake and the shutdown; nil if there is none.
	begin func(ctx context.Context, r *RPC) error
	end   func(ctx context.Context, r *RPC)
	// last is the shutdown request, which may only be sent once; "" if there is none.
	last string
	// request builds a request, or a notification if id is "".
	request func(id, method string, params []byte) []byte
	// cancel builds the message that cancels the request with that id, or the current
	// turn. It is nil, or returns nil, if there is none.
	cancel func(r *RPC, id string, params []byte) []byte
	// open opens a session of an agent; prompt builds the request for a prompt in it;
	// accepted reports whether the answer only accepts the prompt, so that turnEnd finds
	// its end. They are nil if the protocol has no prompts.
	open     func(ctx context.Context, r *RPC) (id string, err error)
	prompt   func(r *RPC, text string) (method string, params any)
	accepted func(r *RPC, result []byte) bool
	turnEnd  func(r *RPC, m *rpcMessage) (turnEnd, bool)
	// named says that cancelling a turn takes the id from its answer.
	named bool
	// plain translates a message into JSON-RPC's terms.
	plain func(*rpcMessage) *rpcMessage
	// result returns the result of an answer.
	result func(*rpcMessage) ([]byte, error)
	// part returns the content of a notification.
	part func(*rpcMessage) Part
	// serve answers a request of the peer.
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
		open: openACP, prompt: promptACP, accepted: acceptedACP, turnEnd: turnEndACP,
		plain: asIs, result: rpcResult, part: partACP, serve: serveACP, response: rpcResponse,
	}
	Codex = &Dialect{
		Protocol: jsonrpc.Codex, framing: frame.Line, begin: beginCodex, request: codexRequest, cancel: cancelCodex,
		open: openCodex, prompt: promptCodex, accepted: acceptedCodex, turnEnd: turnEndCodex, named: true,
		plain: asIs, result: rpcResult, part: partCodex, serve: serveCodex, response: codexResponse,
	}
	LSP = &Dialect{
		Protocol: jsonrpc.LSP, framing: frame.Header, begin: beginLSP, end: endLSP, last: "shutdown", request: rpcRequest, cancel: cancelLSP,
		plain: asIs, result: rpcResult, part: aside, serve: serveLSP, response: rpcResponse,
	}
	DAP = &Dialect{
		Protocol: jsonrpc.DAP, framing: frame.Header, begin: beginDAP, end: endDAP, last: "disconnect", request: dapRequest, cancel: cancelDAP,
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
	return jsonscan.MustMarshal(m)
}

func rpcResponse(_ *RPC, m *rpcMessage, result any, no *refusal) []byte {
	return responseOf("2.0", m.ID, result, no)
}

func responseOf(version string, id json.RawMessage, result any, no *refusal) []byte {
	m := struct {
		Version string          `json:"jsonrpc,omitempty"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result,omitempty"` // null is a result
		Error   *refusal        `json:"error,omitempty"`
	}{Version: version, ID: id, Error: no}
	if no == nil {
		m.Result = jsonscan.MustMarshal(result)
	}
	return jsonscan.MustMarshal(m)
}

// textAt returns the string at a path of keys; "" if there is none.
func textAt(raw []byte, path ...string) string {
	value, _ := jsonscan.Get(raw, path...)
	text, _ := jsonscan.Unquote(value)
	return string(text)
}

func asIs(m *rpcMessage) *rpcMessage { return m }

func rpcResult(m *rpcMessage) ([]byte, error) {
	if isNull(m.Error) {
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
		return faultf("the error is not an error object: %s", raw)
	}
	return &PeerError{Code: string(e.Code), Message: e.Message, Data: e.Data}
}

func aside(m *rpcMessage) Part { return Part{Aside: true, Name: m.Method, JSON: m.Params} }

func refuse(_ *RPC, m *rpcMessage) (any, *refusal) {
	return nil, &refusal{-32601, "Method not found: " + m.Method}
}

// object is a JSON object to send.
type object map[string]any

func (r *RPC) ask(ctx context.Context, method string, params any) ([]byte, error) {
	return r.request(ctx, method, jsonscan.MustMarshal(params), func(Part) {})
}

func fileURI(dir string) string {
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return "file://" + (&url.URL{Path: path}).EscapedPath()
}

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
	if !r.parted.Load() {
		if _, err := r.request(ctx, r.dialect.last, nil, func(Part) {}); err != nil {
			return
		}
	}
	_ = r.notify(ctx, "exit", nil) // the server may be gone
}

func cancelLSP(_ *RPC, id string, _ []byte) []byte {
	return rpcRequest("", "$/cancelRequest", jsonscan.MustMarshal(object{"id": json.RawMessage(id)}))
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
		_ = json.Unmarshal(m.Params, &p)
		return make([]any, len(p.Items)), nil
	}
	return refuse(r, m)
}

func dapRequest(id, command string, arguments []byte) []byte {
	return jsonscan.MustMarshal(struct {
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
	if r.parted.Load() {
		return
	}
	_, _ = r.ask(ctx, r.dialect.last, object{}) // the adapter may be gone
}

func cancelDAP(r *RPC, id string, _ []byte) []byte {
	return dapRequest(r.nextID(), "cancel", jsonscan.MustMarshal(object{"requestId": json.RawMessage(id)}))
}

// fromDAP translates responses, events and reverse requests into JSON-RPC's terms.
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
	return jsonscan.MustMarshal(object{
		"seq": json.RawMessage(r.nextID()), "type": "response", "request_seq": m.Seq,
		"success": false, "command": m.Command, "message": no.Message,
	})
}

func beginCodex(ctx context.Context, r *RPC) error {
	_, err := r.ask(ctx, "initialize", object{
		"clientInfo": object{"name": "wirectl", "title": "wirectl", "version": r.options.Version},
	})
	if err != nil {
		return err
	}
	return r.notify(ctx, "initialized", nil)
}

// codexRequest is rpcRequest without the jsonrpc member.
func codexRequest(id, method string, params []byte) []byte {
	return jsonscan.MustMarshal(struct {
		Method string          `json:"method"`
		ID     json.RawMessage `json:"id,omitempty"`
		Params json.RawMessage `json:"params,omitempty"`
	}{method, json.RawMessage(id), params})
}

func codexResponse(_ *RPC, m *rpcMessage, result any, no *refusal) []byte {
	return responseOf("", m.ID, result, no)
}

// openCodex starts a thread.
func openCodex(ctx context.Context, r *RPC) (string, error) {
	result, err := r.ask(ctx, "thread/start", object{"cwd": r.options.Dir})
	if err != nil {
		return "", err
	}
	id := textAt(result, "thread", "id")
	if id == "" {
		return "", faultf("the result of thread/start names no thread: %s", result)
	}
	return id, nil
}

func promptCodex(r *RPC, text string) (method string, params any) {
	return "turn/start", object{"threadId": r.session, "input": []object{{"type": "text", "text": text}}}
}

// acceptedCodex keeps the id of the turn, without which it cannot be interrupted.
func acceptedCodex(r *RPC, result []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turnID = textAt(result, "turn", "id")
	return true
}

func turnEndCodex(r *RPC, m *rpcMessage) (turnEnd, bool) {
	if m.Method != "turn/completed" || textAt(m.Params, "threadId") != r.session {
		return turnEnd{}, false
	}
	status := textAt(m.Params, "turn", "status")
	if status == "failed" {
		return turnEnd{err: &PeerError{Code: status, Message: textAt(m.Params, "turn", "error", "message")}}, true
	}
	return turnEnd{result: jsonscan.MustMarshal(object{"status": status})}, true
}

// cancelCodex interrupts the turn. It returns nil if none was accepted.
func cancelCodex(r *RPC, _ string, _ []byte) []byte {
	r.mu.Lock()
	turn := r.turnID
	r.mu.Unlock()
	if turn == "" {
		return nil
	}
	return codexRequest(r.nextID(), "turn/interrupt", jsonscan.MustMarshal(object{"threadId": r.session, "turnId": turn}))
}

// partCodex turns the pieces of an agent's message into text.
func partCodex(m *rpcMessage) Part {
	if m.Method == "item/agentMessage/delta" {
		return Part{Text: textAt(m.Params, "delta")}
	}
	return aside(m)
}

// serveCodex answers Codex's requests for approval.
func serveCodex(r *RPC, m *rpcMessage) (any, *refusal) {
	decision := func(yes, no string) (any, *refusal) {
		if r.options.Allow {
			no = yes
		}
		return object{"decision": no}, nil
	}
	switch m.Method {
	case "item/commandExecution/requestApproval", "item/fileChange/requestApproval":
		return decision("accept", "decline")
	case "applyPatchApproval", "execCommandApproval":
		return decision("approved", "denied")
	case "mcpServer/elicitation/request":
		return object{"action": "decline"}, nil
	}
	return refuse(r, m)
}

func beginACP(ctx context.Context, r *RPC) error {
	params := object{
		"protocolVersion":    1,
		"clientCapabilities": object{"fs": object{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         object{"name": "wirectl", "version": r.options.Version},
	}
	if r.options.ACPVersion == 2 {
		params = object{
			"protocolVersion": 2,
			"capabilities":    object{},
			"info":            object{"name": "wirectl", "version": r.options.Version},
		}
	}
	result, err := r.ask(ctx, "initialize", params)
	if err != nil {
		return err
	}
	version, _ := jsonscan.Get(result, "protocolVersion") // an agent that states none speaks version 1
	r.agree(string(version))
	return nil
}

func openACP(ctx context.Context, r *RPC) (string, error) {
	result, err := r.ask(ctx, "session/new", object{"cwd": r.options.Dir, "mcpServers": []object{}})
	if err != nil {
		return "", err
	}
	id := textAt(result, "sessionId")
	if id == "" {
		return "", faultf("the result of session/new names no session: %s", result)
	}
	return id, nil
}

func promptACP(r *RPC, text string) (method string, params any) {
	return "session/prompt", object{"sessionId": r.session, "prompt": []object{{"type": "text", "text": text}}}
}

// acceptedACP reports whether the turn continues after the answer to its prompt, as in
// version 2.
func acceptedACP(r *RPC, _ []byte) bool { return r.agreed() == "2" }

// turnEndACP recognizes that an agent of version 2 is idle.
func turnEndACP(r *RPC, m *rpcMessage) (turnEnd, bool) {
	if m.Method != "session/update" || textAt(m.Params, "sessionId") != r.session {
		return turnEnd{}, false
	}
	update, _ := jsonscan.Get(m.Params, "update")
	if textAt(update, "sessionUpdate") != "state_update" || textAt(update, "state") != "idle" {
		return turnEnd{}, false
	}
	return turnEnd{result: jsonscan.MustMarshal(object{"stopReason": textAt(update, "stopReason")})}, true
}

func cancelACP(r *RPC, _ string, params []byte) []byte {
	id := cmp.Or(textAt(params, "sessionId"), r.session)
	return rpcRequest("", "session/cancel", jsonscan.MustMarshal(object{"sessionId": id}))
}

// partACP turns the chunks of an agent's message into text.
func partACP(m *rpcMessage) Part {
	if m.Method == "session/update" && textAt(m.Params, "update", "sessionUpdate") == "agent_message_chunk" {
		return Part{Text: textAt(m.Params, "update", "content", "text")}
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

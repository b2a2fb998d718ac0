package client

import (
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

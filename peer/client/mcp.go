package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

const (
	mcpVersion       = "2025-06-18"
	statelessVersion = "2026-07-28" // without a handshake
)

func beginMCP(ctx context.Context, r *RPC) error {
	if r.options.Stateless {
		return r.discover(ctx)
	}
	result, err := r.ask(ctx, "initialize", object{
		"protocolVersion": mcpVersion,
		"capabilities":    object{"roots": object{}},
		"clientInfo":      object{"name": "wirectl", "version": r.options.Version},
	})
	if err != nil {
		return err
	}
	r.agree(cmp.Or(textAt(result, "protocolVersion"), mcpVersion))
	return r.notify(ctx, "notifications/initialized", nil)
}

// discover checks that the server supports the version without a handshake.
func (r *RPC) discover(ctx context.Context) error {
	result, err := r.ask(ctx, "server/discover", object{})
	if err != nil {
		return err
	}
	var server struct {
		Versions []string `json:"supportedVersions"`
	}
	if err := json.Unmarshal(result, &server); err != nil {
		return faultf("the answer to server/discover: %w", err)
	}
	if !slices.Contains(server.Versions, statelessVersion) {
		return fmt.Errorf("the server speaks MCP %s, not %s: leave out --stateless", strings.Join(server.Versions, ", "), statelessVersion)
	}
	return nil
}

const metaPrefix = "io.modelcontextprotocol/"

// stated adds the version and our capabilities to params if each request has to state them.
func (r *RPC) stated(params []byte) ([]byte, error) {
	if !r.options.Stateless {
		return params, nil
	}
	p, err := membersOf("PARAMS", params)
	if err != nil {
		return nil, err
	}
	meta, err := membersOf("_meta", p["_meta"])
	if err != nil {
		return nil, err
	}
	can := object{"roots": object{}}
	if len(r.options.Inputs) > 0 {
		can["elicitation"] = object{"form": object{}, "url": object{}}
		can["sampling"] = object{}
	}
	with := map[string]json.RawMessage{
		metaPrefix + "protocolVersion":    jsonscan.MustMarshal(statelessVersion),
		metaPrefix + "clientInfo":         jsonscan.MustMarshal(object{"name": "wirectl", "version": r.options.Version}),
		metaPrefix + "clientCapabilities": jsonscan.MustMarshal(can),
	}
	maps.Copy(with, meta) // the caller's values win
	p["_meta"] = jsonscan.MustMarshal(with)
	return jsonscan.MustMarshal(p), nil
}

// membersOf returns the members of an object; none if raw is empty.
func membersOf(name string, raw []byte) (map[string]json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if len(raw) == 0 {
		return members, nil
	}
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, fmt.Errorf("invalid %s %s: want a JSON object", name, raw)
	}
	return members, nil
}

// leavingCancels reports whether closing the stream of the answer cancels a request.
func (r *RPC) leavingCancels() bool {
	_, isHTTP := r.wire.(*httpWire)
	return r.options.Stateless && isHTTP
}

// maxRounds bounds how often a request is repeated with requested input.
const maxRounds = 10

// retryMCP returns the params for repeating a request whose result asks for input; nil if
// it does not.
func (r *RPC) retryMCP(method string, params, result []byte, rounds int) ([]byte, error) {
	var wants struct {
		Type   string                 `json:"resultType"`
		Inputs map[string]*rpcMessage `json:"inputRequests"`
		State  json.RawMessage        `json:"requestState"`
	}
	_ = json.Unmarshal(result, &wants) // any other result asks for nothing
	if wants.Type != "input_required" {
		return nil, nil
	}
	if rounds == maxRounds {
		return nil, fmt.Errorf("%s asks for input again after %d rounds", method, maxRounds)
	}
	p, err := membersOf("PARAMS", params)
	if err != nil {
		return nil, err
	}
	if wants.State != nil {
		p["requestState"] = wants.State
	}
	answers := object{}
	for name, m := range wants.Inputs {
		if given, ok := r.options.Inputs[name]; ok {
			answers[name] = given
			continue
		}
		if m == nil || m.Method != "roots/list" {
			return nil, fmt.Errorf("the server asks for the input %q: answer with --input %s=JSON, such as %s", name, name, `{"action":"decline"}`)
		}
		answers[name], _ = serveMCP(r, m)
	}
	if len(answers) > 0 {
		p["inputResponses"] = jsonscan.MustMarshal(answers)
	}
	return jsonscan.MustMarshal(p), nil
}

// agreed returns the negotiated version of MCP or ACP; "" before it is known.
func (r *RPC) agreed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

func (r *RPC) agree(version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = version
}

func cancelMCP(_ *RPC, id string, _ []byte) []byte {
	return rpcRequest("", "notifications/cancelled", jsonscan.MustMarshal(object{"requestId": json.RawMessage(id), "reason": "interrupted"}))
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

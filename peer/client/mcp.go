package client

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// mcpVersion is the newest version of MCP that we speak.
const mcpVersion = "2025-06-18"

func beginMCP(ctx context.Context, r *RPC) error {
	result, err := r.ask(ctx, "initialize", object{
		"protocolVersion": mcpVersion,
		"capabilities":    object{"roots": object{}},
		"clientInfo":      object{"name": "wirectl", "version": r.options.Version},
	})
	if err != nil {
		return err
	}
	var agreed struct {
		Version string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(result, &agreed) // a server that names none has ours
	r.mu.Lock()
	r.version = cmp.Or(agreed.Version, mcpVersion)
	r.mu.Unlock()
	return r.notify(ctx, "notifications/initialized", nil)
}

// agreed returns the version of MCP that is spoken; "" before it is known.
func (r *RPC) agreed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
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

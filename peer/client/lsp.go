package client

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

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

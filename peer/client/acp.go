package client

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

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

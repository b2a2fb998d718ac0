package client

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/wirectl/wirectl/protocol/jsonscan"
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
	var agreed struct {
		Version json.Number `json:"protocolVersion"`
	}
	_ = json.Unmarshal(result, &agreed) // an agent that names none speaks version 1
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = agreed.Version.String()
	return nil
}

func openACP(ctx context.Context, r *RPC) (string, error) {
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
	return s.ID, nil
}

func promptACP(r *RPC, text string) (method string, params any) {
	return "session/prompt", object{"sessionId": r.session, "prompt": []object{{"type": "text", "text": text}}}
}

// acceptedACP reports whether the turn goes on after the answer to its prompt, as in
// version 2.
func acceptedACP(r *RPC, _ []byte) bool { return r.agreed() == "2" }

// turnEndACP tells that an agent of version 2 is idle.
func turnEndACP(r *RPC, m *rpcMessage) (turnEnd, bool) {
	var p struct {
		Session string `json:"sessionId"`
		Update  struct {
			Kind       string `json:"sessionUpdate"`
			State      string `json:"state"`
			StopReason string `json:"stopReason"`
		} `json:"update"`
	}
	if m.Method != "session/update" || json.Unmarshal(m.Params, &p) != nil || p.Session != r.session || p.Update.Kind != "state_update" || p.Update.State != "idle" {
		return turnEnd{}, false
	}
	return turnEnd{result: jsonscan.MustMarshal(object{"stopReason": p.Update.StopReason})}, true
}

func cancelACP(r *RPC, _ string, params []byte) []byte {
	var p struct {
		ID string `json:"sessionId"`
	}
	_ = json.Unmarshal(params, &p) // a session that is not there is not named
	if p.ID == "" {
		p.ID = r.session
	}
	return rpcRequest("", "session/cancel", jsonscan.MustMarshal(object{"sessionId": p.ID}))
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

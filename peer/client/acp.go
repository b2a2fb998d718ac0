package client

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

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
		result, err := r.request(ctx, "session/prompt", jsonscan.MustMarshal(params), out)
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

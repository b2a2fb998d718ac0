package client

import (
	"context"
	"encoding/json"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

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

package client

import (
	"context"
	"encoding/json"

	"github.com/wirectl/wirectl/protocol/jsonscan"
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

// codexRequest makes a message of JSON-RPC without the jsonrpc member.
func codexRequest(id, method string, params []byte) []byte {
	return jsonscan.MustMarshal(struct {
		Method string          `json:"method"`
		ID     json.RawMessage `json:"id,omitempty"`
		Params json.RawMessage `json:"params,omitempty"`
	}{method, json.RawMessage(id), params})
}

func codexResponse(_ *RPC, m *rpcMessage, result any, no *refusal) []byte {
	if no != nil {
		return jsonscan.MustMarshal(struct {
			Error *refusal        `json:"error"`
			ID    json.RawMessage `json:"id"`
		}{no, m.ID})
	}
	return jsonscan.MustMarshal(struct {
		ID     json.RawMessage `json:"id"`
		Result any             `json:"result"`
	}{m.ID, result})
}

// openCodex starts a thread.
func openCodex(ctx context.Context, r *RPC) (string, error) {
	result, err := r.ask(ctx, "thread/start", object{"cwd": r.options.Dir})
	if err != nil {
		return "", err
	}
	var t struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	if err := json.Unmarshal(result, &t); err != nil || t.Thread.ID == "" {
		return "", faultf("the result of thread/start names no thread: %s", result)
	}
	return t.Thread.ID, nil
}

func promptCodex(r *RPC, text string) (method string, params any) {
	return "turn/start", object{"threadId": r.session, "input": []object{{"type": "text", "text": text}}}
}

// acceptedCodex keeps the id of the turn that has begun.
func acceptedCodex(r *RPC, result []byte) bool {
	var t struct {
		Turn struct {
			ID string `json:"id"`
		} `json:"turn"`
	}
	_ = json.Unmarshal(result, &t) // one that is not named cannot be interrupted
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turnID = t.Turn.ID
	return true
}

func turnEndCodex(r *RPC, m *rpcMessage) (turnEnd, bool) {
	var p struct {
		Thread string `json:"threadId"`
		Turn   struct {
			Status string `json:"status"`
			Error  struct {
				Message string `json:"message"`
			} `json:"error"`
		} `json:"turn"`
	}
	if m.Method != "turn/completed" || json.Unmarshal(m.Params, &p) != nil || p.Thread != r.session {
		return turnEnd{}, false
	}
	if p.Turn.Status == "failed" {
		return turnEnd{err: &PeerError{Code: p.Turn.Status, Message: p.Turn.Error.Message}}, true
	}
	return turnEnd{result: jsonscan.MustMarshal(object{"status": p.Turn.Status})}, true
}

// cancelCodex interrupts the turn; nil if none was accepted.
func cancelCodex(r *RPC, _ string, _ []byte) []byte {
	r.mu.Lock()
	turn := r.turnID
	r.mu.Unlock()
	if turn == "" {
		return nil
	}
	return codexRequest(r.nextID(), "turn/interrupt", jsonscan.MustMarshal(object{"threadId": r.session, "turnId": turn}))
}

// partCodex makes text of the pieces of an agent's message.
func partCodex(m *rpcMessage) Part {
	var p struct {
		Delta string `json:"delta"`
	}
	if m.Method == "item/agentMessage/delta" && json.Unmarshal(m.Params, &p) == nil {
		return Part{Text: p.Delta}
	}
	return aside(m)
}

// serveCodex answers what Codex asks leave for.
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

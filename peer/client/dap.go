package client

import (
	"context"
	"encoding/json"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

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

package theory

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/protocol/theory"
)

// offers reports whether a handshake asks for a subprotocol.
func offers(r *http.Request, name string) bool {
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for one := range strings.SplitSeq(line, ",") {
			if strings.TrimSpace(one) == name {
				return true
			}
		}
	}
	return false
}

// An incoming message is a Request or a control.
type incoming struct {
	Kind    string                     `json:"kind"`
	Control requestControl             `json:"control"`
	Inputs  map[string]json.RawMessage `json:"inputs"`
	Outputs map[string]json.RawMessage `json:"outputs"`
	Content json.RawMessage            `json:"content"`
}

type requestControl struct {
	RunID string `json:"run_id"`
	Mode  string `json:"mode"`
}

// A controlOp is what a controller wants.
type controlOp struct {
	Op string `json:"op"`
	By string `json:"by"`
}

// message writes a message to clients in a dialect. Data is nil for an Ack.
func message(d theory.Dialect, kind, runID string, data json.RawMessage) []byte {
	control := struct {
		RunID string `json:"run_id"`
	}{runID}
	switch {
	case d == theory.C && data == nil:
		data = jsonscan.MustMarshal(control)
		fallthrough
	case d == theory.C:
		return jsonscan.MustMarshal(struct {
			Kind    string          `json:"kind"`
			Content json.RawMessage `json:"content"`
		}{kind, data})
	}
	return jsonscan.MustMarshal(struct {
		Kind    string          `json:"kind"`
		Control any             `json:"control"`
		Data    json.RawMessage `json:"data,omitempty"`
	}{kind, control, data})
}

// response writes the last message of a run.
func response(runID string, result *Result, failure *Error) []byte {
	type control struct {
		RunID     string `json:"run_id"`
		Status    string `json:"status"`
		CostMicro int64  `json:"cost_micro"`
		Final     bool   `json:"final"`
	}
	m := struct {
		Kind    string                     `json:"kind"`
		Control control                    `json:"control"`
		Outputs map[string]json.RawMessage `json:"outputs"`
		Error   *Error                     `json:"error,omitempty"`
	}{"Response", control{runID, "success", 0, true}, map[string]json.RawMessage{}, failure}
	if result != nil {
		m.Control.CostMicro = result.CostMicro
		if result.Outputs != nil {
			m.Outputs = result.Outputs
		}
	}
	if failure != nil {
		m.Control.Status = "error"
	}
	return jsonscan.MustMarshal(m)
}

var kinds = []string{"Event", "Log", "Token"}

func isKind(kind string) bool { return slices.Contains(kinds, kind) }

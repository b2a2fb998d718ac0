package theory

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/theory"
)

// An incoming message is an opener or a control.
type incoming struct {
	Kind    string          `json:"kind"`
	Control opening         `json:"control"`
	Inputs  values          `json:"inputs"`
	Outputs values          `json:"outputs"`
	Content json.RawMessage `json:"content"`
}

type values = map[string]json.RawMessage

// An opening is the content of a Request or a RunOpen besides its kind. A Request has the
// inputs and outputs at the same level, and the oldest RunOpen has a payload.
type opening struct {
	identity

	Mode    string `json:"mode"`
	Role    string `json:"role"`
	Inputs  values `json:"inputs"`
	Payload values `json:"payload"`
	Outputs values `json:"outputs"`

	more values // the other members of an enveloped payload
}

// reserved are the members of the messages that a runtime writes itself.
var reserved = []string{"run_id", "execution_id", "status", "cost_micro", "final"}

// unwrapPayload reads the payload of the oldest dialect. In real programs it is an envelope with
// the id, mode, inputs and outputs of the run. A payload without an id is the inputs themselves.
func (o *opening) unwrapPayload() error {
	if o.Payload["run_id"] == nil && o.Payload["execution_id"] == nil {
		if o.Inputs == nil {
			o.Inputs = o.Payload
		}
		return nil
	}
	envelope := opening{}
	if err := json.Unmarshal(jsonscan.MustMarshal(o.Payload), &envelope); err != nil {
		return err
	}
	if o.raw() == nil {
		o.identity = envelope.identity
	}
	o.Mode, o.Role = cmp.Or(o.Mode, envelope.Mode), cmp.Or(o.Role, envelope.Role)
	if o.Inputs == nil {
		o.Inputs = envelope.Inputs
	}
	if o.Outputs == nil {
		o.Outputs = envelope.Outputs
	}
	o.more = o.Payload
	for _, name := range append(reserved, "kind", "control", "mode", "role", "inputs", "outputs") {
		delete(o.more, name)
	}
	return nil
}

// An identity is the id of a run, unchanged, under the key that its client uses.
type identity struct {
	RunID       json.RawMessage `json:"run_id,omitempty"`
	ExecutionID json.RawMessage `json:"execution_id,omitempty"` // in the oldest dialect
}

// raw returns the id unchanged.
func (i identity) raw() json.RawMessage {
	if i.RunID != nil {
		return i.RunID
	}
	return i.ExecutionID
}

// in returns the id under the one key that a dialect uses for it.
func (i identity) in(d theory.Dialect) identity {
	switch {
	case d == theory.A && i.ExecutionID != nil:
		i.RunID = nil
	case d != theory.B || i.RunID != nil:
		i.ExecutionID = nil
	}
	return i
}

// text returns the id as text; "" if it is missing, blank, or neither a string
// nor a number.
func (i identity) text() string {
	raw := i.raw()
	switch jsonscan.KindOf(raw) {
	case jsonscan.Number:
		return string(raw)
	case jsonscan.String:
		var text string
		if json.Unmarshal(raw, &text) == nil && strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

// key returns a map key for the id: 7 and "7" are different ids.
func (i identity) key() string {
	if raw := i.raw(); jsonscan.KindOf(raw) == jsonscan.Number {
		return string(raw)
	}
	return string(jsonscan.MustMarshal(i.text()))
}

// A head is the information about a run that a Process gets besides inputs and outputs.
type head struct {
	RunID json.RawMessage `json:"run_id"`
	Mode  string          `json:"mode"`
}

// A controlOp is a request of a controller.
type controlOp struct {
	Op     string      `json:"op"`
	By     string      `json:"by"`
	Tokens json.Number `json:"tokens"`
	TimeS  json.Number `json:"time_s"`
}

// A budget is what a run may still use.
type budget struct {
	Tokens json.Number `json:"tokens,omitempty"`
	TimeS  json.Number `json:"time_s,omitempty"`
}

// message writes a message to clients in a dialect. Data is nil for an Ack.
func message(d theory.Dialect, kind string, id identity, data json.RawMessage) []byte {
	if d != theory.D {
		if data == nil {
			data = jsonscan.MustMarshal(id)
		}
		return jsonscan.MustMarshal(struct {
			Kind    string          `json:"kind"`
			Content json.RawMessage `json:"content"`
		}{kind, data})
	}
	return jsonscan.MustMarshal(struct {
		Kind    string          `json:"kind"`
		Control identity        `json:"control"`
		Data    json.RawMessage `json:"data,omitempty"`
	}{kind, id, data})
}

// response writes the last message of a run.
func response(d theory.Dialect, id identity, result *Result, failure *Error) []byte {
	type control struct {
		identity

		Status    string `json:"status"`
		CostMicro int64  `json:"cost_micro"`
		Final     bool   `json:"final"`
	}
	type rest struct {
		Outputs values `json:"outputs"`
		Error   *Error `json:"error,omitempty"`
	}
	c, r := control{id, "success", 0, true}, rest{values{}, failure}
	var more values
	if result != nil {
		c.CostMicro, more = result.CostMicro, result.more
		if result.Outputs != nil {
			r.Outputs = result.Outputs
		}
	}
	if failure != nil {
		c.Status = "error"
	}
	if d.Opener() == "RunOpen" {
		return jsonscan.MustMarshal(struct {
			Kind    string          `json:"kind"`
			Content json.RawMessage `json:"content"`
		}{"RunResult", withMembers(jsonscan.MustMarshal(struct {
			control
			rest
		}{c, r}), more)})
	}
	return withMembers(jsonscan.MustMarshal(struct {
		Kind    string  `json:"kind"`
		Control control `json:"control"`
		rest
	}{"Response", c, r}), more)
}

// withMembers adds members to the end of a JSON object that is not empty.
func withMembers(object []byte, members values) []byte {
	if len(members) == 0 {
		return object
	}
	return append(append(object[:len(object)-1], ','), jsonscan.MustMarshal(members)[1:]...)
}

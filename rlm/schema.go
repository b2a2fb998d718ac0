package rlm

import (
	"encoding/json"

	"github.com/wirectl/wirectl/rlm/prompt"
)

// A Schema is that of an answer.
type Schema interface {
	// Document returns the JSON Schema.
	Document() json.RawMessage
	// Match returns the JSON in an answer, or says why it does not match.
	Match(answer string) (string, error)
}

// maxRepairs is how many more answers a model may give after one that does not match.
const maxRepairs = 2

// schemaText is what the first message says of the schema; "" without one.
func (r *run) schemaText() string {
	if document := r.schemaJSON(); document != nil {
		return "\n\n" + prompt.Schema(string(document))
	}
	return ""
}

// schemaJSON is the schema, of the root alone.
func (r *run) schemaJSON() json.RawMessage {
	if r.o.Schema == nil || r.depth > 0 {
		return nil
	}
	return r.o.Schema.Document()
}

// matches reports whether an answer matches the schema, and leaves the JSON of one that does.
func (r *run) matches(end *ending) bool {
	if r.o.Schema == nil || r.depth > 0 {
		return true
	}
	var text string
	if text, r.mismatch = r.o.Schema.Match(end.answer); r.mismatch == nil {
		end.answer = text
	}
	return r.mismatch == nil
}

// judge sends back an answer that does not match the schema: then the run has not ended.
func (t *turn) judge(end *ending) *ending {
	if t.matches(end) || t.repairs == maxRepairs {
		return end
	}
	t.repairs++
	t.saySaid()
	again := prompt.Repair(t.mismatch.Error())
	if t.mode == Code && t.env != nil {
		again = prompt.RepairCode(t.mismatch.Error(), t.outputs) + "\n\n" + t.request(t.n+1)
	}
	t.say("user", again)
	return nil
}

package rlm

import (
	"encoding/json"

	"github.com/wirectl/wirectl/rlm/prompt"
)

// A Schema is the schema of an answer.
type Schema interface {
	// Document returns the JSON Schema.
	Document() json.RawMessage
	// Match returns the JSON in an answer, or an error if it does not match.
	Match(answer string) (string, error)
}

// maxRepairs is how often a model may correct an answer that does not match.
const maxRepairs = 2

// schemaText returns the part of the first message about the schema; "" if there is no
// schema.
func (r *run) schemaText() string {
	if document := r.schemaJSON(); document != nil {
		return "\n\n" + prompt.Schema(string(document))
	}
	return ""
}

// schemaJSON returns the schema. Child runs have none.
func (r *run) schemaJSON() json.RawMessage {
	if r.o.Schema == nil || r.depth > 0 {
		return nil
	}
	return r.o.Schema.Document()
}

// matches reports whether an answer matches the schema. If so, it reduces it to its JSON.
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

// judge sends an answer that does not match the schema back, and returns nil: the run goes
// on.
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

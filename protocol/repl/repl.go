// Package repl parses the wire between an orchestrator of recursive language models, the
// host, and the worker that runs its code: JSON after lengths of four bytes.
package repl

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is the wire of workers. The kind of a message is its kind member. Either side
// asks, and numbers its own requests; what the code of a cell asks names the cell, and so
// belongs to it.
var Spec = protocol.Spec{
	Protocol: repl{"repl"},
	About:    "JSON between an orchestrator of recursive language models and its worker",
	// A cancelled request is still answered. A worker that was told to end does not
	// answer, but ends.
	Rules: protocol.Rules{
		UniqueIDs: true,
		Endless:   []string{"shutdown"},
		Dismiss:   []string{"shutdown"},
		Cancels:   []protocol.CancelRule{{Target: protocol.MustAnswer}},
		Sources: [][2]string{
			{"cancel-silent", "a cell or a call that was cancelled is still answered"},
			{"orphan", "a result has the id of its request"},
			{"duplicate-id", "each side numbers its requests"},
			{"unanswered", "a worker answers each request before it ends"},
			{"wrong-side", "the host loads, executes and answers calls; the worker calls and answers the rest"},
		},
	},
	Cancel:    protocol.Cancelling{JSON: `{"kind":"cancel","target":%[1]s}`},
	Recognize: own.Recognize,
}

// Limit is the largest payload, in bytes.
const Limit = 16 << 20

type repl struct{ jsonwalk.Named }

// A kind describes a kind of message.
type kind struct {
	from  frame.Dir
	phase protocol.Phase
	needs member // that are required
}

// member is a set of members.
type member uint8

const (
	hasID member = 1 << iota
	hasTarget
	hasCode
	hasLanguage
	hasPath
	hasName
	hasText
)

var kinds = kindsOf(map[string]kind{
	"ready":        {frame.U2C, protocol.Note, hasLanguage},
	"set":          {frame.C2U, protocol.Note, hasName},
	"load_context": {frame.C2U, protocol.Open, hasID | hasPath},
	"execute":      {frame.C2U, protocol.Open, hasID | hasCode},
	"final_var":    {frame.C2U, protocol.Open, hasID | hasName},
	"shutdown":     {frame.C2U, protocol.Open, hasID},
	"output":       {frame.U2C, protocol.Part, hasID | hasText},
	"busy":         {frame.U2C, protocol.Part, hasID},
	"cancel":       {frame.DirUnknown, protocol.Cancel, hasTarget},
})

// kindsOf adds the calls that code makes, and the results of all that asks.
func kindsOf(kinds map[string]kind) map[string]kind {
	for _, name := range []string{"load_context", "execute", "final_var"} {
		kinds[name+"_result"] = kind{frame.U2C, protocol.Close, hasID}
	}
	for _, name := range []string{"llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched", "tool_call"} {
		kinds[name] = kind{frame.U2C, protocol.Open, hasID}
		kinds[name+"_result"] = kind{frame.C2U, protocol.Close, hasID}
	}
	return kinds
}

// own are the shapes of messages that only this protocol has.
var own = jsonwalk.Shapes{
	"ready":               {{Has: `kind" language" version"`, MayHave: "*"}},
	"load_context":        {{Has: `kind" id path" type"`, MayHave: "*"}},
	"load_context_result": {{Has: `kind" id`, MayHave: "ok error"}},
	"execute":             {{Has: `kind" id code"`}},
	"execute_result":      {{Has: `kind" id execution_time`, MayHave: "*"}},
	"output":              {{Has: `kind" id stream" text"`}},
	"llm_query":           {{Has: `kind" id cell prompt`, MayHave: "*"}},
	"llm_query_batched":   {{Has: `kind" id cell prompts[`, MayHave: "*"}},
	"rlm_query":           {{Has: `kind" id cell prompt`, MayHave: "*"}},
	"rlm_query_batched":   {{Has: `kind" id cell prompts[`, MayHave: "*"}},
}

// wire is the result of one walk over a message, whatever the order of its members. Words
// are without quotes, the rest is as written.
type wire struct {
	kind, model, name    []byte
	id, cell, target     []byte
	ok, failure, content []byte
	failureType          []byte
	has                  member
}

// Parse reads one message, as [protocol.Protocol] wants it.
func (repl) Parse(payload []byte, m *protocol.Message) error {
	var s jsonscan.Scanner
	var w wire
	return jsonwalk.Parse(&s, payload, m, func() { w.read(&s, payload) }, func() { w.interpret(m) })
}

func (w *wire) read(s *jsonscan.Scanner, payload []byte) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "kind":
			w.kind = jsonwalk.Word(s.Value())
		case "id":
			w.id = s.Value()
			w.has |= hasID
		case "cell":
			w.cell = s.Value()
		case "target":
			w.target = s.Value()
			w.has |= hasTarget
		case "code":
			w.content = s.Value()
			w.has |= hasCode
		case "path":
			w.content = s.Value()
			w.has |= hasPath
		case "text":
			w.content = s.Value()
			w.has |= hasText
		case "prompt", "prompts", "response", "responses", "final", "arguments", "value":
			w.content = s.Value()
		case "name":
			w.name = jsonwalk.Word(s.Value())
			w.has |= hasName
		case "model":
			w.model = jsonwalk.Word(s.Value())
		case "language":
			w.name = jsonwalk.Word(s.Value())
			w.has |= hasLanguage
		case "ok":
			w.ok = s.Value()
		case "error":
			start := s.Offset()
			w.failureType = jsonwalk.WordIn(s, "type")
			if raw := jsonwalk.Since(s, payload, start); jsonscan.KindOf(raw) != jsonscan.Null {
				w.failure = raw
			}
		}
	}
}

// interpret sets the meaning of the members.
func (w *wire) interpret(m *protocol.Message) {
	k, ok := kinds[string(w.kind)]
	if !ok {
		m.Faults |= protocol.UnknownKind
		return
	}
	m.Kind, m.From, m.Phase, m.Text = w.kind, k.from, k.phase, w.content
	if m.Label = w.name; m.Label == nil {
		m.Label = w.model
	}
	m.ID = jsonwalk.Token(w.id, protocol.SpaceID)
	if w.has&k.needs != k.needs {
		m.Faults |= protocol.MissingField
	}
	switch {
	case k.phase == protocol.Cancel:
		m.ID, m.Ref = protocol.Token{}, jsonwalk.Token(w.target, protocol.SpaceID)
	case k.phase == protocol.Part:
		m.ID, m.Ref = protocol.Token{}, m.ID
	case string(w.failureType) == "KeyboardInterrupt": // so the worker says that the cell was interrupted
		m.Phase, m.Text = protocol.Cancelled, w.failure
	case k.phase == protocol.Close && (w.failure != nil || string(w.ok) == "false"):
		m.Phase, m.Text = protocol.Fail, w.failure
	case k.phase == protocol.Open && w.cell != nil:
		m.Operation = protocol.Effect{Does: protocol.Open, Of: jsonwalk.Token(w.cell, protocol.SpaceID)}
	}
	if m.ID.IsZero() && m.Ref.IsZero() && k.needs&(hasID|hasTarget) != 0 && m.Faults == 0 {
		m.Faults |= protocol.BadID
	}
}

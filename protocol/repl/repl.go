// Package repl parses the wire between an orchestrator of recursive language models, the
// host, and the worker that runs its code: JSON after lengths of four bytes.
package repl

import (
	"github.com/wirectl/wirectl/frame"
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
	needs []jsonwalk.Field
}

var kinds = kindsOf(map[string]kind{
	"ready":        {frame.U2C, protocol.Note, needs("language")},
	"set":          {frame.C2U, protocol.Note, needs("name")},
	"load_context": {frame.C2U, protocol.Open, needs("id", "path")},
	"execute":      {frame.C2U, protocol.Open, needs("id", "code")},
	"final_var":    {frame.C2U, protocol.Open, needs("id", "name")},
	"shutdown":     {frame.C2U, protocol.Open, needs("id")},
	"output":       {frame.U2C, protocol.Part, needs("id", "text")},
	"busy":         {frame.U2C, protocol.Part, needs("id")},
	"cancel":       {frame.DirUnknown, protocol.Cancel, needs("target")},
})

// kindsOf adds the calls that code makes, and the results of all that asks.
func kindsOf(kinds map[string]kind) map[string]kind {
	for _, name := range []string{"load_context", "execute", "final_var"} {
		kinds[name+"_result"] = kind{frame.U2C, protocol.Close, needs("id")}
	}
	for _, name := range []string{"llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched", "tool_call"} {
		kinds[name] = kind{frame.U2C, protocol.Open, needs("id")}
		kinds[name+"_result"] = kind{frame.C2U, protocol.Close, needs("id")}
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

// A line holds the members of a message. Words are without quotes, others as written.
type line struct {
	kind        []byte `at:"kind,word"`
	id          []byte `at:"id"`
	cell        []byte `at:"cell"`
	target      []byte `at:"target"`
	code        []byte `at:"code"`
	path        []byte `at:"path"`
	text        []byte `at:"text"`
	content     []byte `at:"code|path|text|prompt|prompts|response|responses|final|arguments|value"`
	name        []byte `at:"name"`
	language    []byte `at:"language"`
	label       []byte `at:"name|language,word"`
	model       []byte `at:"model,word"`
	ok          []byte `at:"ok"`
	failure     []byte `at:"error,set"`
	failureType []byte `at:"error.type,word"`
}

var paths = jsonwalk.PathsOf[line]()

func needs(members ...string) (fields []jsonwalk.Field) {
	for _, name := range members {
		fields = append(fields, paths.Field(name))
	}
	return fields
}

// Parse implements [protocol.Protocol].
func (repl) Parse(payload []byte, m *protocol.Message) error {
	var l line
	return paths.Parse(payload, m, &l, func() { l.interpret(m) })
}

// interpret sets the meaning of the members.
func (l *line) interpret(m *protocol.Message) {
	k, ok := kinds[string(l.kind)]
	if !ok {
		m.Faults |= protocol.UnknownKind
		return
	}
	m.Kind, m.From, m.Phase, m.Text = l.kind, k.from, k.phase, l.content
	m.Label = jsonwalk.First(l.label, l.model)
	m.ID = jsonwalk.Token(l.id, protocol.SpaceID)
	for _, f := range k.needs {
		if paths.Value(l, f) == nil {
			m.Faults |= protocol.MissingField
		}
	}
	switch {
	case k.phase == protocol.Cancel:
		m.ID, m.Ref = protocol.Token{}, jsonwalk.Token(l.target, protocol.SpaceID)
	case k.phase == protocol.Part:
		m.ID, m.Ref = protocol.Token{}, m.ID
	case string(l.failureType) == "KeyboardInterrupt": // so the worker says that the cell was interrupted
		m.Phase, m.Text = protocol.Cancelled, l.failure
	case k.phase == protocol.Close && (l.failure != nil || string(l.ok) == "false"):
		m.Phase, m.Text = protocol.Fail, l.failure
	case k.phase == protocol.Open && l.cell != nil:
		m.Operation = protocol.Effect{Does: protocol.Open, Of: jsonwalk.Token(l.cell, protocol.SpaceID)}
	}
	if m.ID.IsZero() && m.Ref.IsZero() && k.phase != protocol.Note && m.Faults == 0 {
		m.Faults |= protocol.BadID
	}
}

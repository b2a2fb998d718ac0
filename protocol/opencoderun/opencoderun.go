// Package opencoderun parses the output of opencode run --format json: the parts of a session.
// Nothing goes the other way.
package opencoderun

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is the stream of parts. The kind of a message is its type. The prompt is not on the wire, so a
// step, which is an answer of the model with its tool calls, is an exchange. A call is told when it has
// ended: it is a part of its step.
var Spec = protocol.Spec{
	Protocol: events{"opencode-run"},
	About:    "the events that opencode run --format json writes",
	Rules: protocol.Rules{
		OneSided:     true,
		LoneFailures: true,
		LooseRefs:    true,
		Framing:      frame.Line,
		Sources:      [][2]string{{"unanswered", "a step ends with step_finish, or an error"}},
	},
	Recognize: own.Recognize,
	Kept:      []string{"sessionID"},
}

type events struct{ jsonwalk.Named }

// An event holds the members of an event: words without quotes, the others as written. The tokens of the
// input are without those of the cache.
type event struct {
	kind    []byte `at:"type,word"`
	session []byte `at:"sessionID"`
	tool    []byte `at:"part.tool,word"`
	reason  []byte `at:"part.reason,word"`
	failure []byte `at:"error.data.message error.message"`
	name    []byte `at:"error.name,word"`
	text    []byte `at:"part.text part.state.title part.state.error"`
	total   int64  `at:"part.tokens.total"`
	input   int64  `at:"part.tokens.input"`
	read    int64  `at:"part.tokens.cache.read"`
	written int64  `at:"part.tokens.cache.write"`
	output  int64  `at:"part.tokens.output"`
	cost    int64  `at:"part.cost,micros"`
}

var paths = jsonwalk.PathsOf[event]()

// Parse implements [protocol.Protocol].
func (events) Parse(payload []byte, m *protocol.Message) error {
	var e event
	return paths.Parse(payload, m, &e, func() { e.interpret(m) })
}

func (e *event) interpret(m *protocol.Message) {
	step := jsonwalk.Token(e.session, protocol.SpaceSession)
	switch string(e.kind) {
	case "step_start":
		m.Phase, m.ID = protocol.Open, step
	case "tool_use":
		m.Phase, m.Ref, m.Label = protocol.Part, step, e.tool
	case "text", "reasoning":
		m.Phase, m.Ref = protocol.Part, step
	case "step_finish":
		m.Phase, m.Ref, m.StopReason = protocol.Close, step, e.reason
		input := e.input + e.read + e.written
		m.Usage = protocol.Usage{Input: input, Cached: e.read, Output: max(e.output, e.total-input), Cost: e.cost}
	case "error":
		m.Phase, m.Ref, m.Label, m.Reason = protocol.Fail, step, e.name, jsonwalk.Word(e.failure)
	default:
		m.Faults |= protocol.UnknownKind
		return
	}
	m.Kind, m.Text = e.kind, jsonwalk.First(e.failure, e.text)
}

// own are the shapes of events that only this protocol has.
var own = jsonwalk.Shapes{
	"step_start":  {{Has: `type" timestamp sessionID" part.id" part.messageID" part.type"`}},
	"step_finish": {{Has: `type" timestamp sessionID" part.id" part.messageID" part.reason"`}},
	"tool_use":    {{Has: `type" timestamp sessionID" part.callID" part.messageID" part.state.status"`}},
	"text":        {{Has: `type" timestamp sessionID" part.id" part.messageID" part.text"`}},
	"reasoning":   {{Has: `type" timestamp sessionID" part.id" part.messageID" part.text"`}},
	"error":       {{Has: `type" timestamp sessionID" error.name"`}},
}

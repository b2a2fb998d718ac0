// Package codexexec parses the output of codex exec --json: the events of a thread, one
// turn after the other. Nothing goes the other way.
package codexexec

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is the stream of events. The kind of a message is its type. A turn has no id:
// it is opened by turn.started, for no prompt is on the wire.
var Spec = protocol.Spec{
	Protocol: events{"codex-exec"},
	About:    "the events that codex exec --json writes",
	// A turn ends before the stream does.
	Rules: protocol.Rules{
		OneSided:  true,
		LooseRefs: true,
		Framing:   frame.Line,
		Sources:   [][2]string{{"unanswered", "a turn ends with turn.completed or turn.failed"}},
	},
	Recognize: own.Recognize,
}

type events struct{ jsonwalk.Named }

var phases = map[string]protocol.Phase{
	"thread.started": protocol.Note,
	"turn.started":   protocol.Open,
	"item.started":   protocol.Part,
	"item.updated":   protocol.Part,
	"item.completed": protocol.Part,
	"error":          protocol.Note,
	"turn.completed": protocol.Close,
	"turn.failed":    protocol.Fail,
}

// An event holds the members of an event: words without quotes, texts as written.
type event struct {
	kind     []byte `at:"type,word"`
	item     []byte `at:"item"`
	itemType []byte `at:"item.type,word"`
	failure  []byte `at:"error"`
	text     []byte `at:"message error.message item.text|message|command|changes|query"`
	input    int64  `at:"usage.input_tokens"`
	cached   int64  `at:"usage.cached_input_tokens"`
	output   int64  `at:"usage.output_tokens"`
}

var paths = jsonwalk.PathsOf[event]()

// Parse implements [protocol.Protocol].
func (events) Parse(payload []byte, m *protocol.Message) error {
	var e event
	return paths.Parse(payload, m, &e, func() { e.interpret(m) })
}

func (e *event) interpret(m *protocol.Message) {
	phase, ok := phases[string(e.kind)]
	if !ok {
		m.Faults |= protocol.UnknownKind
		return
	}
	m.Kind, m.Phase, m.Label = e.kind, phase, e.itemType
	m.Text = jsonwalk.First(e.text, e.failure, e.item)
	m.Usage = protocol.Usage{Input: e.input, Cached: e.cached, Output: e.output}
	switch turn := (protocol.Token{Space: protocol.SpaceTurn}); phase {
	case protocol.Open:
		m.ID = turn
	case protocol.Part, protocol.Close, protocol.Fail:
		m.Ref = turn
	}
}

// own are the shapes of events that only this protocol has.
var own = jsonwalk.Shapes{
	"thread.started": {{Has: `type" thread_id"`}},
	"turn.started":   {{Has: `type"`}},
	"item.started":   {{Has: `type" item.id" item.type"`}},
	"item.updated":   {{Has: `type" item.id" item.type"`}},
	"item.completed": {{Has: `type" item.id" item.type"`}},
	"turn.completed": {{Has: `type" usage.input_tokens`}},
	"turn.failed":    {{Has: `type" error.message"`}},
}

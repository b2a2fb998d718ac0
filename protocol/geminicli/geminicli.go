// Package geminicli parses the output of gemini --output-format stream-json: the events of one prompt.
// Nothing goes the other way.
package geminicli

import (
	"bytes"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is the stream of events. The kind of a message is its type. The message of the user opens the
// turn, which has no id, and the result ends it. A tool call is an exchange in the turn.
var Spec = protocol.Spec{
	Protocol: events{"gemini-cli"},
	About:    "the events that gemini --output-format stream-json writes",
	Rules: protocol.Rules{
		OneSided:  true,
		LooseRefs: true,
		Framing:   frame.Line,
		Sources:   [][2]string{{"unanswered", "a turn ends with a result, and a tool_use with its tool_result"}},
	},
	Recognize: own.Recognize,
	Kept:      []string{"role", "tool_id", "severity"},
	Labels:    protocol.Tools,
}

type events struct{ jsonwalk.Named }

// An event holds the members of an event: words without quotes, the others as written.
type event struct {
	kind    []byte `at:"type,word"`
	role    []byte `at:"role,word"`
	tool    []byte `at:"tool_name,word"`
	id      []byte `at:"tool_id"`
	status  []byte `at:"status,word"`
	model   []byte `at:"model,word"`
	models  []byte `at:"stats.models"`
	content []byte `at:"content message parameters output"`
	failure []byte `at:"error.message"`
	input   int64  `at:"stats.input_tokens"`
	cached  int64  `at:"stats.cached"`
	output  int64  `at:"stats.output_tokens"`
}

var paths = jsonwalk.PathsOf[event]()

// Parse implements [protocol.Protocol].
func (events) Parse(payload []byte, m *protocol.Message) error {
	var e event
	return paths.Parse(payload, m, &e, func() { e.interpret(m) })
}

func (e *event) interpret(m *protocol.Message) {
	turn, tool := protocol.Token{Space: protocol.SpaceTurn}, jsonwalk.Token(e.id, protocol.SpaceID)
	switch string(e.kind) {
	case "init", "error": // the error need not end the turn
		m.Model = e.model
	case "message":
		if m.Phase, m.Ref = protocol.Part, turn; string(e.role) == "user" {
			m.Phase, m.ID, m.Ref = protocol.Open, turn, protocol.Token{}
		}
	case "tool_use":
		m.Phase, m.ID, m.Label = protocol.Open, tool, e.tool
		m.Operation = protocol.Effect{Does: protocol.Open, Of: turn}
	case "tool_result":
		m.Phase, m.ID = protocol.Close, tool
		if m.ToolError = string(e.status) == "error"; m.ToolError {
			m.Reason = jsonwalk.Word(e.failure)
		}
	case "result":
		m.Phase, m.Ref, m.Model = protocol.Close, turn, onlyKey(e.models)
		m.Usage = protocol.Usage{Input: e.input, Cached: e.cached, Output: e.output}
		if string(e.status) == "error" {
			m.Phase, m.Reason = protocol.Fail, jsonwalk.Word(e.failure)
		}
	default:
		m.Faults |= protocol.UnknownKind
		return
	}
	m.Kind, m.Text = e.kind, jsonwalk.First(e.failure, e.content)
}

// onlyKey returns the key of an object that has one member; nil for any other.
func onlyKey(object []byte) (key []byte) {
	var s jsonscan.Scanner
	s.Init(object)
	for ok := s.Object(); ok && s.Next(); s.Skip() {
		if key != nil {
			return nil
		}
		key = s.Key()
	}
	if bytes.IndexByte(object, '\\') >= 0 {
		return nil
	}
	return key
}

// own are the shapes of events that only this protocol has.
var own = jsonwalk.Shapes{
	"init":        {{Has: `type" timestamp" session_id" model"`}},
	"message":     {{Has: `type" timestamp" role" content"`, MayHave: "delta"}},
	"tool_use":    {{Has: `type" timestamp" tool_name" tool_id" parameters{`}},
	"tool_result": {{Has: `type" timestamp" tool_id" status"`, MayHave: "output error"}},
	"error":       {{Has: `type" timestamp" severity" message"`}},
	"result":      {{Has: `type" timestamp" status" stats{`, MayHave: "error"}},
}

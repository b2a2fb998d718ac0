// Package codexexec parses the output of codex exec --json: the events of a thread, one
// turn after the other. Nothing goes the other way.
package codexexec

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
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

// Parse reads one event, as [protocol.Protocol] wants it.
func (events) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var s jsonscan.Scanner
	s.Init(payload)
	var kind, itemType, text []byte
	var usage protocol.Usage
	for ok := s.Object(); ok && s.Next(); {
		start := s.Offset()
		switch string(s.Key()) {
		case "type":
			kind = jsonwalk.Word(s.Value())
		case "item":
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "type":
					itemType = jsonwalk.Word(s.Value())
				case "text", "message", "command", "changes", "query":
					text = s.Value()
				}
			}
			if item := jsonwalk.Since(&s, payload, start); text == nil {
				text = item
			}
		case "usage":
			usage = readUsage(&s)
		case "message":
			text = s.Value()
		case "error":
			text = jsonwalk.Member(&s, "message")
			if raw := jsonwalk.Since(&s, payload, start); text == nil {
				text = raw
			}
		}
	}
	err := s.End()
	phase, ok := phases[string(kind)]
	if !ok {
		m.Faults |= protocol.UnknownKind
		return jsonwalk.Finish(&s, err, m)
	}
	m.Kind, m.Phase, m.Label, m.Text, m.Usage = kind, phase, itemType, text, usage
	switch turn := (protocol.Token{Space: protocol.SpaceTurn}); phase {
	case protocol.Open:
		m.ID = turn
	case protocol.Part, protocol.Close, protocol.Fail:
		m.Ref = turn
	}
	return jsonwalk.Finish(&s, err, m)
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

// readUsage walks the next value.
func readUsage(s *jsonscan.Scanner) (u protocol.Usage) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "input_tokens":
			u.Input = jsonwalk.Count(s.Value())
		case "cached_input_tokens":
			u.Cached = jsonwalk.Count(s.Value())
		case "output_tokens":
			u.Output = jsonwalk.Count(s.Value())
		}
	}
	return u
}

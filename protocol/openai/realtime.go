package openai

import (
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// RealtimeSpec is the Realtime API, and the Responses API over WebSocket. The kind of an event is
// its type. The server chooses the id of a response: response.create asks for the next response
// that is created.
var RealtimeSpec = protocol.Spec{
	Protocol: realtime{},
	About:    "the Realtime API of OpenAI, over WebSocket",
	// A cancel is answered by response.done, or by an error if no response is active.
	Rules: protocol.Rules{
		UniqueIDs: true, MayHangUp: true, LeavingCancels: true, Asks: frame.C2U,
		Cancels: []protocol.CancelRule{{Target: protocol.MustAnswer}},
	},
	Recognize: own.Recognize,
	Live:      protocol.NamedTurns,
	Joins:     joins,
	SpawnedBy: spawnedBy,
	Kept:      callIDs,
}

type realtime struct{ api }

func (realtime) Name() string { return "openai-realtime" }

// Parse implements [protocol.Protocol]. ID is the id of a response. Bind is the
// id of a client's event, and Ref that of the event that caused an error.
func (realtime) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var s jsonscan.Scanner
	s.Init(payload)
	var e llm.Event
	var id, model []byte // of the event, and of the session
	isObject := s.Peek() == jsonscan.Object
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "event_id":
			id = s.Value()
		case "session":
			model = jsonwalk.Member(&s, "model")
		case "id": // of something else than a response
		default:
			e.Member(&s)
		}
	}
	if e.Model == nil {
		e.Model = model
	}
	if kind := jsonwalk.Word(e.Kind); s.End() != nil || !isObject || !strings.Contains(string(kind), ".") && string(kind) != "error" {
		m.Faults |= protocol.UnknownKind
	} else {
		interpretLive(&e, id, m)
	}
	return jsonwalk.End(&s, m)
}

// interpretLive fills m. The event has an id of its own.
func interpretLive(e *llm.Event, id []byte, m *protocol.Message) {
	modelapi.Tell(e, m)
	m.Kind, m.Bind = jsonwalk.Word(e.Kind), jsonwalk.Token(id, protocol.SpaceProgress)
	switch kind := string(m.Kind); {
	case kind == "response.create":
		m.Phase, m.From = protocol.Open, frame.C2U
	case kind == "response.cancel":
		m.Phase, m.From, m.Ref = protocol.Cancel, frame.C2U, jsonwalk.Token(e.ID, protocol.SpaceTurn)
	case kind == "error":
		modelapi.Fail(e, m)
		cause, _ := jsonscan.Get(e.Error, "event_id")
		m.Bind, m.Ref = protocol.Token{}, jsonwalk.Token(cause, protocol.SpaceProgress)
	case !strings.HasPrefix(kind, "response."):
	default:
		m.Bind, m.ID, m.From = protocol.Token{}, jsonwalk.Token(e.ID, protocol.SpaceTurn), frame.U2C
		if !setEnd(e, m) {
			m.Phase = protocol.Part
			m.Empty = !e.Brings || !strings.HasSuffix(kind, ".delta") && !strings.HasSuffix(kind, ".added")
		}
	}
}

// own are the shapes of events that only this API has.
var own = jsonwalk.Shapes{
	"session.created":           sessions("type", "object", "model"),
	"session.updated":           sessions("type", "object", "model"),
	"session.update":            sessions("type", "model", "modalities", "instructions", "voice", "audio", "tools", "turn_detection"),
	"conversation.item.create":  {{Has: `type" item.type"`, MayHave: "event_id previous_item_id"}},
	"input_audio_buffer.append": {{Has: `type" audio"`, MayHave: "event_id"}},
	"response.create": {
		{Has: `type"`, MayHave: "event_id response"},
		{Has: `type" model" input`, MayHave: "*"}, // of the Responses API
	},
	"response.created": {{Has: `type" event_id" response.id" response.object"`}},
}

// sessions returns the shapes of an event about a session that has one of these members.
func sessions(members ...string) (all []jsonwalk.Shape) {
	for _, name := range members {
		all = append(all, jsonwalk.Shape{Has: `type" session.` + name, MayHave: "event_id"})
	}
	return all
}

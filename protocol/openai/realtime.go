package openai

import (
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/internal/modelapi"
)

// Realtime is the Realtime API, and the Responses API over WebSocket. The kind of an event is
// its type. The server chooses the id of a response: response.create asks for the next response
// that is created.
var Realtime protocol.Protocol = realtime{}

// RealtimeRules: a cancel is answered by response.done, or by an error if no response is active.
var RealtimeRules = protocol.Rules{
	UniqueIDs: true, MayHangUp: true, LeavingCancels: true, Asks: frame.C2U,
	Cancels: []protocol.CancelRule{{Target: protocol.MustAnswer}},
}

type realtime struct{ api }

func (realtime) Name() string { return "openai-realtime" }

// Parse reads one event; see [protocol.Protocol]. ID is the id of a response. Bind is the
// id of a client's event, and Ref that of the event that caused an error.
func (realtime) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var s jsonscan.Scanner
	s.Init(payload)
	var w wire
	var e realtimeEvent
	isObject := s.Peek() == jsonscan.Object
	for ok := s.Object(); ok && s.Next(); {
		e.read(&s, &w)
	}
	if s.End() != nil || !isObject || !strings.Contains(string(w.event), ".") && string(w.event) != "error" {
		m.Faults |= protocol.UnknownKind
	} else {
		e.interpret(&w, m)
	}
	return jsonwalk.End(&s, m)
}

// A realtimeEvent holds the members of an event that events over HTTP lack.
type realtimeEvent struct {
	id, response []byte // the ids of the event and of the response
}

// read walks the next member of an event.
func (e *realtimeEvent) read(s *jsonscan.Scanner, w *wire) {
	switch string(s.Key()) {
	case "event_id":
		e.id = s.Value()
	case "response_id":
		e.response = s.Value()
	case "session":
		w.model = jsonwalk.WordIn(s, "model")
	case "error":
		w.failed = w.failure.Read(s) || w.failed
	case "response":
		e.readResponse(s, w)
	case "type":
		w.event = jsonwalk.Word(s.Value())
	case "model":
		w.model = jsonwalk.Word(s.Value())
	case "input":
		w.text = modelapi.LastText(s)
	default:
		w.readContent(s)
	}
}

// readResponse walks the next value: a response, or the wanted response of a request.
func (e *realtimeEvent) readResponse(s *jsonscan.Scanner, w *wire) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "id":
			e.response = s.Value()
		case "status":
			w.status = jsonwalk.Word(s.Value())
		case "model":
			w.model = jsonwalk.Word(s.Value())
		case "usage":
			w.usage = modelapi.ReadUsage(llm.Chat, s.Value())
		case "error":
			w.failure.Read(s)
		case "status_details", "incomplete_details":
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "reason":
					w.why = jsonwalk.Word(s.Value())
				case "error":
					w.failure.Read(s)
				}
			}
		default:
			w.readContent(s)
		}
	}
}

// interpret fills m.
func (e *realtimeEvent) interpret(w *wire, m *protocol.Message) {
	m.Model, m.Usage, m.Text, m.Label = w.model, w.usage, w.text, w.tool
	m.Bind = jsonwalk.Token(e.id, protocol.SpaceProgress)
	kind := string(w.event)
	switch m.Kind = w.event; {
	case kind == "response.create":
		m.Phase, m.From = protocol.Open, frame.C2U
	case kind == "response.cancel":
		m.Phase, m.From, m.Ref = protocol.Cancel, frame.C2U, jsonwalk.Token(e.response, protocol.SpaceTurn)
	case kind == "error":
		w.failure.Tell(m)
		m.Bind, m.Ref = protocol.Token{}, jsonwalk.Token(w.failure.Event, protocol.SpaceProgress)
	case !strings.HasPrefix(kind, "response."):
	default:
		m.Bind, m.ID, m.From = protocol.Token{}, jsonwalk.Token(e.response, protocol.SpaceTurn), frame.U2C
		w.interpretResponse(m)
	}
}

// interpretResponse sets the effect of an event on its response.
func (w *wire) interpretResponse(m *protocol.Message) {
	switch kind := string(w.event); kind {
	case "response.done", "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if w.status == nil {
			w.status = w.event[len("response."):]
		}
		w.setEnd(m)
		switch {
		case m.Phase == protocol.Fail:
			return
		case w.why != nil:
			m.StopReason = w.why
		}
		if m.Label == nil {
			m.Label = m.StopReason
		}
	default:
		m.Phase = protocol.Part
		m.Empty = !w.brings || !strings.HasSuffix(kind, ".delta") && !strings.HasSuffix(kind, ".added")
	}
}

// own are the shapes of events that only this API has.
var own = map[string][]jsonwalk.Shape{
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

// IsOwn reports whether only this API has an event, which is m.
func (realtime) IsOwn(payload []byte, m *protocol.Message) bool {
	return slices.ContainsFunc(own[string(m.Kind)], func(s jsonwalk.Shape) bool { return s.Fits(payload) })
}

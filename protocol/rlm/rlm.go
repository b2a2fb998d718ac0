// Package rlm parses the messages of rlm, by which an execution environment
// asks a broker for completions: a WireRequest, and a WireResponse in answer.
// Both are JSON objects, and neither allows members that it does not know.
package rlm

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Limit is the largest payload, in bytes, that peers accept.
const Limit = 10_000_000

// Protocol is rlm. The id of a message is its correlation id, which need not
// be unique. The label of a request is its model, its text the prompt or
// prompts as written; the text of a response is its error, or else the first
// response or item error, as written.
var Protocol protocol.Protocol = rlm{"rlm"}

// Spec: a broker answers the requests of a connection in their order, and correlation ids need
// not be unique.
var Spec = protocol.Spec{
	Protocol: Protocol,
	About:    "JSON between an execution environment and its LLM broker",
	Rules: protocol.Rules{
		Counted:   true,
		MayHangUp: true,
		Outlined:  true,
		Sources: [][2]string{
			{"orphan", "a WireResponse echoes the correlation_id of its WireRequest"},
			{"result-count", "a WireResponse has as many results as there were prompts, and one for prompt"},
			{"both-answers", "exactly one of prompt and prompts, of error and results, and of error and chat_completion is given"},
			{"no-answer", "exactly one of error and results, and of error and chat_completion is given"},
			{"bad-params", "a prompt is a string, an object or an array of objects, and prompts are not empty"},
			{"bad-id", "correlation_id is a string when present"},
			{"oversize", "a frame has 10000000 bytes at most"},
		},
	},
	Framing:   frame.Len32,
	Limit:     Limit,
	Recognize: recognize,
	Mark:      `"correlation_id"`,
	Labels:    protocol.Models,
}

type rlm struct{ jsonwalk.Named }

// Parse reads one message, as [protocol.Protocol] wants it.
func (rlm) Parse(payload []byte, m *protocol.Message) error {
	var s jsonscan.Scanner
	var w wire
	return jsonwalk.Parse(&s, payload, m, func() { w.readMessage(&s, payload) }, func() { w.interpret(m) })
}

// Requests to models have the same members, but no correlation id.
func recognize(payload []byte, _ *protocol.Message) protocol.Evidence {
	_, ok := jsonscan.Get(payload, "correlation_id")
	return protocol.Own(ok)
}

// wire is the result of one walk over a message. Values are kept as written; a missing or
// null one is nil.
type wire struct {
	identified    bool // correlation_id is present
	correlationID []byte

	asks    bool // a member that only WireRequest has is present
	model   []byte
	prompt  []byte
	prompts []byte

	hasError, hasResults bool // members that only WireResponse has are present
	failure              []byte
	results              []byte
	first                []byte // the text of the first result

	count  int // of prompts or results
	faults protocol.Faults
}

func (w *wire) readMessage(s *jsonscan.Scanner, payload []byte) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "correlation_id":
			w.identified = true
			w.correlationID = s.NotNull()
		case "model":
			w.asks = true
			w.model = w.notNullString(s)
		case "prompt":
			w.asks = true
			w.prompt = w.readPrompt(s, payload)
		case "prompts":
			w.asks = true
			w.readPrompts(s, payload)
		case "error":
			w.hasError = true
			w.failure = w.notNullString(s)
		case "results":
			w.hasResults = true
			w.readResults(s, payload)
		default:
			w.faults |= protocol.UnknownField
		}
	}
}

// interpret sets the meaning of the members. An object with no member of either kind but a
// correlation id is a request that lacks its prompt.
func (w *wire) interpret(m *protocol.Message) {
	m.Faults = w.faults
	switch {
	case w.hasError || w.hasResults:
		w.interpretResponse(m)
	case w.asks || w.identified:
		w.interpretRequest(m)
	default:
		m.Faults = protocol.UnknownKind
		return
	}
	m.Count = w.count
	if jsonscan.KindOf(w.correlationID) == jsonscan.String {
		m.ID = protocol.Token{Space: protocol.SpaceID, Text: w.correlationID}
	} else if w.correlationID != nil {
		m.Faults |= protocol.BadID
	}
}

// need records a fault of a value unless ok.
func (w *wire) need(ok bool) {
	if !ok {
		w.faults |= protocol.BadParams
	}
}

// notNullString is NotNull for a value that must be a string or null.
func (w *wire) notNullString(s *jsonscan.Scanner) []byte {
	raw := s.NotNull()
	w.need(raw == nil || jsonscan.KindOf(raw) == jsonscan.String)
	return raw
}

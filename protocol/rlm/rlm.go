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

// Parse implements [protocol.Protocol].
func (rlm) Parse(payload []byte, m *protocol.Message) error {
	m.Reset()
	var s jsonscan.Scanner
	s.Init(payload)
	var l line
	l.readMessage(&s)
	l.interpret(m)
	return jsonwalk.End(&s, m)
}

// Requests to models have the same members, but no correlation id.
func recognize(payload []byte, _ *protocol.Message) protocol.Evidence {
	_, ok := jsonscan.Get(payload, "correlation_id")
	return protocol.Own(ok)
}

// A line holds the members of a message, as written; a missing or null one is nil.
type line struct {
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

func (l *line) readMessage(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "correlation_id":
			l.identified = true
			l.correlationID = s.NotNull()
		case "model":
			l.asks = true
			l.model = l.notNullString(s)
		case "prompt":
			l.asks = true
			l.prompt = l.readPrompt(s)
		case "prompts":
			l.asks = true
			l.readPrompts(s)
		case "error":
			l.hasError = true
			l.failure = l.notNullString(s)
		case "results":
			l.hasResults = true
			l.readResults(s)
		default:
			l.faults |= protocol.UnknownField
		}
	}
}

// interpret sets the meaning of the members. An object with no member of either kind but a
// correlation id is a request that lacks its prompt.
func (l *line) interpret(m *protocol.Message) {
	m.Faults = l.faults
	switch {
	case l.hasError || l.hasResults:
		l.interpretResponse(m)
	case l.asks || l.identified:
		l.interpretRequest(m)
	default:
		m.Faults = protocol.UnknownKind
		return
	}
	m.Count = l.count
	if jsonscan.KindOf(l.correlationID) == jsonscan.String {
		m.ID = protocol.Token{Space: protocol.SpaceID, Text: l.correlationID}
	} else if l.correlationID != nil {
		m.Faults |= protocol.BadID
	}
}

// need records a fault of a value unless ok.
func (l *line) need(ok bool) {
	if !ok {
		l.faults |= protocol.BadParams
	}
}

// notNullString is NotNull for a value that must be a string or null.
func (l *line) notNullString(s *jsonscan.Scanner) []byte {
	raw := s.NotNull()
	l.need(raw == nil || jsonscan.KindOf(raw) == jsonscan.String)
	return raw
}

var kindRequest = []byte("WireRequest")

func (l *line) interpretRequest(m *protocol.Message) {
	m.Kind, m.Phase, m.From = kindRequest, protocol.Open, frame.C2U
	m.Label, m.Text = jsonwalk.Word(l.model), l.prompts
	switch {
	case l.prompt != nil && l.prompts != nil:
		m.Faults |= protocol.BothAnswers
	case l.prompt != nil:
		m.Text = l.prompt
		l.count = 1
	case l.prompts == nil:
		m.Faults |= protocol.MissingField
	case l.count == 0:
		m.Faults |= protocol.BadParams
	}
}

// readPrompts walks the prompts of a batched request.
func (l *line) readPrompts(s *jsonscan.Scanner) {
	start := s.Offset()
	if s.Peek() != jsonscan.Array {
		l.prompts = s.NotNull()
		l.need(l.prompts == nil)
		return
	}
	for ok := s.Array(); ok && s.Elem(); {
		l.count++
		l.need(l.readPrompt(s) != nil)
	}
	l.prompts = s.Since(start)
}

// readPrompt walks one prompt: a string, an object, or an array of objects. It
// returns nil if the prompt is null.
func (l *line) readPrompt(s *jsonscan.Scanner) []byte {
	start := s.Offset()
	switch s.Peek() {
	case jsonscan.String, jsonscan.Object:
		return s.Value()
	case jsonscan.Null:
		return s.NotNull()
	case jsonscan.Array:
		for ok := s.Array(); ok && s.Elem(); {
			l.need(s.Peek() == jsonscan.Object)
		}
	default:
		l.need(false)
	}
	return s.Since(start)
}

var kindResponse = []byte("WireResponse")

func (l *line) interpretResponse(m *protocol.Message) {
	m.Kind, m.Phase, m.From = kindResponse, protocol.Close, frame.U2C
	m.Text = l.first
	if l.asks {
		m.Faults |= protocol.UnknownField
	}
	if !l.identified || !l.hasError || !l.hasResults {
		m.Faults |= protocol.MissingField
	}
	m.Faults |= oneOf(l.failure, l.results)
	if l.failure != nil {
		m.Phase, m.Text = protocol.Fail, l.failure
	}
}

// readResults walks the results of a response.
func (l *line) readResults(s *jsonscan.Scanner) {
	start := s.Offset()
	if s.Peek() != jsonscan.Array {
		l.results = s.NotNull()
		l.need(l.results == nil)
		return
	}
	for ok := s.Array(); ok && s.Elem(); {
		text := l.readResult(s)
		if l.count == 0 {
			l.first = text
		}
		l.count++
	}
	l.results = s.Since(start)
}

// readResult walks one WireResult and returns its response, or else its error.
func (l *line) readResult(s *jsonscan.Scanner) []byte {
	var failure, completion, response []byte
	members := 0
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "error":
			members++
			failure = l.notNullString(s)
		case "chat_completion":
			members++
			completion, response = l.readCompletion(s)
		default:
			l.faults |= protocol.UnknownField
		}
	}
	if members < 2 {
		l.faults |= protocol.MissingField
	}
	l.faults |= oneOf(failure, completion)
	if completion == nil {
		return failure
	}
	return response
}

// readCompletion walks a chat_completion and returns it, and its response.
func (l *line) readCompletion(s *jsonscan.Scanner) (completion, response []byte) {
	start := s.Offset()
	if s.Peek() != jsonscan.Object {
		completion = s.NotNull()
		l.need(completion == nil)
		return completion, nil
	}
	response = jsonwalk.Member(s, "response")
	return s.Since(start), response
}

// oneOf returns the fault of two members of which exactly one must be given.
func oneOf(failure, answer []byte) protocol.Faults {
	switch {
	case failure != nil && answer != nil:
		return protocol.BothAnswers
	case failure == nil && answer == nil:
		return protocol.NoAnswer
	}
	return 0
}

package rlm

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

var kindResponse = []byte("WireResponse")

func (w *wire) interpretResponse(m *protocol.Message) {
	m.Kind, m.Phase, m.From = kindResponse, protocol.Close, frame.U2C
	m.Text = w.first
	if w.asks {
		m.Faults |= protocol.UnknownField
	}
	if !w.identified || !w.hasError || !w.hasResults {
		m.Faults |= protocol.MissingField
	}
	m.Faults |= oneOf(w.failure, w.results)
	if w.failure != nil {
		m.Phase, m.Text = protocol.Fail, w.failure
	}
}

// readResults walks the results of a response.
func (w *wire) readResults(s *jsonscan.Scanner, payload []byte) {
	start := s.Offset()
	if s.Peek() != jsonscan.Array {
		w.results = s.NotNull()
		w.need(w.results == nil)
		return
	}
	for ok := s.Array(); ok && s.Elem(); {
		text := w.readResult(s, payload)
		if w.count == 0 {
			w.first = text
		}
		w.count++
	}
	w.results = jsonwalk.Since(s, payload, start)
}

// readResult walks one WireResult and returns its response, or else its error.
func (w *wire) readResult(s *jsonscan.Scanner, payload []byte) []byte {
	var failure, completion, response []byte
	members := 0
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "error":
			members++
			failure = w.notNullString(s)
		case "chat_completion":
			members++
			completion, response = w.readCompletion(s, payload)
		default:
			w.faults |= protocol.UnknownField
		}
	}
	if members < 2 {
		w.faults |= protocol.MissingField
	}
	w.faults |= oneOf(failure, completion)
	if completion == nil {
		return failure
	}
	return response
}

// readCompletion walks a chat_completion and returns it, and its response.
func (w *wire) readCompletion(s *jsonscan.Scanner, payload []byte) (completion, response []byte) {
	start := s.Offset()
	if s.Peek() != jsonscan.Object {
		completion = s.NotNull()
		w.need(completion == nil)
		return completion, nil
	}
	response = jsonwalk.Member(s, "response")
	return jsonwalk.Since(s, payload, start), response
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

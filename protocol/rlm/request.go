package rlm

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

var kindRequest = []byte("WireRequest")

func (w *wire) interpretRequest(m *protocol.Message) {
	m.Kind, m.Phase, m.From = kindRequest, protocol.Open, frame.C2U
	m.Label, m.Text = jsonwalk.Word(w.model), w.prompts
	switch {
	case w.prompt != nil && w.prompts != nil:
		m.Faults |= protocol.BothAnswers
	case w.prompt != nil:
		m.Text = w.prompt
		w.count = 1
	case w.prompts == nil:
		m.Faults |= protocol.MissingField
	case w.count == 0:
		m.Faults |= protocol.BadParams
	}
}

// readPrompts walks the prompts of a batched request.
func (w *wire) readPrompts(s *jsonscan.Scanner, payload []byte) {
	start := s.Offset()
	if s.Peek() != jsonscan.Array {
		w.prompts = s.NotNull()
		w.need(w.prompts == nil)
		return
	}
	for ok := s.Array(); ok && s.Elem(); {
		w.count++
		w.need(w.readPrompt(s, payload) != nil)
	}
	w.prompts = jsonwalk.Since(s, payload, start)
}

// readPrompt walks one prompt: a string, an object, or an array of objects. It
// returns nil if the prompt is null.
func (w *wire) readPrompt(s *jsonscan.Scanner, payload []byte) []byte {
	start := s.Offset()
	switch s.Peek() {
	case jsonscan.String, jsonscan.Object:
		return s.Value()
	case jsonscan.Null:
		return s.NotNull()
	case jsonscan.Array:
		for ok := s.Array(); ok && s.Elem(); {
			w.need(s.Peek() == jsonscan.Object)
		}
	default:
		w.need(false)
	}
	return jsonwalk.Since(s, payload, start)
}

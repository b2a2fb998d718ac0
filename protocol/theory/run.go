package theory

import (
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// run holds what one walk over a message found, in whichever of the members control, content
// and data its dialect puts it. Words are without quotes; other values are as written.
type run struct {
	kind, mode, op, phase, status, code []byte // words

	runID           []byte
	msg, token      []byte // of a Log or a Token
	inputs, outputs []byte
	failure         []byte // the error member, unless it is null
	message         []byte // of the error

	inControl, inContent bool // these members are present
	isOldest             bool // a member exists only in dialect A
}

func (r *run) readMessage(s *jsonscan.Scanner, payload []byte) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "kind":
			r.kind = jsonwalk.Word(s.Value())
		case "content":
			r.inContent = true
			r.readBody(s, payload)
		case "control":
			r.inControl = true
			r.readBody(s, payload)
		case "data":
			r.readBody(s, payload)
		default:
			r.readAnywhere(s, payload)
		}
	}
}

// readBody reads the object that holds the content of a message.
func (r *run) readBody(s *jsonscan.Scanner, payload []byte) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "run_id":
			r.runID = s.Value()
		case "execution_id": // the oldest dialect
			r.runID, r.isOldest = s.Value(), true
		case "mode":
			r.mode = jsonwalk.Word(s.Value())
		case "op":
			r.op = jsonwalk.Word(s.Value())
		case "phase":
			r.phase = jsonwalk.Word(s.Value())
		case "status":
			r.status = jsonwalk.Word(s.Value())
		case "msg":
			r.msg = s.Value()
		case "text":
			r.token = s.Value()
		case "role":
			r.isOldest = true
		default:
			r.readAnywhere(s, payload)
		}
	}
}

// readAnywhere reads the current member if some dialects put it beside the other objects and
// some inside them.
func (r *run) readAnywhere(s *jsonscan.Scanner, payload []byte) {
	switch string(s.Key()) {
	case "inputs":
		r.inputs = s.Value()
	case "payload": // the inputs, or an envelope with the id and the inputs
		var envelope run
		start := s.Offset()
		envelope.readBody(s, payload)
		r.inputs = jsonwalk.Since(s, payload, start)
		if envelope.runID != nil {
			r.inputs, r.outputs, r.isOldest = firstOf(envelope.inputs, r.inputs), envelope.outputs, true
			r.runID, r.mode = firstOf(r.runID, envelope.runID), firstOf(r.mode, envelope.mode)
		}
	case "outputs":
		r.outputs = s.Value()
	case "error":
		r.readError(s, payload)
	}
}

func (r *run) readError(s *jsonscan.Scanner, payload []byte) {
	if s.Peek() == jsonscan.Null {
		return
	}
	start := s.Offset()
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "code":
			r.code = jsonwalk.Word(s.Value())
		case "message":
			r.message = s.Value()
		}
	}
	r.failure = jsonwalk.Since(s, payload, start)
}

// label returns the most informative word about the run.
func (r *run) label() []byte { return firstOf(r.code, r.status, r.phase, r.op, r.mode) }

// text returns the text of the message.
func (r *run) text() []byte {
	return firstOf(r.message, r.failure, r.token, r.msg, r.inputs, r.outputs)
}

func firstOf(all ...[]byte) []byte {
	for _, b := range all {
		if b != nil {
			return b
		}
	}
	return nil
}

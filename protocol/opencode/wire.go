package opencode

import (
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// wire is the result of one walk over a body or an event, whatever the order of its
// members. Words are without quotes; ids and texts are as written.
type wire struct {
	kind              []byte
	event             bool // it has properties
	session, question []byte
	label, text       []byte
	part              []byte // its type
	model, finish     []byte
	failure           []byte // the name of an error
	usage             protocol.Usage
}

// read walks the next value: a body, or an event, which may be wrapped.
func (w *wire) read(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			w.kind = jsonwalk.Word(s.Value())
		case "properties":
			w.event = s.Peek() == jsonscan.Object
			w.readProperties(s)
		case "payload":
			w.read(s)
		case "info":
			w.readInfo(s)
		case "parts":
			w.text = jsonwalk.Word(llm.LastText(s))
		case "model":
			w.model = jsonwalk.WordIn(s, "modelID")
		case "name", "reply", "response":
			w.label = jsonwalk.Word(s.Value())
		case "data":
			w.text = jsonwalk.WordIn(s, "message")
		}
	}
}

func (w *wire) readProperties(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "sessionID":
			w.session = s.Value()
		case "id", "requestID", "permissionID":
			w.question = s.Value()
		case "part":
			w.readPart(s)
		case "status":
			w.label = jsonwalk.WordIn(s, "type")
		case "permission", "reply", "field":
			w.label = jsonwalk.Word(s.Value())
		case "delta":
			w.text = jsonwalk.Word(s.Value())
		case "error":
			w.readError(s)
		case "info":
			w.readInfo(s)
		}
	}
}

// readInfo walks the next value, which says how a message ended.
func (w *wire) readInfo(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "role", "title":
			w.label = jsonwalk.Word(s.Value())
		case "modelID":
			w.model = jsonwalk.Word(s.Value())
		case "finish":
			w.finish = jsonwalk.Word(s.Value())
		case "error":
			w.readError(s)
		case "cost":
			w.usage.Cost = jsonwalk.Micros(s.Value())
		case "tokens":
			w.readTokens(s)
		}
	}
}

// readPart walks the next value, which is a part of a message. The part of a finished step
// has its usage.
func (w *wire) readPart(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			w.part = jsonwalk.Word(s.Value())
		case "text":
			w.text = jsonwalk.Word(s.Value())
		case "tool":
			w.label = jsonwalk.Word(s.Value())
		case "cost":
			w.usage.Cost = jsonwalk.Micros(s.Value())
		case "tokens":
			w.readTokens(s)
		}
	}
	if w.label == nil {
		w.label = w.part
	}
}

func (w *wire) readError(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "name":
			w.failure = jsonwalk.Word(s.Value())
		case "data":
			w.text = jsonwalk.WordIn(s, "message")
		}
	}
}

// readTokens walks the next value. There, input excludes tokens from the cache, and output
// excludes reasoning.
func (w *wire) readTokens(s *jsonscan.Scanner) {
	var input, output, cached int64
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "input":
			input += jsonwalk.Count(s.Value())
		case "output", "reasoning":
			output += jsonwalk.Count(s.Value())
		case "cache":
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "read":
					cached = jsonwalk.Count(s.Value())
				case "write":
					input += jsonwalk.Count(s.Value())
				}
			}
		}
	}
	w.usage.Input, w.usage.Cached, w.usage.Output = input+cached, cached, output
}

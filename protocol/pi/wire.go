package pi

import (
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// wire holds what one walk over a message found, in any order of members. Words are without
// quotes; ids and texts are as written.
type wire struct {
	kind, id, command, success []byte
	sequenced                  bool   // has the seq of another protocol
	line                       []byte // the command, as written
	label, text                []byte
	cancelled, willRetry       bool
	toolCallID                 []byte
	role, model, stopReason    []byte // of the message, or of the agent's last one
	usage                      protocol.Usage
}

func (w *wire) read(s *jsonscan.Scanner, payload []byte) {
	for ok := s.Object(); ok && s.Next(); {
		start := s.Offset()
		switch string(s.Key()) {
		case "type":
			w.kind = jsonwalk.Word(s.Value())
		case "id":
			w.id = s.NotNull()
		case "seq", "request_seq":
			w.sequenced = true
		case "command":
			w.line = s.Value()
			w.command = jsonwalk.Word(w.line)
		case "success":
			w.success = s.NotNull()
		case "willRetry":
			w.willRetry = string(s.Value()) == "true"
		case "cancelled":
			w.cancelled = string(s.Value()) == "true"
		case "toolCallId":
			w.toolCallID = s.Value()
		case "method", "toolName", "reason":
			w.label = jsonwalk.Word(s.Value())
		case "error", "finalError", "errorMessage", "title", "args", "value", "confirmed":
			w.text = s.Value()
		case "data":
			w.cancelled = string(jsonwalk.Member(s, "cancelled")) == "true"
			w.text = jsonwalk.Since(s, payload, start)
		case "message":
			if s.Peek() == jsonscan.Object {
				w.readMessage(s)
				break
			}
			if text := s.Value(); w.text == nil {
				w.text = text
			}
		case "messages":
			for ok := s.Array(); ok && s.Elem(); {
				w.role, w.stopReason = nil, nil
				w.readMessage(s)
			}
		case "assistantMessageEvent":
			w.readUpdate(s)
		}
	}
}

// readMessage reads the next value, a message of the conversation.
func (w *wire) readMessage(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "role":
			w.role = jsonwalk.Word(s.Value())
		case "model":
			w.model = jsonwalk.Word(s.Value())
		case "stopReason":
			w.stopReason = jsonwalk.Word(s.Value())
		case "errorMessage":
			w.text = s.Value()
		case "usage":
			w.usage = readUsage(s)
		case "content":
			w.readContent(s)
		}
	}
}

// readContent reads the next value, which is a text or an array of blocks.
func (w *wire) readContent(s *jsonscan.Scanner) {
	if s.Peek() != jsonscan.Array {
		w.text = s.Value()
		return
	}
	s.Array()
	for s.Elem() {
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "text", "thinking", "arguments":
				w.text = s.Value()
			case "name":
				w.label = jsonwalk.Word(s.Value())
			}
		}
	}
}

// readUpdate reads the next value, which is what a model has just added to a message.
func (w *wire) readUpdate(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			w.label = jsonwalk.Word(s.Value())
		case "delta", "content":
			w.text = s.Value()
		}
	}
}

// readUsage reads the next value, a usage. Its input excludes cached tokens.
func readUsage(s *jsonscan.Scanner) (u protocol.Usage) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "input", "cacheWrite":
			u.Input += jsonwalk.Count(s.Value())
		case "output":
			u.Output = jsonwalk.Count(s.Value())
		case "cacheRead":
			u.Cached = jsonwalk.Count(s.Value())
		case "cost":
			u.Cost = jsonwalk.Micros(jsonwalk.Member(s, "total"))
		}
	}
	u.Input += u.Cached
	return u
}

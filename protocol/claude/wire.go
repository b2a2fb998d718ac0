package claude

import (
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// wire is what one walk over a message has found, in whatever order its members stand.
// Words are without quotes; ids, numbers and texts are as written.
type wire struct {
	kind, subtype, sessionID, isError, terminalReason []byte

	requestID, request, requestSubtype    []byte
	toolName, hookEvent, innerMethod      []byte
	asked                                 []byte // what a request is about
	responseSubtype, responseID, response []byte
	responseError, behavior               []byte
	eventIndex, parent                    []byte // parent is the tool call of a subagent
	eventType, eventText                  []byte
	block, content                        []byte // of a message: the type of its first block, or the tool; and its text
	state                                 []byte
	originKind, cost                      []byte
	inputTokens, createdTokens            []byte
	cachedTokens, outputTokens            []byte
}

func (w *wire) read(s *jsonscan.Scanner, payload []byte) {
	for ok := s.Object(); ok && s.Next(); {
		start := s.Offset()
		switch string(s.Key()) {
		case "type":
			w.kind = jsonwalk.Word(s.Value())
		case "subtype":
			w.subtype = jsonwalk.Word(s.Value())
		case "session_id":
			w.sessionID = jsonwalk.Word(s.Value())
		case "request_id":
			w.requestID = s.Value()
		case "is_error":
			w.isError = s.Value()
		case "terminal_reason":
			w.terminalReason = jsonwalk.Word(s.Value())
		case "result":
			w.content = s.Value()
		case "parent_tool_use_id":
			w.parent = s.Value()
		case "total_cost_usd":
			w.cost = s.Value()
		case "status", "state", "model", "estimated_tokens", "error":
			w.state = s.Value()
		case "request":
			w.readRequest(s, payload)
			w.request = jsonwalk.Since(s, payload, start)
		case "response":
			w.readResponse(s, payload)
		case "message":
			for ok := s.Object(); ok && s.Next(); {
				if string(s.Key()) == "content" {
					w.readContent(s)
				}
			}
		case "event":
			w.readEvent(s)
		case "origin":
			w.originKind = readWord(s, "kind")
		case "usage":
			w.readUsage(s)
		}
	}
}

// readContent walks the next value, which is a text or an array of blocks, of which the
// first tells what the message says.
func (w *wire) readContent(s *jsonscan.Scanner) {
	if s.Peek() != jsonscan.Array {
		w.content = s.Value()
		return
	}
	s.Array()
	for s.Elem() {
		if w.block != nil {
			s.Skip()
			continue
		}
		var name []byte
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "type":
				w.block = jsonwalk.Word(s.Value())
			case "name":
				name = jsonwalk.Word(s.Value())
			case "text", "thinking", "input", "content":
				w.content = s.Value()
			}
		}
		if name != nil {
			w.block = name
		}
	}
}

// readEvent walks the next value, an event of the stream that a model answers with.
func (w *wire) readEvent(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			w.eventType = jsonwalk.Word(s.Value())
		case "index":
			w.eventIndex = s.Value()
		case "content_block":
			w.eventText = readMember(s, "type")
		case "message":
			w.eventText = readMember(s, "model")
		case "delta":
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "text", "thinking", "partial_json", "stop_reason":
					w.eventText = s.Value()
				}
			}
		}
	}
}

func (w *wire) readRequest(s *jsonscan.Scanner, payload []byte) {
	for ok := s.Object(); ok && s.Next(); {
		start := s.Offset()
		switch string(s.Key()) {
		case "subtype":
			w.requestSubtype = jsonwalk.Word(s.Value())
		case "tool_name":
			w.toolName = jsonwalk.Word(s.Value())
		case "model", "mode":
			w.asked = s.Value()
		case "input":
			var about []byte
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "hook_event_name":
					w.hookEvent = jsonwalk.Word(s.Value())
				case "prompt", "tool_input":
					about = s.Value()
				}
			}
			if w.asked = jsonwalk.Since(s, payload, start); w.hookEvent != nil {
				w.asked = about
			}
		case "message":
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "method":
					w.innerMethod = jsonwalk.Word(s.Value())
				case "params":
					w.asked = s.Value()
				}
			}
		}
	}
}

func (w *wire) readResponse(s *jsonscan.Scanner, payload []byte) {
	for ok := s.Object(); ok && s.Next(); {
		start := s.Offset()
		switch string(s.Key()) {
		case "subtype":
			w.responseSubtype = jsonwalk.Word(s.Value())
		case "request_id":
			w.responseID = s.Value()
		case "error":
			w.responseError = s.Value()
		case "response":
			w.behavior = readWord(s, "behavior")
			w.response = jsonwalk.Since(s, payload, start)
		}
	}
}

func (w *wire) readUsage(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "input_tokens":
			w.inputTokens = s.Value()
		case "cache_creation_input_tokens":
			w.createdTokens = s.Value()
		case "cache_read_input_tokens":
			w.cachedTokens = s.Value()
		case "output_tokens":
			w.outputTokens = s.Value()
		}
	}
}

// readWord walks the next value and returns the text of one of its members.
func readWord(s *jsonscan.Scanner, key string) []byte { return jsonwalk.Word(readMember(s, key)) }

// readMember walks the next value and returns one of its members, as written.
func readMember(s *jsonscan.Scanner, key string) (raw []byte) {
	for ok := s.Object(); ok && s.Next(); {
		if string(s.Key()) == key {
			raw = s.Value()
		}
	}
	return raw
}

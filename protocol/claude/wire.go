package claude

import (
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// wire holds the members of a message. Words are without quotes; ids, numbers and texts are as
// written.
type wire struct {
	kind, subtype, sessionID, isError, terminalReason []byte

	requestID, request, requestSubtype    []byte
	toolName, hookEvent, innerMethod      []byte
	asked                                 []byte // the subject of a request
	responseSubtype, responseID, response []byte
	responseError, behavior               []byte
	eventIndex, parent                    []byte // parent is the tool call of a subagent
	eventType, eventText                  []byte
	block, content                        []byte // of a message: the type or tool of its first block, and its text
	state                                 []byte
	originKind, cost                      []byte

	uuid, promptID, promptIDs            []byte // promptID is that of a message about one prompt, promptIDs are those that a result answers
	stillQueued, cancelled, cancelQueued []byte // of an interrupt and of its answer
	localCommand                         []byte
	usage, total, since                  protocol.Usage // of the turn, of the session, and of all models since the last result
	counted                              bool           // there is such a since
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
		case "uuid":
			w.uuid = s.Value()
		case "command_uuid", "user_message_uuid":
			w.promptID = s.Value()
		case "user_message_uuids":
			w.promptIDs = s.Value()
		case "local_command":
			w.localCommand = jsonwalk.Word(s.Value())
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
			w.originKind = jsonwalk.WordIn(s, "kind")
		case "usage":
			w.readUsage(s)
		case "modelUsage":
			w.total = readModels(s)
		case "model_usage_since_last_result":
			w.since, w.counted = readModels(s), true
		}
	}
}

// readContent walks the next value: a text, or an array of blocks, whose first one counts.
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
			w.eventText = jsonwalk.Member(s, "type")
		case "message":
			w.eventText = jsonwalk.Member(s, "model")
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
		case "message_uuid":
			w.promptID = s.Value()
			w.asked = w.promptID
		case "cancel_queued":
			w.cancelQueued = s.Value()
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
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "behavior":
					w.behavior = jsonwalk.Word(s.Value())
				case "still_queued":
					w.stillQueued = s.Value()
				case "cancelled":
					w.cancelled = s.Value()
				}
			}
			w.response = jsonwalk.Since(s, payload, start)
		}
	}
}

func (w *wire) readUsage(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "input_tokens", "cache_creation_input_tokens":
			w.usage.Input += jsonwalk.Count(s.Value())
		case "cache_read_input_tokens":
			w.usage.Cached = jsonwalk.Count(s.Value())
		case "output_tokens":
			w.usage.Output = jsonwalk.Count(s.Value())
		}
	}
	w.usage.Input += w.usage.Cached
}

// readModels walks the next value, the usage by models, and returns its sum.
func readModels(s *jsonscan.Scanner) (sum protocol.Usage) {
	for ok := s.Object(); ok && s.Next(); {
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "inputTokens", "cacheCreationInputTokens":
				sum.Input += jsonwalk.Count(s.Value())
			case "cacheReadInputTokens":
				cached := jsonwalk.Count(s.Value())
				sum.Input, sum.Cached = sum.Input+cached, sum.Cached+cached
			case "outputTokens":
				sum.Output += jsonwalk.Count(s.Value())
			case "costUSD":
				sum.Cost += jsonwalk.Micros(s.Value())
			}
		}
	}
	return sum
}

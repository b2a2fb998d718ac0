package claude

import (
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// A Nested is an MCP message inside a control message: to or from an MCP server that the client
// of Claude Code runs.
type Nested struct {
	// Request is the id of the control request, as written, and Answer says that the
	// message came in its answer.
	Request []byte
	Answer  bool
	// Server is the name of the MCP server; only requests have it.
	Server []byte
	// Message is the MCP message; nil if there is none.
	Message []byte
	// Asks says that the message is a request, so it is answered. The answer to any other only
	// acknowledges it, with an empty result.
	Asks bool
}

// NestedIn returns the MCP message in payload. It returns false unless payload is an mcp_message
// or an answer that may belong to one.
func NestedIn(payload []byte) (n Nested, ok bool) {
	var s jsonscan.Scanner
	s.Init(payload)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "request_id":
			n.Request = s.Value()
		case "request":
			n.read(&s, payload)
		case "response":
			n.Answer = true
			n.read(&s, payload)
		}
	}
	return n, s.End() == nil && n.Request != nil && (n.Message != nil || n.Answer)
}

// read walks the next value, which is a request or a response.
func (n *Nested) read(s *jsonscan.Scanner, payload []byte) {
	subtype := ""
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "subtype":
			subtype = string(jsonwalk.Word(s.Value()))
		case "request_id":
			n.Request = s.Value()
		case "server_name":
			n.Server = jsonwalk.Word(s.Value())
		case "message":
			n.readMessage(s, payload)
		case "response":
			for ok := s.Object(); ok && s.Next(); {
				if string(s.Key()) == "mcp_response" {
					n.readMessage(s, payload)
				}
			}
		}
	}
	if !n.Answer && subtype != "mcp_message" {
		n.Message = nil
	}
}

func (n *Nested) readMessage(s *jsonscan.Scanner, payload []byte) {
	start := s.Offset()
	hasID, hasMethod := false, false
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "id":
			hasID = true
		case "method":
			hasMethod = true
		}
	}
	n.Asks = hasID && hasMethod
	n.Message = jsonwalk.Since(s, payload, start)
}

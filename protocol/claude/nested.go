package claude

import (
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

type nested protocol.Nested

// nestedIn returns the MCP message in payload, to or from an MCP server that the client of Claude
// Code runs; nil unless payload is an mcp_message or an answer that may belong to one.
func nestedIn(payload []byte) *protocol.Nested {
	n := nested{Protocol: jsonrpc.MCP}
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
	if s.End() != nil || n.Request == nil || n.Message == nil && !n.Answer {
		return nil
	}
	return (*protocol.Nested)(&n)
}

// read walks the next value, which is a request or a response.
func (n *nested) read(s *jsonscan.Scanner, payload []byte) {
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

func (n *nested) readMessage(s *jsonscan.Scanner, payload []byte) {
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

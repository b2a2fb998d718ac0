// Package nexus parses the messages of nexus: strict JSON-RPC 2.0 over HTTP. It is a dialect of
// package jsonrpc.
package nexus

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

// run is the request_id by which a cancel names a send. It differs from the id of the JSON-RPC
// request, so it belongs to another token space.
var run = jsonrpc.Name{Member: jsonrpc.At("params.request_id"), Space: protocol.SpaceRun}

// Protocol is nexus. Ids are strings or integers. A request with no id or a null id is a
// notification. Params are an object, and there are no batches.
var Protocol = jsonrpc.New("nexus", jsonrpc.Grammar{
	IntegerIDs:   true,
	NullIDs:      true,
	ObjectParams: true,
	NullParams:   true,
	NoBatches:    true,
	Answers:      frame.U2C,
	// The answer to a cancel also has a cancelled member, but no content.
	Cancelled: []jsonrpc.Outcome{{Member: jsonrpc.At("result.cancelled"), Is: "true", With: jsonrpc.At("result.content")}},
	Methods: map[string]*jsonrpc.Method{
		"send":            {From: frame.C2U, Bind: run},
		"cancel":          {From: frame.C2U, Does: protocol.Cancel, Ref: run},
		"shutdown":        {From: frame.C2U},
		"get_tokens":      {From: frame.C2U},
		"get_context":     {From: frame.C2U},
		"get_messages":    {From: frame.C2U},
		"compact":         {From: frame.C2U},
		"create_agent":    {From: frame.C2U},
		"destroy_agent":   {From: frame.C2U},
		"list_agents":     {From: frame.C2U},
		"shutdown_server": {From: frame.C2U},
	},
})

// Spec is all that makes nexus.
var Spec = protocol.Spec{
	Protocol: Protocol,
	About:    "JSON-RPC between a client and an agent server",
	// HTTP determines which answer belongs to which request,
	// so ids need not be unique. A cancel uses a different connection from its send.
	Rules: protocol.Rules{
		Shared:    []protocol.Space{protocol.SpaceRun},
		MayHangUp: true,
		Outlined:  true,
		Dismiss:   []string{"shutdown", "shutdown_server"},
		Cancels:   []protocol.CancelRule{{Target: protocol.MustConfirm, Own: protocol.MustAnswer}},
		Sources: [][2]string{
			{"cancel-unknown", "cancel names the request_id of a send"},
			{"cancel-ignored", "a cancelled send answers with what was generated, and cancelled: true"},
			{"cancel-silent", "a cancelled send answers with what was generated, and cancelled: true"},
			{"unknown-kind", "a message is one request object; batches are refused"},
			{"bad-params", "params are an object"},
			{"bad-id", "an id is a string or an integer"},
		},
	},
	Cancel:    protocol.Cancelling{JSON: `{"jsonrpc":"2.0","id":%[2]d,"method":"cancel","params":{"request_id":%[1]s}}`, Bind: true},
	Recognize: Protocol.Recognize,
	Refine:    Protocol.Refine,
}

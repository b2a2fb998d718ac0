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
var run = jsonrpc.Name{Member: jsonrpc.ParamsRunID, Space: protocol.SpaceRun}

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
	Cancelled: []jsonrpc.Outcome{{Member: jsonrpc.ResultCancelled, Is: "true", With: jsonrpc.ResultContent}},
	Methods: map[string]jsonrpc.Method{
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

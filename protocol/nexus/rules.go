package nexus

import "github.com/wirectl/wirectl/protocol"

// Rules are the rules of nexus sessions. HTTP determines which answer belongs to which request,
// so ids need not be unique. A cancel uses a different connection from its send.
var Rules = protocol.Rules{
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
}

package rlm

import "github.com/wirectl/wirectl/protocol"

// Rules are the demands of rlm on a session. A broker answers the requests of a connection
// in their order, and correlation ids need not be unique.
var Rules = protocol.Rules{
	Counted:   true,
	MayHangUp: true,
	Outlined:  true,
	Sources: [][2]string{
		{"orphan", "a WireResponse echoes the correlation_id of its WireRequest"},
		{"result-count", "a WireResponse has as many results as there were prompts, and one for prompt"},
		{"both-answers", "exactly one of prompt and prompts, of error and results, and of error and chat_completion is given"},
		{"no-answer", "exactly one of error and results, and of error and chat_completion is given"},
		{"bad-params", "a prompt is a string, an object or an array of objects, and prompts are not empty"},
		{"bad-id", "correlation_id is a string when present"},
		{"oversize", "a frame has 10000000 bytes at most"},
	},
}

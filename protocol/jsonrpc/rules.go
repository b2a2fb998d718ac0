package jsonrpc

import (
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// What the protocols of the family demand of a session. In all of them a
// client may go away while its requests are open.
var (
	// PlainRules are those of JSON-RPC 2.0, which has no cancels.
	PlainRules = protocol.Rules{UniqueIDs: true, MayLeave: true}

	// MCPRules: a cancelled request gets no answer. (MCP, Utilities,
	// Cancellation and Progress.)
	MCPRules = protocol.Rules{
		UniqueIDs: true,
		MayLeave:  true,
		Cancels:   []protocol.CancelRule{{Target: protocol.MustNotAnswer}},
		Sources: [][2]string{
			{"late-result", "a cancelled request gets no response"},
			{"cancel-unknown", "a cancel names a request that its sender has made"},
			{"late-part", "progress stops when its request has completed"},
			{"orphan", "a response has the id of a request, and progress the token of a request that is active"},
			{"stray-output", "a server writes nothing to its stdout but messages"},
			{"bad-id", "an id is a string or an integer, and not null"},
		},
	}

	// ACPRules: session/cancel makes the prompt answer with the stop reason
	// "cancelled"; $/cancel_request leaves the answer open. Updates name a
	// session, which can outlive its prompts.
	ACPRules = protocol.Rules{
		UniqueIDs: true,
		MayLeave:  true,
		LooseRefs: true,
		Session: func(opened string, _ *protocol.Message, payload []byte) []byte {
			if opened != "session/new" && opened != "session/fork" {
				return nil
			}
			id, _ := jsonscan.Get(payload, "result", "sessionId")
			return id
		},
		Cancels: []protocol.CancelRule{
			{Kind: "$/cancel_request", Target: protocol.MustAnswer},
			{Target: protocol.MustConfirm},
		},
		Sources: [][2]string{
			{"cancel-ignored", "a prompt cancelled by session/cancel answers with the stop reason cancelled"},
			{"cancel-silent", "a prompt cancelled by session/cancel answers with the stop reason cancelled, and another request answers too"},
			{"stray-output", "an agent writes nothing to its stdout but messages"},
		},
	}

	// LSPRules: a cancelled request is answered by an error, -32800 as a rule,
	// or by its result. Progress can be the server's own.
	LSPRules = protocol.Rules{
		UniqueIDs: true,
		MayLeave:  true,
		LooseRefs: true,
		Cancels:   []protocol.CancelRule{{Target: protocol.MustAnswer}},
		Sources: [][2]string{
			{"cancel-silent", "a request that was cancelled still answers, by an error or a result"},
		},
	}

	// DAPRules: a cancelled request is answered, and so is the cancel, which is
	// a request. Progress is the adapter's own.
	DAPRules = protocol.Rules{
		UniqueIDs: true,
		MayLeave:  true,
		LooseRefs: true,
		Cancels:   []protocol.CancelRule{{Target: protocol.MustAnswer, Own: protocol.MustAnswer}},
		Sources: [][2]string{
			{"cancel-silent", "a request that was cancelled still answers, by an error or a result"},
			{"duplicate-id", "seq numbers the messages of each side"},
			{"bad-id", "seq and request_seq are integers"},
		},
	}
)

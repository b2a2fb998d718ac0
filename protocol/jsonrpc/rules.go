package jsonrpc

import (
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// The demands of the protocols of the family on a session. In all of these a client may go
// away while its requests are open.
var (
	// PlainSpec: the rules are those of JSON-RPC 2.0, which has no cancels.
	PlainSpec = protocol.Spec{
		Protocol:  Plain,
		About:     "any other JSON-RPC",
		Rules:     protocol.Rules{UniqueIDs: true, MayLeave: true, Outlined: true, Elsewhere: true, IsProbe: probes("rpc.")},
		Recognize: Plain.Recognize,
	}

	// MCPSpec: the rules are those of the versions up to 2025-11-25; after that a client that closes
	// the stream of an answer cancels the request.
	MCPSpec = protocol.Spec{
		Protocol:   MCP,
		About:      "the Model Context Protocol",
		Rules:      mcpUntil2026(protocol.Rules{Versions: mcpVersionRules, Newest: mcp2026}),
		Cancel:     protocol.Cancelling{JSON: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%[1]s}}`},
		Recognize:  MCP.Recognize,
		Refine:     refineMCP,
		AppendTask: appendTask,
		Labels:     protocol.Tools,
	}
	mcp202511Rules = mcpUntil2026(protocol.Rules{Polls: true})
	mcp2026Rules   = mcpRules(protocol.Rules{
		LeavingCancels: true,
		Asks:           frame.C2U,
		Repeated:       "-32020",
		EndlessAck:     "notifications/subscriptions/acknowledged",
	})

	// ACPSpec: the rules are those of version 1, in which the answer to a prompt ends the turn; in
	// version 2 it accepts the prompt, and the turn ends when the agent is idle.
	ACPSpec = protocol.Spec{
		Protocol: ACP,
		About:    "the Agent Client Protocol",
		Rules: acpRules(protocol.Rules{
			Steps:    true,
			Versions: []protocol.VersionRules{{From: "2", Rules: &acp2Rules}},
			Newest:   "2",
		}),
		Cancel:    protocol.Cancelling{JSON: `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%[1]s}}`, Bind: true},
		Recognize: ACP.Recognize,
		Refine:    ACP.Refine,
	}
	acp2Rules = acpRules(protocol.Rules{Accepted: []string{"session/prompt"}, Judge: judgeACP2})

	// LSPSpec: a cancelled request is answered by an error, -32800 as a rule,
	// or by its result. Progress can be the server's own.
	LSPSpec = protocol.Spec{
		Protocol: LSP,
		About:    "the Language Server Protocol",
		Rules: protocol.Rules{
			UniqueIDs: true,
			Outlined:  true,
			MayLeave:  true,
			Dismiss:   []string{"exit"},
			LooseRefs: true,
			Framing:   frame.Header,
			IsProbe:   probes("$/"),
			Cancels:   []protocol.CancelRule{{Target: protocol.MustAnswer}},
			Sources: [][2]string{
				{"cancel-silent", "a request that was cancelled still answers, by an error or a result"},
			},
		},
		Cancel:    protocol.Cancelling{JSON: `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%[1]s}}`},
		Recognize: LSP.Recognize,
		Refine:    LSP.Refine,
		Kept:      []string{"params.token"},
		NoSecret:  "token", // of progress
	}

	// CodexSpec: an interrupted turn ends as interrupted. serverRequest/resolved ends a
	// question of the server, also one that was not answered. Turns belong to the server,
	// not to a connection.
	CodexSpec = protocol.Spec{
		Protocol: Codex,
		About:    "the app-server of Codex",
		Rules: protocol.Rules{
			UniqueIDs: true,
			Outlined:  true,
			MayLeave:  true,
			LooseRefs: true,
			Totals:    true,
			Steps:     true,
			Opening:   []string{"initialize"},
			Framing:   frame.Line,
			Shared:    []protocol.Space{protocol.SpaceTurn, protocol.SpaceSession},
			Accepted:  []string{"turn/start", "review/start", "thread/compact/start", "thread/shellCommand"},
			Cancels: []protocol.CancelRule{
				{Kind: "turn/interrupt", Target: protocol.MustConfirm, Own: protocol.MustAnswer},
				{Kind: "serverRequest/resolved", Target: protocol.MayAnswer, Settles: true},
			},
			Sources: [][2]string{
				{"cancel-ignored", "a turn that turn/interrupt has ended completes with the status interrupted"},
				{"cancel-silent", "a turn that was interrupted completes"},
				{"missing-request", "a client begins with initialize; the server answers \"Not initialized\" to anything else"},
				{"unknown-step", "a delta names an item that item/started began and item/completed has not ended"},
				{"total-falls", "tokenUsage.total counts all of a thread, and never falls"},
			},
		},
		Cancel:    protocol.Cancelling{JSON: `{"method":"turn/interrupt","id":%[2]d,"params":{"threadId":%[3]s,"turnId":%[1]s}}`, Bind: true, Ref: true},
		Recognize: Codex.Recognize,
	}

	// DAPSpec: a cancelled request is answered, and so is the cancel, which is
	// a request. Progress is the adapter's own.
	DAPSpec = protocol.Spec{
		Protocol: DAP,
		About:    "the Debug Adapter Protocol",
		Rules: protocol.Rules{
			UniqueIDs: true,
			Outlined:  true,
			MayLeave:  true,
			Dismiss:   []string{"disconnect", "terminate"},
			LooseRefs: true,
			Framing:   frame.Header,
			Cancels:   []protocol.CancelRule{{Target: protocol.MustAnswer, Own: protocol.MustAnswer}},
			Sources: [][2]string{
				{"cancel-silent", "a request that was cancelled still answers, by an error or a result"},
				{"duplicate-id", "seq numbers the messages of each side"},
				{"bad-id", "seq and request_seq are integers"},
			},
		},
		Cancel:    protocol.Cancelling{JSON: `{"seq":%[2]d,"type":"request","command":"cancel","arguments":{"requestId":%[1]s}}`},
		Recognize: recognizeDAP,
		Kept:      []string{"command", "event", "arguments.requestId"},
	}
)

// probes returns the [protocol.Rules.IsProbe] of a protocol in which any peer may lack the
// methods with a prefix: those of extensions.
func probes(prefix string) func(asked, answer, code string, _ protocol.Features) bool {
	return func(asked, _, code string, _ protocol.Features) bool {
		return strings.HasPrefix(asked, prefix) && code == methodNotFound
	}
}

const methodNotFound = "-32601"

// isProbeMCP: clients that know 2026-07-28 look for server/discover first. A server of an older
// version refuses it by any error but those of that version, and over HTTP by its status, since
// the request belongs to no session. Many clients list what a server has not declared, too.
func isProbeMCP(asked, answer, code string, declared protocol.Features) bool {
	if asked == "server/discover" {
		switch code {
		case methodNotFound, "-32600", "-32602", "-32000", "-32022":
			return true
		case "":
			return slices.Contains([]string{"400", "404", "405"}, answer)
		}
		return false
	}
	lacks := mcpListed[asked]
	return code == methodNotFound && lacks != 0 && declared&(mcpBegun|lacks) == mcpBegun
}

// acpRules adds to r the rules that all versions of ACP share: session/cancel makes the
// prompt end with the stop reason "cancelled"; $/cancel_request leaves the answer open.
// Updates name a session, which can outlive its prompts.
func acpRules(r protocol.Rules) protocol.Rules {
	r.UniqueIDs, r.MayLeave, r.LooseRefs, r.Outlined, r.Elsewhere = true, true, true, true, true
	r.Framing, r.IsProbe = frame.Line, probes("_")
	r.Opening = []string{"initialize"}
	r.Session = func(opened string, _ *protocol.Message, payload []byte) []byte {
		if opened != "session/new" && opened != "session/fork" {
			return nil
		}
		id, _ := jsonscan.Get(payload, "result", "sessionId")
		return id
	}
	r.Options = permissionOptions
	r.Cancels = []protocol.CancelRule{
		{Kind: "$/cancel_request", Target: protocol.MustAnswer},
		{Target: protocol.MustConfirm},
	}
	r.Sources = [][2]string{
		{"missing-request", "a client begins with initialize"},
		{"unknown-step", "in version 1 a tool_call_update names a tool_call"},
		{"cancel-ignored", "a prompt cancelled by session/cancel ends with the stop reason cancelled, and the permissions that it waits for are answered as cancelled"},
		{"wrong-result", "the option that answers a permission is one of those offered"},
		{"missing-field", "in version 2 each chunk of a message has its messageId"},
		{"cancel-silent", "a prompt cancelled by session/cancel ends with the stop reason cancelled, and another request is answered too"},
		{"stray-output", "an agent writes nothing to its stdout but messages"},
	}
	return r
}

// mcpVersionRules are the rules of the versions of MCP that differ from those before.
var mcpVersionRules = []protocol.VersionRules{{From: mcp202511, Rules: &mcp202511Rules}, {From: mcp2026, Rules: &mcp2026Rules}}

// mcpUntil2026 adds to r the rules of the versions of MCP before 2026-07-28.
func mcpUntil2026(r protocol.Rules) protocol.Rules {
	r.Handshake = protocol.Handshake{
		Request: "initialize", Notification: "notifications/initialized",
		Early: []string{"initialize", "ping", "server/discover"},
	}
	r.Uncancellable = []string{"initialize"}
	r.Elsewhere = true
	r.Sources = [][2]string{
		{"wrong-response", "since 2025-03-26 a request is answered by application/json or text/event-stream, a notification or a response by 202 without a body, and GET by text/event-stream or 405; events are messages"},
		{"ended-session", "since 2025-03-26 a client that gets 404 for its session sends a new initialize without a session id"},
		{"undeclared", "both sides use only capabilities that were negotiated: until 2025-03-26 they should, then they must"},
	}
	return mcpRules(r)
}

// mcpRules adds to r the rules that all versions of MCP share: a cancelled request gets no
// answer. (MCP, Utilities, Cancellation and Progress.) Tasks and retries can come on other
// connections.
func mcpRules(r protocol.Rules) protocol.Rules {
	r.UniqueIDs, r.MayLeave, r.Outlined, r.EndsWithInput = true, true, true, true
	r.Framing = frame.Line
	r.Shared = []protocol.Space{protocol.SpaceTask, protocol.SpaceRetry}
	r.Endless = []string{"subscriptions/listen"}
	r.Judge, r.Features, r.IsProbe = judgeMCP, mcpFeatures, isProbeMCP
	r.Cancels = []protocol.CancelRule{
		{Kind: "tasks/cancel", Target: protocol.MayAnswer, Own: protocol.MustAnswer},
		{Target: protocol.MustNotAnswer},
	}
	r.Sources = append(r.Sources, [][2]string{
		{"late-result", "a cancelled request gets no response"},
		{"cancel-unknown", "a cancel names a request that its sender has made"},
		{"missing-request", "a client asks nothing but ping before initialize is answered, and sends notifications/initialized then"},
		{"missing-ack", "the first message of a subscription is notifications/subscriptions/acknowledged"},
		{"cancel-forbidden", "initialize is never cancelled, and a task by tasks/cancel"},
		{"header-mismatch", "the headers MCP-Protocol-Version, Mcp-Method, Mcp-Name and Mcp-Param-… repeat what the body says, and Mcp-Session-Id the session"},
		{"wrong-retry", "a retry has an id of its own, the requestState as it came, and keys of the inputRequests; tasks/update has the last too"},
		{"wrong-result", "input_required answers tools/call, prompts/get and resources/read, and task answers tools/call"},
		{"undeclared", "a server uses the capabilities, log level and notifications that the request declares"},
		{"wrong-response", "a request is answered by application/json or text/event-stream, and a notification by 202 without a body; events are messages"},
		{"late-part", "progress stops when its request has completed"},
		{"orphan", "a response has the id of a request, and progress the token of a request that is active"},
		{"stray-output", "a server writes nothing to its stdout but messages"},
		{"bad-id", "an id is a string or an integer, and not null"},
		{"wrong-framing", "over stdio each message is a line"},
		{"ignores-eof", "to shut down over stdio, a client closes the server's stdin and waits for the server to exit"},
	}...)
	return r
}

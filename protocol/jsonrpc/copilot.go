package jsonrpc

import (
	"bytes"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Copilot is the protocol between the Copilot SDK and its runtime, version 3. The kind of a
// session.event is the type of the event. The answer to session.send only accepts it; the
// turn ends with session.idle. What the runtime wants to know is an event with a requestId:
// a request answers it, and another event says that it is settled.
//
// Other programs may well have a method connect or ping, so those are not in the table.
var Copilot = New("copilot", Grammar{
	IntegerIDs: true,
	Prose:      true,
	Turns:      CopilotTurns,
	Methods: copilotMethods(map[string]*Method{
		"session.event":     {From: frame.U2C, Does: protocol.Part, Ref: ofSession},
		"session.lifecycle": {From: frame.U2C, Label: At("params.type")},
		"hooks.invoke":      {From: frame.U2C, Ref: ofSession, Joins: true, Label: At("params.hookType")},
		"session.send":      {From: frame.C2U, Bind: ofSession},
		"session.abort":     {From: frame.C2U, Does: protocol.Cancel, Ref: ofSession},

		"status.get":       {From: frame.C2U},
		"auth.getStatus":   {From: frame.C2U},
		"runtime.shutdown": {From: frame.C2U},
	}),
})

// copilotMethods adds methods of a session: requests about it, and those that answer
// questions of the runtime.
func copilotMethods(methods map[string]*Method) map[string]*Method {
	for _, name := range []string{
		"create", "delete", "destroy", "detach", "getLastId", "getMessages", "list", "resume", "shutdown", "suspend",
		"history.compact", "history.truncate", "log", "metadata.snapshot", "mode.get", "mode.set", "model.getCurrent",
		"model.switchTo", "permissions.getMode", "permissions.setApproveAll", "permissions.setMode", "plan.read", "plan.update",
		"queue.clear", "sendMessages", "tools.set", "usage.getMetrics",
	} {
		methods["session."+name] = &Method{From: frame.C2U, Ref: ofSession}
	}
	for _, name := range []string{
		"commands.handlePendingCommand", "mcp.headers.handlePendingHeadersRefreshRequest", "mcp.oauth.handlePendingRequest",
		"permissions.handlePendingPermissionRequest", "tools.handlePendingToolCall", "ui.handlePendingAutoModeSwitch",
		"ui.handlePendingElicitation", "ui.handlePendingExitPlanMode", "ui.handlePendingSampling",
		"ui.handlePendingSessionLimitsExhausted", "ui.handlePendingUserInput",
	} {
		methods["session."+name] = &Method{From: frame.C2U, Ref: ofSession, Joins: true, Label: At("params.result.kind")}
	}
	return methods
}

// CopilotSpec: an aborted turn ends with a session.idle that says so, and session.abort is
// answered, before or after.
var CopilotSpec = protocol.Spec{
	Protocol: Copilot,
	About:    "the Copilot SDK and its runtime",
	Rules: protocol.Rules{
		UniqueIDs: true,
		Outlined:  true,
		MayLeave:  true,
		LooseRefs: true,
		Steps:     true,
		Framing:   frame.Header,
		Accepted:  []string{"session.send"},
		Waits:     true,
		Dismiss:   []string{"runtime.shutdown"},
		Session: func(opened string, _ *protocol.Message, payload []byte) []byte {
			if opened != "session.create" && opened != "session.resume" {
				return nil
			}
			id, _ := jsonscan.Get(payload, "result", "sessionId")
			return id
		},
		Cancels: []protocol.CancelRule{
			{Kind: "session.abort", Target: protocol.MustConfirm, Own: protocol.MustAnswer},
		},
		Sources: [][2]string{
			{"cancel-ignored", "a turn that session.abort has ended ends with a session.idle whose aborted is true"},
			{"cancel-silent", "a turn that was aborted ends with session.idle, and session.abort is answered"},
			{"unanswered", "a turn ends with session.idle, and what was requested is completed"},
			{"unknown-step", "a partial result names a tool call that tool.execution_start began and tool.execution_complete has not ended"},
			{"wrong-framing", "over stdio each message has a Content-Length header"},
			{"stray-output", "a runtime writes nothing to its stdout but messages"},
		},
	},
	Cancel:    protocol.Cancelling{JSON: `{"jsonrpc":"2.0","id":%[2]d,"method":"session.abort","params":{"sessionId":%[1]s}}`, Bind: true},
	Recognize: Copilot.Recognize,
	Prompts:   []string{"session.send"},
	Refine: func(m *protocol.Message) protocol.Evidence {
		if string(m.Kind) == "connect" && hasMember(m.Text, "supportedTaskKinds") {
			return protocol.Evidence{Score: protocol.Likely}
		}
		return Copilot.Refine(m)
	},
}

// readTurnCopilot sets the effect of a message on a turn, and on a question of the runtime
// in it. Many failures are good answers whose success is false.
func readTurnCopilot(e *envelope, m *protocol.Message) {
	session := e.tokenOf(ofSession)
	question := jsonwalk.Token(e.request, protocol.SpaceID)
	switch {
	case m.Phase == protocol.Close && string(e.success) == "false":
		m.Phase = protocol.Fail
		if e.resultError != nil {
			m.Text = e.resultError
		}
	case m.Phase == protocol.Close && e.resultMessage != nil:
		m.Waiting = protocol.Effect{Does: protocol.Close, Of: jsonwalk.Token(e.resultMessage, protocol.SpaceID)}
	case m.Phase == protocol.Open && string(m.Kind) == "session.send":
		m.Operation = protocol.Effect{Does: protocol.Part, Of: session}
	case m.Phase == protocol.Open && m.Operation.Does == protocol.Open && m.From == frame.C2U:
		m.Settles = question
	case m.Phase == protocol.Part:
		readEventCopilot(e, m, session, question)
	}
}

var (
	requested = []byte(".requested")
	completed = []byte(".completed")
)

// readEventCopilot sets the meaning of an event of a session.
func readEventCopilot(e *envelope, m *protocol.Message, session, question protocol.Token) {
	kind := jsonwalk.Word(e.eventType)
	if len(kind) == 0 {
		m.Faults |= protocol.MissingField
		return
	}
	m.Kind, m.Label, m.Text = kind, jsonwalk.Word(e.eventName), e.prose
	if m.Text == nil {
		m.Text = e.eventData
	}
	call := jsonwalk.Token(e.toolCall, protocol.SpaceStep)
	switch {
	case question.IsZero():
	case bytes.HasSuffix(kind, requested):
		m.Phase, m.ID = protocol.Open, question
		m.Operation = protocol.Effect{Does: protocol.Open, Of: session}
	case bytes.HasSuffix(kind, completed):
		m.Settles = question
	}
	switch string(kind) {
	case "session.idle":
		m.Operation = protocol.Effect{Does: protocol.Close, Of: session}
		if string(e.eventAborted) == "true" {
			m.Operation.Does, m.Waiting.Does = protocol.Cancelled, protocol.Cancelled
		}
	case "user.message":
		m.Waiting = protocol.Effect{Does: protocol.Part, Of: jsonwalk.Token(e.eventMessage, protocol.SpaceID)}
	case "assistant.turn_start":
		if e.eventAgent == nil { // it is not of a subagent
			m.Begins = session
		}
	case "session.error":
		m.Failing = true
	case "assistant.usage":
		m.Usage = usage(e.lastInput, e.lastCached, e.lastOutput)
		m.Model = jsonwalk.Word(e.eventModel)
	case "tool.execution_start":
		m.Step = protocol.Step{Does: protocol.Open, ID: call}
	case "tool.execution_partial_result", "tool.execution_progress":
		m.Step = protocol.Step{Does: protocol.Part, ID: call}
	case "tool.execution_complete":
		m.Step = protocol.Step{Does: protocol.Close, ID: call}
	}
}

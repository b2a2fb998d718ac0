package jsonrpc

import (
	"bytes"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// ofSession is the session that a message belongs to. Updates and cancels name
// the session rather than the prompt.
var ofSession = Name{At("params.sessionId"), protocol.SpaceSession}

// ACP is the Agent Client Protocol, in its versions 1 and 2.
var ACP = New("acp", Grammar{
	IntegerIDs: true,
	NullIDs:    true,
	Prose:      true,
	Cancelled: []Outcome{
		{Member: At("result.stopReason"), Is: `"cancelled"`},
		{Member: At("error.code"), Is: "-32800"},
	},
	Turns: ACPTurns,
	Methods: map[string]*Method{
		"initialize":                 {From: frame.C2U},
		"authenticate":               {From: frame.C2U},
		"logout":                     {From: frame.C2U},
		"auth/login":                 {From: frame.C2U},
		"auth/logout":                {From: frame.C2U},
		"session/delete":             {From: frame.C2U, Ref: ofSession},
		"elicitation/create":         {From: frame.U2C, Ref: ofSession, Joins: true},
		"elicitation/complete":       {From: frame.U2C},
		"session/cancel":             {From: frame.C2U, Does: protocol.Cancel, Ref: ofSession},
		"session/close":              {From: frame.C2U, Ref: ofSession},
		"session/fork":               {From: frame.C2U, Ref: ofSession},
		"session/list":               {From: frame.C2U},
		"session/load":               {From: frame.C2U, Bind: ofSession},
		"session/new":                {From: frame.C2U},
		"session/prompt":             {From: frame.C2U, Bind: ofSession},
		"session/resume":             {From: frame.C2U, Ref: ofSession},
		"session/set_config_option":  {From: frame.C2U, Ref: ofSession},
		"session/set_mode":           {From: frame.C2U, Ref: ofSession},
		"session/set_model":          {From: frame.C2U, Ref: ofSession},
		"session/update":             {From: frame.U2C, Does: protocol.Part, Ref: ofSession, Label: At("params.update.sessionUpdate")},
		"session/request_permission": {From: frame.U2C, Ref: ofSession, Joins: true},
		"fs/read_text_file":          {From: frame.U2C, Ref: ofSession, Joins: true},
		"fs/write_text_file":         {From: frame.U2C, Ref: ofSession, Joins: true},
		"terminal/create":            {From: frame.U2C, Ref: ofSession, Joins: true},
		"terminal/kill":              {From: frame.U2C, Ref: ofSession, Joins: true},
		"terminal/output":            {From: frame.U2C, Ref: ofSession, Joins: true},
		"terminal/release":           {From: frame.U2C, Ref: ofSession, Joins: true},
		"terminal/wait_for_exit":     {From: frame.U2C, Ref: ofSession, Joins: true},
		"$/cancel_request":           {Does: protocol.Cancel, Ref: Name{At("params.requestId"), protocol.SpaceID}},
	},
})

// readTurnACP sets the effect of a message on a turn. An update of version 2 ends it: the
// agent is idle.
func readTurnACP(e *envelope, m *protocol.Message) {
	switch {
	case e.usageTotal != nil:
		m.Usage, m.Counts = usage(e.usageTotal, e.usageCached, e.usageOutput), protocol.CountsAsAgreed
		m.Usage.Input = max(0, m.Usage.Input-m.Usage.Output)
	case e.quotaInput != nil || e.quotaOutput != nil: // of Gemini CLI
		m.Usage = usage(e.quotaInput, nil, e.quotaOutput)
	case e.agentName != nil:
		m.Counts = counted(string(jsonwalk.Word(e.agentName)), string(jsonwalk.Word(e.agentVersion)))
	}
	if string(e.costCurrency) == `"USD"` {
		m.Spent = protocol.Spent{Of: m.Ref, Usage: protocol.Usage{Cost: jsonwalk.Micros(e.costAmount)}}
	}
	call := jsonwalk.Token(e.toolCall, protocol.SpaceStep)
	switch string(e.updateKind) {
	case `"tool_call_update"`:
		m.Step = protocol.Step{Does: protocol.Part, ID: call}
	case `"tool_call"`, "": // or the agent asks for permission to call it
		m.Step = protocol.Step{Does: protocol.Open, ID: call}
	}
	if e.resultStop != nil {
		m.Text = e.resultStop
	}
	if m.Phase != protocol.Part || string(e.updateKind) != `"state_update"` || string(e.updateState) != `"idle"` {
		return
	}
	m.Operation = protocol.Effect{Does: protocol.Close, Of: m.Ref}
	if string(e.updateStop) == `"cancelled"` {
		m.Operation.Does = protocol.Cancelled
	}
}

// countedBy lists what the usage of agents counts, from a version on. ACP calls it the usage of
// a turn, and its members those of all turns, so agents differ: that of Copilot is the session's,
// that of the bridges to Claude Code and Codex the turn's. Older ones to Codex gave that of the
// last request to the model.
var countedBy = []struct {
	agent, from string
	counts      protocol.Counts
}{
	{"copilot", "", protocol.PeerCountsSession},
	{"github-copilot", "", protocol.PeerCountsSession},
	{"claude-agent-acp", "", protocol.PeerCountsTurn},
	{"claude-code-acp", "", protocol.PeerCountsTurn},
	{"codex-acp", "2", protocol.PeerCountsTurn},
}

// counted returns what the usage of an agent counts, whose name may have the scope of a package.
func counted(agent, version string) protocol.Counts {
	name := strings.ToLower(agent[strings.LastIndexByte(agent, '/')+1:])
	for _, c := range countedBy {
		if strings.ReplaceAll(name, " ", "-") == c.agent && protocol.CompareVersions(version, c.from) >= 0 {
			return c.counts
		}
	}
	return protocol.CountsTurn // nothing is known
}

// permissionOptions returns the ids of the options of a permission, or that which its answer
// chooses.
func permissionOptions(asked string, m *protocol.Message, payload []byte) (ids [][]byte) {
	if asked != "session/request_permission" {
		return nil
	}
	if m.Phase != protocol.Open {
		if id, ok := jsonscan.Get(payload, "result", "outcome", "optionId"); ok {
			ids = append(ids, id)
		}
		return ids
	}
	options, _ := jsonscan.Get(payload, "params", "options")
	var s jsonscan.Scanner
	s.Init(options)
	for ok := s.Array(); ok && s.Elem(); {
		if id, ok := jsonscan.Get(s.Value(), "optionId"); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// judgeACP2 finds a chunk that does not name its message.
func judgeACP2(j *protocol.Judged) {
	switch m := j.Message; string(m.Label) {
	case "user_message_chunk", "agent_message_chunk", "agent_thought_chunk":
		if _, ok := jsonscan.Get(j.Payload, "params", "update", "messageId"); !ok && len(j.Payload) > 0 && string(m.Kind) == "session/update" {
			j.Break(missingField, "%s has no messageId", m.Label)
		}
	}
}

// ofTurn is the turn that a message of Codex names.
var ofTurn = Name{At("params.turnId"), protocol.SpaceTurn}

// ofThread is the thread that a message of Codex names.
var ofThread = Name{At("params.threadId"), protocol.SpaceSession}

// Codex is the protocol of Codex's app-server: JSON-RPC without the jsonrpc member. The
// answer to turn/start only accepts it; the turn ends with turn/completed. A compaction and a
// command of the user's shell are turns, too, which turn/started names. The methods are
// those of the schema that version 0.169.0 generates.
var Codex = New("codex", Grammar{
	Unversioned: true,
	Prose:       true,
	Turns:       CodexTurns,
	Methods: with(map[string]*Method{
		"initialize":                            {From: frame.C2U},
		"turn/start":                            {From: frame.C2U, Ref: ofThread, Bind: ofThread},
		"review/start":                          {From: frame.C2U, Bind: ofThread},
		"thread/compact/start":                  {From: frame.C2U, Bind: ofThread},
		"thread/shellCommand":                   {From: frame.C2U, Ref: ofThread, Bind: ofThread, Joins: true},
		"turn/interrupt":                        {From: frame.C2U, Does: protocol.Cancel, Ref: ofTurn},
		"turn/steer":                            {From: frame.C2U, Ref: Name{At("params.expectedTurnId"), protocol.SpaceTurn}, Joins: true},
		"serverRequest/resolved":                {From: frame.U2C, Does: protocol.Cancel, Ref: Name{At("params.requestId"), protocol.SpaceID}},
		"item/tool/call":                        {From: frame.U2C, Ref: ofTurn, Joins: true, Label: At("params.tool")},
		"mcpServer/tool/call":                   {From: frame.C2U, Label: At("params.tool")},
		"item/started":                          {From: frame.U2C, Label: At("params.item.type")},
		"item/completed":                        {From: frame.U2C, Label: At("params.item.type")},
		"turn/started":                          {From: frame.U2C, Label: At("params.turn.status")},
		"thread/status/changed":                 {From: frame.U2C, Label: At("params.status.type")},
		"turn/completed":                        {From: frame.U2C, Label: At("params.turn.status")},
		"item/tool/requestUserInput":            {From: frame.U2C, Ref: ofTurn, Joins: true},
		"mcpServer/elicitation/request":         {From: frame.U2C, Ref: ofTurn, Joins: true},
		"item/commandExecution/requestApproval": {From: frame.U2C, Ref: ofTurn, Joins: true},
		"item/fileChange/requestApproval":       {From: frame.U2C, Ref: ofTurn, Joins: true},
		"item/permissions/requestApproval":      {From: frame.U2C, Ref: ofTurn, Joins: true},
	}, codexClient, codexServer),
})

const codexClient = `
	account/gatewayOAuth/cancel account/gatewayOAuth/login account/gatewayOAuth/read account/login/cancel
	account/login/start account/logout account/rateLimitResetCredit/consume account/rateLimits/read account/read
	account/securitySetup/read account/sendAddCreditsNudgeEmail account/usage/read account/workspaceMessages/read
	app/installed app/list app/read command/exec command/exec/resize command/exec/terminate command/exec/write
	config/batchWrite config/mcpServer/reload config/read config/value/write configRequirements/read
	experimentalFeature/enablement/set experimentalFeature/list externalAgentConfig/detect
	externalAgentConfig/import externalAgentConfig/import/readHistories externalAgentConfig/import/recordHistory
	feedback/save feedback/upload fs/copy fs/createDirectory fs/getMetadata fs/readDirectory fs/readFile fs/remove
	fs/unwatch fs/watch fs/writeFile fuzzyFileSearch hooks/list initialized marketplace/add marketplace/remove
	marketplace/upgrade mcpServer/oauth/login mcpServer/resource/read mcpServer/tool/call mcpServerStatus/list
	model/list modelProvider/capabilities/read modelProvider/config/write modelProvider/list
	permissionProfile/list plugin/install plugin/installed plugin/list plugin/read plugin/reconcile
	plugin/share/checkout plugin/share/delete plugin/share/list plugin/share/save plugin/share/updateTargets
	plugin/skill/read plugin/uninstall review/start skills/config/write skills/extraRoots/set skills/list
	thread/approveGuardianDeniedAction thread/archive thread/attachment/add thread/attachment/list
	thread/attachment/remove thread/attachmentOwner/list thread/compact/start thread/delete thread/fork
	thread/goal/clear thread/goal/get thread/goal/set thread/inject_items thread/items/list thread/list
	thread/loaded/list thread/metadata/update thread/name/set thread/read thread/resume thread/revert
	thread/section/move thread/shellCommand thread/start thread/turns/list thread/unarchive thread/unsubscribe
	threadSection/create threadSection/delete threadSection/list threadSection/update windowsSandbox/readiness
	windowsSandbox/setupStart
`

const codexServer = `
	account/chatgptAuthTokens/refresh account/gatewayOAuth/changed account/login/completed
	account/rateLimits/updated account/updated app/list/updated applyPatchApproval attestation/generate
	autoApprovalReview/strictReviewRequired command/exec/outputDelta configWarning deprecationNotice error
	execCommandApproval externalAgentConfig/import/completed externalAgentConfig/import/progress fs/changed
	fuzzyFileSearch/sessionCompleted fuzzyFileSearch/sessionUpdated guardianWarning hook/completed hook/started
	item/agentMessage/delta item/autoApprovalReview/completed item/autoApprovalReview/started
	item/commandExecution/outputDelta item/commandExecution/requestApproval
	item/commandExecution/terminalInteraction item/completed item/fileChange/outputDelta
	item/fileChange/patchUpdated item/fileChange/requestApproval item/mcpToolCall/progress
	item/permissions/requestApproval item/plan/delta item/reasoning/summaryPartAdded
	item/reasoning/summaryTextDelta item/reasoning/textDelta item/started item/tool/call
	item/tool/requestUserInput mcpServer/elicitation/request mcpServer/event/stream/notification
	mcpServer/oauthLogin/completed mcpServer/startupStatus/updated model/rerouted model/safetyBuffering/updated
	model/verification modelProvider/authRecoveryCompleted modelProvider/authRecoveryStarted process/exited
	process/outputDelta project/changed remoteControl/status/changed skills/changed thread/archived
	thread/attachment/updated thread/closed thread/compacted thread/deleted thread/environment/connected
	thread/environment/disconnected thread/goal/cleared thread/goal/updated thread/name/updated
	thread/prediction/updated thread/project/updated thread/queue/changed thread/readState/changed
	thread/realtime/closed thread/realtime/error thread/realtime/item/completed thread/realtime/item/started
	thread/realtime/item/transcript/delta thread/realtime/itemAdded thread/realtime/outputAudio/delta
	thread/realtime/sdp thread/realtime/started thread/realtime/transcript/delta thread/realtime/transcript/done
	thread/reverted thread/section/changed thread/settings/updated thread/started thread/status/changed
	thread/tokenUsage/updated thread/unarchived turn/completed turn/diff/updated turn/moderationMetadata
	turn/plan/updated turn/started warning windows/worldWritableWarning windowsSandbox/setupCompleted
`

// readTurnCodex sets the effect of a message on a turn. Notifications of a turn are its
// parts.
func readTurnCodex(e *envelope, m *protocol.Message) {
	turn := jsonwalk.Token(e.turn, protocol.SpaceTurn)
	switch {
	case m.Phase == protocol.Close:
		m.Bind = jsonwalk.Token(e.resultTurn, protocol.SpaceTurn)
	case m.Phase != protocol.Note:
	case string(m.Kind) == "turn/completed":
		m.Operation = protocol.Effect{Does: protocol.Close, Of: turn}
		switch string(e.turnStatus) {
		case `"interrupted"`:
			m.Operation.Does = protocol.Cancelled
		case `"failed"`:
			m.Operation.Does = protocol.Fail
		}
	case m.From == frame.U2C:
		if turn.IsZero() {
			turn = e.tokenOf(ofTurn)
		}
		if !turn.IsZero() {
			m.Phase, m.Ref = protocol.Part, turn
		}
		m.Step = e.stepCodex(m.Kind)
		switch string(m.Kind) {
		case "turn/started":
			m.Begins, m.Bind = e.tokenOf(ofThread), jsonwalk.Token(e.rootTurn, protocol.SpaceTurn)
		case "thread/tokenUsage/updated":
			m.Usage = usage(e.lastInput, e.lastCached, e.lastOutput)
			m.Spent = protocol.Spent{Of: e.tokenOf(ofThread), Usage: usage(e.totalInput, e.totalCached, e.totalOutput)}
		case "thread/reverted":
			m.Spent = protocol.Spent{Of: e.tokenOf(ofThread), Anew: true}
		}
	}
}

// stepCodex returns the effect of a notification on an item. The output of a command can
// outlive it.
func (e *envelope) stepCodex(kind []byte) protocol.Step {
	item := jsonwalk.Token(e.item, protocol.SpaceStep)
	switch string(kind) {
	case "item/started":
		return protocol.Step{Does: protocol.Open, ID: item}
	case "item/completed":
		return protocol.Step{Does: protocol.Close, ID: item}
	case "item/agentMessage/delta", "item/reasoning/summaryTextDelta", "item/reasoning/textDelta":
		return protocol.Step{Does: protocol.Part, ID: jsonwalk.Token(e.paramsItem, protocol.SpaceStep)}
	}
	return protocol.Step{}
}

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

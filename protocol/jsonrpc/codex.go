package jsonrpc

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

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

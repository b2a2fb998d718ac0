package jsonrpc

import (
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// ofTurn is the turn that a message of Codex names.
var ofTurn = Name{ParamsTurnID, protocol.SpaceTurn}

// ofThread is the thread that a message of Codex names.
var ofThread = Name{ParamsThreadID, protocol.SpaceSession}

// Codex is the protocol of Codex's app-server: JSON-RPC without the jsonrpc member. The
// answer to turn/start only accepts it; the turn ends with turn/completed. A compaction and a
// command of the user's shell are turns, too, which turn/started names. The methods are
// those of the schema that version 0.169.0 generates.
var Codex = New("codex", Grammar{
	Unversioned: true,
	Says:        true,
	Turns:       CodexTurns,
	Methods: codexMethods(map[string]Method{
		"initialize":                            {From: frame.C2U},
		"turn/start":                            {From: frame.C2U, Ref: ofThread, Bind: ofThread},
		"review/start":                          {From: frame.C2U, Bind: ofThread},
		"thread/compact/start":                  {From: frame.C2U, Bind: ofThread},
		"thread/shellCommand":                   {From: frame.C2U, Ref: ofThread, Bind: ofThread, Joins: true},
		"turn/interrupt":                        {From: frame.C2U, Does: protocol.Cancel, Ref: ofTurn},
		"turn/steer":                            {From: frame.C2U, Ref: Name{ParamsExpectedTurnID, protocol.SpaceTurn}, Joins: true},
		"serverRequest/resolved":                {From: frame.U2C, Does: protocol.Cancel, Ref: Name{ParamsRequestID, protocol.SpaceID}},
		"item/tool/call":                        {From: frame.U2C, Ref: ofTurn, Joins: true, Label: ParamsTool},
		"mcpServer/tool/call":                   {From: frame.C2U, Label: ParamsTool},
		"item/started":                          {From: frame.U2C, Label: ItemType},
		"item/completed":                        {From: frame.U2C, Label: ItemType},
		"turn/started":                          {From: frame.U2C, Label: TurnStatus},
		"thread/status/changed":                 {From: frame.U2C, Label: StatusType},
		"turn/completed":                        {From: frame.U2C, Label: TurnStatus},
		"item/tool/requestUserInput":            {From: frame.U2C, Ref: ofTurn, Joins: true},
		"mcpServer/elicitation/request":         {From: frame.U2C, Ref: ofTurn, Joins: true},
		"item/commandExecution/requestApproval": {From: frame.U2C, Ref: ofTurn, Joins: true},
		"item/fileChange/requestApproval":       {From: frame.U2C, Ref: ofTurn, Joins: true},
		"item/permissions/requestApproval":      {From: frame.U2C, Ref: ofTurn, Joins: true},
	}),
})

// codexMethods adds the methods of which only the sender matters.
func codexMethods(methods map[string]Method) map[string]Method {
	for from, names := range map[frame.Dir]string{frame.C2U: codexClient, frame.U2C: codexServer} {
		for name := range strings.FieldsSeq(names) {
			if _, ok := methods[name]; !ok {
				methods[name] = Method{From: from}
			}
		}
	}
	return methods
}

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
	turn := e.token(Name{TurnID, protocol.SpaceTurn})
	switch {
	case m.Phase == protocol.Close:
		m.Bind = e.token(Name{ResultTurnID, protocol.SpaceTurn})
	case m.Phase != protocol.Note:
	case string(m.Kind) == "turn/completed":
		m.Operation = protocol.Effect{Does: protocol.Close, Of: turn}
		switch string(e.value(TurnStatus)) {
		case `"interrupted"`:
			m.Operation.Does = protocol.Cancelled
		case `"failed"`:
			m.Operation.Does = protocol.Fail
		}
	case m.From == frame.U2C:
		if turn.IsZero() {
			turn = e.token(ofTurn)
		}
		if !turn.IsZero() {
			m.Phase, m.Ref = protocol.Part, turn
		}
		m.Step = e.stepCodex(m.Kind)
		switch string(m.Kind) {
		case "turn/started":
			m.Begins, m.Bind = e.token(ofThread), e.token(Name{TurnRootID, protocol.SpaceTurn})
		case "thread/tokenUsage/updated":
			m.Usage = e.usage(LastInputTokens, LastCachedInputTokens, LastOutputTokens)
			m.Spent = protocol.Spent{Of: e.token(ofThread), Usage: e.usage(TotalInputTokens, TotalCachedInputTokens, TotalOutputTokens)}
		case "thread/reverted":
			m.Spent = protocol.Spent{Of: e.token(ofThread), Anew: true}
		}
	}
}

// stepCodex returns the effect of a notification on an item. The output of a command can
// outlive it.
func (e *envelope) stepCodex(kind []byte) protocol.Step {
	item := e.token(Name{ItemID, protocol.SpaceStep})
	switch string(kind) {
	case "item/started":
		return protocol.Step{Does: protocol.Open, ID: item}
	case "item/completed":
		return protocol.Step{Does: protocol.Close, ID: item}
	case "item/agentMessage/delta", "item/reasoning/summaryTextDelta", "item/reasoning/textDelta":
		return protocol.Step{Does: protocol.Part, ID: e.token(Name{ParamsItemID, protocol.SpaceStep})}
	}
	return protocol.Step{}
}

// usage returns the numbers of tokens that members tell.
func (e *envelope) usage(input, cached, output Member) protocol.Usage {
	return protocol.Usage{
		Input:  jsonwalk.Count(e.value(input)),
		Cached: jsonwalk.Count(e.value(cached)),
		Output: jsonwalk.Count(e.value(output)),
	}
}

// say consumes the text of a message for people, and keeps it unless it is empty.
func (e *envelope) say(s *jsonscan.Scanner) {
	start := s.Offset()
	s.Skip()
	if s.Err() == nil {
		e.sayAt(place{uint32(start), uint32(s.Offset())})
	}
}

func (e *envelope) sayAt(at place) {
	if at.to-at.from > uint32(len(`""`)) && e.payload[at.from] != 'n' {
		e.places[Says] = at
	}
}

// readBlocks walks the next value, an array of blocks or items, and keeps the first text in
// it.
func (e *envelope) readBlocks(s *jsonscan.Scanner) {
	if s.Peek() != jsonscan.Array {
		e.say(s)
		return
	}
	for s.Array(); s.Elem(); {
		for ok := s.Object(); ok && s.Next(); {
			if string(s.Key()) == "text" && e.value(Says) == nil {
				e.say(s)
			}
		}
	}
}

func (e *envelope) readTurn(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "id":
			e.keep(TurnID, s)
		case "rootTurnId":
			e.keep(TurnRootID, s)
		case "status":
			e.keep(TurnStatus, s)
		case "error":
			e.readMembers(s, member{"message", Says})
		}
	}
}

func (e *envelope) readItem(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "id":
			e.keep(ItemID, s)
		case "type":
			e.keep(ItemType, s)
		case "changes", "command", "text", "tool", "query":
			e.say(s)
		case "content":
			e.readBlocks(s)
		}
	}
}

// readTokenUsage walks the next value, which is the usage of models.
func (e *envelope) readTokenUsage(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "last":
			e.readMembers(s, member{"totalTokens", Says},
				member{"inputTokens", LastInputTokens}, member{"cachedInputTokens", LastCachedInputTokens}, member{"outputTokens", LastOutputTokens})
		case "total":
			e.readMembers(s, member{"inputTokens", TotalInputTokens}, member{"cachedInputTokens", TotalCachedInputTokens}, member{"outputTokens", TotalOutputTokens})
		}
	}
}

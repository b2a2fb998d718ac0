package jsonrpc

import (
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

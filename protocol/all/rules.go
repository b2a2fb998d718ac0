package all

import (
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/agui"
	"github.com/wirectl/wirectl/protocol/anthropic"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/cdp"
	"github.com/wirectl/wirectl/protocol/claude"
	"github.com/wirectl/wirectl/protocol/codexexec"
	"github.com/wirectl/wirectl/protocol/gemini"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/openai"
	"github.com/wirectl/wirectl/protocol/opencode"
	"github.com/wirectl/wirectl/protocol/pi"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/protocol/theory"
)

// Rules returns the rules of a protocol. A protocol outside the list has none.
func Rules(p protocol.Protocol) *protocol.Rules {
	if r := rules[p.Name()]; r != nil {
		return r
	}
	return &opaque.Rules
}

var rules = map[string]*protocol.Rules{
	rlm.Protocol.Name():       &rlm.Rules,
	repl.Protocol.Name():      &repl.Rules,
	latis.Protocol.Name():     &latis.Rules,
	theory.Protocol.Name():    &theory.Rules,
	nexus.Protocol.Name():     &nexus.Rules,
	jsonrpc.MCP.Name():        &jsonrpc.MCPRules,
	jsonrpc.ACP.Name():        &jsonrpc.ACPRules,
	claude.Protocol.Name():    &claude.Rules,
	jsonrpc.Codex.Name():      &jsonrpc.CodexRules,
	codexexec.Protocol.Name(): &codexexec.Rules,
	jsonrpc.Copilot.Name():    &jsonrpc.CopilotRules,
	pi.Protocol.Name():        &pi.Rules,
	jsonrpc.A2A.Name():        &a2a.Rules,
	openai.Protocol.Name():    &openai.Rules,
	openai.Realtime.Name():    &openai.RealtimeRules,
	anthropic.Protocol.Name(): &anthropic.Rules,
	gemini.Protocol.Name():    &gemini.Rules,
	gemini.Live.Name():        &gemini.LiveRules,
	cdp.Protocol.Name():       &cdp.Rules,
	agui.Protocol.Name():      &agui.Rules,
	opencode.Protocol.Name():  &opencode.Rules,
	jsonrpc.LSP.Name():        &jsonrpc.LSPRules,
	jsonrpc.DAP.Name():        &jsonrpc.DAPRules,
	jsonrpc.Plain.Name():      &jsonrpc.PlainRules,
	carried.GRPC.Name():       &carried.Rules,
	carried.HTTP.Name():       &carried.Rules,
}

// Package all lists the protocols and detects which one a stream speaks.
package all

import (
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/protocol"
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
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/protocol/theory"
)

// List returns every protocol. To add one, write its package and add it here.
func List() []protocol.Protocol {
	var all []protocol.Protocol
	for _, l := range list {
		all = append(all, l.protocol)
	}
	return all
}

type listed struct {
	protocol protocol.Protocol
	about    string
}

var list = []listed{
	{rlm.Protocol, "JSON between an execution environment and its LLM broker"},
	{repl.Protocol, "JSON between an orchestrator of recursive language models and its worker"},
	{latis.Protocol, "protobuf between a controller and a unit"},
	{theory.Protocol, "JSON between a client and a tool's runtime"},
	{nexus.Protocol, "JSON-RPC between a client and an agent server"},
	{jsonrpc.MCP, "the Model Context Protocol"},
	{jsonrpc.ACP, "the Agent Client Protocol"},
	{claude.Protocol, "stream-json of Claude Code and its Agent SDK"},
	{jsonrpc.Codex, "the app-server of Codex"},
	{codexexec.Protocol, "the events that codex exec --json writes"},
	{jsonrpc.Copilot, "the Copilot SDK and its runtime"},
	{pi.Protocol, "the RPC mode of the coding agent pi"},
	{jsonrpc.A2A, "the Agent2Agent protocol, over JSON-RPC, REST or gRPC"},
	{openai.Protocol, "the API of OpenAI for models, over HTTP"},
	{openai.Realtime, "the Realtime API of OpenAI, over WebSocket"},
	{anthropic.Protocol, "the API of Anthropic for models, over HTTP"},
	{gemini.Protocol, "the Gemini API for models, over HTTP"},
	{gemini.Live, "the Live API of Gemini, over WebSocket"},
	{cdp.Protocol, "the Chrome DevTools Protocol"},
	{agui.Protocol, "AG-UI between a user interface and an agent, over HTTP"},
	{opencode.Protocol, "the server of the coding agent opencode, over HTTP"},
	{jsonrpc.LSP, "the Language Server Protocol"},
	{jsonrpc.DAP, "the Debug Adapter Protocol"},
	{jsonrpc.Plain, "any other JSON-RPC"},
	{opaque.JSON, "any other JSON"},
	{protobuf.Schemaless{}, "any other protobuf, with a schema (--proto) or without"},
	{opaque.Bytes, "anything else"},
}

// Names returns the names of every protocol, and of the protocols of carriers themselves.
func Names() []string {
	var names []string
	for _, p := range append(List(), carried.HTTP, carried.WS, carried.GRPC) {
		names = append(names, p.Name())
	}
	return names
}

// Named returns the protocol of that name.
func Named(name string) (protocol.Protocol, error) {
	return nearest.Named("protocol", name, List(), protocol.Protocol.Name)
}

// Has reports whether p is the protocol that Named finds under its name, and
// not one that was made at run time.
func Has(p protocol.Protocol) bool { return index(p) >= 0 }

// About describes a protocol of the list in a few words.
func About(p protocol.Protocol) string {
	if i := index(p); i >= 0 {
		return list[i].about
	}
	return ""
}

func index(p protocol.Protocol) int {
	return slices.IndexFunc(list, func(l listed) bool { return l.protocol == p })
}

// Limit returns the largest payload, in bytes, that peers accept of protocol p
// in a framing.
func Limit(p protocol.Protocol, f frame.Framing) int {
	if p == rlm.Protocol {
		return rlm.Limit
	}
	return frame.DefaultLimit
}

package jsonrpc_test

import (
	"fmt"
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

// copilotEvent is an event of a session of Copilot.
func copilotEvent(kind, data string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s","event":{"type":%q,"data":%s,"id":"e"}}}`, kind, data)
}

var (
	copilotSend   = `{"jsonrpc":"2.0","id":6,"method":"session.send","params":{"sessionId":"s","prompt":"hi"}}`
	copilotAnswer = `{"jsonrpc":"2.0","id":7,"method":"session.tools.handlePendingToolCall","params":{"sessionId":"s","requestId":"r","result":"x"}}`
	copilotAsk    = copilotEvent("permission.requested", `{"requestId":"r","permissionRequest":{"kind":"shell","intention":"list"}}`)
	copilotIdle   = copilotEvent("session.idle", `{"aborted":true}`)
	copilotUsage  = copilotEvent("assistant.usage", `{"model":"m","inputTokens":10,"cacheReadTokens":4,"outputTokens":2}`)
)

func TestCopilot(t *testing.T) {
	prototest.Vectors(t, jsonrpc.Copilot)
	prototest.Cases(t, jsonrpc.Copilot, []prototest.Case{
		{copilotSend, `session.send open from=c2u id=6 bind="s" bind-space=session does=part of="s" of-space=session`},
		{`{"jsonrpc":"2.0","id":6,"result":{"messageId":"m"}}`, `result close id=6`},
		{`{"jsonrpc":"2.0","id":6,"result":{"success":false,"error":"no"}}`, `result fail id=6`},
		{`{"jsonrpc":"2.0","id":6,"result":{"success":true}}`, `result close id=6`},
		{`{"jsonrpc":"2.0","id":9,"method":"session.abort","params":{"sessionId":"s"}}`, `session.abort cancel from=c2u id=9 ref="s" ref-space=session`},
		{`{"jsonrpc":"2.0","id":1,"method":"hooks.invoke","params":{"sessionId":"s","hookType":"preToolUse"}}`, `hooks.invoke open from=u2c id=1 ref="s" ref-space=session label=preToolUse does=open of="s" of-space=session`},
		{`{"jsonrpc":"2.0","method":"session.lifecycle","params":{"type":"session.updated","sessionId":"s"}}`, `session.lifecycle note from=u2c label=session.updated`},

		{copilotAsk, `permission.requested open from=u2c id="r" ref="s" ref-space=session label=shell does=open of="s" of-space=session`},
		{copilotAnswer, `session.tools.handlePendingToolCall open from=c2u id=7 ref="s" ref-space=session does=open of="s" of-space=session settles="r"`},
		{copilotEvent("permission.completed", `{"requestId":"r"}`), `permission.completed part from=u2c ref="s" ref-space=session settles="r"`},
		{copilotEvent("subagent.completed", `{"toolCallId":"c"}`), `subagent.completed part from=u2c ref="s" ref-space=session`},
		{copilotEvent("tool.execution_start", `{"toolCallId":"c","toolName":"bash"}`), `tool.execution_start part from=u2c ref="s" ref-space=session label=bash`},
		{copilotUsage, `assistant.usage part from=u2c ref="s" ref-space=session model=m usage={10 4 2}`},
		{copilotEvent("session.error", `{"message":"no"}`), `session.error part from=u2c ref="s" ref-space=session failing=true`},
		{copilotIdle, `session.idle part from=u2c ref="s" ref-space=session does=cancelled of="s" of-space=session`},
		{copilotEvent("session.idle", `{}`), `session.idle part from=u2c ref="s" ref-space=session does=close of="s" of-space=session`},
		{`{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"s"}}`, `session.event part from=u2c ref="s" ref-space=session faults=missing-field`},
	})
	prototest.AnyOrder(t, jsonrpc.Copilot, copilotSend, copilotAnswer, copilotAsk, copilotIdle, copilotUsage)
	prototest.NoAllocs(t, jsonrpc.Copilot, copilotSend, copilotAnswer, copilotAsk, copilotIdle, copilotUsage)
}

// What an event says to people is told rather than how it begins.
func TestCopilotSummaries(t *testing.T) {
	for payload, want := range map[string]string{
		copilotSend: `: "hi"`,
		copilotAsk:  `shell: "list"`,
		copilotEvent("assistant.message_delta", `{"messageId":"m","deltaContent":"I look"}`):            `: "I look"`,
		copilotEvent("external_tool.requested", `{"requestId":"r","toolName":"t","arguments":{"a":1}}`): `t: {"a":1}`,
		copilotEvent("session.error", `{"errorType":"query","message":"400"}`):                          `query: "400"`,
		copilotEvent("assistant.turn_end", `{"turnId":"0"}`):                                            `: {"turnId":"0"}`,
		`{"jsonrpc":"2.0","id":6,"result":{"success":false,"error":"Session file not found for such"}}`: `: "Session file not found for such"`,
	} {
		var m protocol.Message
		if err := jsonrpc.Copilot.Parse([]byte(payload), &m); err != nil || string(m.Label)+": "+string(m.Text) != want {
			t.Errorf("%s\n says %s: %s\n want %s (%v)", payload, m.Label, m.Text, want, err)
		}
	}
}

func FuzzCopilot(f *testing.F) { prototest.Fuzz(f, jsonrpc.Copilot, jsonscan.WellFormed) }

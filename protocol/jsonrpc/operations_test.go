package jsonrpc_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	turnStart = `{"method":"turn/start","id":5,"params":{"threadId":"t","input":[]}}`
	accepted  = `{"id":5,"result":{"turn":{"id":"a","status":"inProgress"}}}`
	delta     = `{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"a","delta":"x"},"emittedAtMs":1}`
	completed = `{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"a","status":"interrupted"}}}`
	tokens    = `{"method":"thread/tokenUsage/updated","params":{"turnId":"a","tokenUsage":{"total":{"inputTokens":90},"last":{"inputTokens":30,"cachedInputTokens":20,"outputTokens":4}}}}`
)

func TestCodex(t *testing.T) {
	prototest.Vectors(t, jsonrpc.Codex)
	prototest.Cases(t, jsonrpc.Codex, []prototest.Case{
		{turnStart, `turn/start open from=c2u id=5 ref="t" ref-space=session bind="t" bind-space=session`},
		{accepted, `result close id=5 bind="a" bind-space=turn`},
		{delta, `item/agentMessage/delta part from=u2c ref="a" ref-space=turn`},
		{`{"method":"turn/started","params":{"turn":{"id":"a"}}}`, `turn/started part from=u2c ref="a" ref-space=turn`},
		{tokens, `thread/tokenUsage/updated part from=u2c ref="a" ref-space=turn usage={30 20 4} spent={90 0 0}`},
		{`{"method":"thread/reverted","params":{"threadId":"t"}}`, `thread/reverted note from=u2c`},
		{completed, `turn/completed note from=u2c label=interrupted does=cancelled of="a" of-space=turn`},
		{`{"method":"turn/completed","params":{"turn":{"id":"a","status":"completed"}}}`, `turn/completed note from=u2c label=completed does=close of="a" of-space=turn`},
		{`{"method":"turn/completed","params":{"turn":{"id":"a","status":"failed"}}}`, `turn/completed note from=u2c label=failed does=fail of="a" of-space=turn`},
		{`{"method":"turn/interrupt","id":6,"params":{"turnId":"a"}}`, `turn/interrupt cancel from=c2u id=6 ref="a" ref-space=turn`},
		{`{"method":"turn/steer","id":6,"params":{"expectedTurnId":"a"}}`, `turn/steer open from=c2u id=6 ref="a" ref-space=turn does=open of="a" of-space=turn`},
		{`{"method":"item/fileChange/requestApproval","id":0,"params":{"turnId":"a"}}`, `item/fileChange/requestApproval open from=u2c id=0 ref="a" ref-space=turn does=open of="a" of-space=turn`},
		{`{"method":"serverRequest/resolved","params":{"requestId":0}}`, `serverRequest/resolved cancel from=u2c ref=0 ref-space=id`},
		{`{"error":{"code":-32600,"message":"Not initialized"},"id":0}`, `error fail id=0 label=-32600`},
		{`{"method":"thread/status/changed","params":{"threadId":"t"}}`, `thread/status/changed note from=u2c`},
	})
	prototest.AnyOrder(t, jsonrpc.Codex, turnStart, accepted, delta, completed)
	prototest.NoAllocs(t, jsonrpc.Codex, turnStart, accepted, delta, completed)
}

func FuzzCodex(f *testing.F) { prototest.Fuzz(f, jsonrpc.Codex, jsonscan.WellFormed) }

// What a message of ACP 2 and of MCP does to an operation.
func TestOperations(t *testing.T) {
	prototest.Cases(t, jsonrpc.ACP, []prototest.Case{
		{`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}`, `result close id=1 version=2`},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"running"}}}`, `session/update part from=u2c ref="s" ref-space=session label=state_update`},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}}}`, `session/update part from=u2c ref="s" ref-space=session label=state_update does=close of="s" of-space=session`},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}}}`, `session/update part from=u2c ref="s" ref-space=session label=state_update does=cancelled of="s" of-space=session`},
		{`{"jsonrpc":"2.0","id":2,"method":"session/request_permission","params":{"sessionId":"s"}}`, `session/request_permission open from=u2c id=2 ref="s" ref-space=session does=open of="s" of-space=session`},
	})
	prototest.Cases(t, jsonrpc.ACP, []prototest.Case{
		{`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","usage":{"totalTokens":100,"inputTokens":60,"cachedReadTokens":30,"outputTokens":10}}}`, `result close id=1 usage={90 30 10}`},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"usage":{"totalTokens":1},"sessionUpdate":"state_update","state":"running"}}}`, `session/update part from=u2c ref="s" ref-space=session label=state_update usage={1 0 0}`},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1,"cost":{"amount":0.051068,"currency":"USD"}}}}`, `session/update part from=u2c ref="s" ref-space=session label=usage_update cost=51068`},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1,"cost":{"amount":1,"currency":"EUR"}}}}`, `session/update part from=u2c ref="s" ref-space=session label=usage_update`},
	})
	prototest.Cases(t, jsonrpc.MCP, []prototest.Case{
		{`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}`, `result close id=0 version=2025-11-25`},
		{`{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`, `result close id=1 tool-error=true`},
		{`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}`, `result close id=1 state="s" goes-on=true`},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"n","requestState":"s","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, `tools/call open from=c2u id=2 label=n version=2026-07-28 state="s" continues=true`},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"n","inputResponses":{}}}`, `tools/call open from=c2u id=2 label=n continues=true`},
		{`{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"k","status":"working"}}`, `result close id=1 bind="k" bind-space=task goes-on=true`},
		{`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"k"}}`, `tasks/get open id=3 ref="k" ref-space=task does=open of="k" of-space=task`},
		{`{"jsonrpc":"2.0","id":3,"method":"tasks/update","params":{"taskId":"k","inputResponses":{}}}`, `tasks/update open from=c2u id=3 ref="k" ref-space=task does=open of="k" of-space=task`},
		{`{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","taskId":"k","status":"completed","result":{"isError":true}}}`, `result close id=3 does=close of="k" of-space=task tool-error=true`},
		{`{"jsonrpc":"2.0","id":3,"method":"tasks/cancel","params":{"taskId":"k"}}`, `tasks/cancel open id=3 ref="k" ref-space=task does=cancel of="k" of-space=task`},
		{`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"k","status":"working"}}}`, `result close id=1 bind="k" bind-space=task goes-on=true`},
		{`{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"k"}}`, `tasks/result open id=3 ref="k" ref-space=task does=open of="k" of-space=task continues=true`},
		{`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"k","status":"cancelled","_meta":{"io.modelcontextprotocol/subscriptionId":7}}}`, `notifications/tasks part from=u2c ref=7 ref-space=id does=cancelled of="k" of-space=task`},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6,"reason":"Request timed out"}}`, `notifications/cancelled cancel ref=6 ref-space=id reason=Request timed out`},
	})
}

// What a message says to people is told rather than how it begins.
func TestSummaries(t *testing.T) {
	for _, test := range []struct {
		protocol       protocol.Protocol
		payload, label string
		text           string
	}{
		{jsonrpc.Codex, `{"method":"turn/start","id":5,"params":{"threadId":"t","input":[{"type":"image"},{"type":"text","text":"hi"},{"type":"text","text":"x"}]}}`, "", `"hi"`},
		{jsonrpc.Codex, delta, "", `"x"`},
		{jsonrpc.Codex, completed, "interrupted", ""},
		{jsonrpc.Codex, `{"method":"turn/completed","params":{"turn":{"id":"a","status":"failed","error":{"message":"no"}}}}`, "failed", `"no"`},
		{jsonrpc.Codex, `{"method":"item/started","params":{"item":{"type":"agentMessage","text":""},"turnId":"a"}}`, "agentMessage", ""},
		{jsonrpc.Codex, `{"method":"item/completed","params":{"item":{"type":"userMessage","content":[{"type":"text","text":"hi"}]},"turnId":"a"}}`, "userMessage", `"hi"`},
		{jsonrpc.Codex, `{"method":"thread/status/changed","params":{"threadId":"t","status":{"type":"active","activeFlags":["waitingOnApproval"]}}}`, "active", `["waitingOnApproval"]`},
		{jsonrpc.Codex, `{"method":"error","params":{"threadId":"t","turnId":"a","error":{"message":"no"}}}`, "", `"no"`},
		{jsonrpc.Codex, `{"method":"thread/list","id":1,"params":{"limit":3}}`, "", `{"limit":3}`},
		{jsonrpc.ACP, `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}}`, "", `"hi"`},
		{jsonrpc.ACP, `{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}`, "", `"cancelled"`},
		{jsonrpc.ACP, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}`, "agent_message_chunk", `"hi"`},
		{jsonrpc.ACP, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"title":"ls","content":[],"sessionUpdate":"tool_call"}}}`, "tool_call", `"ls"`},
		{jsonrpc.ACP, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}}}`, "state_update", `"cancelled"`},
		{jsonrpc.ACP, `{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"toolCall":{"title":"ls"},"sessionId":"s"}}`, "", `"ls"`},
		{jsonrpc.MCP, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"x"}}`, "", `{"message":"x"}`},
	} {
		var m protocol.Message
		if err := test.protocol.Parse([]byte(test.payload), &m); err != nil || string(m.Label) != test.label || string(m.Text) != test.text {
			t.Errorf("%s\n says %q, %q; want %q, %q (%v)", test.payload, m.Label, m.Text, test.label, test.text, err)
		}
	}
}

package copilotcli_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/copilotcli"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	prompt = `{"type":"user.message","data":{"content":"hi","delivery":"idle"},"id":"e","timestamp":"t","parentId":null}`
	call   = `{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"bash","arguments":{}},"id":"e","timestamp":"t","parentId":"d"}`
	result = `{"type":"result","timestamp":"t","sessionId":"s","exitCode":0,"usage":{}}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, copilotcli.Spec.Protocol)
	prototest.Cases(t, copilotcli.Spec.Protocol, []prototest.Case{
		{prompt, `user.message open`},
		{call, `tool.execution_start open id="c" label=bash does=open of-space=turn`},
		{result, `result close ref-space=turn`},
		{`{"type":"user.message","data":{"content":"hi","delivery":"steering"},"id":"e","timestamp":"t","parentId":null}`, `user.message part ref-space=turn`},
		{`{"type":"assistant.message","data":{"content":"ho","model":"m"},"id":"e","timestamp":"t","parentId":"d"}`, `assistant.message part ref-space=turn model=m`},
		{`{"type":"model.call_start","data":{"model":"m"},"id":"e","timestamp":"t","parentId":"d"}`, `model.call_start part ref-space=turn model=m empty=true`},
		{`{"type":"session.tools_updated","data":{},"id":"e","timestamp":"t","parentId":"d"}`, `session.tools_updated note empty=true`},
		{`{"type":"session.error","data":{"message":"no"},"id":"e","timestamp":"t","parentId":"d"}`, `session.error part ref-space=turn`},
		{`{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"shellExecution":{"exitCode":2}},"id":"e","timestamp":"t","parentId":"d"}`, `tool.execution_complete close id="c" tool-error=true`},
		{`{"type":"tool.execution_complete","data":{"toolCallId":"c","success":false,"error":{"message":"no"}},"id":"e","timestamp":"t","parentId":"d"}`, `tool.execution_complete close id="c" reason=no tool-error=true`},
		{`{"type":"abort","data":{},"id":"e","timestamp":"t","parentId":"d"}`, `abort cancelled ref-space=turn`},
		{`{"type":"result","timestamp":"t","sessionId":"s","exitCode":1,"usage":{}}`, `result fail ref-space=turn`},
		{`{"type":"a.b"}`, `unknown note faults=unknown-kind`},
		{`{"type":"result"}`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, copilotcli.Spec.Protocol, prompt, call, result)
	prototest.NoAllocs(t, copilotcli.Spec.Protocol, prompt, call, result)
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, copilotcli.Spec.Protocol, jsonscan.WellFormed) }

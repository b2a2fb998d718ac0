package geminicli_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/geminicli"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	prompt = `{"type":"message","timestamp":"t","role":"user","content":"hi"}`
	call   = `{"type":"tool_use","timestamp":"t","tool_name":"ls","tool_id":"c","parameters":{}}`
	result = `{"type":"result","timestamp":"t","status":"success","stats":{"input_tokens":420,"output_tokens":18,"cached":200,"input":220,"models":{"g":{"input_tokens":420}}}}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, geminicli.Spec.Protocol)
	prototest.Cases(t, geminicli.Spec.Protocol, []prototest.Case{
		{prompt, `message open`},
		{call, `tool_use open id="c" label=ls does=open of-space=turn`},
		{result, `result close ref-space=turn model=g usage={420 200 18}`},
		{`{"type":"init","timestamp":"t","session_id":"s","model":"g"}`, `init note model=g`},
		{`{"type":"message","timestamp":"t","role":"assistant","content":"ho","delta":true}`, `message part ref-space=turn`},
		{`{"type":"tool_result","timestamp":"t","tool_id":"c","status":"success","output":""}`, `tool_result close id="c"`},
		{`{"type":"tool_result","timestamp":"t","tool_id":"c","status":"error","error":{"message":"no"}}`, `tool_result close id="c" reason=no tool-error=true`},
		{`{"type":"error","timestamp":"t","severity":"warning","message":"slow"}`, `error note`},
		{`{"type":"result","status":"error","error":{"message":"no"},"stats":{"models":{"a":{},"b":{}}}}`, `result fail ref-space=turn reason=no`},
		{`{"type":"news"}`, `unknown note faults=unknown-kind`},
		{`[]`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, geminicli.Spec.Protocol, prompt, call, result)
	prototest.NoAllocs(t, geminicli.Spec.Protocol, prompt, call, result)
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, geminicli.Spec.Protocol, jsonscan.WellFormed) }

package cline_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/cline"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	start = `{"ts":"t","type":"hook_event","hookEventName":"agent_start","agentId":"a","parentAgentId":null}`
	call  = `{"ts":"t","type":"agent_event","event":{"type":"content_start","contentType":"tool","toolName":"run","toolCallId":"c","input":{}}}`
	usage = `{"ts":"t","type":"agent_event","event":{"type":"usage","inputTokens":200,"outputTokens":9,"cacheReadTokens":64,"totalInputTokens":400}}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, cline.Spec.Protocol)
	prototest.Cases(t, cline.Spec.Protocol, []prototest.Case{
		{start, `hook_event open empty=true`},
		{call, `agent_event open id="c" label=run does=open of-space=turn`},
		{usage, `agent_event part ref-space=turn count=1 empty=true usage={200 64 9}`},
		{`{"ts":"t","type":"hook_event","hookEventName":"agent_start","agentId":"b","parentAgentId":"a"}`, `hook_event note empty=true`},
		{`{"ts":"t","type":"agent_event","event":{"type":"content_update","contentType":"tool","toolCallId":"c"}}`, `agent_event part ref="c" ref-space=id`},
		{`{"ts":"t","type":"agent_event","event":{"type":"content_end","contentType":"tool","toolName":"run","toolCallId":"c","error":"no"}}`, `agent_event close id="c" label=run reason=no tool-error=true`},
		{`{"ts":"t","type":"agent_event","event":{"type":"content_start","contentType":"text","text":"ho"}}`, `agent_event part ref-space=turn`},
		{`{"ts":"t","type":"agent_event","event":{"type":"iteration_start"}}`, `agent_event part ref-space=turn empty=true`},
		{`{"ts":"t","type":"run_result","finishReason":"completed","iterations":1,"usage":{},"model":{"id":"m"}}`, `run_result close ref-space=turn model=m stop-reason=completed`},
		{`{"ts":"t","type":"run_result","finishReason":"aborted","iterations":1,"usage":{}}`, `run_result cancelled ref-space=turn stop-reason=aborted`},
		{`{"ts":"t","type":"run_result","finishReason":"error","iterations":1,"usage":{}}`, `run_result fail ref-space=turn stop-reason=error`},
		{`{"type":"news"}`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, cline.Spec.Protocol, start, call, usage)
	prototest.NoAllocs(t, cline.Spec.Protocol, start, call, usage)
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, cline.Spec.Protocol, jsonscan.WellFormed) }

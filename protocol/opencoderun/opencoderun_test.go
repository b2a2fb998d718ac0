package opencoderun_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/opencoderun"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	start  = `{"type":"step_start","timestamp":1,"sessionID":"s","part":{"id":"p","messageID":"m","type":"step-start"}}`
	call   = `{"type":"tool_use","timestamp":2,"sessionID":"s","part":{"tool":"bash","callID":"c","messageID":"m","state":{"status":"completed","title":"ls"}}}`
	finish = `{"type":"step_finish","timestamp":3,"sessionID":"s","part":{"id":"q","messageID":"m","reason":"stop","cost":0.5,"tokens":{"total":20,"input":5,"output":2,"reasoning":1,"cache":{"read":8,"write":4}}}}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, opencoderun.Spec.Protocol)
	prototest.Cases(t, opencoderun.Spec.Protocol, []prototest.Case{
		{start, `step_start open id="s"`},
		{call, `tool_use part ref="s" ref-space=session label=bash`},
		{finish, `step_finish close ref="s" ref-space=session stop-reason=stop usage={17 8 3}`},
		{`{"type":"text","timestamp":1,"sessionID":"s","part":{"id":"p","messageID":"m","text":"ho"}}`, `text part ref="s" ref-space=session`},
		{`{"type":"error","timestamp":1,"sessionID":"s","error":{"name":"APIError","data":{"message":"no"}}}`, `error fail ref="s" ref-space=session label=APIError reason=no`},
		{`{"type":"news"}`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, opencoderun.Spec.Protocol, start, call, finish)
	prototest.NoAllocs(t, opencoderun.Spec.Protocol, start, call, finish)
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, opencoderun.Spec.Protocol, jsonscan.WellFormed) }

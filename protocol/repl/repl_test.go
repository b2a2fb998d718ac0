package repl_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	execute = `{"kind":"execute","id":2,"code":"llm_query(1)"}`
	query   = `{"kind":"llm_query","id":1,"cell":2,"prompt":"x","model":"cheap"}`
	result  = `{"kind":"execute_result","id":2,"locals":{"a":"1"},"execution_time":0.1,"error":null,"final":null}`
	cancel  = `{"kind":"cancel","target":2}`
)

func TestVectors(t *testing.T) { prototest.Vectors(t, repl.Spec.Protocol) }

func TestParse(t *testing.T) {
	prototest.Cases(t, repl.Spec.Protocol, []prototest.Case{
		{`{"kind":"ready","version":"1","language":"python"}`, `ready note from=u2c label=python`},
		{`{"kind":"load_context","id":1,"path":"c.json","type":"list"}`, `load_context open from=c2u id=1`},
		{`{"kind":"load_context_result","id":1}`, `load_context_result close from=u2c id=1`},
		{`{"kind":"set","name":"history","from":2,"value":[]}`, `set note from=c2u label=history`},
		{execute, `execute open from=c2u id=2`},
		{result, `execute_result close from=u2c id=2`},
		{`{"kind":"execute_result","id":2,"error":{"type":"NameError","message":"m"}}`, `execute_result fail from=u2c id=2`},
		{`{"kind":"execute_result","id":2,"error":{"type":"KeyboardInterrupt","message":"m"}}`, `execute_result cancelled from=u2c id=2`},
		{`{"kind":"output","id":2,"stream":"stdout","text":"1"}`, `output part from=u2c ref=2 ref-space=id`},
		{`{"kind":"busy","id":2,"seconds":0.2}`, `busy part from=u2c ref=2 ref-space=id`},
		{`{"kind":"final_var","id":3,"name":"a"}`, `final_var open from=c2u id=3 label=a`},
		{query, `llm_query open from=u2c id=1 label=cheap does=open of=2 of-space=id`},
		{`{"kind":"llm_query_result","id":1,"ok":true,"response":"y"}`, `llm_query_result close from=c2u id=1`},
		{`{"kind":"llm_query_batched_result","id":1,"ok":true,"responses":["y",{"error":"no"}]}`, `llm_query_batched_result close from=c2u id=1`},
		{`{"kind":"llm_query_result","id":1,"ok":false,"error":"no"}`, `llm_query_result fail from=c2u id=1`},
		{`{"kind":"tool_call","id":"t","cell":2,"name":"grep","arguments":{}}`, `tool_call open from=u2c id="t" label=grep does=open of=2 of-space=id`},
		{cancel, `cancel cancel ref=2 ref-space=id`},
		{`{"kind":"shutdown","id":9}`, `shutdown open from=c2u id=9`},
		{`{"kind":"execute","id":null,"code":""}`, `execute open from=c2u faults=bad-id`},
		{`{"kind":"execute","code":""}`, `execute open from=c2u faults=missing-field`},
		{`{"kind":"news"}`, `unknown note faults=unknown-kind`},
	})
}

func TestAnyOrder(t *testing.T) {
	prototest.AnyOrder(t, repl.Spec.Protocol, execute, query, result, cancel)
}

func TestNoAllocs(t *testing.T) {
	prototest.NoAllocs(t, repl.Spec.Protocol, execute, query, result, cancel)
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, repl.Spec.Protocol, jsonscan.WellFormed) }

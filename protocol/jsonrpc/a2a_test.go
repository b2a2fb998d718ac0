package jsonrpc_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	streaming = `{"jsonrpc":"2.0","id":3,"method":"SendStreamingMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}}`
	resumed   = `{"jsonrpc":"2.0","id":4,"method":"message/stream","params":{"message":{"kind":"message","taskId":"k","parts":[]}}}`
	begun     = `{"jsonrpc":"2.0","id":3,"result":{"task":{"id":"k","contextId":"c","status":{"state":"TASK_STATE_WORKING"},"artifacts":[{},{}]}}}`
	chunk     = `{"jsonrpc":"2.0","id":3,"result":{"artifactUpdate":{"taskId":"k","contextId":"c","artifact":{"artifactId":"x","parts":[]},"lastChunk":true}}}`
	rejected  = `{"jsonrpc":"2.0","id":3,"result":{"statusUpdate":{"taskId":"k","contextId":"c","status":{"message":{"taskId":"j"},"state":"TASK_STATE_REJECTED"}}}}`
)

func TestA2A(t *testing.T) {
	prototest.Vectors(t, jsonrpc.A2A)
	prototest.Cases(t, jsonrpc.A2A, []prototest.Case{
		{streaming, `SendStreamingMessage open from=c2u id=3 version=1.0`},
		{resumed, `message/stream open from=c2u id=4 ref="k" ref-space=task does=part of="k" of-space=task version=0.3`},
		{`{"jsonrpc":"2.0","id":5,"method":"SendMessage","params":{"message":{"taskId":""}}}`, `SendMessage open from=c2u id=5 version=1.0`},
		{`{"jsonrpc":"2.0","id":5,"method":"GetTask","params":{"id":"k"}}`, `GetTask open from=c2u id=5 ref="k" ref-space=task does=open of="k" of-space=task version=1.0`},
		{`{"jsonrpc":"2.0","id":5,"method":"tasks/resubscribe","params":{"id":"k"}}`, `tasks/resubscribe open from=c2u id=5 ref="k" ref-space=task does=open of="k" of-space=task version=0.3`},
		{`{"jsonrpc":"2.0","id":5,"method":"tasks/cancel","params":{"id":"k"}}`, `tasks/cancel open from=c2u id=5 ref="k" ref-space=task does=cancel of="k" of-space=task version=0.3`},
		{`{"jsonrpc":"2.0","id":5,"method":"DeleteTaskPushNotificationConfig","params":{"taskId":"k","id":"p"}}`, `DeleteTaskPushNotificationConfig open from=c2u id=5 ref="k" ref-space=task does=open of="k" of-space=task version=1.0`},
		{`{"jsonrpc":"2.0","id":5,"method":"ListTasks","params":{"contextId":"c"}}`, `ListTasks open from=c2u id=5 version=1.0`},
		{`{"jsonrpc":"2.0","id":5,"method":"SendMessages"}`, `SendMessages open id=5`},

		{begun, `result close id=3 bind="k" bind-space=task count=2 label=TASK_STATE_WORKING does=open of="k" of-space=task version=1.0 goes-on=true context="c"`},
		{chunk, `result part id=3 bind="k" bind-space=task does=part of="k" of-space=task version=1.0 context="c" piece="x" appends=false last=true`},
		{rejected, `result close id=3 bind="k" bind-space=task label=TASK_STATE_REJECTED does=fail of="k" of-space=task version=1.0 context="c"`},
		{`{"jsonrpc":"2.0","id":3,"result":{"statusUpdate":{"taskId":"k","status":{"state":"TASK_STATE_AUTH_REQUIRED"}}}}`, `result part id=3 bind="k" bind-space=task label=TASK_STATE_AUTH_REQUIRED does=part of="k" of-space=task version=1.0`},
		{`{"jsonrpc":"2.0","id":3,"result":{"message":{"messageId":"m","contextId":"c","taskId":"k","parts":[]}}}`, `result close id=3 version=1.0`},
		{`{"jsonrpc":"2.0","id":8,"result":{"id":"k","status":{"state":"TASK_STATE_CANCELED"},"history":[{"taskId":"j"}]}}`, `result close id=8 bind="k" bind-space=task label=TASK_STATE_CANCELED does=cancelled of="k" of-space=task`},
		{`{"jsonrpc":"2.0","id":3,"result":{"statusUpdate":{"taskId":"k","contextId":"","status":{"state":"TASK_STATE_WORKING"}}}}`, `result part id=3 bind="k" bind-space=task label=TASK_STATE_WORKING does=part of="k" of-space=task version=1.0`},
		{`{"jsonrpc":"2.0","id":8,"result":{"tasks":[{"id":"k"}]}}`, `result close id=8`},
		{`{"jsonrpc":"2.0","id":8,"result":{"id":"p","taskId":"k","url":"u"}}`, `result close id=8`},
		{`{"jsonrpc":"2.0","id":8,"result":null}`, `result close id=8`},
		{`{"jsonrpc":"2.0","id":8,"error":{"code":-32001,"message":"no"}}`, `error fail id=8 label=-32001`},

		{`{"jsonrpc":"2.0","id":4,"result":{"kind":"task","id":"k","contextId":"c","status":{"state":"input-required"}}}`, `result close id=4 bind="k" bind-space=task label=input-required does=open of="k" of-space=task version=0.3 goes-on=true context="c"`},
		{`{"jsonrpc":"2.0","id":4,"result":{"final":true,"status":{"state":"failed"},"taskId":"k","kind":"status-update"}}`, `result close id=4 bind="k" bind-space=task label=failed does=fail of="k" of-space=task version=0.3`},
		{`{"jsonrpc":"2.0","id":4,"result":{"kind":"status-update","taskId":"k","status":{"state":"canceled"}}}`, `result close id=4 bind="k" bind-space=task label=canceled faults=missing-field does=cancelled of="k" of-space=task version=0.3`},
		{`{"jsonrpc":"2.0","id":4,"result":{"kind":"message","parts":[]}}`, `result close id=4 version=0.3`},
		{`{"jsonrpc":"2.0","id":4,"result":{"kind":"artifact-update","taskId":"k","artifact":{"artifactId":"x"},"append":true,"lastChunk":false}}`, `result part id=4 bind="k" bind-space=task does=part of="k" of-space=task version=0.3 piece="x" appends=true last=false`},
	})
	prototest.AnyOrder(t, jsonrpc.A2A, streaming, begun, chunk, rejected)
	prototest.NoAllocs(t, jsonrpc.A2A, streaming, resumed, begun, chunk, rejected)
}

func FuzzA2A(f *testing.F) { prototest.Fuzz(f, jsonrpc.A2A, jsonscan.WellFormed) }

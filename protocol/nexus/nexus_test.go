package nexus_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/nexus"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	send    = `{"jsonrpc":"2.0","method":"send","params":{"content":"write a poem","request_id":"poem"},"id":4}`
	cancel  = `{"jsonrpc":"2.0","method":"cancel","params":{"request_id":"poem"},"id":5}`
	stopped = `{"jsonrpc":"2.0","id":4,"result":{"content":"O wire, thou","request_id":"poem","cancelled":true}}`
	done    = `{"jsonrpc":"2.0","id":5,"result":{"cancelled":true,"request_id":"poem"}}`
)

func TestVectors(t *testing.T) { prototest.Vectors(t, nexus.Protocol) }

func TestParse(t *testing.T) {
	prototest.Cases(t, nexus.Protocol, []prototest.Case{
		{send, `send open from=c2u id=4 bind="poem" bind-space=run`},
		{cancel, `cancel cancel from=c2u id=5 ref="poem" ref-space=run`},
		// Only a send ends as cancelled; the cancel itself has succeeded.
		{stopped, `result cancelled from=u2c id=4`},
		{done, `result close from=u2c id=5`},
		{`{"jsonrpc":"2.0","id":5,"result":{"cancelled":false,"request_id":"x","reason":"unknown"}}`, `result close from=u2c id=5`},
		{`{"jsonrpc":"2.0","method":"shutdown","id":null}`, `shutdown note from=c2u`},
		{`{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found: x"},"id":1}`, `error fail from=u2c id=1 label=-32601`},

		{`{"jsonrpc":"2.0","method":"send","params":["hi"],"id":1}`, `send open from=c2u id=1 faults=bad-params`},
		{`{"jsonrpc":"2.0","method":"get_tokens","id":1.0}`, `get_tokens open from=c2u id=1.0 faults=bad-id`},
		{`{"jsonrpc":"2.0","method":"get_tokens","id":{}}`, `get_tokens open from=c2u id={} faults=bad-id`},
		{`[{"jsonrpc":"2.0","method":"get_tokens","id":1}]`, `unknown note count=1 faults=unknown-kind`},
	})
}

func TestAnyOrder(t *testing.T) {
	prototest.AnyOrder(t, nexus.Protocol, send, cancel, stopped, done)
}

func TestNoAllocs(t *testing.T) { prototest.NoAllocs(t, nexus.Protocol, send, cancel, stopped, done) }

func FuzzParse(f *testing.F) { prototest.Fuzz(f, nexus.Protocol, jsonscan.WellFormed) }

func BenchmarkParse(b *testing.B) {
	prototest.Bench(b, nexus.Protocol, map[string]string{"send": send, "result": stopped})
}

package rlm_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/rlm"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	single   = `{"correlation_id":"7c1e","model":"mock","prompt":"What is 6 times 7?"}`
	chat     = `{"correlation_id":"b4","model":"mock","prompt":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]}`
	batch    = `{"correlation_id":"b","prompts":["one",{"role":"user","content":"two"},[]]}`
	answer   = `{"correlation_id":"7c1e","error":null,"results":[{"error":null,"chat_completion":{"root_model":"mock","prompt":"p","response":"42","usage_summary":{}}}]}`
	failed   = `{"correlation_id":"7c1e","error":"Request timed out","results":null}`
	itemFail = `{"correlation_id":"b","error":null,"results":[{"error":"Connection error","chat_completion":null},{"error":null,"chat_completion":{"response":"2"}}]}`
)

func TestVectors(t *testing.T) { prototest.Vectors(t, rlm.Protocol) }

func TestParse(t *testing.T) {
	prototest.Cases(t, rlm.Protocol, []prototest.Case{
		{single, `WireRequest open from=c2u id="7c1e" count=1 label=mock`},
		{chat, `WireRequest open from=c2u id="b4" count=1 label=mock`},
		{batch, `WireRequest open from=c2u id="b" count=3`},
		{answer, `WireResponse close from=u2c id="7c1e" count=1`},
		{failed, `WireResponse fail from=u2c id="7c1e"`},
		{itemFail, `WireResponse close from=u2c id="b" count=2`},

		// Null equals absent, and empty prompts are prompts.
		{`{"correlation_id":null,"model":null,"prompt":"","prompts":null}`, `WireRequest open from=c2u count=1`},
		{`{"prompt":{}}`, `WireRequest open from=c2u count=1`},

		// Every rule of a WireRequest.
		{`{"correlation_id":"e","prompt":"","zz":1}`, `WireRequest open from=c2u id="e" count=1 faults=unknown-field`},
		{`{"correlation_id":7,"prompt":""}`, `WireRequest open from=c2u count=1 faults=bad-id`},
		{`{"model":4,"prompt":""}`, `WireRequest open from=c2u count=1 faults=bad-params`},
		{`{"prompt":4}`, `WireRequest open from=c2u count=1 faults=bad-params`},
		{`{"prompt":["hi"]}`, `WireRequest open from=c2u count=1 faults=bad-params`},
		{`{"prompts":"hi"}`, `WireRequest open from=c2u faults=bad-params`},
		{`{"prompts":[]}`, `WireRequest open from=c2u faults=bad-params`},
		{`{"prompts":["hi",null]}`, `WireRequest open from=c2u count=2 faults=bad-params`},
		{`{"prompt":"a","prompts":["b"]}`, `WireRequest open from=c2u count=1 faults=both-answers`},
		{`{"correlation_id":"e","model":"m"}`, `WireRequest open from=c2u id="e" label=m faults=missing-field`},
		{`{"prompt":"","prompt":""}`, `WireRequest open from=c2u count=1 faults=duplicate-key`},

		// Every rule of a WireResponse.
		{`{"correlation_id":null,"error":"x","results":null}`, `WireResponse fail from=u2c`},
		{`{"error":"x","results":null}`, `WireResponse fail from=u2c faults=missing-field`},
		{`{"correlation_id":"e","error":"x"}`, `WireResponse fail from=u2c id="e" faults=missing-field`},
		{`{"correlation_id":"e","error":null,"results":null}`, `WireResponse close from=u2c id="e" faults=no-answer`},
		{`{"correlation_id":"e","error":"x","results":[]}`, `WireResponse fail from=u2c id="e" faults=both-answers`},
		{`{"correlation_id":"e","error":4,"results":null}`, `WireResponse fail from=u2c id="e" faults=bad-params`},
		{`{"correlation_id":"e","error":null,"results":{}}`, `WireResponse close from=u2c id="e" faults=bad-params`},
		{`{"correlation_id":"e","error":"x","results":null,"model":"m"}`, `WireResponse fail from=u2c id="e" faults=unknown-field`},
		{`{"correlation_id":"e","error":null,"results":[{"error":null,"chat_completion":null}]}`, `WireResponse close from=u2c id="e" count=1 faults=no-answer`},
		{`{"correlation_id":"e","error":null,"results":[{"error":"x","chat_completion":{}}]}`, `WireResponse close from=u2c id="e" count=1 faults=both-answers`},
		{`{"correlation_id":"e","error":null,"results":[{"error":"x"}]}`, `WireResponse close from=u2c id="e" count=1 faults=missing-field`},
		{`{"correlation_id":"e","error":null,"results":[{"error":"x","chat_completion":null,"n":1}]}`, `WireResponse close from=u2c id="e" count=1 faults=unknown-field`},

		// What is neither.
		{`{}`, `unknown note faults=unknown-kind`},
		{`{"jsonrpc":"2.0","id":1}`, `unknown note faults=unknown-kind`},
		{`[]`, `unknown note faults=unknown-kind`},
		{`"correlation_id"`, `unknown note faults=unknown-kind`},
	})
}

// The text of a message is what a person wants to see of it, as written.
func TestText(t *testing.T) {
	prototest.Texts(t, rlm.Protocol, map[string]string{
		single:   `"What is 6 times 7?"`,
		batch:    `["one",{"role":"user","content":"two"},[]]`,
		answer:   `"42"`,
		failed:   `"Request timed out"`,
		itemFail: `"Connection error"`,
	})
}

func TestAnyOrder(t *testing.T) {
	prototest.AnyOrder(t, rlm.Protocol, single, chat, batch, answer, failed, itemFail)
}

func TestNoAllocs(t *testing.T) {
	prototest.NoAllocs(t, rlm.Protocol, single, chat, batch, answer, failed, itemFail)
}

func FuzzParse(f *testing.F) { prototest.Fuzz(f, rlm.Protocol, jsonscan.WellFormed) }

func BenchmarkParse(b *testing.B) {
	prototest.Bench(b, rlm.Protocol, map[string]string{
		"request-100B":  single,
		"request-4KiB":  `{"correlation_id":"7c1e","model":"mock","prompt":"` + prototest.Prose(4000) + `"}`,
		"response-4KiB": `{"correlation_id":"7c1e","error":null,"results":[{"error":null,"chat_completion":{"root_model":"mock","prompt":"p","response":"` + prototest.Prose(4000) + `","usage_summary":{}}}]}`,
	})
}

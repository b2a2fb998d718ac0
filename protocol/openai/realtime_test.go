package openai_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/openai"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	done   = `{"type":"response.done","response":{"id":"r","status":"cancelled","status_details":{"reason":"turn_detected"},"usage":{"input_tokens":9,"output_tokens":2}}}`
	refuse = `{"type":"error","error":{"type":"invalid_request_error","code":"c","event_id":"e"}}`
)

func TestParseRealtime(t *testing.T) {
	prototest.Vectors(t, openai.RealtimeSpec.Protocol)
	prototest.Cases(t, openai.RealtimeSpec.Protocol, []prototest.Case{
		{done, `response.done cancelled from=u2c id="r" label=turn_detected stop-reason=turn_detected usage={9 0 2}`},
		{`{"type":"rate_limits.updated","event_id":"e"}`, `rate_limits.updated note bind="e" bind-space=progress`},
		{`{"type":"response.completed","response":{"id":"r"}}`, `response.completed close from=u2c id="r" label=completed stop-reason=completed`},
		{`{"type":"text"}`, `unknown note faults=unknown-kind`},
		{`[]`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, openai.RealtimeSpec.Protocol, done, refuse)
	prototest.NoAllocs(t, openai.RealtimeSpec.Protocol, done, refuse)
}

func FuzzRealtime(f *testing.F) { prototest.Fuzz(f, openai.RealtimeSpec.Protocol, jsonscan.WellFormed) }

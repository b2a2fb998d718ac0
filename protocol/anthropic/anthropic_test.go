package anthropic_test

import (
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/anthropic"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	request = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	start   = `{"type":"message_start","message":{"model":"m","usage":{"input_tokens":5,"cache_read_input_tokens":7,"output_tokens":1}}}`
	delta   = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":6}}`
	message = `{"type":"message","model":"m","content":[{"type":"tool_use","name":"f","input":{"type":"x"}}],"stop_reason":"tool_use"}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, anthropic.Spec.Protocol)
	prototest.Cases(t, anthropic.Spec.Protocol, []prototest.Case{
		{request, `messages open from=c2u label=m model=m`},
		{start, `message_start part from=u2c model=m empty=true usage={12 7 1}`},
		{delta, `message_delta part from=u2c label=end_turn stop-reason=end_turn empty=true usage={0 0 6}`},
		{message, `message close from=u2c label=f model=m stop-reason=tool_use`},
		{`{"type":"ping"}`, `ping part from=u2c empty=true`},
		{`{"data":[{"type":"model","id":"m"}],"has_more":false}`, `result close from=u2c`},
		{`"x"`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, anthropic.Spec.Protocol, request, start, delta, message)
	prototest.NoAllocs(t, anthropic.Spec.Protocol, request, start, delta, message)
}

// A request states its version, or has a body of the API.
func TestCall(t *testing.T) {
	for _, test := range []struct{ start, version, body, want string }{
		{"POST /v1/messages HTTP/1.1", "", request, "messages"},
		{"POST /v1/messages?beta=true HTTP/2", "2023-06-01", "", "messages"},
		{"POST /proxy/messages/count_tokens HTTP/1.1", "2023-06-01", request, "messages/count_tokens"},
		{"POST /v1/messages HTTP/1.1", "", `{"jsonrpc":"2.0"}`, ""},
		{"POST /messages HTTP/1.1", "", request, ""},
		{"POST /v1/messages/batches HTTP/1.1", "2023-06-01", "{}", ""},
		{"GET /v1/messages HTTP/1.1", "2023-06-01", "", ""},
		{"GET /v1/models HTTP/1.1", "2023-06-01", "", "models"},
		{"GET /v1/models HTTP/1.1", "", "", ""},
	} {
		head, got := &frame.Head{Start: test.start}, ""
		if test.version != "" {
			head.Fields = []frame.Field{{Name: "anthropic-version", Value: test.version}}
		}
		if c := anthropic.Spec.API.Calls()(head, []byte(test.body)); c != nil {
			got = c.Kind
		}
		if got != test.want {
			t.Errorf("%s %s is %q, want %q", test.start, test.body, got, test.want)
		}
	}
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, anthropic.Spec.Protocol, jsonscan.WellFormed) }

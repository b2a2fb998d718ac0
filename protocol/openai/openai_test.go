package openai_test

import (
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/openai"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	completed = `{"type":"response.completed","response":{"object":"response","model":"m","status":"completed","usage":{"input_tokens":9,"output_tokens":2}}}`
	failed    = `{"type":"response.failed","response":{"object":"response","status":"failed","error":{"code":"server_error","message":"no"}}}`
	chunk     = `{"object":"chat.completion.chunk","model":"m","choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]},"finish_reason":null}]}`
	request   = `{"model":"m","input":"hi","stream":true,"text":{"format":{"type":"text"}}}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, openai.Spec.Protocol)
	prototest.Cases(t, openai.Spec.Protocol, []prototest.Case{
		{request, `responses open from=c2u label=m model=m`},
		{`{"model":"m","prompt":"hi"}`, `completions open from=c2u label=m model=m`},
		{`{"object":"list","data":[]}`, `list close from=u2c`},
		{`{"status":"ok"}`, `result close from=u2c`},
		{`{"object":"response","status":"cancelled"}`, `response cancelled from=u2c label=cancelled stop-reason=cancelled`},
		{`{"object":"response","status":"queued"}`, `response close from=u2c goes-on=true`},
		{`{"type":"response.of.the.future","delta":"x"}`, `response.of.the.future part from=u2c empty=true`},
		{`[]`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, openai.Spec.Protocol, completed, failed, chunk, request)
	prototest.NoAllocs(t, openai.Spec.Protocol, completed, failed, chunk, request)
}

// Paths that others may have too need a body of the API.
func TestCall(t *testing.T) {
	const chat, other = `{"model":"m","messages":[]}`, `{"jsonrpc":"2.0","method":"m"}`
	for _, test := range []struct{ start, body, want string }{
		{"POST /v1/responses HTTP/1.1", request, "responses"},
		{"POST /backend-api/codex/responses HTTP/1.1", request, "responses"},
		{"POST /survey/responses HTTP/1.1", `{"answer":1}`, ""},
		{"POST /survey/responses HTTP/2", "", ""},
		{"POST /v1/responses HTTP/2", "", "responses"},
		{"GET /v1/responses/resp_1?stream=true HTTP/1.1", "", "responses/get"},
		{"POST /v1/responses/resp_1/cancel HTTP/1.1", "", "responses/cancel"},
		{"POST /v1/responses/input_tokens HTTP/1.1", request, "responses/input_tokens"},
		{"POST /api/chat/completions HTTP/1.1", chat, "chat/completions"},
		{"POST /api/chat/completions HTTP/1.1", other, ""},
		{"POST http://h:1/v1/chat/completions HTTP/1.1", chat, "chat/completions"},
		{"POST /openai/deployments/four/chat/completions?api-version=1 HTTP/1.1", `{"messages":[]}`, "chat/completions four"},
		{"POST /v1/embeddings HTTP/1.1", request, "embeddings"},
		{"GET /v1/models HTTP/1.1", "", "models"},
		{"GET /v1/models/m HTTP/1.1", "", "models"},
		{"GET /models HTTP/1.1", "", ""},
		{"POST /v1/models HTTP/1.1", chat, ""},
		{"POST /v1/files HTTP/1.1", chat, ""},
	} {
		head, got := &frame.Head{Start: test.start, Fields: []frame.Field{{Name: "authorization", Value: "Bearer k"}}}, ""
		if c := openai.Spec.API.Calls()(head, bodyOf(test.body)); c != nil {
			if got = c.Kind; c.Model != "" {
				got += " " + c.Model
			}
		}
		if got != test.want {
			t.Errorf("%s %s is %q, want %q", test.start, test.body, got, test.want)
		}
	}
	if openai.Spec.API.Calls()(&frame.Head{Start: "GET /v1/models HTTP/1.1"}, nil) != nil {
		t.Error("who shows no key asks for models")
	}
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, openai.Spec.Protocol, jsonscan.WellFormed) }

// bodyOf returns nil for no body.
func bodyOf(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

package gemini_test

import (
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/gemini"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	request = `{"contents":[{"parts":[{"text":"hi"}]}],"tools":[]}`
	event   = `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2,"thoughtsTokenCount":3},"modelVersion":"m"}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, gemini.Spec.Protocol)
	prototest.Cases(t, gemini.Spec.Protocol, []prototest.Case{
		{request, `generateContent open from=c2u`},
		{event, `GenerateContentResponse part from=u2c label=STOP model=m stop-reason=STOP usage={5 0 5}`},
		{`{"models":[]}`, `result close from=u2c`},
		{`7`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, gemini.Spec.Protocol, request, event)
	prototest.NoAllocs(t, gemini.Spec.Protocol, request, event)
}

// The path tells what is asked, and of which model.
func TestCall(t *testing.T) {
	for start, want := range map[string]string{
		"POST /v1beta/models/g:generateContent HTTP/1.1":                                            "generateContent g",
		"POST /v1beta/models/g:streamGenerateContent?alt=sse HTTP/2":                                "streamGenerateContent g",
		"POST /v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent HTTP/1.1": "streamGenerateContent g",
		"POST /v1beta/models/g:countTokens HTTP/1.1":                                                "countTokens g",
		"GET /v1beta/models/g HTTP/1.1":                                                             "models g",
		"GET /v1beta/models?pageSize=5 HTTP/1.1":                                                    "models ",
		"GET /v1/models HTTP/1.1":                                                                   "",
		"POST /v1beta/models/g:other HTTP/1.1":                                                      "",
		"POST /v1beta/models HTTP/1.1":                                                              "",
	} {
		got := ""
		if c := gemini.Spec.API.Calls()(&frame.Head{Start: start}, nil); c != nil {
			got = c.Kind + " " + c.Model
		}
		if got != want {
			t.Errorf("%s is %q, want %q", start, got, want)
		}
	}
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, gemini.Spec.Protocol, jsonscan.WellFormed) }

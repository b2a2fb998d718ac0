package aisdk_test

import (
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/aisdk"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	chat   = `{"id":"c","trigger":"submit-message","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}]}`
	delta  = `{"type":"text-delta","id":"0","delta":"Done "}`
	call   = `{"type":"tool-input-available","toolCallId":"c","toolName":"Bash","input":{"command":"ls"}}`
	finish = `{"type":"finish","finishReason":"stop","messageMetadata":{"usage":{"inputTokens":2272,"inputTokenDetails":{"cacheReadTokens":2000},"outputTokens":18}}}`
)

func TestParse(t *testing.T) {
	prototest.Vectors(t, aisdk.Spec.Protocol)
	prototest.Cases(t, aisdk.Spec.Protocol, []prototest.Case{
		{chat, `chat open from=c2u`},
		{delta, `text-delta part from=u2c`},
		{call, `tool-input-available part from=u2c label=Bash`},
		{finish, `finish close from=u2c stop-reason=stop usage={2272 2000 18}`},
		{`{"type":"start","messageId":"m"}`, `start part from=u2c empty=true`},
		{`{"type":"finish"}`, `finish close from=u2c`},
		{`{"type":"finish","finishReason":"error"}`, `finish fail from=u2c stop-reason=error`},
		{`{"type":"error","errorText":"no"}`, `error fail from=u2c reason=no`},
		{`{"type":"abort","reason":"user"}`, `abort cancelled from=u2c stop-reason=user`},
		{`{"type":"data-weather","data":{"a":1}}`, `data part from=u2c label=weather`},
		{`{"error":"no"}`, `body close from=u2c`},
		{`{"type":"news"}`, `unknown part from=u2c faults=unknown-kind empty=true`},
		{`[]`, `unknown note faults=unknown-kind`},
	})
	prototest.AnyOrder(t, aisdk.Spec.Protocol, chat, delta, call, finish)
	prototest.NoAllocs(t, aisdk.Spec.Protocol, chat, delta, call, finish)
}

// A request is recognized by its body, whatever the path.
func TestCall(t *testing.T) {
	for _, test := range []struct {
		method, body string
		want         bool
	}{
		{"POST", chat, true},
		{"POST", `{"trigger":"regenerate-message","messages":[]}`, true},
		{"POST", `{"id":"c","messages":[{"role":"user","parts":[]}]}`, true},
		{"PUT", chat, false},
		{"POST", `{"id":"c","messages":[{"role":"user","content":"hi"}]}`, false},
		{"POST", `{"model":"m","messages":[{"role":"user","content":[]}]}`, false},
		{"POST", chat[:len(chat)-1], false},
		{"POST", "", false},
	} {
		head := &frame.Head{Start: test.method + " /api/chat HTTP/1.1"}
		if got := aisdk.Spec.API.Calls()(head, []byte(test.body)) != nil; got != test.want {
			t.Errorf("%s of %s is a request: %v", test.method, test.body, got)
		}
	}
}

// Each rule of a message is found where it is broken, and nowhere else.
func TestMessage(t *testing.T) {
	for _, test := range []struct{ about, events, want string }{
		{"a message", "start; text-start 0; text-delta 0; text-end 0; finish", ""},
		{"two texts at the same time", "text-start 0; text-start 1; text-delta 0; text-end 1; text-end 0; finish", ""},
		{"a call", "tool-input-start c; tool-input-delta c; tool-input-available c; tool-output-available c; finish", ""},
		{"a call of an earlier message", "tool-output-available c; finish", ""},
		{"a call without pieces", "tool-input-available c; finish", ""},
		{"an id again", "reasoning-start 0; reasoning-end 0; reasoning-start 0; reasoning-end 0; finish", ""},
		{"a finish after an error", "start; error; finish", "apart"},
		{"a piece without a start", "start; text-delta 0; finish", "unknown-step"},
		{"a piece after the end", "text-start 0; text-end 0; text-delta 0; finish", "unknown-step"},
		{"an end without a start", "reasoning-end 0; finish", "unknown-step"},
		{"input without a start", "tool-input-delta c; finish", "unknown-step"},
	} {
		judge, found := aisdk.Spec.API.Runs().Begin(), ""
		for _, words := range strings.Split(test.events, "; ") {
			kind, id, _ := strings.Cut(words, " ")
			payload := []byte(`{"type":"` + kind + `","id":"` + id + `","toolCallId":"` + id + `"}`)
			var m protocol.Message
			if err := aisdk.Spec.Protocol.Parse(payload, &m); err != nil {
				t.Fatal(err)
			}
			broken, apart := judge(payload, &m)
			for _, b := range broken {
				found += b.Finding
			}
			if apart {
				found = "apart"
			}
		}
		if found != test.want {
			t.Errorf("%s: %s: found %q, want %q", test.about, test.events, found, test.want)
		}
	}
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, aisdk.Spec.Protocol, jsonscan.WellFormed) }

// No part makes a judge panic, or grow without bound.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(delta), []byte(call), []byte(finish))
	f.Fuzz(func(_ *testing.T, a, b, c []byte) {
		judge := aisdk.Spec.API.Runs().Begin()
		for _, payload := range [][]byte{a, b, c, a} {
			var m protocol.Message
			if aisdk.Spec.Protocol.Parse(payload, &m) == nil {
				judge(payload, &m)
			}
		}
	})
}

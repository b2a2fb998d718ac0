package session_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session"
)

// failureOf returns how the exchange of a request and its answer has failed, and its arguments.
func failureOf(t *testing.T, p protocol.Protocol, request, answer string) (*session.Exchange, string) {
	t.Helper()
	var arguments string
	mask := func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") }
	tr := session.New(p, session.Options{Arguments: true, Mask: mask})
	for i, text := range []string{request, answer} {
		var m protocol.Message
		if err := p.Parse([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		tr.Feed(session.Frame{Seq: int64(i + 1), Dir: frame.Dir(i + 1), Framing: frame.Line, Payload: []byte(text)}, &m)
	}
	for e := range tr.Exchanges() {
		arguments = session.OneLine(e.Arguments)
		return e, mask(arguments)
	}
	t.Fatal("no exchange")
	return nil, ""
}

// What an answer says of its failure is one line of text, whatever shape it has.
func TestFailure(t *testing.T) {
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`
	}
	failed := func(failure string) string { return `{"jsonrpc":"2.0","id":1,"error":` + failure + `}` }
	tool := func(content string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"isError":true,` + content + `}}`
	}
	const plain = `{"name":"q"}`
	long := strings.Repeat("ä ", 400)
	for _, test := range []struct{ about, request, answer, code, text, arguments string }{
		{"an error", call(`{"name":"q","arguments":{"sql":"select 1"}}`), failed(`{"code":-32603,"message":"no table users"}`), "-32603", "no table users", `{"sql":"select 1"}`},
		{"lines are joined", call(plain), failed(`{"code":1,"message":"a\n  b\tc"}`), "1", "a b c", ""},
		{"a tool's failure", call(plain), tool(`"content":[{"type":"text","text":"no"},{"type":"image","data":"x"},{"type":"text","text":"way"}]`), "", "no way", ""},
		{"JSON in text", call(plain), tool(`"content":[{"type":"text","text":"{\"a\":1}"}]`), "", `{"a":1}`, ""},
		{"only data", call(plain), tool(`"content":[],"structuredContent":{"a":1}`), "", "", ""},
		{"a text that is no object", call(plain), failed(`"broken"`), "", "broken", ""},
		{"no text", call(plain), failed(`{"code":5}`), "5", "", ""},
		{"a secret", call(`{"name":"q","arguments":{"password":"hunter2"}}`), failed(`{"code":5,"message":"bad password hunter2"}`), "5", "bad password [redacted]", `{"password":"[redacted]"}`},
		{"metadata", call(`{"name":"q","arguments":{"a":"***"}}`), failed(`{"code":5,"message":"******"}`), "5", "", `{"a":"***"}`},
		{"a long text", call(plain), failed(`{"code":5,"message":"` + long + `"}`), "5", long[:237] + "…", ""},
		{"parameters without a tool", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:y"}}`, failed(`{"code":5,"message":"m"}`), "5", "m", `{"uri":"x:y"}`},
		{"a success", call(plain), `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"yes"}]}}`, "", "", ""},
	} {
		e, arguments := failureOf(t, jsonrpc.MCP, test.request, test.answer)
		if e.Error != test.text || e.Code != test.code || arguments != test.arguments {
			t.Errorf("%s: %q %q %q, want %q %q %q", test.about, e.Code, e.Error, arguments, test.code, test.text, test.arguments)
		}
	}
}

// The parts of an explanation are not repeated.
func TestExplain(t *testing.T) {
	for _, test := range []struct {
		failure      session.Failure
		reason, stop string
		want         string
	}{
		{session.Failure{Error: "Overloaded", Code: "overloaded_error", Status: "529"}, "", "overloaded_error", "HTTP 529 Overloaded"},
		{session.Failure{Error: "m", Code: "-32600", Status: "200"}, "", "", "-32600 m"},
		{session.Failure{Status: "404"}, "HTTP 404 text/html", "", "HTTP 404 text/html"},
		{session.Failure{Error: "no"}, "it says no", "", "it says no"},
		{session.Failure{}, "", "", ""},
	} {
		if got := test.failure.Explain(session.Failed, test.reason, test.stop); got != test.want {
			t.Errorf("%+v: %q, want %q", test.failure, got, test.want)
		}
	}
}

// Any answer makes at most a line.
func FuzzFailure(f *testing.F) {
	for _, seed := range []string{`{"message":"m"}`, `{"error":{"error":[["x"]]}}`, "<html>", `{"content":[{"text":"a"}`, "\xff\x00", `"\ud800"`, `["`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		tr := session.New(opaque.JSON, session.Options{Arguments: true})
		open := protocol.Message{Kind: []byte("POST /"), Phase: protocol.Open, ID: protocol.Token{Space: protocol.SpaceID, Text: []byte("1")}, Text: body, Seq: -1}
		tr.Feed(session.Frame{Seq: 1, Dir: frame.C2U}, &open)
		fail := open
		fail.Phase, fail.Text, fail.Label = protocol.Fail, nil, body
		tr.Feed(session.Frame{Seq: 2, Dir: frame.U2C, Payload: body}, &fail)
		for e := range tr.Exchanges() {
			for _, text := range []string{e.Error, e.Code, session.OneLine(e.Arguments)} {
				if len(text) > 240 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\t") {
					t.Errorf("%q", text)
				}
			}
		}
	})
}

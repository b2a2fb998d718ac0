package diff

import (
	"strings"
	"testing"
)

// parts makes a session in which an answer arrives in parts, each with its text and number.
func parts(texts ...string) string {
	lines := []string{`> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"t"}}}`}
	for i, text := range texts {
		lines = append(lines, `< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":`+strings.Repeat("1", i+1)+`,"message":"`+text+`","type":"text"}}`)
	}
	return strings.Join(append(lines, `< {"jsonrpc":"2.0","id":1,"result":{}}`), "\n")
}

func TestChunks(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b []string
		want string
	}{
		{"alike", []string{"a", "b"}, []string{"a", "b"}, ""},
		{"joined", []string{"ha", "ha"}, []string{"haha"}, "chunks tools/call"},
		{"moved", []string{"ab", "c"}, []string{"a", "bc"}, "chunks tools/call"},
		{"one more that is empty", []string{"a", "b"}, []string{"a", "", "b"}, "chunks tools/call"},
		{"other text", []string{"a", "b"}, []string{"a", "c"}, "payload tools/call params.message"},
		{"less text", []string{"a", "b"}, []string{"a"}, "message tools/call"},
		{"other type", []string{"ab", `c","x":"y`}, []string{"abc"}, "payload tools/call params.message\nmessage tools/call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := compare(t, parts(tt.a...), parts(tt.b...)); got != tt.want {
				t.Errorf("they differ in %q, want %q", got, tt.want)
			}
		})
	}
}

// Outcomes are named as in calls.
func TestOutcomes(t *testing.T) {
	const call = `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`
	cancelled := func(reason string) string {
		return call + "\n" + `> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"` + reason + `"}}`
	}
	answered := func(text string) string { return "\n" + `< {"jsonrpc":"2.0","id":1,` + text + `}` }
	for _, tt := range []struct{ a, b, want string }{
		{call, call, ""},
		{call, call + answered(`"result":{}`), "open → done"},
		{call + answered(`"result":{}`), call + answered(`"result":{"isError":true}`), "done → tool-error"},
		{call + answered(`"error":{"code":1,"message":"no"}`), cancelled("enough"), "failed → cancelled"},
		{cancelled("Request timed out"), cancelled("enough"), "timed-out → cancelled"},
		{cancelled("Request timed out"), cancelled("timeout"), ""},
		{"> [" + call[2:] + "]", "> [" + call[2:] + "]\n< [" + answered(`"result":{}`)[3:] + "]", ""},
	} {
		var got []string
		for _, d := range report(t, read(t, tt.a), read(t, tt.b)).Differences {
			if d.What == Outcome {
				got = append(got, d.A.Value+" → "+d.B.Value)
			}
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s\nand\n%s\nend as %q, want %q", tt.a, tt.b, got, tt.want)
		}
	}
}

// An exchange with a different outcome is not also reported as lacking messages.
func TestOutcomeIsSaidOnce(t *testing.T) {
	a := parts("a")
	b := strings.Replace(a, `"result":{}`, `"error":{"code":1,"message":"no"}`, 1)
	if got, want := compare(t, a, b), "outcome tools/call"; got != want {
		t.Errorf("they differ in %q, want %q", got, want)
	}
}

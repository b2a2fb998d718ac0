package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/a2a"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
)

// Of a message over the limit, its beginning and its end tell which call it is, or answers.
func TestOversized(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, test := range []struct {
		about   string
		framing frame.Framing
		dir     frame.Dir
		text    string
		calls   string
	}{
		{"an answer", frame.Line, frame.U2C, `{"jsonrpc":"2.0","id":1,"result":{"content":"` + long + "\"}}\n", "tools/call 1 done 0; tools/call 2 open 0"},
		{"an answer whose id is last", frame.Line, frame.U2C, `{"result":{"content":"` + long + "\"},\"jsonrpc\":\"2.0\",\"id\":2}\r\n", "tools/call 2 done 0; tools/call 1 open 0"},
		{"two answers", frame.Line, frame.U2C, `{"result":"` + long + "\",\"id\":2}\n" + `{"result":"` + long + "\",\"id\":1}\n", "tools/call 2 done 0; tools/call 1 done 0"},
		{"an error", frame.Line, frame.U2C, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"` + long + "\"}}\n", "tools/call 1 failed 0; tools/call 2 open 0"},
		{"an answer to nobody knows what", frame.Line, frame.U2C, `{"jsonrpc":"2.0","result":{"content":"` + long + "\"},\"id\":2,\"x\":{}}\n", "tools/call 1 open 0; tools/call 2 open 0"},
		{"a notification", frame.Line, frame.U2C, `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + long + "\"}}\n", "tools/call 1 open 0; tools/call 2 open 0"},
		{"a request", frame.Line, frame.C2U, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t","arguments":{"a":"` + long + "\"}}}\n", "tools/call 1 open 0; tools/call 2 open 0; tools/call 3 open 0"},
		{"a request whose id is last", frame.Line, frame.C2U, `{"method":"tools/call","params":{"arguments":{"a":"` + long + "\"}},\"jsonrpc\":\"2.0\",\"id\":3}\n", "tools/call 1 open 0; tools/call 2 open 0; tools/call 3 open 0"},
		{"a request with Content-Length", frame.Header, frame.C2U, "Content-Length: 9\r\n\r\n" + `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"a":"` + long + `"}}`, "tools/call 1 open 0; tools/call 2 open 0; tools/call 3 open 0"},
		{"a request that is masked", frame.Line, frame.C2U, `{"id":3,"method":"tools/call","params":{"name":"t","arguments":{` + strings.Repeat("*", 100_000) + "\n", "tools/call 1 open 0; tools/call 2 open 0; tools/call 3 open 0"},
	} {
		for _, size := range []int{1 << 20, 64 << 10, 5_000, 7} { // of the pieces
			tr := play(t, "mcp", "> call 1; > call 2", session.Options{})
			for rest := []byte(test.text); len(rest) > 0; {
				n := min(size, len(rest))
				tr.Feed(session.Frame{
					Seq: 10, Time: began, Conn: 1, Dir: test.dir, Framing: test.framing, Gap: true, Fault: &frame.Error{Err: frame.ErrTooLarge},
					Payload: rest[:n], Size: n,
				}, nil)
				rest = rest[n:]
			}
			if test.framing != frame.Line { // it ends where another frame begins
				tr.Feed(session.Frame{Seq: 11, Conn: 1, Dir: test.dir, Framing: test.framing}, &protocol.Message{Kind: []byte("x")})
			}
			if got := exchanges(tr); got != test.calls {
				t.Errorf("%s, in pieces of %d: %s", test.about, size, got)
			}
			tr.End(1, began)
			for f := range tr.Findings() {
				if f.Name != "oversize" && f.Name != "wrong-framing" && f.Name != "unanswered" {
					t.Errorf("%s: %s: %s", test.about, f.Name, f.Message)
				}
			}
		}
	}
}

// An error without an id answers the request over the limit, also before its end is seen.
func TestOversizedIsRefused(t *testing.T) {
	request := []byte(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"a":"` + strings.Repeat("x", 1000) + "\"}}\n")
	for at := 1; at <= len(request); at++ {
		tr := play(t, "mcp", "> call 1", session.Options{})
		seq := int64(9)
		feed := func(dir frame.Dir, payload []byte, m *protocol.Message) {
			seq++
			f := session.Frame{Seq: seq, Time: began, Conn: 1, Dir: dir, Framing: frame.Line, Payload: payload, Size: len(payload)}
			if m == nil {
				f.Gap, f.Fault = true, &frame.Error{Err: frame.ErrTooLarge}
			}
			tr.Feed(f, m)
		}
		refusal := []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"too long"}}`)
		var m protocol.Message
		if err := jsonrpc.MCP.Parse(refusal, &m); err != nil {
			t.Fatal(err)
		}
		feed(frame.C2U, request[:at], nil)
		feed(frame.U2C, refusal, &m)
		if at < len(request) {
			feed(frame.C2U, request[at:], nil)
		}
		if got, want := exchanges(tr), "tools/call 3 failed 0; tools/call 1 open 0"; got != want {
			t.Fatalf("cut at %d: %s, want %s", at, got, want)
		}
	}
}

// Lines that are no message as a whole say what is wrong with them, and the messages in them
// count.
func TestMend(t *testing.T) {
	const (
		one   = `{"jsonrpc":"2.0","id":1,"result":{}}`
		two   = `{"jsonrpc":"2.0","id":2,"result":{}}`
		ping  = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		asked = "> call 1; > call 2"
		done1 = "tools/call 1 done 0; tools/call 2 open 0"
		open  = "tools/call 1 open 0; tools/call 2 open 0"
		both  = "tools/call 1 done 0; tools/call 2 done 0"
	)
	utf16 := "\xff\xfe" + strings.Join(strings.Split(one, ""), "\x00") + "\x00"
	for _, test := range []struct {
		about string
		lines []string // of the server
		calls string
		found string // the beginnings of the findings
	}{
		{"two messages", []string{one + two}, both, "malformed: 2 messages are on one line"},
		{"with a space between them", []string{one + " \t" + two}, both, "malformed: 2 messages are on one line"},
		{"words before", []string{"user@box $ " + one}, done1, "stray-output: a message is on one line with other text"},
		{"words with brackets", []string{"got: [{" + one}, done1, "stray-output: a message is on one line with other text"},
		{"words after", []string{one + "Done."}, done1, "stray-output: a message is on one line with other text"},
		{"over several lines", []string{"{", ` "jsonrpc": "2.0",`, ` "id": 1,`, ` "result": {`, ` "a": [`, `{}`, `]}`, "}"}, done1, "malformed: one message is over 8 lines"},
		{"over two lines", []string{`{"jsonrpc":"2.0","id":1,`, `"result":{}}`}, done1, "malformed: one message is over 2 lines"},
		{"one inside another", []string{`{"jsonrpc":"2.0","id":1,"r` + ping, `esult":{}}`, two}, both, "stray-output: a message is on one line with other text; malformed: a message was written inside another one"},
		{"JSON that is no message, over lines", []string{"{", `"port": 1`, "}", one}, done1, "stray-output: this is JSON over 3 lines, but not a message"},
		{"a line that is cut, and then a message", []string{`{"jsonrpc":"2.0","id":1,`, two}, "tools/call 2 done 0; tools/call 1 open 0", "malformed: not mcp"},
		{"a line that is cut, at the end", []string{`{"jsonrpc":"2.0","id":1,`}, open, "malformed: not mcp"},
		{"a message in a broken one", []string{`{"jsonrpc":"2.0","id":7,"result":{"x":` + one + `},}`}, open, "malformed: not mcp"},
		{"words alone", []string{"listening {port: 1}"}, open, "stray-output: not mcp"},
		{"UTF-16", []string{utf16, "\x00" + strings.TrimPrefix(strings.ReplaceAll(utf16, "1", "2"), "\xff\xfe")}, both, "malformed: the line is UTF-16; malformed: the line is UTF-16"},
		{"an id that is a string", []string{strings.Replace(one, ":1", `:"1"`, 1)}, open, `orphan: result has the id "1" for 1, that of tools/call t (id 1)`},
		{"an id that is a fraction", []string{strings.Replace(one, ":1", `:1.0`, 1)}, open, `bad-id: result 1.0; orphan: result has the id 1.0 for 1, that of tools/call t (id 1)`},
	} {
		tr := play(t, "mcp", asked, session.Options{})
		for i, line := range test.lines {
			f := session.Frame{Seq: int64(10 + i), Time: began, Conn: 1, Dir: frame.U2C, Framing: frame.Line, Payload: []byte(line), Size: len(line)}
			m := &protocol.Message{}
			if err := named(t, "mcp").Parse(f.Payload, m); err != nil {
				f.Fault, m = &notMCP{err}, nil
			}
			tr.Feed(f, m)
		}
		calls := exchanges(tr)
		tr.End(1, began)
		var found []string
		for f := range tr.Findings() {
			if f.Name != "unanswered" && f.Name != "undeclared" && f.Name != "missing-request" {
				found = append(found, f.Name+": "+f.Message)
			}
		}
		want := strings.Split(test.found, "; ")
		ok := calls == test.calls && len(found) == len(want)
		for i := range min(len(found), len(want)) {
			ok = ok && strings.HasPrefix(found[i], want[i])
		}
		if !ok {
			t.Errorf("%s:\n %s\n %q\nwant\n %s\n %q", test.about, calls, found, test.calls, want)
		}
	}
}

// Several messages in one frame count, also without lines.
func TestDivide(t *testing.T) {
	tr := play(t, "mcp", "> call 1; > call 2", session.Options{})
	payload := `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":2,"result":{}}`
	var m protocol.Message
	err := named(t, "mcp").Parse([]byte(payload), &m)
	tr.Feed(session.Frame{Seq: 10, Time: began, Conn: 1, Dir: frame.U2C, Payload: []byte(payload), Size: len(payload), Fault: &notMCP{err}}, nil)
	if got := exchanges(tr); got != "tools/call 1 done 0; tools/call 2 done 0" {
		t.Error(got)
	}
	if got := found(tr); got != "malformed @ 10" {
		t.Error(got)
	}
}

// What is inside a broken body of an API, of which any object may be a message, is none. Bodies that are
// whole count, also those of the form of A2A that does not name its methods.
func TestDivideAPI(t *testing.T) {
	for _, test := range []struct {
		of         protocol.Protocol
		text, want string
	}{
		{named(t, "openai"), `{"model":"m","tools"2[{"type":"function"},{"type":"object"}]}`, "malformed @ 10: not mcp"},
		{named(t, "openai"), `{"object":"response"}{"object":"response"}`, "malformed @ 10: 2 messages are in one frame"},
		{a2a.REST, `{"message":{"role":"user"<,"parts":[{"text":"hi"}],"metadata":{}}}`, "malformed @ 10: not mcp"},
		{a2a.REST, `{"task":{"id":"1"}} {"task":{"id":"2"}}`, "malformed @ 10: 2 messages are in one frame"},
	} {
		tr := session.New(test.of, session.Options{})
		var m protocol.Message
		err := test.of.Parse([]byte(test.text), &m)
		tr.Feed(session.Frame{Seq: 10, Time: began, Conn: 1, Dir: frame.C2U, Payload: []byte(test.text), Size: len(test.text), Fault: &notMCP{err}}, nil)
		var got []string
		for f := range tr.Findings() {
			got = append(got, fmt.Sprintf("%s @ %d: %s", f.Name, f.Frames[0], f.Message))
		}
		if len(got) == 0 || !strings.HasPrefix(got[0], test.want) {
			t.Errorf("%s: %q", test.text, got)
		}
	}
}

// A faulty answer belongs to its call: one that is not UTF-8 may have been read, one that is not JSON
// hardly was. One that was cut is none.
func TestFaultyAnswers(t *testing.T) {
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":"` + "\xff" + `"}}`:         "tools/call 1 done 0; tools/call 2 abandoned 0",
		`{"result":{"content":"` + "\xff" + `"},"jsonrpc":"2.0","id":2}`:         "tools/call 2 done 0; tools/call 1 abandoned 0",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"` + "\xff" + `"}}`: "tools/call 1 failed 0; tools/call 2 abandoned 0",
		`{"jsonrpc":"2.0","id":1,"result":{"content":[NaN]}}`:                    "tools/call 1 failed 0; tools/call 2 abandoned 0",
		`{"jsonrpc":"2.0","result":{"content":[NaN]},"id":2}`:                    "tools/call 1 abandoned 0; tools/call 2 failed 0",
		`{"jsonrpc":"2.0","id":1,"result":{"content":"a` + "\t" + `b"}}`:         "tools/call 1 failed 0; tools/call 2 abandoned 0",
		`{"jsonrpc":"2.0","id":7,"result":{"content":[NaN]}}`:                    "tools/call 1 abandoned 0; tools/call 2 abandoned 0",
		`{"jsonrpc":"2.0","id":1,"method":"x","params":NaN}`:                     "tools/call 1 abandoned 0; tools/call 2 abandoned 0",
		`{"jsonrpc":"2.0","id":1,"result":{"content":"`:                          "tools/call 1 abandoned 0; tools/call 2 abandoned 0",
	} {
		tr := play(t, "mcp", "> call 1; > call 2", session.Options{})
		var m protocol.Message
		err := named(t, "mcp").Parse([]byte(line), &m)
		tr.Feed(session.Frame{Seq: 10, Time: began, Conn: 1, Dir: frame.U2C, Framing: frame.Line, Payload: []byte(line), Size: len(line), Fault: &notMCP{err}}, nil)
		tr.End(1, began)
		if got := exchanges(tr); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
		for e := range tr.Exchanges() {
			if faulty := e.Outcome != session.Abandoned; faulty != (e.Reason == session.Garbled || e.Reason == session.NotUTF8) {
				t.Errorf("%s: %s because %q", line, e.Outcome, e.Reason)
			}
		}
	}
	tr := play(t, "mcp", "> call 1", session.Options{})
	cut := `{"jsonrpc":"2.0","id":1,"result":{"content":"x`
	tr.Feed(session.Frame{Seq: 10, Time: began, Conn: 1, Dir: frame.U2C, Framing: frame.Line, Gap: true, Fault: &frame.Error{Err: frame.ErrTooLarge}, Payload: []byte(cut), Size: len(cut)}, nil)
	tr.EndBy(1, session.Ending{Died: true, How: "ended with status 0"}, began)
	if got := exchanges(tr); got != "tools/call 1 died 0" {
		t.Errorf("an answer over the limit that was cut: %s", got)
	}
	for f := range tr.Findings() {
		if f.Name != "oversize" && f.Name != "died-with-open-requests" {
			t.Errorf("%s: %s", f.Name, f.Message)
		}
	}
}

type notMCP struct{ error }

func (n *notMCP) Error() string { return "not mcp: " + n.error.Error() }
func (n *notMCP) Unwrap() error { return n.error }

package capture

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// written is a writer that collects records.
type written []Record

func (w *written) Write(r *Record) error {
	*w = append(*w, r.Clone())
	return nil
}

// The note of a tap about a frame has the outline of that.
func TestOutlineOfNotes(t *testing.T) {
	x := Secrets()
	x.Outline = true
	for note, want := range map[string]string{
		`{"tap":"held","held":1,"payload":{"jsonrpc":"2.0","id":7,"result":{"tools":[{"description":"Zoe"}]}}}`: `{"tap":"held","held":1,"payload":{"jsonrpc":"2.0","id":7,"result":{"tools":[{"description":"***"}]}}}`,
		`{"tap":"held","held":1,"data":"Wm9l"}`: `{"tap":"held","held":1,"data":""}`,
		`stderr was closed`:                     `stderr was closed`,
	} {
		var kept written
		if err := Redact(&kept, &Session{}, x).Write(&Record{Kind: Note, Text: []byte(note)}); err != nil || string(kept[0].Text) != want {
			t.Errorf("%s\n got %s, %v\nwant %s", note, kept[0].Text, err, want)
		}
	}
}

// An outline keeps the lengths of the content and the protocol's own values, and nothing
// else.
func TestOutline(t *testing.T) {
	x := Secrets()
	x.Outline = true
	for payload, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"name":"read","arguments":{"name":"Zoë","é":[{"id":12}]},"_meta":{"progressToken":7}}}`: `{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"name":"read","arguments":{"name":"****","**":[{"id":11}]},"_meta":{"progressToken":7}}}`,
		`{"id":1,"result":{"content":[{"type":"text","text":"a \"b\" \u00e9"}],"isError":true,"n":-1.5e+3}}`:                                                 `{"id":1,"result":{"content":[{"type":"text","text":"**************"}],"isError":true,"n":-1.1e+1}}`,
		`[{"id":1,"method":"a"},{"params":{"id":2,"x":{"id":3}}},["x"]]`:                                                                                     `[{"id":1,"method":"a"},{"params":{"id":2,"x":{"id":1}}},["*"]]`,
		`{"seq":5,"type":"request","command":"rm"}`:                                                                                                          `{"seq":5,"type":"request","command":"rm"}`,
		`{"kind":7,"command":"rm"}`: `{"kind":1,"command":"**"}`,
		`{"id":1,"method":"login","params":{"token":"abc"},"sessionId":"abc"}`: `{"id":1,"method":"login","params":{"token":"***"},"sessionId":"***"}`,
		// Of what the protocol reads: states, counts of tokens, and that a reason is a timeout.
		`{"jsonrpc":"2.0","id":4,"result":{"taskId":"t-1","status":"completed","statusMessage":"Zoe"}}`:                                 `{"jsonrpc":"2.0","id":4,"result":{"taskId":"t-1","status":"completed","statusMessage":"***"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"Zoe: Request timed out after 60s"}}`:     `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"*************timed out**********"}}`,
		`{"jsonrpc":"2.0","id":5,"result":{"usage":{"inputTokens":120,"pin":77},"pin":42,"arguments":{"maxTokens":31,"status":"bad"}}}`: `{"jsonrpc":"2.0","id":5,"result":{"usage":{"inputTokens":120,"pin":77},"pin":11,"arguments":{"maxTokens":11,"status":"***"}}}`,
		"{\"id\":6,\"result\":{\"a\":\"b\u2028c\"}}": "{\"id\":6,\"result\":{\"a\":\"*\u2028*\"}}",
		// JSON in a string, with the ids that other wires have.
		`{"client_metadata":{"x-codex-turn-metadata":"{\"thread_source\":\"thread_title\",\"repo\":\"a\\nb\",\"n\":12}","x":"{\"turn_id\":1}"}}`: `{"client_metadata":{"x-codex-turn-metadata":"{\"thread_source\":\"thread_title\",\"repo\":\"*****\",\"n\":11}","x":"***************"}}`,
		`[DONE]`:           `[DONE]`,
		`"text"`:           `"****"`,
		`no JSON at all {`: `****************`,
		`{"id":{"id":5}}`:  `{"id":{"id":1}}`,
	} {
		var kept written
		name := "mcp"
		if strings.HasPrefix(payload, `{"seq"`) {
			name = "dap"
		} else if strings.HasPrefix(payload, `{"client_metadata"`) {
			name = "openai"
		}
		r := Record{Framing: "line", Protocol: name, Frame: frame.Frame{Raw: []byte(payload + "\n"), End: len(payload)}}
		if err := Redact(&kept, &Session{}, x).Write(&r); err != nil || len(kept) != 1 {
			t.Fatal(err, kept)
		}
		if got := string(kept[0].Raw); got != want+"\n" || string(r.Raw) != payload+"\n" {
			t.Errorf("%s\n got %s\nwant %s", payload, got, want)
		}
	}
}

// In a carrier, only the needed head fields remain, and standard error of the unit's process
// is dropped.
func TestOutlineOfOthers(t *testing.T) {
	x := Redaction{Outline: true}
	var kept written
	w := Redact(&kept, &Session{}, x)
	head := &frame.Head{Start: "POST /mcp?key=abc HTTP/1.1", Fields: []frame.Field{{Name: "Cookie", Value: "s=1"}, {Name: "Content-Type", Value: "application/json"}, {Name: "X-Codex-Turn-Metadata", Value: `{"turn_id":"t-1","repo":"abc"}`}, {Name: ":path", Value: "/mcp?key=abc"}}}
	for _, r := range []Record{
		{Kind: Stderr, Text: []byte("opened /home/zoë")},
		{Frame: frame.Frame{Raw: []byte(`POST /mcp?key=abc {"id":1,"x":"abc"}`), Meta: &frame.Meta{Framing: frame.HTTP, Head: head, Apart: true, Data: []byte(`{"id":1,"x":"abc"}`), Text: "abc"}}},
		{Frame: frame.Frame{Raw: []byte("abc"), Gap: true, End: 3}},
		{Frame: frame.Frame{Raw: []byte("Xabc"), Compressed: true, Start: 1, End: 4}},
		{Framing: "line", Frame: frame.Frame{Raw: []byte(`{"id":1,"params":{"name":"t","key":"abc","text":"abc, and more`), Gap: true}},
		{Framing: "line", Frame: frame.Frame{Raw: []byte("of it\"}},\"key\":\"abc\",\"id\":1}\n{\"x"), Gap: true}},
	} {
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if len(kept) != 5 {
		t.Fatalf("%d records", len(kept))
	}
	for i, want := range []string{`{"id":1,"x":"***"}`, "***", "X***", `{"id":1,"params":{"name":"t","key":"***","text":**************`, "****************************\n{**"} {
		if got := string(kept[i].Raw); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	m := kept[0].Meta
	if m.Head.Start != "POST /mcp HTTP/1.1" || fmt.Sprint(m.Head.Fields) != `[{Content-Type application/json} {X-Codex-Turn-Metadata {"turn_id":"t-1","repo":"***"}} {:path /mcp}]` || m.Text != "" || string(kept[0].Payload()) != `{"id":1,"x":"***"}` {
		t.Errorf("the head is %+v", m.Head)
	}
}

// An outline is JSON of the same length.
func FuzzOutline(f *testing.F) {
	f.Add([]byte(`{"id":1,"method":"x","params":{"a":["b\"",-1.2e3,null,true,{}]}}`))
	f.Add([]byte(`[[],{"\u0061":"\\"}]`))
	f.Add([]byte(`{"client_metadata":{"x-codex-turn-metadata":"{\"turn_id\":\"a\",\"s\":\"x\\n\\/é\"}"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if jsonscan.Valid(text) != nil {
			return
		}
		got := appendJSON(nil, text, &outliner{also: keptInAny})
		if len(got) != len(text) || jsonscan.Valid(got) != nil || !bytes.Equal(appendJSON(nil, got, &outliner{also: keptInAny}), got) {
			t.Errorf("%s became %s", text, got)
		}
	})
}

package tui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

// said returns a store of what both sides said, one frame per line: > begins the client's,
// and < the server's. Frames are a millisecond apart. A line +MILLISECONDS adds a pause.
func said(t *testing.T, protocol, text string) *store.Store {
	t.Helper()
	list := &recorded{session: capture.Session{Framing: "line", Protocol: protocol}}
	at := time.Unix(1_800_000_000, 0)
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimSpace(line)
		if wait, ok := strings.CutPrefix(line, "+"); ok {
			d, err := time.ParseDuration(wait)
			check(t, err)
			at = at.Add(d)
			continue
		}
		at = at.Add(time.Millisecond)
		list.add(len(list.list)+1, line[2:])
		r := &list.list[len(list.list)-1]
		if r.Time = at; line[0] == '<' {
			r.Dir = frame.U2C
		}
	}
	s := store.New(store.Options{})
	t.Cleanup(func() { s.Close() })
	check(t, s.Take(t.Context(), decode.Input{Capture: list}, decode.Config{Workers: 1}))
	return s
}

// operations is a session with calls that fail in every way, retries, and a task.
const operations = `
> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
< {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"slow_tool","description":"takes its time","inputSchema":{"type":"object"}},{"name":"unused","inputSchema":{"type":"object"}}]}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow_tool","arguments":{}}}
+2s
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"McpError: MCP error -32001: Request timed out"}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"mcp__filesystem__read_file","arguments":{"path":"/nowhere"}}}
+300ms
< {"jsonrpc":"2.0","id":3,"result":{"isError":true,"content":[{"type":"text","text":"no such file"}]}}
> {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"ask","arguments":{"a":"x"}}}
> {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ask","arguments":{"a":"x"}}}
< {"jsonrpc":"2.0","id":4,"result":{"resultType":"input_required","requestState":"s"}}
< {"jsonrpc":"2.0","id":5,"result":{"resultType":"input_required","requestState":"s"}}
+500ms
> {"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"ask","requestState":"s","arguments":{"a":"x"}}}
< {"jsonrpc":"2.0","id":6,"result":{"content":[]}}
> {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"build","arguments":{}}}
< {"jsonrpc":"2.0","id":7,"result":{"resultType":"task","taskId":"k","status":"working"}}
+400ms
> {"jsonrpc":"2.0","id":8,"method":"tasks/get","params":{"taskId":"k"}}
< {"jsonrpc":"2.0","id":8,"result":{"taskId":"k","status":"working"}}
+400ms
> {"jsonrpc":"2.0","id":9,"method":"tasks/get","params":{"taskId":"k"}}
< {"jsonrpc":"2.0","id":9,"result":{"taskId":"k","status":"completed"}}
> {"jsonrpc":"2.0","id":10,"method":"ping"}
< {"jsonrpc":"2.0","id":10,"result":{}}
`

// Names come first, failures of every kind stand out, and the parts of an operation are
// below it, in aligned columns.
func TestOperations(t *testing.T) {
	s := said(t, "mcp", operations)
	for _, size := range sizes {
		sc := newScreen(t, s, tui.Config{Name: "operations"}, size.width, size.height)
		sc.press("O")
		golden(t, "operations-"+size.name, sc.text())
		fits(t, sc.model.View(), size.width, size.height)
	}
}

// Operations unfold one by one and all at once, also from the rows of their parts, and are
// initially folded.
func TestOperationsFold(t *testing.T) {
	sc := newScreen(t, said(t, "mcp", operations), tui.Config{Name: "s"}, 120, 40)
	rows := func() (n int) { return strings.Count(sc.text(), " └") }
	if rows() != 0 {
		t.Errorf("operations are unfolded:\n%s", sc.text())
	}
	sc.press("j", "o")
	if rows() != 2 {
		t.Errorf("the task has unfolded into %d:\n%s", rows(), sc.text())
	}
	sc.shows("▾ build ", "build · tools/call · 7", "2 exchanges belong to it", "#20 → tasks/get")
	sc.press("j", "j")
	sc.shows("── tasks/get · 9", "belongs to the operation of #16")
	sc.press("o")
	sc.shows("── build · tools/call · 7")
	if rows() != 0 {
		t.Errorf("it does not fold:\n%s", sc.text())
	}
	sc.press("O")
	sc.shows("└?ask ", "└ tasks/get ")
	sc.press("O")
	if rows() != 0 {
		t.Errorf("they do not fold:\n%s", sc.text())
	}
}

// Failures are counted as such: by the filter word, in groups and at the top.
func TestFailures(t *testing.T) {
	sc := newScreen(t, said(t, "mcp", operations), tui.Config{Name: "s"}, 120, 40)
	sc.shows("2 failed", "✖ timed-out?", "✖ tool-error")
	sc.press("b")
	sc.shows("✖ 2 failed")
	sc.press("b", "b", "b", "f", "failed", "enter")
	sc.shows("slow_tool McpError: MCP", "mcp__filesystem__read_file", "error: no such file")
	if strings.Contains(sc.text(), "ping") {
		t.Errorf("ping has not failed:\n%s", sc.text())
	}
	sc.press("j", "enter")
	sc.shows("timed-out is inferred from the reason of its cancel", "reason: McpError: MCP error -32001: Request timed out")
}

// The figures count only the exchanges that match the filter shown above them. A name
// filters by its kind and name.
func TestStatsObeyTheFilter(t *testing.T) {
	sc := newScreen(t, said(t, "mcp", operations), tui.Config{Name: "s"}, 120, 40)
	sc.press("4")
	sc.shows("2 tools, 132 bytes, ~33 tokens", "1 timed-out", "unused")
	sc.press("f", "failed", "enter")
	sc.shows("filter failed", "exchanges   1 tool-error  1 timed-out", "slow_tool")
	if text := sc.text(); strings.Contains(text, "build") || strings.Contains(text, "ping") || strings.Contains(text, "unused") {
		t.Errorf("what has not failed is counted:\n%s", text)
	}
	sc.press("x", "g", "enter")
	sc.shows("filter kind==tools/call and name==ask", "▸ ask ")
	if text := sc.text(); strings.Contains(text, "build") {
		t.Errorf("it has another name:\n%s", text)
	}
}

// Tokens and their cost are shown for an exchange, and in total.
func TestUsage(t *testing.T) {
	s := said(t, "claude", `
> {"type":"user","message":{"role":"user","content":"x"}}
+100ms
< {"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"y","total_cost_usd":0.02315,"usage":{"input_tokens":1200,"cache_read_input_tokens":300,"output_tokens":45}}
`)
	sc := newScreen(t, s, tui.Config{Name: "s"}, 120, 40)
	sc.shows("tokens: 1,500 input, 300 cached, 45 output · cost: $0.0232")
	sc.press("4")
	sc.shows("tokens      1,500 input  300 cached  45 output  $0.0232 cost")
	sc.press("f", "open", "enter")
	if strings.Contains(sc.text(), "1,500") {
		t.Errorf("nothing is in flight:\n%s", sc.text())
	}
}

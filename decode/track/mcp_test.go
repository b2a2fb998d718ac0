package track_test

import (
	"strings"
	"testing"

	"github.com/wirectl/wirectl/session"
)

// The heads of requests over HTTP are judged with the messages that they carry, or that a
// GET and a DELETE do not carry.
func TestHeadsOfMCP(t *testing.T) {
	const (
		newCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		newDone = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`
		begin   = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`
		begun   = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-03-26"}}`
		listed  = `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`
	)
	with := func(wire string, fields ...string) string {
		return strings.Replace(wire, "Content-Type", strings.Join(append(fields, "Content-Type"), "\r\n"), 1)
	}
	call26 := with(post("/mcp", newCall), "MCP-Protocol-Version: 2026-07-28", "mcp-method: tools/call", "mcp-name: n")
	region := func(value, arguments string) []string {
		return []string{with(post("/mcp", strings.Replace(newCall, `"name":"n"`, `"name":"n","arguments":`+arguments, 1)), "MCP-Protocol-Version: 2026-07-28", "mcp-method: tools/call", "mcp-name: n", "Mcp-Param-Region: "+value), said("200 OK", newDone)}
	}
	overH2 := func(name string) []string {
		head := h2(":method", "POST", ":path", "/mcp", "mcp-protocol-version", "2026-07-28", "mcp-method", "tools/call", "mcp-name", name)
		return []string{head + data(newCall), "<" + h2(":status", "200", "content-type", "application/json")[1:] + data(newDone)}
	}
	session := with(said("200 OK", begun), "Mcp-Session-Id: s")
	list := post("/mcp", call)
	for _, tt := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"a call whose head is right", []string{call26, said("200 OK", newDone)}, ""},
		{"another name", []string{strings.Replace(call26, "mcp-name: n", "mcp-name: m", 1), said("200 OK", newDone)}, "header-mismatch"},
		{"an argument", region("eu", `{"n":1,"in":{"where":" eu"}}`), ""},
		{"an argument in base64", region("=?base64?w6k=?=", `{"where":"\u00e9"}`), ""},
		{"a number", region("1000", `{"n":1e3}`), ""},
		{"a truth", region("true", `{"n":true}`), ""},
		{"another argument", region("eu", `{"where":"us"}`), "header-mismatch"},
		{"no argument", region("eu", `{}`), "header-mismatch"},
		{"HTTP/2", overH2("n"), ""},
		{"HTTP/2, another name", overH2("m"), "header-mismatch"},
		{"GET", []string{call26, said("200 OK", newDone), ">GET /mcp HTTP/1.1\r\nHost: h\r\nMCP-Protocol-Version: 2026-07-28\r\n\r\n", "<HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n"}, "wrong-version"},
		{"POST of no message", []string{call26, said("200 OK", newDone), with(post("/mcp", `{}`), "MCP-Protocol-Version: 2026-07-28", "mcp-method: tools/call"), said("400 Bad Request", `{}`)}, ""},
		{"GET of an older version", []string{call26, said("200 OK", newDone), ">GET /mcp HTTP/1.1\r\nHost: h\r\nMCP-Protocol-Version: 2025-06-18\r\n\r\n", "<HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n"}, ""},
		{"a session", []string{post("/mcp", begin), session, with(list, "Mcp-Session-Id: s"), said("200 OK", listed)}, ""},
		{"a session that is left out", []string{post("/mcp", begin), session, list, said("200 OK", listed)}, "header-mismatch"},
		{"another server", []string{post("/mcp", begin), session, post("/other", call), said("200 OK", listed)}, ""},
		{"a server without sessions", []string{post("/mcp", begin), said("200 OK", begun), list, said("200 OK", listed)}, ""},
		{"two sessions", []string{post("/mcp", begin), session, post("/mcp", begin), session}, ""},
	} {
		var found []string
		for _, tr := range follow(t, over(tt.wire...)).List {
			for f := range tr.Findings() {
				found = append(found, f.Name)
			}
		}
		if got := strings.Join(found, " "); got != tt.want {
			t.Errorf("%s: found %q, want %q", tt.about, got, tt.want)
		}
	}
}

// A call over HTTP can go on after its connection, and not after the session.
func TestNobodyGoesOn(t *testing.T) {
	const (
		asks  = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n"}}`
		wants = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}`
	)
	for _, tr := range follow(t, over(post("/mcp", asks), said("200 OK", wants))).List {
		for e := range tr.Exchanges() {
			if e.Outcome != session.Abandoned {
				t.Errorf("%s is %v", e.Title(), e.Outcome)
			}
		}
	}
}

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
	newer := func(address string) []string {
		in := func(text string) string { return strings.Replace(text, "2025-03-26", "2025-06-18", 1) }
		return []string{post(address, in(begin)), said("200 OK", in(begun)), post(address, call), said("200 OK", listed)}
	}
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
		{"no version in the older transport", newer("/messages?sessionId=a"), ""},
		{"two sessions", []string{post("/mcp", begin), session, post("/mcp", begin), session}, ""},
	} {
		if got := foundIn(t, over(tt.wire...)); got != tt.want {
			t.Errorf("%s: found %q, want %q", tt.about, got, tt.want)
		}
	}
}

// foundIn returns the names of the findings in a session.
func foundIn(t *testing.T, s *script) string {
	t.Helper()
	var found []string
	for _, tr := range follow(t, s).List {
		for f := range tr.Findings() {
			found = append(found, f.Name)
		}
	}
	return strings.Join(found, " ")
}

// Responses over HTTP are judged by the transport of the version of their session.
func TestResponsesOfMCP(t *testing.T) {
	const (
		ready  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		asked  = `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`
		sample = `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"messages":[]}}`
		no7    = `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"m"}}`
		listed = `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`
		both   = `[{"jsonrpc":"2.0","method":"notifications/initialized"},` + call + `]`
		gone   = `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`
		no     = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`
		get    = ">GET /mcp HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\nMcp-Session-Id: s\r\n\r\n"
		page   = "<HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>"
	)
	head := func(wire string, fields ...string) string {
		return strings.Replace(wire, "Content-Type", strings.Join(append(fields, "Content-Type"), "\r\n"), 1)
	}
	in := func(version, body string) string {
		if version >= "2025-06-18" {
			return head(post("/mcp", body), "Mcp-Session-Id: s", "MCP-Protocol-Version: "+version)
		}
		return head(post("/mcp", body), "Mcp-Session-Id: s")
	}
	typed := func(media, body string) string {
		return strings.Replace(said("200 OK", body), "application/json", media, 1)
	}
	// session is a session of the version, up to the answer to initialize.
	session := func(version string, wire ...string) []string {
		version, isSSE := strings.CutSuffix(version, " SSE")
		begin := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{"roots":{}}}}`
		begun := `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"` + version + `","capabilities":{}}}`
		if isSSE {
			return append([]string{post("/mcp", begin), head(events, "Mcp-Session-Id: s"), chunk("data: " + begun + "\n\n"), last}, wire...)
		}
		return append([]string{post("/mcp", begin), head(said("200 OK", begun), "Mcp-Session-Id: s")}, wire...)
	}
	overH2 := func(body, status string, answer ...string) []string {
		wire := "<" + h2(":status", status, "content-type", "application/json")[1:]
		for _, a := range answer {
			wire += data(a)
		}
		if len(answer) == 0 {
			wire = "<" + bare(":status", status)[1:]
		}
		return []string{h2(":method", "POST", ":path", "/mcp", "mcp-protocol-version", "2025-11-25") + data(body), wire}
	}
	for _, tt := range []struct {
		about, version string
		wire           []string
		want           string
	}{
		{"202 to a notification", "2025-06-18", []string{ready, nothing("202 Accepted")}, ""},
		{"200 with a body", "2025-06-18", []string{ready, said("200 OK", `null`)}, "wrong-response"},
		{"200 with a body, of the first version with the rule", "2025-03-26", []string{ready, said("200 OK", `null`)}, "wrong-response"},
		{"200 with a body, of the version before", "2024-11-05", []string{ready, said("200 OK", `null`)}, ""},
		{"200 with a body, of an unknown version", "2099-01-01", []string{ready, said("200 OK", `null`)}, "unknown-version"},
		{"200 without a body", "2025-11-25", []string{ready, nothing("200 OK")}, "wrong-response"},
		{"204", "2025-11-25", []string{ready, "<HTTP/1.1 204 No Content\r\n\r\n"}, "wrong-response"},
		{"202 with a body", "2025-11-25", []string{ready, said("202 Accepted", `{}`)}, "wrong-response"},
		{"202 with words", "2025-11-25", []string{ready, "<HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\n\r\nAccepted"}, "wrong-response"},
		{"events to a notification", "2025-11-25", []string{ready, events, last}, "wrong-response"},
		{"a refusal", "2025-11-25", []string{ready, said("400 Bad Request", `{"error":"no"}`)}, ""},
		{"a redirect", "2025-11-25", []string{ready, "<HTTP/1.1 307 T\r\nLocation: /mcp/\r\nContent-Length: 0\r\n\r\n"}, ""},
		{"a batch with a request", "2025-03-26", []string{both, said("200 OK", "["+listed+"]")}, ""},
		{"a batch without one", "2025-03-26", []string{"[" + ready + "," + ready + "]", said("200 OK", "[]")}, "wrong-response"},
		{"200 to the answer of a client", "2025-06-18", []string{get, events, chunk("data: " + asked + "\n\n"), last, `{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}`, said("200 OK", `{}`)}, "wrong-response"},

		{"JSON to a request", "2025-11-25", []string{call, said("200 OK", listed)}, ""},
		{"JSON with a charset, in capitals", "2025-11-25", []string{call, typed("Application/JSON; charset=utf-8", listed)}, ""},
		{"an event", "2025-11-25", []string{call, events, chunk("data: " + listed + "\n\n"), last}, ""},
		{"JSON as plain text", "2025-11-25", []string{call, typed("text/plain", listed)}, "wrong-response"},
		{"JSON of another kind", "2025-11-25", []string{call, typed("application/problem+json", listed)}, "wrong-response"},
		{"JSON without a type", "2025-11-25", []string{call, strings.Replace(said("200 OK", listed), "Content-Type: application/json\r\n", "", 1)}, "wrong-response"},
		{"a page", "2025-11-25", []string{call, page}, "wrong-response unanswered"},
		{"202, and the answer to a GET", "2025-11-25", []string{call, nothing("202 Accepted"), get, events, chunk("data: " + listed + "\n\n"), last}, "wrong-response"},
		{"a page with an error", "2025-11-25", []string{call, strings.Replace(page, "200 OK", "502 Bad Gateway", 1)}, ""},

		{"an event that is empty", "2025-11-25", []string{call, events, chunk("id: 1\ndata: \n\n"), chunk("data: " + listed + "\n\n"), last}, ""},
		{"an event of another type", "2025-11-25", []string{call, events, chunk("event: ping\ndata: now\n\n"), chunk("event: message\ndata: " + listed + "\n\n"), last}, ""},
		{"a comment", "2025-11-25", []string{call, events, chunk(": now\n\n"), chunk("data: " + listed + "\n\n"), last}, ""},
		{"an event of words", "2025-11-25", []string{call, events, chunk("data: working\n\n"), chunk("data: " + listed + "\n\n"), last}, "wrong-response"},
		{"an event of other JSON", "2025-11-25", []string{call, events, chunk("event: message\ndata: {\"progress\":1}\n\n"), chunk("data: " + listed + "\n\n"), last}, "wrong-response"},
		{"another event to listen to", "2025-11-25", []string{get, events, chunk("data: hello\n\n"), last}, "wrong-response"},

		{"GET, events", "2025-03-26", []string{get, events, last}, ""},
		{"GET, 405", "2025-03-26", []string{get, nothing("405 No")}, ""},
		{"GET, 404", "2025-03-26", []string{get, said("404 Not Found", `{"error":"no"}`), call, said("200 OK", listed)}, ""},
		{"GET, 200 with JSON", "2025-03-26", []string{get, said("200 OK", `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"m"}}`)}, "wrong-response"},
		{"GET, a page", "2025-11-25", []string{get, page}, "wrong-response"},
		{"GET, 202", "2025-11-25", []string{get, nothing("202 Accepted")}, "wrong-response"},
		{"GET of a browser", "2025-11-25", []string{ask("GET", "/mcp", "Accept: text/html"), page}, ""},
		{"GET of other events", "2025-11-25", []string{ask("GET", "/news", "Accept: text/event-stream"), page}, ""},

		{"a server asks for what the client has declared", "2025-03-26", []string{get, events, chunk("data: " + asked + "\n\n"), last, `{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}`, nothing("202 Accepted")}, ""},
		{"for something else", "2025-03-26", []string{get, events, chunk("data: " + sample + "\n\n"), last, no7, nothing("202 Accepted")}, "undeclared"},
		{"for something else, after a session that an event began", "2025-03-26 SSE", []string{call, events, chunk("data: " + sample + "\n\n"), chunk("data: " + listed + "\n\n"), last, no7, nothing("202 Accepted")}, "undeclared"},
		{"for something else in an answer", "2025-11-25", []string{call, events, chunk("data: " + sample + "\n\n"), chunk("data: " + listed + "\n\n"), last, no7, nothing("202 Accepted")}, "undeclared"},

		{"a session that is over", "2025-06-18", []string{call, said("404 Not Found", gone), call, said("404 Not Found", gone), call, said("404 Not Found", gone)}, "ended-session"},
		{"a GET in it", "2025-06-18", []string{call, said("404 Not Found", gone), get, nothing("404 No")}, "ended-session"},
		{"a DELETE in it", "2025-06-18", []string{call, said("404 Not Found", gone), ask("DELETE", "/mcp", "Mcp-Session-Id: s"), nothing("404 No")}, ""},
		{"initialize again", "2025-06-18", append([]string{call, said("404 Not Found", gone)}, session("2025-06-18", call, said("200 OK", listed))...), ""},
		{"a method that is not found", "2025-06-18", []string{call, said("404 Not Found", no), call, said("200 OK", listed)}, ""},
	} {
		wire := session(tt.version)
		tt.version = strings.TrimSuffix(tt.version, " SSE")
		wire = append(wire, in(tt.version, ready), nothing("202 Accepted"))
		for _, step := range tt.wire {
			if step[0] == '{' || step[0] == '[' {
				step = in(tt.version, step)
			}
			wire = append(wire, step)
		}
		if got := foundIn(t, over(wire...)); got != tt.want {
			t.Errorf("%s: found %q, want %q", tt.about, got, tt.want)
		}
		if got := foundIn(t, outlined(t, over(wire...))); got != tt.want {
			t.Errorf("%s, outlined: found %q, want %q", tt.about, got, tt.want)
		}
	}
	for _, tt := range []struct {
		about string
		wire  []string
		want  string
	}{
		{"202", overH2(ready, "202"), ""},
		{"202 with a body", overH2(ready, "202", "null"), "wrong-response"},
		{"200", overH2(ready, "200", "null"), "wrong-response"},
		{"a request", overH2(call, "200", listed), ""},
		{"initialize, a page", []string{post("/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`), page, post("/mcp", call), said("200 OK", listed)}, "wrong-response unanswered"},
		{"the older transport", []string{ask("GET", "/sse", "Accept: text/event-stream"), events, chunk("event: endpoint\ndata: /messages?session_id=1\n\n"), last, post("/messages?session_id=1", ready), strings.Replace(said("202 Accepted", "Accepted"), "application/json", "text/plain", 1)}, ""},
		{"2026-07-28", []string{head(post("/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`), "MCP-Protocol-Version: 2026-07-28"), said("200 OK", "{}")}, "wrong-response"},
		{"another protocol", []string{post("/rpc", `{"jsonrpc":"2.0","method":"log"}`), said("200 OK", `null`), post("/rpc", `{"jsonrpc":"2.0","id":1,"method":"add"}`), typed("text/plain", result)}, ""},
	} {
		if got := foundIn(t, over(tt.wire...)); got != tt.want {
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

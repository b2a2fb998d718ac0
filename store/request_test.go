package store

import "testing"

// A request is written as a command only if a shell takes it as it is, and no method passes for a flag.
func TestCommandIsSafe(t *testing.T) {
	speaks := []string{"mcp"}
	for _, tt := range []struct {
		request Request
		want    string
	}{
		{Request{Protocol: "mcp", Method: "tools/list", Server: "https://a.example/mcp"}, "wirectl send mcp tools/list https://a.example/mcp"},
		{Request{Protocol: "mcp", Method: "tools/call", Params: `{"a":"$(id) ` + "`id`" + ` it's"}`, Server: "node s.js"}, `wirectl send mcp tools/call '{"a":"$(id) ` + "`id`" + ` it'\''s"}' -- node s.js`},
		{Request{Protocol: "mcp", Method: "--record", Server: "node s.js"}, ""},
		{Request{Protocol: "mcp", Method: "a b", Server: "node s.js"}, ""},
		{Request{Protocol: "other", url: "http://h:1/v1", verb: "POST", body: "{}", head: []string{"a: b"}}, "curl -X POST http://h:1/v1 -H 'a: b' --data-binary '{}'"},
		{Request{Protocol: "other", url: "http://h:1/v1", verb: "POST", body: "\x1b[201~rm"}, ""},
	} {
		if got := tt.request.Command(speaks); got != tt.want {
			t.Errorf("%+v:\n%s, want\n%s", tt.request, got, tt.want)
		}
	}
}

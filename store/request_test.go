package store

import (
	"strings"
	"testing"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/fixtures"
)

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
		{Request{Protocol: "mcp", Method: "roots/list", Server: "node s.js", ofUnit: true}, ""},
		{Request{Protocol: "other", url: "http://h:1/v1", verb: "POST", body: "{}", head: []string{"a: b"}}, "curl -X POST http://h:1/v1 -H 'a: b' --data-raw '{}'"},
		{Request{Protocol: "other", url: "http://h:1/v1?a[]={b}", verb: "POST", body: "@/etc/passwd"}, "curl -X POST 'http://h:1/v1?a[]={b}' --globoff --data-raw @/etc/passwd"},
		{Request{Protocol: "other", url: "http://h:1/v1", verb: "POST", body: strings.Repeat("a", maxWord+1)}, ""},
		{Request{Protocol: "mcp", Method: "tools/list", Server: "npx mcp-remote https://a.example/mcp"}, "wirectl send mcp tools/list -- npx mcp-remote https://a.example/mcp"},
		{Request{Protocol: "mcp", Method: "tools/list", Server: "--record=a://b"}, "wirectl send mcp tools/list -- --record=a://b"},
		{Request{Protocol: "other", url: "http://h:1/v1", verb: "POST", body: "\x1b[201~rm"}, ""},
	} {
		if got := tt.request.Command(speaks); got != tt.want {
			t.Errorf("%+v:\n%s, want\n%s", tt.request, got, tt.want)
		}
	}
}

// A recorded request names its server as wirectl send takes it: the address with its scheme, or the command.
// What that does not send as it was is no such command.
func TestRequestsOfFixtures(t *testing.T) {
	speaks := []string{"acp", "codex", "a2a", "mcp"}
	for _, tt := range []struct{ fixture, kind, want string }{
		{"codex-ws", "thread/start", `wirectl send codex thread/start '{"cwd":"/tmp/rec1/c","approvalPolicy":"untrusted","sandbox":"danger-full-access"}' ws://127.0.0.1:9101`},
		{"codex-ws", "item/commandExecution/requestApproval", ""},
		{"acp-example", "session/new", `wirectl send acp session/new '{"cwd":"/srv/agent/sandbox","mcpServers":[]}' -- node node_modules/@agentclientprotocol/sdk/dist/examples/agent.js`},
		{"a2a10-ts-grpc", "GetTask", ""},
		{"latis-session", "PROMPT_SEND", ""},
	} {
		r, err := decode.OpenRecording(fixtures.Session(tt.fixture), decode.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Options{})
		if err := s.Take(t.Context(), decode.Input{Capture: r}, decode.Config{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		for _, x := range s.Follow(new(Cursor), 0).Exchanges {
			if x.Kind != tt.kind {
				continue
			}
			if request, err := s.Request(x.First); err != nil || request.Command(speaks) != tt.want {
				t.Errorf("%s %s: %s %v, want %s", tt.fixture, tt.kind, request.Command(speaks), err, tt.want)
			}
			break
		}
		s.Close()
		_ = r.Close() // it was read
	}
}

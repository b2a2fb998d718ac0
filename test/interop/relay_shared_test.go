package interop

import (
	"bytes"
	"path/filepath"
	"regexp"
	"testing"
)

// Two clients of the MCP SDK with equal ids share one reference server, over WebSockets and
// over pipes. Each has its own answers, progress and cancel, and broadcasts reach both.
func TestRelaySharedMCP(t *testing.T) {
	server := filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js")
	for _, tt := range []struct {
		listen string
		client func(address string) []string
	}{
		{"ws://127.0.0.1:0", func(address string) []string { return []string{"ws", address} }},
		{"tcp://127.0.0.1:0", func(address string) []string {
			return []string{"stdio", wirectl, "relay", "-q", "--no-tap", address}
		}},
	} {
		t.Run(tt.listen[:2], func(t *testing.T) {
			address, end := relayed(t, tt.listen, "--shared", "--framing", "line", "--protocol", "mcp", "--subprotocol", "mcp",
				"--", need(t, "node"), server, "stdio")
			t.Run("clients", func(t *testing.T) {
				for range 2 {
					t.Run("client", func(t *testing.T) {
						t.Parallel()
						result := node(t, "node/mcp.cjs", tt.client(address)...)
						for what, want := range map[string]any{
							"tools": true, "echo": "Echo: hello", "sum": "The sum of 2 and 3 is 5.", "cancelled": true, "progress": 4.0,
							"slow": "Long running operation completed. Duration: 1 seconds, Steps: 4.",
						} {
							if result[what] != want {
								t.Errorf("%s: %v, want %v", what, result[what], want)
							}
						}
					})
				}
			})
			ndjson := end(true, "tools/call", "cancels")
			for _, conn := range []string{"1", "2"} {
				cancels := regexp.MustCompile(`"conn":` + conn + `,.*"kind":"notifications/cancelled"`)
				if got := len(cancels.FindAll(ndjson, -1)); got != 1 {
					t.Errorf("connection %s has %d cancels", conn, got)
				}
			}
			if bytes.Contains(ndjson, []byte("100000000")) {
				t.Error("a client saw an id that is another's")
			}
		})
	}
}

package interop

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The recorded client of MCP's reference server is replayed against a live one, whose
// requests for roots, sampling and elicitation are answered. The server says the same,
// except for its environment.
func TestReplayMCP(t *testing.T) {
	node := need(t, "node")
	server := filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js")
	play := func(flags ...string) (string, error) {
		args := append([]string{"replay", "-q", "--fast", "--timeout", "60s"}, flags...)
		cmd := exec.CommandContext(t.Context(), wirectl, append(args, "fixture:mcp-everything", "--", node, server)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		return out.String() + errs.String(), err
	}
	t.Run("kinds", func(t *testing.T) {
		t.Parallel()
		if out, err := play("--match", "kind"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("a cancel", func(t *testing.T) {
		t.Parallel()
		out, err := play("--cancel-at", "1", "--request", "20", "--settle", "1500ms")
		if err != nil || !strings.Contains(out, "      1  silent ") {
			t.Errorf("a cancelled call is to get no answer: %v\n%s", err, out)
		}
	})
}

// A recorded session of the SDKs over HTTP is replayed in both directions. The client is
// replayed against the server as recorded, and with a cancel at every point. The server is
// replayed for the client, which does not notice.
func TestReplayMCPOverHTTP(t *testing.T) {
	for version, tt := range map[string]struct {
		server func(t *testing.T) (url string)
		client func(t *testing.T, url string) map[string]any
		want   map[string]any
	}{
		"2025-11-25": {
			func(t *testing.T) string {
				port := freePort(t)
				cmd := exec.CommandContext(t.Context(), need(t, "node"), filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js"), "streamableHttp")
				cmd.Env = append(os.Environ(), "PORT="+port)
				listening(t, cmd, regexp.MustCompile(`(listening on) port`))
				return "http://127.0.0.1:" + port + "/mcp"
			},
			func(t *testing.T, url string) map[string]any { return node(t, "node/mcp.cjs", "streamableHttp", url) },
			map[string]any{"tools": true, "echo": "Echo: hello", "sum": "The sum of 2 and 3 is 5.", "cancelled": true},
		},
		"2026-07-28": {
			func(t *testing.T) string {
				port, _ := listening(t, exec.CommandContext(t.Context(), need(t, "node"), "node/mcp26.mjs", npm(t), "serve-http"), regexp.MustCompile(`on port (\d+)`))
				return "http://127.0.0.1:" + port + "/mcp"
			},
			func(t *testing.T, url string) map[string]any { return node(t, "node/mcp26.mjs", "client", "http", url) },
			map[string]any{"reached": "in eu", "booked": "booked Ariel", "changed": true, "cancelled": true, "ended": "local"},
		},
	} {
		t.Run(version, func(t *testing.T) {
			check := func(result map[string]any) {
				t.Helper()
				for what, want := range tt.want {
					if result[what] != want {
						t.Errorf("%s: %v, want %v", what, result[what], want)
					}
				}
			}
			url, file := tt.server(t), filepath.Join(t.TempDir(), "session.pcapng")
			relay := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--listen", "http://127.0.0.1:0", "--capture", file, url)
			address, stop := listening(t, relay, listeningOn)
			check(tt.client(t, address))
			stop()

			_, said := command(t, nil, "replay", "--timeout", "60s", file, url)
			if !strings.Contains(said, "received as recorded; version "+version) {
				t.Error(said)
			}
			points, _ := command(t, nil, "replay", "-q", "--cancel-at", "1", file, url)
			if !strings.Contains(string(points), "      1  silent ") {
				t.Errorf("a cancelled call is to get no answer:\n%s", points)
			}
			unit := exec.CommandContext(t.Context(), wirectl, "replay", "--as", "unit", "--repeat", "--fast", "--listen", "http://127.0.0.1:0", file)
			mock, stop := listening(t, unit, regexp.MustCompile(`listening at (\S+)`))
			check(tt.client(t, mock+"/mcp"))
			check(tt.client(t, mock+"/mcp"))
			stop()
		})
	}
}

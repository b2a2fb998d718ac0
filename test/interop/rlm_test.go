package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A model calls the tools of the reference server of MCP, over standard streams and over both
// transports of HTTP. The capture has both sides: the calls to the server, and the results in
// the words to the provider.
func TestRLMTools(t *testing.T) {
	server := filepath.Join(npm(t), "@modelcontextprotocol/server-everything/dist/index.js")
	for _, kind := range []string{"stdio", "streamableHttp", "sse"} {
		t.Run(kind, func(t *testing.T) {
			words, _ := json.Marshal([]string{need(t, "node"), server, "stdio"})
			if path := map[string]string{"streamableHttp": "/mcp", "sse": "/sse"}[kind]; path != "" {
				port := freePort(t)
				cmd := exec.CommandContext(t.Context(), need(t, "node"), server, kind)
				cmd.Env = append(os.Environ(), "PORT="+port)
				listening(t, cmd, regexp.MustCompile(`on port (\d+)`))
				words = fmt.Appendf(nil, "%q", "http://127.0.0.1:"+port+path)
			}
			dir := t.TempDir()
			write := func(name, text string) string {
				path := filepath.Join(dir, name)
				check(t, os.WriteFile(path, []byte(text), 0o600))
				return path
			}
			tools := write("tools.yaml", fmt.Sprintf("everything: {mcp: %s}\n", words))
			config := write("config.yaml", `
providers:
  r:
    kind: mock
    mock:
      turns:
        - tool_calls:
            - {name: echo, arguments: {message: hello}}
            - {name: get-sum, arguments: {a: 2, b: 3}}
            - {name: get-sum, arguments: {a: two}}
            - {name: get-structured-content, arguments: {location: Chicago}}
        - text: done
models: {m: {provider: r}}
`)
			capture := filepath.Join(dir, "run.pcapng")
			answer, stderr := command(t, nil, "rlm", "--config", config, "--mode", "tools", "--tools", tools, "--log-dir", dir, "--capture", capture, "Ask.")
			if string(answer) != "done\n" || !strings.Contains(stderr, "turn 1: 4 tool calls") {
				t.Errorf("%s%s", answer, stderr)
			}
			logs, err := filepath.Glob(filepath.Join(dir, "rlm_*.jsonl"))
			check(t, err)
			log, err := os.ReadFile(logs[0])
			check(t, err)
			for _, want := range []string{`"result":"Echo: hello"`, `"result":"The sum of 2 and 3 is 5."`, `"error":"ToolExecution: `, `"result":{"conditions":`} {
				if !bytes.Contains(log, []byte(want)) {
					t.Errorf("the log has no %s:\n%s", want, log)
				}
			}
			frames, _ := command(t, nil, "decode", "-o", "ndjson", capture)
			count(t, frames, map[string]int{`"kind":"tools/call"`: 4, `"kind":"tools/list"`: 1})
			command(t, nil, "lint", capture)
		})
	}
}

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A model calls the tools of the MCP reference server, over standard streams and over both
// HTTP transports. The capture has both sides: the calls to the server, and the results as
// sent to the provider.
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

// OpenAI's SDK uses a recursive language model by the name of a model. It asks for a whole
// answer, a stream, an answer that matches a schema, and a response. An abort also closes
// the run's call at the provider.
func TestRLMAsModel(t *testing.T) {
	need(t, "python3")
	asked, left := make(chan struct{}), make(chan struct{}, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/when" {
			<-asked
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		<-r.Context().Done()
		left <- struct{}{}
	}))
	defer silent.Close()
	config := filepath.Join(t.TempDir(), "broker.yaml")
	check(t, os.WriteFile(config, fmt.Appendf(nil, `
providers:
  echo: {kind: mock}
  silent: {kind: openai, base_url: %q}
  root:
    kind: mock
    mock:
      turns:
        - text: "`+"```repl\\nn = llm_query('count')\\nprint(n)\\n```"+`"
        - text: "FINAL_VAR(n)"
        - text: "`+"```repl\\nFINAL('%%d of %%s' %% (len(context), llm_query('a')))\\n```"+`"
        - text: "FINAL(four)"
        - text: 'FINAL({"n": 4})'
        - text: "FINAL(again)"
models:
  smart: {provider: root}
  cheap: {provider: echo}
  deaf: {provider: silent}
  deep: {rlm: {model: smart, sub_model: cheap, unsandboxed: true}}
  lost: {rlm: {model: deaf, unsandboxed: true}}
default: smart
`, silent.URL), 0o600))
	doors := serve(t, "--config", config)
	got, _ := json.Marshal(script(t, "deep", "http://"+doors["openai"], "deep"))
	want := `{"listed":["cheap","deaf","deep","lost","smart"],"parsed":{"n":4},"response":"again","streamed":"100000 of Echo: a","thought":true,"used":true,` +
		`"whole":["Echo: count","stop",true]}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := script(t, "abortDeep", "http://"+doors["openai"], "lost", silent.URL+"/when"); got["error"] != "APIUserAbortError" {
		t.Errorf("aborted: %v", got)
	}
	select {
	case <-left:
	case <-time.After(patience):
		t.Error("the provider is still asked")
	}
}

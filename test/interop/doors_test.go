package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rehearsed is a broker whose mock thinks, says something, calls a tool, and answers after
// the tool's result.
const rehearsed = `providers:
  m: {kind: mock, mock: {delay: 1ms, chunk: 4, script: [
    {when: tool-said-42, say: It is fine.},
    {when: weather, reasoning: Where is that?, say: I look., tool_calls: [{name: get_weather, arguments: {city: Oslo}}]},
    {say: Hello.}]}}
models: {mock-1: {provider: m}}
`

func configured(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "broker.yaml")
	check(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// The SDKs of OpenAI, Anthropic and Google call a tool in a stream and return its result,
// at each of the doors. They do not notice a relay in front of them.
func TestDoorsOfSDKs(t *testing.T) {
	const reached = `,"said":"I look."`
	const events = `["response.completed","response.content_part.added","response.content_part.done","response.created","response.function_call_arguments.delta",` +
		`"response.function_call_arguments.done","response.in_progress","response.output_item.added","response.output_item.done","response.output_text.delta","response.output_text.done",` +
		`"response.reasoning_summary_part.added","response.reasoning_summary_part.done","response.reasoning_summary_text.delta","response.reasoning_summary_text.done"]`
	doors := serve(t, "--config", configured(t, rehearsed))
	relay, end := relayed(t, "http://127.0.0.1:0", "http://"+doors["openai"])
	for what, want := range map[string]string{
		"loopChat":      `{"answer":"It is fine.","called":"{\"city\":\"Oslo\"}"` + reached + `}`,
		"loopAnthropic": `{"answer":"It is fine.","called":"{\"city\":\"Oslo\"}"` + reached + `}`,
		"loopResponses": `{"answer":"It is fine.","called":"{\"city\":\"Oslo\"}","events":` + events + reached + `,"total":true,"types":["reasoning","message","function_call"],"unknown":"400 previous_response_not_found previous_response_id"}`,
		"loopGemini":    `{"answer":"It is fine.","called":"{\"city\":\"Oslo\"}","counted":true,"finish":"STOP"` + reached + `,"thought":"Where is that?","unknown":404}`,
		"embed":         `{"same":true,"vectors":2}`,
	} {
		for _, url := range []string{"http://" + doors["openai"], relay} {
			if got, _ := json.Marshal(script(t, what, url, "mock-1")); string(got) != want {
				t.Errorf("%s at %s:\n got %s\nwant %s", what, url, got, want)
			}
		}
	}
	end(false, "exchanges")
}

// An agentRun is a coding agent that runs with a broker and gets its addresses.
type agentRun struct{ name, model, tool, arguments string }

var agentRuns = []agentRun{
	{"codex", "mock-1", "exec_command", `{cmd: "echo tool-said-$((40+2))"}`},
	{"claude", "mock-2", "Bash", `{command: "echo tool-said-$((40+2))", description: look}`},
}

// command returns a command that runs the agent with a prompt, and a broker with the
// configuration.
func (a agentRun) command(t *testing.T, config string, flags ...string) *exec.Cmd {
	t.Helper()
	home := t.TempDir()
	run := `exec "$AGENT" -p --output-format stream-json --verbose --include-partial-messages --allowedTools Bash --model mock-2 "look around" </dev/null`
	agent := ""
	if a.name == "codex" {
		agent = program(t, "npm-agents", "@openai/codex-*/vendor/*/*/codex*")
		run = `sed "s|http://BROKER|${OPENAI_BASE_URL%/v1}|" "$CODEX_HOME/config.toml" > "$CODEX_HOME/config" && mv "$CODEX_HOME/config" "$CODEX_HOME/config.toml" &&
			exec "$AGENT" exec --json --skip-git-repo-check --sandbox danger-full-access "look around" </dev/null`
		home = codexHome(t, "http://BROKER")
	} else {
		agent = program(t, "npm-agents", "@anthropic-ai/claude-agent-sdk-*/claude*")
	}
	args := append([]string{"serve", "--any-port", "--no-tap", "-q", "--config", config}, flags...)
	cmd := exec.CommandContext(t.Context(), wirectl, append(args, "--", "sh", "-c", run)...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CODEX_HOME=" + home, "AGENT=" + agent, "IS_SANDBOX=1",
		"ANTHROPIC_API_KEY=x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1",
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	return cmd
}

// Codex and Claude Code complete a turn with a tool call at a broker, whose mock follows a
// script. What they write about it shows the calls and the tokens that the broker has counted.
func TestDoorsOfAgents(t *testing.T) {
	need(t, "sh")
	for _, a := range agentRuns {
		t.Run(a.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log.ndjson")
			cmd := a.command(t, configured(t, fmt.Sprintf(`providers:
  m: {kind: mock, mock: {delay: 1ms, chunk: 8, turns: [
    {reasoning: Hm., text: I look., tool_calls: [{name: %s, arguments: %s}]},
    {text: All is done.}]}}
models: {%s: {provider: m}, "*": {provider: m}}
`, a.tool, a.arguments, a.model)), "--log", log)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{"I look.", "tool-said-42", "All is done."} {
				if !strings.Contains(string(out), want) {
					t.Errorf("there is no %q in\n%s", want, out)
				}
			}
			tellsOfItself(t, a, log, strings.TrimPrefix(cmd.Env[1], "HOME="))
		})
	}
}

// tellsOfItself checks what the agent wrote into its home: one turn with one call, and the tokens of
// the broker's log.
func tellsOfItself(t *testing.T, a agentRun, log, home string) {
	t.Helper()
	f, err := os.Open(log)
	check(t, err)
	defer f.Close()
	var in, out int64
	for calls := json.NewDecoder(f); calls.More(); {
		var call struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
		}
		check(t, calls.Decode(&call))
		in, out = in+call.Input, out+call.Output
	}
	var stats struct {
		Operations map[string]int
		Tokens     struct{ Input, Output int64 }
		Names      []struct {
			Name      string
			Exchanges map[string]int
		}
	}
	got, notice := command(t, nil, "stats", "-o", "ndjson", home)
	check(t, json.Unmarshal([]byte(got), &stats))
	if in == 0 || stats.Tokens.Input != in || stats.Tokens.Output != out || stats.Operations["done"] != 1 ||
		len(stats.Names) != 1 || stats.Names[0].Name != a.tool || stats.Names[0].Exchanges["done"] != 1 {
		t.Errorf("%s tells: %s\nand the broker counted %d and %d tokens", a.name, got, in, out)
	}
	if !strings.Contains(notice, "tells it: no bytes") {
		t.Errorf("there is no remark that the agent tells this itself:\n%s", notice)
	}
}

// An interrupt of either closes the broker's connection to its provider.
func TestDoorsOfAgentsInterrupted(t *testing.T) {
	for name, interrupt := range map[string]func(*testing.T, string, string) (*agent, time.Time){"codex": interruptCodex, "claude": interruptClaude} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan time.Time, 16)
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"so"}}]}`+"\n\n")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				ended <- time.Now()
			}))
			t.Cleanup(backend.Close)
			doors := serve(t, "--no-tap", "--config", configured(t, fmt.Sprintf("providers: {p: {kind: openai, base_url: %q, drop: [tools]}}\nmodels: {\"*\": {provider: p}}\n", backend.URL)))
			r, at := interrupt(t, "http://"+doors["openai"], filepath.Join(t.TempDir(), "session.pcapng"))
			closesSoon(t, name, ended, at)
			r.leave()
		})
	}
}

package interop

import (
	"bufio"
	"context"
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

// slowModel serves the APIs of Anthropic and of OpenAI's Responses. Its answers continue
// until the client disconnects. It counts the disconnects.
func slowModel(t *testing.T) (address string, left <-chan struct{}) {
	t.Helper()
	gone := make(chan struct{}, 16)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Model  string `json:"model"`
			Stream bool   `json:"stream"`
		}
		if json.NewDecoder(r.Body).Decode(&request) != nil || !request.Stream {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(event, data string) {
			fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", event, event, data)
			_ = http.NewResponseController(w).Flush() // the context ends when the client disconnects
		}
		word := func() {
			say("response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"word "`)
		}
		if strings.HasSuffix(r.URL.Path, "/messages") {
			say("message_start", fmt.Sprintf(`"message":{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}`, request.Model))
			say("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
			word = func() { say("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":"word "}`) }
		} else {
			say("response.created", `"response":{"id":"resp_1"}`)
			say("response.output_item.added", `"output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}`)
		}
		ticks := time.NewTicker(50 * time.Millisecond)
		defer ticks.Stop()
		for {
			word()
			select {
			case <-r.Context().Done():
				gone <- struct{}{}
				return
			case <-ticks.C:
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, gone
}

// program returns this machine's program from a package in a folder.
func program(t *testing.T, folder, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(packages(t, folder), pattern))
	check(t, err)
	switch {
	case len(found) > 0:
		return found[0]
	case os.Getenv("CI") != "":
		t.Fatalf("there is no %s", pattern)
	}
	t.Skipf("there is no %s for this machine", pattern)
	return ""
}

// An agent speaks lines through a relay that writes a capture.
type agent struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

func relayAgent(t *testing.T, file string, env []string, program ...string) *agent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, wirectl, append([]string{"relay", "-q", "--no-tap", "--capture", file, "--"}, program...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	return &agent{t, in, bufio.NewReaderSize(out, 1<<20), cmd}
}

func (r *agent) say(line string) {
	r.t.Helper()
	_, err := io.WriteString(r.in, line+"\n")
	check(r.t, err)
}

// hear reads lines until one matches, and returns the first group of the match.
func (r *agent) hear(pattern string) string {
	r.t.Helper()
	want := regexp.MustCompile(pattern)
	for {
		line, err := r.out.ReadString('\n')
		if m := want.FindStringSubmatch(line); m != nil {
			return m[len(m)-1]
		}
		if err != nil {
			r.t.Fatalf("%v before %s came", err, pattern)
		}
	}
}

// leave ends the input, and waits for the agent to end with any status.
func (r *agent) leave() {
	r.t.Helper()
	check(r.t, r.in.Close())
	_, err := io.Copy(io.Discard, r.out)
	check(r.t, err)
	_ = r.cmd.Wait()
}

// interrupted checks that a capture has one turn with a confirmed cancel, and no findings.
func interrupted(t *testing.T, file, protocol, kind string) {
	t.Helper()
	stats, _ := command(t, nil, "stats", "-q", file)
	if !strings.HasPrefix(string(stats), protocol+": ") || !strings.Contains(string(stats), "confirmed "+kind+" ") {
		t.Errorf("no cancel of %s %s was confirmed:\n%s", protocol, kind, stats)
	}
	command(t, nil, "lint", "-q", "--fail-on", "error,warning,note", file)
}

// Claude Code is interrupted in mid-sentence. It closes the connection to its model, and
// reports how the turn ended.
func TestRelayClaudeCode(t *testing.T) {
	model, left := slowModel(t)
	file := filepath.Join(t.TempDir(), "session.pcapng")
	r, _ := interruptClaude(t, model, file)
	<-left
	r.leave()
	interrupted(t, file, "claude", "user")
}

// interruptClaude has Claude Code ask a model, and interrupts it in mid-sentence. It
// returns the time of the interrupt.
func interruptClaude(t *testing.T, model, file string) (r *agent, at time.Time) {
	t.Helper()
	claude := program(t, "npm-agents", "@anthropic-ai/claude-agent-sdk-*/claude*")
	r = relayAgent(t, file, claudeEnv(model), claude, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages")
	r.say(`{"type":"user","message":{"role":"user","content":"hi"}}`)
	r.hear(`text_delta`)
	at = time.Now()
	r.say(`{"type":"control_request","request_id":"a","request":{"subtype":"interrupt"}}`)
	if reason := r.hear(`"terminal_reason":"([^"]*)"`); reason != "aborted_streaming" {
		t.Errorf("the turn is %s", reason)
	}
	return r, at
}

// claudeEnv has Claude Code ask a model.
func claudeEnv(model string) []string {
	return []string{"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1"}
}

// codexHome returns a folder that configures Codex to ask a model.
func codexHome(t *testing.T, model string) string {
	t.Helper()
	home := t.TempDir()
	check(t, os.WriteFile(filepath.Join(home, "config.toml"), fmt.Appendf(nil, `model = "mock-1"
model_provider = "mock"
check_for_update_on_startup = false
[model_providers.mock]
name = "Mock"
base_url = "%s/v1"
wire_api = "responses"
[analytics]
enabled = false
`, model), 0o600))
	return home
}

// Codex is interrupted in mid-sentence. It closes the connection to its model, and
// completes the turn as interrupted.
func TestRelayCodex(t *testing.T) {
	model, left := slowModel(t)
	file := filepath.Join(t.TempDir(), "session.pcapng")
	r, _ := interruptCodex(t, model, file)
	<-left
	r.leave()
	interrupted(t, file, "codex", "turn/start")
}

// interruptCodex has Codex ask a model, and interrupts it in mid-sentence. It returns the
// time of the interrupt.
func interruptCodex(t *testing.T, model, file string) (r *agent, at time.Time) {
	t.Helper()
	codex := program(t, "npm-agents", "@openai/codex-*/vendor/*/*/codex*")
	home := codexHome(t, model)
	r = relayAgent(t, file, []string{"CODEX_HOME=" + home}, codex, "app-server")
	r.say(`{"method":"initialize","id":0,"params":{"clientInfo":{"name":"interop","version":"1"}}}`)
	r.hear(`"id":0,`)
	r.say(`{"method":"initialized"}`)
	r.say(fmt.Sprintf(`{"method":"thread/start","id":1,"params":{"cwd":%q}}`, t.TempDir()))
	thread := r.hear(`"thread":\{"id":"([^"]*)"`)
	r.say(fmt.Sprintf(`{"method":"turn/start","id":2,"params":{"threadId":%q,"input":[{"type":"text","text":"hi"}]}}`, thread))
	turn := r.hear(`"id":2,.*"turn":\{"id":"([^"]*)"`)
	r.hear(`item/agentMessage/delta`)
	at = time.Now()
	r.say(fmt.Sprintf(`{"method":"turn/interrupt","id":3,"params":{"threadId":%q,"turnId":%q}}`, thread, turn))
	if status := r.hear(`turn/completed.*"status":"([^"]*)"`); status != "interrupted" {
		t.Errorf("the turn is %s", status)
	}
	return r, at
}

// Our own client starts a turn of Codex, prints its text, and interrupts it after a
// timeout.
func TestSendCodex(t *testing.T) {
	codex := program(t, "npm-agents", "@openai/codex-*/vendor/*/*/codex*")
	model, left := slowModel(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, wirectl, "send", "-o", "ndjson", "--timeout", "5s", "--dir", t.TempDir(), "--prompt", "hi", "codex", "--", codex, "app-server")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "CODEX_HOME=" + codexHome(t, model)}
	out, err := cmd.Output()
	if err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the status is %v, want 1", err)
	}
	<-left
	for _, want := range []string{`"kind":"item/agentMessage/delta"`, `"kind":"turn/interrupt"`, `"kind":"turn/completed"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("there is no %s in\n%s", want, out)
		}
	}
}

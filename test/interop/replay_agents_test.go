package interop

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A recorded session with Codex and with Claude Code, which interrupts a turn in mid-sentence, is
// replayed against the real agent. Its ids of threads and turns are new.
func TestReplayAgents(t *testing.T) {
	for name, tt := range map[string]struct {
		interrupt func(*testing.T, string, string) (*agent, time.Time)
		program   string
		args      []string
		env       func(t *testing.T, model string) []string
	}{
		"codex": {
			interruptCodex, "@openai/codex-*/vendor/*/*/codex*",
			[]string{"app-server"},
			func(t *testing.T, model string) []string { return []string{"CODEX_HOME=" + codexHome(t, model)} },
		},
		"claude": {
			interruptClaude, "@anthropic-ai/claude-agent-sdk-*/claude*",
			[]string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages"},
			func(_ *testing.T, model string) []string { return claudeEnv(model) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			model, left := slowModel(t)
			file := filepath.Join(t.TempDir(), "session.pcapng")
			r, _ := tt.interrupt(t, model, file)
			<-left
			r.leave()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			args := append([]string{"replay", "--match", "kind", "--timeout", "20s", file, "--", program(t, "npm-agents", tt.program)}, tt.args...)
			cmd := exec.CommandContext(ctx, wirectl, args...)
			cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, tt.env(t, model)...)
			said, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(said), "received as recorded") {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}

// The SDK of Claude Code does not notice that a recording of the program answers it, once and any
// number of times.
func TestReplayClaudeUnit(t *testing.T) {
	need(t, "sh")
	claude := program(t, "npm-agents", "@anthropic-ai/claude-agent-sdk-*/claude*")
	doors := serve(t, "--no-tap", "--config", configured(t, `providers: {m: {kind: mock, mock: {delay: 1ms, chunk: 8, turns: [{text: All is done.}]}}}
models: {"*": {provider: m}}
`))
	dir := t.TempDir()
	file, starter := filepath.Join(dir, "session.pcapng"), filepath.Join(dir, "claude")
	ask := func(program string) {
		t.Helper()
		check(t, os.WriteFile(starter, []byte("#!/bin/sh\n"+program+"\n"), 0o700))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, need(t, "node"), "node/claude.mjs", packages(t, "npm-agents"), starter)
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, claudeEnv("http://"+doors["openai"])...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if want := `{"text":"All is done.","ended":"success","result":"All is done."}`; err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: the client got %s (%v), want %s\n%s", program, out, err, want, &stderr)
		}
	}
	ask(`exec "` + wirectl + `" relay -q --no-tap --capture "` + file + `" -- "` + claude + `" "$@"`)
	for _, flags := range []string{"", "--repeat "} {
		ask(`exec "` + wirectl + `" replay -q --as unit --fast ` + flags + `"` + file + `"`)
	}
}

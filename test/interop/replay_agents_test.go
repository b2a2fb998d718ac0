package interop

import (
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
			interruptCodex, "@openai/codex-*/vendor/*/*/codex*", []string{"app-server"},
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

//go:build !windows

package interop

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Somebody who has Go, Node and an agent installs wirectl, and gets answers in the first hour.
func TestNewcomer(t *testing.T) {
	log, home := filepath.Join(t.TempDir(), "log"), t.TempDir()
	counting, err := filepath.Abs("node/counting.cjs")
	check(t, err)
	w := newWorld(t, "http://"+serve(t, "--no-tap", "--config", configured(t, `
providers:
  main: {kind: mock, mock: {turns: [
    {text: So., tool_calls: [{name: mcp__lab__look, arguments: {at: vault}}]}, {text: Locked.},
    {text: So., tool_calls: [{name: mcp__lab__wait, arguments: {}}]}]}}
  side: {kind: mock, mock: {script: [{say: '{"title": "Help"}'}]}}
models: {"claude-opus*": {provider: main}, "*": {provider: side}}
`))["openai"], "api.anthropic.com")
	bin := filepath.Join(home, "bin")
	check(t, os.Mkdir(bin, 0o700))
	goProgram := need(t, "go")
	for name, path := range map[string]string{"go": goProgram, "node": need(t, "node"), "claude": program(t, "npm-agents", "@anthropic-ai/claude-agent-sdk-*/claude*")} {
		check(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	key := "sk-ant-api03-12345678901234567890"
	config := filepath.Join(home, ".claude.json")
	check(t, os.WriteFile(config, []byte(quotedJSON(map[string]any{
		"hasCompletedOnboarding": true, "theme": "dark", "customApiKeyResponses": map[string]any{"approved": []string{key[len(key)-20:]}},
		"projects":   map[string]any{home: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
		"mcpServers": map[string]any{"lab": map[string]any{"command": "node", "args": []string{counting, "lab", log}}},
	})), 0o600))
	env := []string{
		"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + home, "TMPDIR=" + t.TempDir(), "HTTPS_PROXY=" + w.proxy, "NODE_EXTRA_CA_CERTS=" + w.roots, "SSL_CERT_FILE=" + w.roots,
		"IS_SANDBOX=1", "ENABLE_TOOL_SEARCH=false", "ANTHROPIC_API_KEY=" + key, "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1",
	}
	// in runs a command and returns what it prints.
	in := func(dir string, more []string, words ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, words[0]), words[1:]...)
		cmd.Dir, cmd.Env = dir, append(env, more...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
		}
		return string(out)
	}
	says := func(text string, words ...string) {
		t.Helper()
		if out := in(home, nil, words...); !strings.Contains(out, text) {
			t.Errorf("%s does not say %q:\n%s", strings.Join(words, " "), text, out)
		}
	}

	// Install. Modules and what was built are those of this machine.
	var caches []string
	for _, name := range []string{"GOMODCACHE", "GOCACHE", "GOFLAGS", "CGO_ENABLED", "GOPROXY", "GOSUMDB"} {
		value, err := exec.CommandContext(t.Context(), goProgram, "env", name).Output()
		check(t, err)
		caches = append(caches, name+"="+strings.TrimSpace(string(value)))
	}
	root, err := filepath.Abs("../..")
	check(t, err)
	in(root, append(caches, "GOBIN="+bin), "go", "install", ".")
	says("wirectl run claude ", "wirectl")

	// Run the agent: a tool fails, and another one hangs until Esc.
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "wirectl"), "run", "claude", "--allowedTools", "mcp__lab__look,mcp__lab__wait", "--model", "claude-opus-5-5")
	cmd.Dir, cmd.Env = home, env
	term := inTerminal(t, cmd)
	enter := func(line, mark string) {
		term.types(line)
		term.sees(mark)
		term.types("\r")
	}
	term.sees("API Usage Billing")
	enter("look into the vault", "vault")
	term.sees("Locked.")
	enter("call wait", "wait")
	until(t, "the server is called", func() bool { return len(countedCalls(t, log)) == 2 })
	term.types("\x1b")
	term.sees("Interrupted")
	enter("/exit", "exit")
	term.ends()

	// Ask why, and see the cancel.
	says("the vault is locked", "wirectl", "calls", "--failed", "run:latest")
	says("cancelled", "wirectl", "why", "run:latest")
	says("wait", "wirectl", "calls", "--cancelled", "run:latest")
	says("wirectl why run:latest", "wirectl")

	// Wrap a server, and restore it.
	before, err := os.ReadFile(config)
	check(t, err)
	in(home, nil, "wirectl", "wrap", "--record", "full", config, "lab")
	if after, err := os.ReadFile(config); err != nil || !bytes.Contains(after, []byte("relay")) {
		t.Errorf("wrap has written %s, %v", after, err)
	}
	says("lab", "wirectl", "wrap")
	in(home, nil, "wirectl", "unwrap", config, "lab")
	if after, err := os.ReadFile(config); err != nil || !bytes.Equal(after, before) {
		t.Errorf("unwrap has left %s, %v", after, err)
	}

	// Open the transcript.
	says("the vault is locked", "wirectl", "calls", "claude:latest")
	says("look into the vault", "wirectl", "sessions")
}

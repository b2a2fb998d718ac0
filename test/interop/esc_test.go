//go:build !windows

package interop

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The calls of an agent that another one has started are below its call, and Esc in the middle of a call of
// a tool is told by the turn.
func TestEscInClaude(t *testing.T) {
	node := need(t, "node")
	log := filepath.Join(t.TempDir(), "log")
	counting, err := filepath.Abs("node/counting.cjs")
	check(t, err)
	w := newWorld(t, "http://"+serve(t, "--no-tap", "--config", configured(t, `
providers:
  main: {kind: mock, mock: {turns: [
    {text: So., tool_calls: [{name: Agent, arguments: {description: help, prompt: look around, subagent_type: general-purpose, model: sonnet}}]},
    {text: Finished.}, {text: Noted.}, {text: So., tool_calls: [{name: mcp__lab__wait, arguments: {}}]}]}}
  helper: {kind: mock, mock: {turns: [{text: So., tool_calls: [{name: mcp__lab__look, arguments: {at: door}}]}, {text: All is seen.}]}}
  side: {kind: mock, mock: {script: [{say: '{"title": "Help"}'}]}}
models: {"claude-opus*": {provider: main}, "claude-sonnet*": {provider: helper}, "*": {provider: side}}
`))["openai"], "api.anthropic.com")
	home := t.TempDir()
	key := "sk-ant-api03-12345678901234567890"
	check(t, os.WriteFile(filepath.Join(home, ".claude.json"), []byte(quotedJSON(map[string]any{
		"hasCompletedOnboarding": true, "theme": "dark", "customApiKeyResponses": map[string]any{"approved": []string{key[len(key)-20:]}},
		"projects":   map[string]any{home: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
		"mcpServers": map[string]any{"lab": map[string]any{"command": node, "args": []string{counting, "lab", log}}},
	})), 0o600))
	cmd := exec.CommandContext(t.Context(), wirectl, "run", "--", program(t, "npm-agents", "@anthropic-ai/claude-agent-sdk-*/claude*"),
		"--permission-mode", "acceptEdits", "--allowedTools", "Agent,mcp__lab__look,mcp__lab__wait", "--model", "claude-opus-5-5")
	cmd.Dir = home
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + t.TempDir(), "XDG_STATE_HOME=" + filepath.Join(home, "state"), "HTTPS_PROXY=" + w.proxy, "NODE_EXTRA_CA_CERTS=" + w.roots, "SSL_CERT_FILE=" + w.roots,
		"IS_SANDBOX=1", "ENABLE_TOOL_SEARCH=false", "ANTHROPIC_API_KEY=" + key, "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1",
	}
	term := inTerminal(t, cmd)
	enter := func(line, mark string) {
		term.types(line)
		term.sees(mark)
		term.types("\r")
	}
	term.sees("API Usage Billing")
	enter("ask a helper", "helper")
	term.sees("Finished.", "Noted.") // the helper works in the background
	enter("call wait", "wait")
	until(t, "the server is called", func() bool { return len(countedCalls(t, log)) == 2 })
	term.types("\x1b")
	term.sees("Interrupted")
	enter("/exit", "exit")
	term.ends()
	list, shown := joinedCalls(t, cmd)
	places := map[string]string{}
	for i, c := range list {
		switch {
		case c.Kind == "turn" && c.Outcome == "cancelled":
			places["cancelled turn"] = c.Reason
		case c.Kind == "agent" && c.Wire == "model":
			places["helper"] = fmt.Sprintf("%s %s %t", c.Name, c.Edge, list[i-1].Frame == c.Parent)
			helped := list[i+1 : i+4] // its calls
			places["look"] = fmt.Sprintf("%s %s %t", helped[1].Name, helped[1].Edge, helped[1].Parent == helped[0].Frame)
		case c.Own == "title":
			places["title"] = c.Kind
		}
	}
	want := map[string]string{
		"cancelled turn": "wait cancelled", "helper": "general-purpose exact true", "look": "look exact true", "title": "messages",
	}
	if !maps.Equal(places, want) {
		t.Errorf("the tree has %q, and not %q:\n%s", places, want, shown)
	}
	if found := judged(t, cmd); found != "" {
		t.Errorf("lint has found %s\n%s", found, shown)
	}
}

// An interrupt in the middle of a call of a tool is told by the turn, also where no terminal is.
func TestInterruptOfAgents(t *testing.T) {
	for _, a := range hookedAgents {
		if !slices.Contains([]string{"claude", "codex", "opencode"}, a.name) {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			cmd, records := a.hook(t, log, hookedTurn{"look around", fmt.Sprintf("So., tool_calls: [{name: "+a.tool+", arguments: {}}]", "lab", "wait")})
			check(t, cmd.Start())
			until(t, "the server is called", func() bool { return len(countedCalls(t, log)) > 0 })
			for _, e := range eventsOf(t, records) {
				if e.What == "agent" {
					check(t, syscall.Kill(e.PID, syscall.SIGINT))
				}
			}
			_ = cmd.Wait() // its status is that of the agent
			list, shown := joinedCalls(t, cmd)
			story, edge := "", ""
			for _, c := range list {
				switch c.Kind {
				case "turn":
					story = c.Outcome + ": " + c.Reason
				case "tools/call":
					edge = c.Edge
				}
			}
			want, joined := "abandoned: wait has no answer", "exact"
			if a.name == "codex" { // the others say nothing to their servers
				want = "cancelled: wait cancelled"
			}
			if !a.exact {
				joined = "matched"
			}
			if found := judged(t, cmd); story != want || edge != joined || strings.Contains(found, "cancel-lost") {
				t.Errorf("the turn is %q, and the edge of its call %q:\n%s\n%s", story, edge, found, shown)
			}
		})
	}
}

// Esc in the terminal interface of Codex cancels the call of a tool on its wire, and ends the turn there.
func TestEscInCodex(t *testing.T) {
	a := hookedAgents[1]
	a.asks = true
	log := filepath.Join(t.TempDir(), "log")
	configure := a.configure
	a.configure = func(t *testing.T, home, door string, server func(string) []string, web string) (env, command []string) {
		env, command = configure(t, home, door, server, web)
		config, err := os.OpenFile(filepath.Join(strings.TrimPrefix(env[0], "CODEX_HOME="), "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
		check(t, err)
		defer config.Close()
		fmt.Fprintf(config, "[projects.%q]\ntrust_level = \"trusted\"\n", home)
		return env, []string{command[0], "--sandbox", "danger-full-access", "--ask-for-approval", "never"}
	}
	cmd, _ := a.hook(t, log, hookedTurn{"look around", fmt.Sprintf("So., tool_calls: [{name: "+a.tool+", arguments: {}}]", "lab", "wait")}, hookedTurn{"go on", "Back again."})
	term := inTerminal(t, cmd)
	enter := func(line, mark string) {
		term.types(line)
		term.sees(mark)
		term.types("\r")
	}
	term.sees("state=idle")
	enter("look around", "around")
	until(t, "the server is called", func() bool { return len(countedCalls(t, log)) == 1 })
	term.types("\x1b")
	term.sees("interrupted")
	enter("go on", "on")
	term.sees("Back")
	enter("/quit", "/quit")
	term.ends()
	list, shown := joinedCalls(t, cmd)
	var got []string
	for _, c := range list {
		if c.Kind == "turn" || c.Kind == "tools/call" {
			got = append(got, strings.Join([]string{c.Kind, c.Edge, c.Outcome, c.Reason}, " "))
		}
	}
	if want := []string{"turn  cancelled wait cancelled", "tools/call exact cancelled MCP request cancelled by caller", "turn  done "}; !slices.Equal(got, want) {
		t.Errorf("the tree has %q, and not %q:\n%s", got, want, shown)
	}
	if found := judged(t, cmd); found != "" {
		t.Errorf("lint has found %s\n%s", found, shown)
	}
}

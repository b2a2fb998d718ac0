//go:build !windows

package interop

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
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
		t.Run(a.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			cmd, records := a.hook(t, log, hookedTurn{"look around", fmt.Sprintf("So., tool_calls: [{name: "+a.tool+", arguments: {}}]", "lab", "wait")})
			check(t, cmd.Start())
			until(t, "the server is called", func() bool { return len(countedCalls(t, log)) > 0 })
			events := eventsOf(t, records)
			i := slices.IndexFunc(events, func(e runEvent) bool { return e.What == "server" })
			check(t, syscall.Kill(events[i].Parent, syscall.SIGINT)) // those of Gemini and Qwen that start them ignore it, and end
			_ = cmd.Wait()                                           // its status is that of the agent
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
			if slices.Contains([]string{"codex", "qwen", "copilot"}, a.name) { // the others say nothing to their servers
				want = "cancelled: wait cancelled"
			} else if told, _ := os.ReadFile(log + ".cancelled"); len(told) > 0 {
				t.Errorf("the server was told to cancel %s", told)
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

// Esc in the terminal interfaces of other agents cancels the call of a tool. Gemini only gives it up, and lint
// says so. The next prompt begins a turn.
func TestEscInOthers(t *testing.T) {
	type step struct{ sees, types string }
	for _, c := range []struct {
		name       string
		ready, esc []step
		quit       string
		want       []string // turns, calls of tools, and findings
	}{
		{
			"gemini",
			[]step{{"3 MCP servers", ""}},
			[]step{{"", "\x1b"}, {"Request cancelled", ""}},
			"/quit",
			[]string{"turn: abandoned: wait was given up", "tools/call matched: abandoned: ", "cancel-lost"},
		},
		{
			"qwen",
			[]step{{"Type your message", ""}},
			[]step{{"", "\x1b"}, {"Request cancelled", ""}},
			"/quit",
			[]string{"turn: cancelled: wait cancelled", "tools/call matched: cancelled: AbortError: Tool call aborted"},
		},
		{
			"copilot",
			[]step{{"Do you trust", "\r"}, {"MCP Servers reloaded", ""}},
			[]step{{"interrupt", "\x1b"}, {"again", "\x1b"}, {"cancelled by user", ""}},
			"/exit",
			[]string{"turn: cancelled: wait cancelled", "tools/call matched: cancelled: request cancelled"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := hookedAgents[slices.IndexFunc(hookedAgents, func(a hooked) bool { return a.name == c.name })]
			a.asks = true
			log := filepath.Join(t.TempDir(), "log")
			cmd, _ := a.hook(t, log, hookedTurn{"look around", fmt.Sprintf("So., tool_calls: [{name: "+a.tool+", arguments: {}}]", "lab", "wait")}, hookedTurn{"go on", "Back again."})
			cmd.Args = slices.DeleteFunc(cmd.Args, func(arg string) bool { return arg == "-p" || arg == "look around" })
			term := inTerminal(t, cmd)
			do := func(steps []step) {
				for _, s := range steps {
					term.sees(s.sees)
					if s.types != "" {
						term.types(s.types)
					}
				}
			}
			do(c.ready)
			term.enters("look around", func() bool { return len(countedCalls(t, log)) == 1 })
			do(c.esc)
			escaped := time.Now()
			term.enters("go on", func() bool { return strings.Contains(term.text(), "Back") })
			until(t, "what was cancelled should have ended", func() bool { return time.Since(escaped) > 2*time.Second })
			term.enters(c.quit, func() bool {
				select {
				case <-term.read:
					return true
				default:
					return false
				}
			})
			term.ends()
			list, shown := joinedCalls(t, cmd)
			var got []string
			isCancelled := false
			for _, c := range list {
				if c.Kind == "turn" || c.Kind == "tools/call" {
					got = append(got, strings.TrimSpace(c.Kind+" "+c.Edge)+": "+c.Outcome+": "+c.Reason)
					isCancelled = isCancelled || c.Outcome == "cancelled"
				}
			}
			found := judged(t, cmd)
			if strings.Contains(found, "cancel-lost") {
				got = append(got, "cancel-lost")
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the tree has %q, and not %q:\n%s\n%s", got, c.want, shown, found)
			}
			if told, _ := os.ReadFile(log + ".cancelled"); len(told) > 0 != isCancelled {
				t.Errorf("the server was told to cancel %q:\n%s", told, shown)
			}
		})
	}
}

// enters types a line, and Enter until something holds: Gemini takes an Enter that soon follows other keys as a
// part of a paste.
func (t *terminal) enters(line string, holds func() bool) {
	t.Helper()
	t.types(line)
	t.sees(line)
	var pressed time.Time
	until(t.T, line, func() bool {
		if !holds() && time.Since(pressed) > time.Second {
			_, _ = io.WriteString(t.pty, "\r") // it may have ended
			pressed = time.Now()
		}
		return holds()
	})
}

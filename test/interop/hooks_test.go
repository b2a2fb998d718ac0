package interop

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A hooked agent has two MCP servers over stdio and one over HTTP on loopback, which count the calls of their
// tools, and a mock that has it call each.
type hooked struct {
	name        string
	shell, tool string // the tool with its arguments, and the name of one of a server
	// moves means that the agent can be told another address of the server over HTTP.
	moves bool
	// asks means that it also asks the model for a title, so that answers depend on what is asked and not on
	// their number.
	asks bool
	// exact means that its calls of tools have the ids of the model's, and shellExact that its commands do.
	exact, shellExact bool
	// configure writes the configuration of the agent, and returns its environment and command.
	configure func(t *testing.T, home, door string, server func(name string) []string, web string) (env, command []string)
	// script is that of the servers; "" is counting.cjs.
	script string
	// via, if not nil, returns what the agent reaches the mock through.
	via func(door string) string
}

// ran is the command that the agents run: what it prints is not a part of it.
const ran = "printf tool-said-%d 42; exit 3"

func quotedJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

var hookedAgents = []hooked{
	{
		name: "claude", shell: `{name: Bash, arguments: {command: "` + ran + `", description: look}}`, tool: "mcp__%s__%s", moves: true, exact: true,
		configure: func(t *testing.T, home, door string, server func(string) []string, web string) (env, command []string) {
			entries := map[string]any{"web": map[string]string{"type": "http", "url": web}}
			for _, name := range []string{"lab", "two"} {
				argv := server(name)
				entries[name] = map[string]any{"command": argv[0], "args": argv[1:]}
			}
			check(t, os.WriteFile(filepath.Join(home, ".claude.json"), []byte(quotedJSON(map[string]any{"mcpServers": entries})), 0o600))
			return append(claudeEnv(door), "IS_SANDBOX=1", "ENABLE_TOOL_SEARCH=false"), []string{
				program(t, "npm-agents", "@anthropic-ai/claude-agent-sdk-*/claude*"), "-p", "--allowedTools",
				"Bash,mcp__lab__look,mcp__two__look,mcp__web__look,mcp__lab__wait", "--model", "mock-2", "look around",
			}
		},
	},
	{
		name: "codex", shell: `{name: exec_command, arguments: {cmd: "` + ran + `"}}`, tool: "mcp__%s__%s", moves: true, exact: true, shellExact: true,
		configure: func(t *testing.T, home, door string, server func(string) []string, web string) (env, command []string) {
			folder := codexHome(t, door)
			config, err := os.OpenFile(filepath.Join(folder, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
			check(t, err)
			defer config.Close()
			for _, name := range []string{"lab", "two"} {
				argv := server(name)
				fmt.Fprintf(config, "[mcp_servers.%s]\ncommand = %s\nargs = %s\n", name, quotedJSON(argv[0]), quotedJSON(argv[1:]))
			}
			fmt.Fprintf(config, "[mcp_servers.web]\nurl = %q\n", web)
			return []string{"CODEX_HOME=" + folder}, []string{
				program(t, "npm-agents", "@openai/codex-*/vendor/*/*/codex*"), "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "look around",
			}
		},
	},
	{
		name: "gemini", shell: `{name: run_shell_command, arguments: {command: "` + ran + `"}}`, tool: "mcp_%s_%s", shellExact: true,
		configure: func(t *testing.T, home, door string, server func(string) []string, web string) (env, command []string) {
			entries := map[string]any{"web": map[string]any{"httpUrl": web, "trust": true}}
			for _, name := range []string{"lab", "two"} {
				argv := server(name)
				entries[name] = map[string]any{"command": argv[0], "args": argv[1:], "trust": true}
			}
			check(t, os.MkdirAll(filepath.Join(home, ".gemini"), 0o700))
			check(t, os.WriteFile(filepath.Join(home, ".gemini", "settings.json"), []byte(quotedJSON(map[string]any{"mcpServers": entries, "security": map[string]any{"auth": map[string]string{"selectedType": "gemini-api-key"}}})), 0o600))
			return []string{"GEMINI_API_KEY=x", "GEMINI_CLI_TRUST_WORKSPACE=true", "GOOGLE_GEMINI_BASE_URL=" + door}, []string{
				filepath.Join(packages(t, "npm-coding"), ".bin/gemini"), "--yolo", "-m", "mock-1", "-p", "look around",
			}
		},
	},
	{
		name: "opencode", shell: `{name: bash, arguments: {command: "` + ran + `", description: look}}`, tool: "%s_%s", moves: true, asks: true,
		configure: func(t *testing.T, home, door string, server func(string) []string, web string) (env, command []string) {
			entries := map[string]any{"web": map[string]any{"type": "remote", "url": web}}
			for _, name := range []string{"lab", "two"} {
				entries[name] = map[string]any{"type": "local", "command": server(name)}
			}
			path, env := opencode(t, door)
			check(t, os.WriteFile(filepath.Join(home, "opencode.json"), []byte(quotedJSON(map[string]any{"mcp": entries})), 0o600))
			return env, []string{path, "run", "--model", "mock/mock-1", "look around"}
		},
	},
	{
		name: "qwen", shell: `{name: run_shell_command, arguments: {command: "` + ran + `", is_background: false}}`, tool: "mcp__%s__%s", asks: true, shellExact: true,
		configure: func(t *testing.T, home, door string, server func(string) []string, web string) (env, command []string) {
			entries := map[string]any{"web": map[string]any{"httpUrl": web, "trust": true}}
			for _, name := range []string{"lab", "two"} {
				argv := server(name)
				entries[name] = map[string]any{"command": argv[0], "args": argv[1:], "trust": true}
			}
			check(t, os.MkdirAll(filepath.Join(home, ".qwen"), 0o700))
			check(t, os.WriteFile(filepath.Join(home, ".qwen", "settings.json"), []byte(quotedJSON(map[string]any{"mcpServers": entries})), 0o600))
			return qwen(t, home, door), []string{filepath.Join(packages(t, "npm-node24"), ".bin/qwen"), "--yolo", "-p", "look around"}
		},
	},
	{
		name: "copilot", shell: `{name: bash, arguments: {command: "` + ran + `", description: look}}`, tool: "%s-%s", shellExact: true,
		configure: func(t *testing.T, home, door string, server func(string) []string, web string) (env, command []string) {
			entries := map[string]any{"web": map[string]any{"type": "http", "url": web, "tools": []string{"*"}}}
			for _, name := range []string{"lab", "two"} {
				argv := server(name)
				entries[name] = map[string]any{"type": "local", "command": argv[0], "args": argv[1:], "tools": []string{"*"}}
			}
			check(t, os.MkdirAll(filepath.Join(home, ".copilot"), 0o700))
			check(t, os.WriteFile(filepath.Join(home, ".copilot", "mcp-config.json"), []byte(quotedJSON(map[string]any{"mcpServers": entries})), 0o600))
			return copilot(door), []string{program(t, "npm-node24", "@github/copilot-linux-*/copilot"), "--allow-all-tools", "-p", "look around"}
		},
	},
}

// qwen returns an environment in which Qwen Code asks a model. It wants a newer Node.
func qwen(t *testing.T, home, model string) []string {
	t.Helper()
	bin := filepath.Join(home, "bin")
	check(t, os.MkdirAll(bin, 0o700))
	check(t, os.Symlink(program(t, "npm-node24", "node-linux-*/bin/node"), filepath.Join(bin, "node")))
	return []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "OPENAI_API_KEY=x", "OPENAI_MODEL=mock-1", "OPENAI_BASE_URL=" + model + "/v1"}
}

// copilot returns an environment in which Copilot CLI asks a model.
func copilot(model string) []string {
	return []string{"COPILOT_PROVIDER_BASE_URL=" + model + "/v1", "COPILOT_MODEL=mock-1", "COPILOT_AUTO_UPDATE=false"}
}

// An hookedTurn is what the model answers when something has been said.
type hookedTurn struct{ when, answer string }

// hook returns a command that runs the agent in a run, and the folder of the records. The servers write to
// log.
func (a hooked) hook(t *testing.T, log string, turns ...hookedTurn) (cmd *exec.Cmd, records string) {
	t.Helper()
	node := need(t, "node")
	counting, err := filepath.Abs("node/" + cmp.Or(a.script, "counting.cjs"))
	check(t, err)
	web, _ := listening(t, exec.CommandContext(t.Context(), node, counting, "web", log, "0"), listeningOn)
	script := "turns: ["
	if a.asks {
		script = "script: ["
		slices.Reverse(turns) // the first that matches is taken
	}
	for _, turn := range turns {
		if a.asks {
			script += fmt.Sprintf("{when: %q, say: %s},\n", turn.when, turn.answer)
		} else {
			script += fmt.Sprintf("{text: %s},\n", turn.answer)
		}
	}
	if a.asks {
		script += "{say: Hello.}"
	}
	door := "http://" + serve(t, "--no-tap", "--config", configured(t, "providers: {m: {kind: mock, mock: {delay: 1ms, chunk: 8,\n"+script+"]}}}\nmodels: {\"*\": {provider: m}}\n"))["openai"]
	if a.via != nil {
		door = a.via(door)
	}
	home := t.TempDir()
	env, command := a.configure(t, home, door, func(name string) []string { return []string{"node", counting, name, log} }, web)
	// The agent is known by the name of its program.
	bin := filepath.Join(home, "bin")
	check(t, os.MkdirAll(bin, 0o700))
	check(t, os.Symlink(command[0], filepath.Join(bin, a.name)))
	cmd = exec.CommandContext(t.Context(), wirectl, append([]string{"run", a.name}, command[1:]...)...)
	cmd.Dir, cmd.WaitDelay = home, patience
	records = filepath.Join(home, "state")
	cmd.Env = append([]string{"HOME=" + home, "TMPDIR=" + t.TempDir()}, env...)
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "XDG_STATE_HOME="+records)
	return cmd, filepath.Join(records, "wirectl", "runs")
}

// A counted call is what a server has written of one.
type countedCall struct {
	Tool, Server string
	PID          int
	Set          []string
}

func countedCalls(t *testing.T, log string) (calls []countedCall) {
	t.Helper()
	text, _ := os.ReadFile(log) // it may not be there yet
	for line := range bytes.Lines(text) {
		var c countedCall
		if json.Unmarshal(line, &c) == nil { // or not whole yet
			calls = append(calls, c)
		}
	}
	return calls
}

// A runEvent is the start or the exit of a process of a run.
type runEvent struct {
	Event, What, Command string
	PID, Parent, Status  int
	Time                 time.Time
}

// eventsOf returns the events of the only run.
func eventsOf(t *testing.T, records string) (events []runEvent) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(records, "*", "events.ndjson"))
	check(t, err)
	if len(files) != 1 {
		return nil
	}
	f, err := os.Open(files[0])
	check(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e runEvent
		check(t, json.Unmarshal(lines.Bytes(), &e))
		events = append(events, e)
	}
	return events
}

// The calls and the shell commands of a run are those that the servers and the model have counted. The
// servers have the environment that they would have had without it.
func TestHooksOfAgents(t *testing.T) {
	for _, a := range hookedAgents {
		t.Run(a.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			call := func(server string) string {
				return fmt.Sprintf("So., tool_calls: [{name: "+a.tool+", arguments: {}}]", server, "look")
			}
			cmd, records := a.hook(t, log,
				hookedTurn{"look around", "So., tool_calls: [" + a.shell + "]"}, hookedTurn{"tool-said-42", call("lab")},
				hookedTurn{"looked at lab", call("two")}, hookedTurn{"looked at two", call("web")}, hookedTurn{"looked at web", "All is done."})
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "All is done.") {
				t.Fatalf("%v\n%s", err, out)
			}
			counted := map[string]int{}
			for _, c := range countedCalls(t, log) {
				counted[c.Server]++
				if len(c.Set) > 0 && c.Server != "web" {
					t.Errorf("the server %s has %v in its environment", c.Server, c.Set)
				}
			}
			for server, pattern := range map[string]string{"lab": "mcp-lab-*.pcapng", "two": "mcp-two-*.pcapng", "web": "model.pcapng"} {
				want, got := counted[server], 0
				files, err := filepath.Glob(filepath.Join(records, "*", pattern))
				check(t, err)
				for _, file := range files {
					listed, _ := command(t, nil, "calls", "-o", "ndjson", file)
					got += len(regexp.MustCompile(`"kind":"tools/call"`).FindAll(listed, -1))
				}
				if server == "web" && !a.moves {
					want = 0
					if !bytes.Contains(out, []byte("MCP server web at 127.0.0.1")) {
						t.Errorf("it does not say that web was not seen:\n%s", out)
					}
				}
				if got != want || counted[server] != 1 {
					t.Errorf("%d calls of %s are recorded, and it has counted %d:\n%s", got, server, counted[server], out)
				}
			}
			var commands []string
			started := map[int]runEvent{}
			for _, e := range eventsOf(t, records) {
				if e.What == "shell" {
					started[e.PID] = e
				} else if s, ok := started[e.PID]; ok && e.Event == "exit" && !e.Time.Before(s.Time) {
					commands = append(commands, fmt.Sprintf("%s: %d", s.Command, e.Status))
				}
			}
			if want := []string{ran + ": 3"}; !slices.Equal(commands, want) {
				t.Errorf("the shell commands %q are recorded, and not %q", commands, want)
			}
		})
	}
}

// A run that is killed in the middle of a call leaves no process: neither its agent, nor a relay, nor a
// server.
func TestKilledRun(t *testing.T) {
	for _, a := range hookedAgents[:2] {
		t.Run(a.name, func(t *testing.T) {
			if _, err := os.Stat("/proc/self/stat"); err != nil {
				t.Skip("only Linux ends a process with its parent")
			}
			log := filepath.Join(t.TempDir(), "log")
			cmd, records := a.hook(t, log, hookedTurn{"look around", fmt.Sprintf("So., tool_calls: [{name: "+a.tool+", arguments: {}}]", "lab", "wait")})
			check(t, cmd.Start())
			var calls []countedCall
			until(t, "the server is called", func() bool {
				calls = countedCalls(t, log)
				return len(calls) > 0
			})
			pids := []int{calls[0].PID}
			for _, e := range eventsOf(t, records) {
				if e.Event == "start" {
					pids = append(pids, e.PID)
				}
			}
			if len(pids) < 4 { // an agent, two relays and a server
				t.Errorf("there are only the processes %v", pids)
			}
			check(t, cmd.Process.Kill())
			_ = cmd.Wait()
			for _, pid := range pids {
				until(t, fmt.Sprintf("process %d has ended", pid), func() bool { return !lives(pid) })
			}
			// What it has said up to then can be read.
			_ = filepath.WalkDir(records, func(path string, _ fs.DirEntry, _ error) error {
				if strings.Contains(filepath.Base(path), "mcp-lab") {
					if listed, _ := command(t, nil, "calls", path); !strings.Contains(string(listed), "tools/call") {
						t.Errorf("the call is not recorded:\n%s", listed)
					}
				}
				return nil
			})
		})
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for tick := time.NewTicker(20 * time.Millisecond); !holds(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("in vain: %s", what)
		}
	}
}

// lives reports whether a process has not ended: one that nobody waits for has.
func lives(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil || p.Signal(syscall.Signal(0)) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	at := bytes.LastIndexByte(stat, ')')
	return err == nil && at > 0 && !bytes.HasPrefix(stat[at:], []byte(") Z"))
}

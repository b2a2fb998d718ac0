package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// rerun plays the newest run again with the agent of a command that has made it, and returns its output and status.
func rerun(t *testing.T, cmd *exec.Cmd, flags ...string) (out string, status int) {
	t.Helper()
	return rerunOf(t, cmd, "run:latest", flags...)
}

// rerunOf does so with any run.
func rerunOf(t *testing.T, cmd *exec.Cmd, run string, flags ...string) (out string, status int) {
	t.Helper()
	at := slices.Index(cmd.Args, "run")
	again := exec.CommandContext(t.Context(), cmd.Path, slices.Concat([]string{"replay"}, flags, []string{run, "--"}, cmd.Args[at+1:])...)
	again.Dir, again.Env, again.WaitDelay = cmd.Dir, cmd.Env, patience
	text, err := again.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), again.ProcessState.ExitCode()
}

// isolates returns the flag that gives an agent a network of its own, if the system allows it.
func isolates(t *testing.T) (flags []string) {
	t.Helper()
	if runtime.GOOS != "linux" || exec.CommandContext(t.Context(), "unshare", "-rn", "true").Run() != nil {
		t.Log("the system gives no network of its own")
		return nil
	}
	return []string{"--isolate"}
}

// toolCalls are the calls of tools in a run, with their arguments and outcomes.
func toolCalls(t *testing.T, run string) []string {
	t.Helper()
	listed, _ := command(t, nil, "calls", "-o", "ndjson", run)
	var calls []string
	for _, m := range regexp.MustCompile(`"kind":"(tools/call|shell)".*"name":"([^"]*)"|"name":"([^"]*)".*"kind":"(tools/call|shell)"`).FindAllStringSubmatch(string(listed), -1) {
		calls = append(calls, m[1]+m[4]+" "+m[2]+m[3])
	}
	return calls
}

// A recorded run plays again with its agent, without its model and its servers: the same calls of tools, and nothing
// leaves.
func TestReplayOfRuns(t *testing.T) {
	for _, a := range hookedAgents {
		t.Run(a.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			call := func(server string) string {
				return fmt.Sprintf("So., tool_calls: [{name: "+a.tool+", arguments: {}}]", server, "look")
			}
			turns := []hookedTurn{{"look around", "So., tool_calls: [" + a.shell + "]"}, {"tool-said-42", call("lab")}, {"looked at lab", call("two")}}
			last := "looked at two"
			if a.moves { // else the server is reached without the proxy
				turns, last = append(turns, hookedTurn{last, call("web")}), "looked at web"
			}
			cmd, records := a.hook(t, log, append(turns, hookedTurn{last, "All is done."})...)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "All is done.") {
				t.Fatalf("%v\n%s", err, out)
			}
			counted := len(countedCalls(t, log))
			first, err := filepath.Glob(filepath.Join(records, "*"))
			check(t, err)
			flags := isolates(t)
			text, status := rerun(t, cmd, flags...)
			if status != 0 || !strings.Contains(text, "All is done.") || strings.Contains(text, "not in the record") {
				t.Errorf("status %d:\n%s", status, text)
			}
			t.Log(text)
			if got := len(countedCalls(t, log)); got != counted {
				t.Errorf("the servers were called %d times", got-counted)
			}
			second, err := filepath.Glob(filepath.Join(records, "*"))
			check(t, err)
			second = slices.DeleteFunc(second, func(run string) bool { return slices.Contains(first, run) })
			if len(first) != 1 || len(second) != 1 {
				t.Fatalf("there are the runs %q and %q", first, second)
			}
			want, got := toolCalls(t, first[0]), toolCalls(t, second[0])
			if !slices.Equal(got, want) || len(want) < 2 {
				t.Errorf("the tools called were %q, and are %q", want, got)
			}
		})
	}
}

// A tool that answers otherwise is the first difference, and the model has no answer to it.
func TestReplayOfChangedTool(t *testing.T) {
	for _, a := range hookedAgents[:2] {
		t.Run(a.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			call := fmt.Sprintf("So., tool_calls: [{name: "+a.tool+", arguments: {}}]", "lab", "look")
			cmd, _ := a.hook(t, log, hookedTurn{"look around", call}, hookedTurn{"looked at lab", "All is done."})
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			// The same server under another name says it.
			for _, pattern := range []string{filepath.Join(cmd.Dir, ".claude.json"), configOf(cmd)} {
				text, err := os.ReadFile(pattern)
				if err == nil {
					text = regexp.MustCompile(`(counting.cjs",\s*)"lab"`).ReplaceAll(text, []byte(`$1"LAB"`))
					check(t, os.WriteFile(pattern, text, 0o600))
				}
			}
			text, status := rerun(t, cmd, "--tools", "lab=live")
			if want := `"looked at LAB, time 1"`; status != 3 || !strings.Contains(text, "of turn 2 was never recorded") || !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), "looked at LAB, time 1") {
				t.Errorf("status %d, want %s:\n%s", status, want, text)
			}
			if got := len(countedCalls(t, log)); got != 2 {
				t.Errorf("the server was called %d times", got)
			}
		})
	}
}

// configOf returns the configuration of Codex.
func configOf(cmd *exec.Cmd) string {
	for _, pair := range cmd.Env {
		if home, ok := strings.CutPrefix(pair, "CODEX_HOME="); ok {
			return filepath.Join(home, "config.toml")
		}
	}
	return ""
}

// sockets returns a model that speaks WebSocket, as OpenAI's does, in front of a door over HTTP. Requests leave out what was
// said before.
func sockets(t *testing.T, door string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			http.NotFound(w, r)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		conn.SetReadLimit(-1)
		for {
			_, data, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			var request map[string]any
			if json.Unmarshal(data, &request) != nil {
				return
			}
			if request["generate"] == false {
				_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"response.created","response":{"id":"resp_warm","status":"in_progress","output":[]}}`))
				_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"response.completed","response":{"id":"resp_warm","status":"completed","output":[],"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}}`))
				continue
			}
			for _, key := range []string{"type", "generate", "previous_response_id"} {
				delete(request, key)
			}
			request["stream"] = true
			answer, err := http.Post(door+"/v1/responses", "application/json", strings.NewReader(quotedJSON(request)))
			if err != nil {
				return
			}
			for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
				if event, ok := strings.CutPrefix(lines.Text(), "data: "); ok && event != "[DONE]" {
					_ = conn.Write(r.Context(), websocket.MessageText, []byte(event))
				}
			}
			answer.Body.Close()
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Codex over WebSocket plays again, and goes on after its first turn with another model, over HTTP.
func TestReplayOfSockets(t *testing.T) {
	a := hookedAgents[1]
	a.via = func(door string) string { return sockets(t, door) }
	configure := a.configure
	a.configure = func(t *testing.T, home, door string, server func(string) []string, web string) (env, command []string) {
		env, command = configure(t, home, door, server, web)
		file := filepath.Join(strings.TrimPrefix(env[0], "CODEX_HOME="), "config.toml")
		config, err := os.ReadFile(file)
		check(t, err)
		check(t, os.WriteFile(file, []byte(strings.Replace(string(config), `wire_api`, "supports_websockets = true\nwire_api", 1)), 0o600))
		return env, command
	}
	log := filepath.Join(t.TempDir(), "log")
	call := fmt.Sprintf("So., tool_calls: [{name: "+a.tool+", arguments: {}}]", "lab", "look")
	cmd, records := a.hook(t, log, hookedTurn{"look around", call}, hookedTurn{"looked at lab", "All is done."})
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "All is done.") {
		t.Fatalf("%v\n%s", err, out)
	}
	runs, err := filepath.Glob(filepath.Join(records, "*"))
	check(t, err)
	if listed, _ := command(t, nil, "decode", filepath.Join(runs[0], "model.pcapng")); !strings.Contains(string(listed), "response.create") {
		t.Fatalf("Codex has not used WebSocket:\n%s", listed)
	}
	text, status := rerun(t, cmd, isolates(t)...)
	if status != 0 || !strings.Contains(text, "All is done.") || strings.Contains(text, "not in the record") {
		t.Errorf("status %d:\n%s", status, text)
	}
	other := "http://" + serve(t, "--no-tap", "--config", configured(t, "providers: {m: {kind: mock, mock: {turns: [{text: Another says so.}]}}}\nmodels: {\"*\": {provider: m}}\n"))["openai"]
	text, status = rerunOf(t, cmd, runs[0], "--from", "1", "--model", other)
	if status != 0 || !strings.Contains(text, "Another says so.") || !strings.Contains(text, "asked live: 1 model call") {
		t.Errorf("status %d:\n%s", status, text)
	}
}

// Sub-agents ask at the same time, and each gets its own answers, at the recorded pace.
func TestReplayOfSubAgents(t *testing.T) {
	a := hookedAgents[0]
	a.via = func(string) string {
		return "http://" + serve(t, "--no-tap", "--config", configured(t, `
providers:
  main: {kind: mock, mock: {turns: [
    {text: So., tool_calls: [
      {name: Agent, arguments: {description: one, prompt: look around, subagent_type: general-purpose, model: sonnet}},
      {name: Agent, arguments: {description: two, prompt: look elsewhere, subagent_type: general-purpose, model: haiku}}]},
    {text: Finished.}, {text: Noted.}, {text: Noted.}, {text: Noted.}]}}
  one: {kind: mock, mock: {turns: [{text: So., tool_calls: [{name: mcp__lab__look, arguments: {at: door}}]}, {text: All is seen.}]}}
  two: {kind: mock, mock: {delay: 300ms, turns: [{text: So., tool_calls: [{name: mcp__lab__look, arguments: {at: window}}]}, {text: Nothing is there.}]}}
models: {"claude-opus*": {provider: main}, "claude-sonnet*": {provider: one}, "claude-haiku*": {provider: two}}
`))["openai"]
	}
	configure := a.configure
	a.configure = func(t *testing.T, home, door string, server func(string) []string, web string) (env, command []string) {
		env, command = configure(t, home, door, server, web)
		for i, word := range command {
			command[i] = strings.Replace(strings.Replace(word, "Bash,", "Bash,Agent,", 1), "mock-2", "claude-opus-5-5", 1)
		}
		return env, command
	}
	log := filepath.Join(t.TempDir(), "log")
	cmd, records := a.hook(t, log)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runs, err := filepath.Glob(filepath.Join(records, "*"))
	check(t, err)
	called := len(countedCalls(t, log))
	for range 3 {
		text, status := rerunOf(t, cmd, runs[0], isolates(t)...)
		if status != 0 || strings.Contains(text, "not in the record") || strings.Contains(text, "never asked") {
			t.Errorf("status %d:\n%s", status, text)
		}
	}
	if got := len(countedCalls(t, log)); got != called || called != 2 {
		t.Errorf("the server was called %d times, and then %d times", called, got)
	}
}

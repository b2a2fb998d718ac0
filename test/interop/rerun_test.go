package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// rerun plays the newest run again with the agent of a command that has made it, and returns its output and status.
func rerun(t *testing.T, cmd *exec.Cmd, flags ...string) (out string, status int) {
	t.Helper()
	at := slices.Index(cmd.Args, "run")
	again := exec.CommandContext(t.Context(), cmd.Path, slices.Concat([]string{"replay"}, flags, []string{"run:latest", "--"}, cmd.Args[at+1:])...)
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

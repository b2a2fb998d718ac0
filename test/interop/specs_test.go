package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tested runs wirectl test in the world of a command that runs an agent.
func tested(t *testing.T, cmd *exec.Cmd, args ...string) (out string, status int) {
	t.Helper()
	test := exec.CommandContext(t.Context(), cmd.Path, append([]string{"test"}, args...)...)
	test.Dir, test.Env, test.WaitDelay = cmd.Dir, cmd.Env, patience
	text, err := test.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), test.ProcessState.ExitCode()
}

// What a spec expects that was made of a run holds in the next run of the real agent. If the model decides otherwise, a
// sentence says so, and the run that it is about can be compared.
func TestSpecsOfAgents(t *testing.T) {
	for _, a := range hookedAgents[:2] {
		t.Run(a.name, func(t *testing.T) {
			call := func(server string) string {
				return fmt.Sprintf("So., tool_calls: [{name: "+a.tool+", arguments: {}}]", server, "look")
			}
			turns := []hookedTurn{{"look around", "So., tool_calls: [" + a.shell + "]"}, {"tool-said-42", call("lab")}, {"looked at lab", "All is done."}}
			cmd, _ := a.hook(t, filepath.Join(t.TempDir(), "log"), slices.Concat(turns, turns)...) // of two runs
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text, status := tested(t, cmd, "--record", "run:latest")
			look := fmt.Sprintf(a.tool, "lab", "look")
			if status != 0 || !strings.Contains(text, "outcome: done\n") || !regexp.MustCompile(`in_order: \[\w+, mcp__lab__look\]`).MatchString(text) {
				t.Fatalf("status %d:\n%s", status, text)
			}
			t.Log(text)
			spec := filepath.Join(t.TempDir(), "spec.yaml")
			written := text + fmt.Sprintf("folder: %q\nafter_cancel: none\narguments: {look: {jq: '. == {}'}, %s: {schema: {type: object}}}\n", cmd.Dir, look)
			check(t, os.WriteFile(spec, []byte(written), 0o600))
			text, status = tested(t, cmd, spec)
			if status != 0 || !strings.HasPrefix(text, "ok    "+spec+": 2 tool calls, ") {
				t.Errorf("status %d:\n%s", status, text)
			}
			turns[1].answer, turns[2].when = call("two"), "looked at two"
			other, _ := a.hook(t, filepath.Join(t.TempDir(), "log"), turns...)
			written = strings.Replace(written, cmd.Dir, other.Dir, 1)
			check(t, os.WriteFile(spec, []byte(written), 0o600))
			text, status = tested(t, other, spec)
			want := regexp.MustCompile(`tools.in_order \(line 3\): expected \w+, then mcp__lab__look; mcp__lab__look was not called.*: called were .* mcp__two__look \(frame`)
			if status != 3 || !want.MatchString(text) {
				t.Errorf("status %d:\n%s", status, text)
			}
			t.Log(text)
			run := regexp.MustCompile(`wirectl why (run:\w+)`).FindStringSubmatch(text)
			if run == nil {
				t.Fatal("the run is not named")
			}
			why := exec.CommandContext(t.Context(), cmd.Path, "why", run[1])
			why.Env, why.Dir = other.Env, other.Dir
			if out, err := why.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

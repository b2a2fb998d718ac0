package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// A joined call is one of a run, with its place in the tree.
type joined struct {
	Frame, Parent                                  int
	Kind, Name, Wire, Edge, Outcome, Reason, Model string
	Own                                            string
	ToolCalls                                      []string `json:"tool_calls"`
}

// joinedCalls returns the calls of the run of a command, and how a user sees them.
func joinedCalls(t *testing.T, cmd *exec.Cmd) (list []joined, shown string) {
	t.Helper()
	see := func(args ...string) []byte {
		c := exec.CommandContext(t.Context(), wirectl, args...)
		c.Env, c.Stderr = cmd.Env, t.Output()
		out, err := c.Output()
		check(t, err)
		return out
	}
	for line := range bytes.Lines(see("calls", "--exchanges", "-o", "ndjson", "run:latest")) {
		var c joined
		check(t, json.Unmarshal(line, &c))
		list = append(list, c)
	}
	return list, string(see("calls", "run:latest"))
}

// counts returns what agents reach a mock through, which counts the requests of models.
func counts(t *testing.T, n *atomic.Int64) func(door string) string {
	return func(door string) string {
		target, err := url.Parse(door)
		check(t, err)
		forward := forwards(target)
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && regexp.MustCompile(`/(messages|responses|chat/completions)$|[gG]enerateContent`).MatchString(r.URL.Path) {
				n.Add(1)
			}
			forward.ServeHTTP(rw, r)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
}

// The calls of tools of a run are below the calls to the model that have made them.
func TestEdgesOfAgents(t *testing.T) {
	for _, a := range hookedAgents {
		t.Run(a.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			call := func(server, arguments string) string {
				return fmt.Sprintf("{name: "+a.tool+", arguments: {%s}}", server, "look", arguments)
			}
			var models atomic.Int64
			a.via = counts(t, &models)
			cmd, _ := a.hook(t, log,
				hookedTurn{"look around", "So., tool_calls: [" + call("lab", "at: door") + ", " + call("lab", "at: window") + "]"},
				hookedTurn{"looked at lab, time 2", "So., tool_calls: [" + call("web", "") + "]"},
				hookedTurn{"looked at web, time 1", "So., tool_calls: [" + a.shell + "]"},
				hookedTurn{"tool-said-42", "So., tool_calls: [" + call("lab", "at: door") + "]"},
				hookedTurn{"looked at lab, time 3", "All is done."})
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "All is done.") {
				t.Fatalf("%v\n%s", err, out)
			}
			list, shown := joinedCalls(t, cmd)
			var asks []int // that are in the turn
			asked, called, turns := 0, 0, 0
			for _, c := range list {
				switch {
				case c.Kind == "turn":
					turns++
				case c.Model != "":
					asked++
					if turns == 1 && c.Own == "" {
						asks = append(asks, c.Frame)
					}
				case c.Kind == "tools/call":
					called++
				}
			}
			if want := int(models.Load()); asked != want || len(asks) != 5 || turns != 1 {
				t.Fatalf("%d calls to models are recorded, %d of them in %d turns, and %d were made:\n%s", asked, len(asks), turns, want, shown)
			}
			edge := "matched"
			if a.exact {
				edge = "exact"
			}
			var got []string
			for _, c := range list {
				if by := slices.Index(asks, c.Parent); c.Kind == "tools/call" || c.Kind == "shell" {
					got = append(got, fmt.Sprintf("%s %s by %d %s", c.Kind, c.Name, by+1, c.Edge))
				}
			}
			look := func(by int) string { return fmt.Sprintf("tools/call look by %d %s", by, edge) }
			want := []string{look(1), look(1)}
			if a.moves {
				want = append(want, look(2))
			}
			want = append(want, fmt.Sprintf("shell %s by 3 %s", ran, map[bool]string{true: "exact", false: "by time"}[a.shellExact]), look(4))
			if !slices.Equal(got, want) {
				t.Errorf("the tree has\n%q, and not\n%q:\n%s", got, want, shown)
			}
			if counted := len(countedCalls(t, log)); called != counted && a.moves || counted != 4 {
				t.Errorf("%d calls of tools are recorded, and %d were counted", called, counted)
			}
			if found := judged(t, cmd); found != "" {
				t.Errorf("lint has found %s\n%s", found, shown)
			}
		})
	}
}

// judged returns what lint finds in the run of a command.
func judged(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	lint := exec.CommandContext(t.Context(), wirectl, "lint", "-q", "run:latest")
	lint.Env = cmd.Env
	out, err := lint.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	return string(out)
}

// What an agent does that Codex has started is below the call of the tool that has started it.
func TestHelperOfCodex(t *testing.T) {
	a := hookedAgents[1]
	a.asks = true
	log := filepath.Join(t.TempDir(), "log")
	cmd, _ := a.hook(t, log,
		hookedTurn{"look around", "So., tool_calls: [{name: multi_agent_v1__spawn_agent, arguments: {message: help me}}]"},
		hookedTurn{"help me", "So., tool_calls: [" + fmt.Sprintf("{name: "+a.tool+", arguments: {at: door}}", "lab", "look") + "]"},
		hookedTurn{"looked at lab", "Helped."},
		hookedTurn{"agent_id", "So., tool_calls: [{name: exec_command, arguments: {cmd: 'until test -s " + log + "; do sleep 0.1; done', yield_time_ms: 30000}}]"})
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list, shown := joinedCalls(t, cmd)
	i := slices.IndexFunc(list, func(c joined) bool { return c.Kind == "agent" && c.Wire == "model" })
	if i < 1 || len(list) < i+3 || list[i].Edge != "exact" || list[i].Parent != list[i-1].Frame || !slices.Contains(list[i-1].ToolCalls, "spawn_agent") || list[i+2].Kind != "tools/call" || list[i+2].Parent != list[i+1].Frame {
		t.Errorf("the helper is not below the call that has started it:\n%s", shown)
	}
}

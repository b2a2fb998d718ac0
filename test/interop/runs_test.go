package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The page of a running run shows its tree, and interrupts its cell. The model of the
// cell's call does not answer until its client disconnects.
func TestRunPageInChromium(t *testing.T) {
	chromium, node := need(t, "chromium"), need(t, "node")
	need(t, "python3")
	asked := make(chan struct{}, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // without this, a disconnect is not noticed
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer silent.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "c.yaml")
	check(t, os.WriteFile(config, fmt.Appendf(nil, `
providers:
  root: {kind: mock, mock: {turns: [{text: "`+"```repl\\nprint(llm_query('one'))\\n```"+`"}, {text: FINAL(done)}]}}
  silent: {kind: openai, base_url: %q, key: {env: KEY}}
models: {root: {provider: root}, silent: {provider: silent}}
rlm: {model: root, sub_model: silent, unsandboxed: true, control: true}
`, silent.URL), 0o600))
	env := []string{"XDG_RUNTIME_DIR=" + t.TempDir(), "KEY=x"}
	run := exec.CommandContext(t.Context(), wirectl, "rlm", "--config", config, "Why?")
	run.Env, run.Stderr = append(os.Environ(), env...), t.Output()
	var answer strings.Builder
	run.Stdout = &answer
	check(t, run.Start())
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatal("the run asks nothing")
	}
	url := pageOf(t, env, "--control", "live")
	cmd := exec.CommandContext(t.Context(), node, "runs.mjs", filepath.Join(npm(t), "playwright-core", "index.js"), chromium, url)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	check(t, err)
	check(t, run.Wait())
	var saw struct {
		Errors, Rows, After, Peers   []string
		Order, Question, Said, Kept  string
		Folded, Marked, Found, Conns int
	}
	check(t, json.Unmarshal(out, &saw))
	rows := []string{
		"run in-flight",
		"  load_context done",
		"  t1 root done",
		"    t1/c1 execute in-flight",
		"      t1/c1/q1 llm_query in-flight",
		"        t1/c1/q1 silent in-flight",
		"          silent in-flight",
	}
	after := []string{
		"run done",
		"  load_context done",
		"  t1 root done",
		"    t1/c1 execute cancelled",
		"      t1/c1/q1 llm_query failed",
		"        t1/c1/q1 silent failed",
		"          silent cancelled",
		"  t2 root done",
	}
	if !slices.Equal(saw.Rows, rows) || saw.Folded != 4 || saw.Order != "by run" || !slices.Equal(saw.After, after) {
		t.Errorf("%+v", saw)
	}
	if worker := slices.ContainsFunc(saw.Peers, func(row string) bool {
		return strings.HasPrefix(row, "worker of ") && strings.HasSuffix(row, " closed")
	}); !worker || saw.Conns == 0 {
		t.Errorf("the connections are %q, and one has %d exchanges", saw.Peers, saw.Conns)
	}
	if saw.Marked != 1 || saw.Found != 1 || !strings.HasPrefix(saw.Kept, "◆ ") {
		t.Errorf("%d bookmarks, of which a filter finds %d and a page that is read again shows %q", saw.Marked, saw.Found, saw.Kept)
	}
	if len(saw.Errors) > 0 || saw.Question != "interrupt t1/c1? " || saw.Said != "done: interrupt t1/c1" || answer.String() != "done\n" {
		t.Errorf("%+v, %q", saw, answer.String())
	}
}

// The page of sessions that belong together is the tree of their agent's run, with its critical path, and
// tells how far a cancel went.
func TestTreePageInChromium(t *testing.T) {
	folder, err := filepath.Abs("../testdata/runs/cancel-made")
	check(t, err)
	var saw struct{ Errors, Rows, Lit, Stops, Frames []string }
	browse(t, &saw, "tree.mjs", pageOf(t, nil, filepath.Join(folder, "model"), filepath.Join(folder, "mcp-lab"), filepath.Join(folder, "mcp-web")))
	for _, list := range []struct {
		what string
		got  []string
		want string
	}{
		{"errors", saw.Errors, ""},
		{"rows", saw.Rows, `A turn 1 cancelled
  M claude-opus-5-5 model done
    T search lab late-result
    T fetch web done
    T index lab done
    A explorer cancelled
      M claude-opus-5-5 model cancelled
A turn 2 done
  M claude-opus-5-5 model done
other calls done
  T initialize lab done
  T initialize web done`},
		{"path", saw.Lit, "claude-opus-5-5 1.00s\nfetch 19.3s\nclaude-opus-5-5 1.00s"},
		{"stops", saw.Stops, "claude-opus-5-5 model  cancelled\nsearch lab  cancelled after 8ms, answered 1.8s later\nfetch web  went on for 8.93s"},
		{"frames", saw.Frames, "tools/call\nnotifications/cancelled\nresult"},
	} {
		if got := strings.Join(list.got, "\n"); got != list.want {
			t.Errorf("%s:\n%s\nand not\n%s", list.what, got, list.want)
		}
	}
}

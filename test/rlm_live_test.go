//go:build unix

package test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/rlm/env"
)

// A silent model accepts requests, and answers none until its client disconnects.
type silent struct {
	*httptest.Server
	asked, left chan struct{}
}

func newSilent(t *testing.T) *silent {
	t.Helper()
	s := &silent{asked: make(chan struct{}, 10), left: make(chan struct{}, 10)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // without this, a disconnect is not noticed
		s.asked <- struct{}{}
		<-r.Context().Done()
		s.left <- struct{}{}
	}))
	t.Cleanup(s.Close)
	return s
}

// viewerStops runs a question whose code asks a silent model, and has a viewer interrupt
// the selection made by keys. It returns the answer and the status.
func viewerStops(t *testing.T, keys, what string, flags ...string) (answer string, status int) {
	t.Helper()
	if _, err := env.FindPython(t.Context()); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "tap") // a short name, because the paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	model := newSilent(t)
	config := fmt.Sprintf(`
providers:
  root: {kind: mock, mock: {turns: [{text: "`+"```repl\\nkept = 41\\nprint(llm_query('one'))\\n```"+`"}, {text: "`+"```repl\\nFINAL(kept + 1)\\n```"+`"}]}}
  silent: {kind: openai, base_url: %q, key: {env: KEY}}
models: {root: {provider: root}, silent: {provider: silent}}
rlm: {model: root, sub_model: silent, unsandboxed: true}
`, model.URL)
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"XDG_RUNTIME_DIR=" + dir, "KEY=x"}
	run := program(t, "wirectl", append([]string{"rlm", "--config", file, "--control"}, append(flags, "Why?")...)...)
	run.Env = append(run.Env, env...)
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, t.Output()
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = run.Process.Kill() })
	defer late.Stop()
	<-model.asked
	monitored(t, []string{"tap:rlm"}, env, func(m *monitor) {
		m.sees("by run")
		m.sees("c1 execute")
		_, _ = io.WriteString(m.terminal, keys)
		for { // the selection follows the keys only on the next page
			m.seen.Reset()
			_, _ = io.WriteString(m.terminal, "X")
			if m.sees("? y/n"); strings.Contains(m.seen.String(), "interrupt "+what) {
				break
			}
			_, _ = io.WriteString(m.terminal, "n")
			m.sees("nothing was done")
		}
		_, _ = io.WriteString(m.terminal, "y")
		<-model.left
	})
	var exit *exec.ExitError
	if err := run.Wait(); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String()), status
}

// A viewer interrupts a cell. Its call is closed at the provider, and the run continues
// with its variables.
func TestCellIsInterrupted(t *testing.T) {
	if answer, status := viewerStops(t, "jjj", "t1/c1?"); answer != "42" || status != 0 {
		t.Errorf("%q, status %d", answer, status)
	}
}

// A viewer interrupts a run. It ends as after Ctrl-C, and its capture breaks no rule.
func TestRunIsInterrupted(t *testing.T) {
	capture := filepath.Join(t.TempDir(), "run.pcapng")
	if _, status := viewerStops(t, "", "run ", "--capture", capture); status != 130 {
		t.Errorf("status %d", status)
	}
	out, err := program(t, "wirectl", "lint", "-q", capture).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

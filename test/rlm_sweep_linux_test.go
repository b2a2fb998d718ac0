package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wirectl/wirectl/rlm/runlog"
	"github.com/wirectl/wirectl/test/kit/standin"
)

// A slowProvider answers after a delay, unless its client disconnects.
type slowProvider struct {
	open   atomic.Int64
	closed atomic.Int64 // when the last call ended, in Unix nanoseconds
}

func (p *slowProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.open.Add(1)
	defer p.open.Add(-1)
	defer func() { p.closed.Store(time.Now().UnixNano()) }()
	body, _ := io.ReadAll(r.Body) // without this, net/http would not notice a disconnect
	switch {
	case bytes.Contains(body, []byte("limited")):
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case bytes.Contains(body, []byte("failing")):
		w.WriteHeader(http.StatusInternalServerError)
		return
	case bytes.Contains(body, []byte("cut")):
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"id":"1",`)
		panic(http.ErrAbortHandler)
	case bytes.Contains(body, []byte("silent")):
		<-r.Context().Done()
		return
	}
	select {
	case <-r.Context().Done():
		return
	case <-time.After(40 * time.Millisecond):
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"said"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
}

// sweepTurns make cells, calls, a batch and a child run, in Python and in Starlark.
var sweepTurns = []string{
	"answer[\"content\"] = \"so far\"\nprint(llm_query(\"a\"))", "n = len(context)\nprint(llm_query_batched([\"b\", \"c\"]), rlm_query(\"d\", model=\"child\"))", "x = 0\nfor i in range(100000): x += i\nFINAL(\"end\")",
}

// realImage is an environment variable with an image of the podman on PATH, which then runs
// the containers. Without it, a stand-in replaces docker.
const realImage = "REAL_IMAGE"

var sweepKinds = []string{"python", "starlark", "container", "exec"}

// A provider that is busy, fails, hangs up or stalls affects only its own call.
func TestProvidersFail(t *testing.T) {
	for _, kind := range sweepKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSweep(t, kind, `asked = ["limited", "failing", "cut", "silent", "fine"]
said = [llm_query(w)[:6] for w in asked] + [text[:6] for text in llm_query_batched(asked)]
FINAL(" ".join(said))`)
			events, status, _ := s.run(t, -1)
			s.nothingLeft(t)
			want := `"text":"` + strings.Repeat("Error: ", 4) + "said " + strings.Repeat("Error: ", 4) + `said"`
			if all := strings.Join(events, "\n"); status != 0 || !strings.Contains(all, want) {
				t.Errorf("status %d, want %s\n%s", status, want, all)
			}
		})
	}
}

// A sweep cancels runs of one kind.
type sweep struct {
	provider slowProvider
	kind     string
	dir      string
	args     []string
	env      []string
}

func newSweep(t *testing.T, kind string, cells ...string) *sweep {
	t.Helper()
	for _, name := range map[string][]string{"python": {"python3"}, "exec": {"python3"}, "container": {"python3", "bwrap"}}[kind] {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	s := &sweep{kind: kind, dir: t.TempDir()}
	server := httptest.NewServer(&s.provider)
	t.Cleanup(server.Close)
	type object = map[string]any
	var turns []object
	for _, code := range cells {
		turns = append(turns, object{"text": "```repl\n" + code + "\n```"})
	}
	settings := object{"model": "root", "sub_model": "sub", "max_depth": 2}
	args := []string{"--env", kind}
	if kind == "exec" {
		settings["exec"] = []string{"python3", "worker.py", "stdio"}
		args = nil
	}
	config, err := json.Marshal(object{
		"providers": object{
			"root": object{"kind": "mock", "mock": object{"turns": turns}}, "sub": object{"kind": "openai", "base_url": server.URL, "retries": 0, "timeouts": object{"total": "2s"}},
			"child": object{"kind": "mock", "mock": object{"turns": []object{{"text": "```repl\nFINAL(llm_query(context))\n```"}}}},
		},
		"models": object{"root": object{"provider": "root"}, "sub": object{"provider": "sub"}, "child": object{"provider": "child"}},
		"rlm":    settings,
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, "c.json")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tmp", "logs", "state", "bin"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	docker := filepath.Join(s.dir, "bin", "docker")
	if image := os.Getenv(realImage); image != "" {
		args = append(args, "--image", image)
	} else if err := os.WriteFile(docker, []byte("#!/bin/sh\nexec standin-docker \"$@\"\n"), 0o700); err != nil { //nolint:gosec // the stand-in
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "TMPDIR="+filepath.Join(s.dir, "tmp"), standin.StateDir+"="+filepath.Join(s.dir, "state"),
		"PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"))
	s.args = append(append([]string{"rlm", "-q", "-o", "ndjson", "--config", path, "--log-dir", filepath.Join(s.dir, "logs")}, args...), "Ask.")
	return s
}

// run waits for an event, and then interrupts. It returns the events, the status, and how
// long the last call stayed open after the interrupt.
func (s *sweep) run(t *testing.T, at int) (events []string, status int, late time.Duration) {
	t.Helper()
	cmd := exec.Command("wirectl", s.args...)
	cmd.Env = s.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	var interrupted time.Time
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if events = append(events, lines.Text()); len(events) == at+1 {
			interrupted = time.Now()
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	err = cmd.Wait()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		status = ended.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	if status != 0 && status != 130 {
		t.Errorf("status %d: %s", status, stderr.Bytes())
	}
	if s.kind == "container" && os.Getenv(realImage) != "" {
		left, err := exec.Command("podman", "ps", "-a").CombinedOutput()
		if err != nil || bytes.Contains(left, fmt.Appendf(nil, "wirectl-rlm-%d-", cmd.Process.Pid)) {
			t.Errorf("a container is left: %v\n%s", err, left)
		}
	}
	for begun := time.Now(); s.provider.open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("a call is open after the end of the run")
		}
	}
	return events, status, time.Unix(0, s.provider.closed.Load()).Sub(interrupted)
}

// nothingLeft checks the log, and that the run leaves nothing else behind.
func (s *sweep) nothingLeft(t *testing.T) {
	t.Helper()
	logs, err := os.ReadDir(filepath.Join(s.dir, "logs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		path := filepath.Join(s.dir, "logs", log.Name())
		data, err := os.ReadFile(path)
		if err != nil || len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
			t.Errorf("the log does not end with a line: %v", err)
		}
		for r := runlog.NewReader(bytes.NewReader(data)); ; {
			if _, err := r.Read(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in the log\n%s", err, data)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, pattern := range []string{"tmp/wirectl-rlm*", "state/*"} {
		if left, _ := filepath.Glob(filepath.Join(s.dir, pattern)); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, p := range processes {
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "comm"))
		if bytes.HasPrefix(name, []byte("conmon")) || bytes.HasPrefix(name, []byte("podman")) {
			continue // the rest of a removed container
		}
		if at, _ := os.Readlink(p); strings.HasPrefix(at, s.dir) {
			t.Errorf("a process is left: %s in %s", p, at)
		}
	}
}

// A run of each kind can be interrupted at each of its events. It closes its providers
// within 100 ms, its log is well-formed, its status is 130, and nothing is left behind.
func TestInterruptAtEveryEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("runs hundreds of processes")
	}
	for _, kind := range sweepKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSweep(t, kind, sweepTurns...)
			whole, status, _ := s.run(t, -1)
			s.nothingLeft(t)
			if len(whole) < 20 || status != 0 || !strings.Contains(whole[len(whole)-1], `"event":"end"`) {
				t.Fatalf("status %d, %d events: %s", status, len(whole), whole)
			}
			interrupted := 0
			for at := range len(whole) {
				if s.at(t, at, whole[at]) == 130 {
					interrupted++
				}
			}
			if interrupted < len(whole)/2 {
				t.Errorf("only %d of %d runs were interrupted", interrupted, len(whole))
			}
		})
	}
}

// at interrupts at an event. A busy machine may exceed the limit, but not in every attempt.
func (s *sweep) at(t *testing.T, at int, event string) (status int) {
	for try := 0; ; try++ {
		events, status, late := s.run(t, at)
		s.nothingLeft(t)
		isOver := slices.ContainsFunc(events, func(e string) bool {
			return strings.Contains(e, `"event":"end"`) && strings.Contains(e, `"finish_reason":"stop"`)
		})
		if status != 130 && !isOver || len(events) > 0 && !strings.Contains(events[len(events)-1], `"event":"end"`) {
			t.Errorf("status %d, events %s", status, strings.Join(events, "\n"))
		}
		if t.Failed() {
			t.Fatalf("interrupted at event %d, %s", at, event)
		}
		if late <= 100*time.Millisecond {
			return status
		}
		if try == 20 {
			t.Fatalf("interrupted at event %d, %s: the last call was closed after %v", at, event, late)
		}
	}
}

//go:build !windows

package interop

import (
	"bytes"
	"context"
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

	"github.com/creack/pty"
)

// A windows is a separate drive C: with wirectl.exe.
type windows struct {
	c   string // the folder that is C:
	env []string
}

// wine sets up a new Windows. Wine 8 lacks a library that Go programs need. The test builds it.
func wine(t *testing.T) *windows {
	t.Helper()
	gcc := need(t, "x86_64-w64-mingw32-gcc")
	need(t, "wine")
	prefix := t.TempDir()
	env := append(os.Environ(), "WINEPREFIX="+prefix, "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml=")
	w := &windows{filepath.Join(prefix, "drive_c"), env}
	t.Cleanup(func() { // before the folder is removed, and after the test's context has ended
		cmd := exec.Command("wineserver", "-k", "-w")
		cmd.Env = w.env
		_ = cmd.Run()
	})
	w.run(t, "wineboot", "-i")
	w.run(t, gcc, "-shared", "-o", filepath.Join(w.c, "windows/system32/bcryptprimitives.dll"), "wine/bcryptprimitives.c", "-ladvapi32")
	w.env = append(w.env, "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-trimpath", "-o", filepath.Join(w.c, "wirectl.exe"), ".")
	build.Env = w.env
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build for windows: %v\n%s", err, out)
	}
	return w
}

// run runs a program of this system, which must succeed.
func (w *windows) run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = w.env
	w.output(t, cmd)
}

// output runs a command, which must succeed, and returns its output. The output goes to
// files, because any program may start services of wine that outlive it and inherit its
// output.
func (w *windows) output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	folder := t.TempDir()
	stdout, err := os.Create(filepath.Join(folder, "stdout"))
	check(t, err)
	defer stdout.Close()
	stderr, err := os.Create(filepath.Join(folder, "stderr"))
	check(t, err)
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	failed := cmd.Run()
	timer.Stop()
	out, err := os.ReadFile(stdout.Name())
	check(t, err)
	if failed != nil {
		said, _ := os.ReadFile(stderr.Name())
		t.Fatalf("%s: %v\n%s%s", cmd, failed, out, said)
	}
	return string(out)
}

// cmd is a line that Windows's cmd runs in the current folder, C:.
func (w *windows) cmd(t *testing.T, line string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "wine", "cmd", "/c", line)
	cmd.Dir, cmd.Env = w.c, w.env
	return cmd
}

// wirectl runs wirectl.exe directly until the test ends.
func (w *windows) wirectl(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "wine", append([]string{`C:\wirectl.exe`}, args...)...)
	cmd.Dir, cmd.Env = w.c, w.env
	return cmd
}

// does runs a line, which must succeed, and returns its output.
func (w *windows) does(t *testing.T, line string) string {
	t.Helper()
	return w.output(t, w.cmd(t, line))
}

// same fails unless two files have the same content.
func same(t *testing.T, a, b string) {
	t.Helper()
	one, err := os.ReadFile(a)
	check(t, err)
	other, err := os.ReadFile(b)
	check(t, err)
	if !bytes.Equal(one, other) {
		t.Errorf("%s has %d bytes that are not the %d of %s", a, len(one), len(other), b)
	}
}

// The Windows program, run by wine.
func TestWindows(t *testing.T) {
	w := wine(t)
	const session = "../../fixtures/sessions/latis-session/c2s.bin"
	sent, err := os.ReadFile(session)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(w.c, "in.bin"), sent, 0o600))

	t.Run("decode and encode", func(t *testing.T) {
		want, _ := command(t, sent, "decode", "-q")
		for _, line := range []string{
			"wirectl decode -q in.bin",
			"wirectl decode -q < in.bin",
			"wirectl decode -q -o raw in.bin | wirectl decode -q",
		} {
			if got := w.does(t, line); got != string(want) {
				t.Errorf("%s\n got: %s\nwant: %s", line, got, want)
			}
		}
		w.does(t, "wirectl decode -q -o ndjson in.bin > records && wirectl encode < records > out.bin")
		same(t, filepath.Join(w.c, "out.bin"), session)
	})

	t.Run("relay", func(t *testing.T) {
		got := w.does(t, `wirectl send -q --prompt grüße latis -- c:\wirectl relay -q --no-tap --capture s.pcapng -- c:\wirectl unit -q`)
		if got != "Echo: grüße\n" {
			t.Errorf("the unit answers %q", got)
		}
		command(t, nil, "lint", "-q", "--fail-on", "error,warning", filepath.Join(w.c, "s.pcapng"))
	})

	// Reads of pipes end when asked to. (In wine, reads of Unix pipes do not.)
	t.Run("input", func(t *testing.T) {
		w.run(t, "go", "test", "-C", "../..", "-c", "-o", filepath.Join(w.c, "input.test.exe"), "./internal/fd")
		w.does(t, "input.test -test.run Cancel -test.timeout 1m")
	})

	// Even if there is a console, programs read the pipes that they were given.
	t.Run("console", func(t *testing.T) {
		cmd := w.cmd(t, `wirectl send -q --prompt hi latis -- c:\wirectl unit -q`)
		terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
		check(t, err)
		defer terminal.Close()
		timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		said, _ := io.ReadAll(terminal) // ends with an error when the console closes
		if err := cmd.Wait(); err != nil || !strings.Contains(string(said), "Echo: hi") {
			t.Errorf("%v, and the terminal shows %q", err, said)
		}
	})

	t.Run("unit over TCP", func(t *testing.T) {
		address, _ := listening(t, w.wirectl(t, "unit", "--listen", "tcp://127.0.0.1:0"), at)
		if got, _ := command(t, nil, "send", "-q", "--prompt", "hi", "latis", address); string(got) != "Echo: hi\n" {
			t.Errorf("the unit answers %q", got)
		}
	})

	t.Run("serve", func(t *testing.T) {
		doors := doors(t, w.wirectl(t, serveAnywhere...))
		if got, _ := command(t, nil, "send", "-q", "--prompt", "hi", "rlm", "tcp://"+doors["rlm"]); string(got) != "Echo: hi\n" {
			t.Errorf("the broker answers %q", got)
		}
	})

	// A client that disconnects from an HTTP door in mid-call ends the call at the
	// provider.
	t.Run("a client leaves", func(t *testing.T) {
		came, ended := make(chan struct{}, 1), make(chan struct{}, 1)
		backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			came <- struct{}{}
			<-r.Context().Done()
			ended <- struct{}{}
		}))
		defer backend.Close()
		config := fmt.Appendf(nil, "providers: {p: {kind: openai, base_url: %q}}\nmodels: {m: {provider: p}}\n", backend.URL)
		check(t, os.WriteFile(filepath.Join(w.c, "broker.yaml"), config, 0o600))
		doors := doors(t, w.wirectl(t, append(serveAnywhere, "--config", "broker.yaml")...))
		for door, body := range map[string]string{
			"openai/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
			"proxy/llm_query":            `{"prompt":"hi"}`,
			"nexus/":                     `{"jsonrpc":"2.0","id":1,"method":"send","params":{"content":"hi","request_id":"r"}}`,
		} {
			name, path, _ := strings.Cut(door, "/")
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan error, 1)
			r, err := http.NewRequestWithContext(ctx, "POST", "http://"+doors[name]+"/"+path, strings.NewReader(body))
			check(t, err)
			r.Header.Set("Content-Type", "application/json")
			go func() {
				resp, err := http.DefaultClient.Do(r)
				if err == nil {
					resp.Body.Close()
				}
				left <- err
			}()
			within(t, came, door+": the call does not come to the backend")
			leave()
			<-left
			within(t, ended, door+": the call goes on at the backend")
		}
	})
}

// within waits for c, but not for long.
func within(t *testing.T, c <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal(otherwise)
	}
}

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shim writes a program that passes on its arguments as a shell script specifies.
func shim(t *testing.T, format string, args ...any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shim")
	check(t, os.WriteFile(file, []byte("#!/bin/sh\n"+fmt.Sprintf(format, args...)+"\n"), 0o755))
	return file
}

// runNode returns the output of a Node program, which must succeed.
func runNode(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need(t, "node"), args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// A turn of the Copilot SDK, with its own provider, is aborted through a relay while the
// model answers. This closes the connection to the model.
func TestCopilot(t *testing.T) {
	modules := packages(t, "npm-copilot")
	copilot := program(t, "npm-copilot", "@github/copilot-sdk-*/prebuilds/*/copilot-runtime")
	model, left := slowModel(t)
	file := filepath.Join(t.TempDir(), "copilot.pcapng")
	runtime := shim(t, `chmod +x %[3]q; exec %[1]q relay -q --no-tap --capture %[2]q -- %[3]q "$@"`, wirectl, file, copilot)
	if out := runNode(t, "node/copilot.mjs", modules, runtime, model, t.TempDir()); !strings.Contains(out, "aborted: true") {
		t.Error(out)
	}
	<-left
	interrupted(t, file, "copilot", "session.send")
}

// puppeteer controls Chromium over the browser's pipe, file descriptors 3 and 4, through a
// relay on standard input and output. A stopped navigation is a result, and a command in a
// closed page has no answer.
func TestChromePipe(t *testing.T) {
	chromium, modules := need(t, "chromium"), packages(t, "npm-copilot")
	file := filepath.Join(t.TempDir(), "chrome.pcapng")
	browser := shim(t, `exec %q relay -q --no-tap --capture %q -- sh -c 'exec %q "$@" 3<&0 4>&1 0</dev/null 1>&2' chromium "$@" 0<&3 1>&4 3<&- 4>&-`, wirectl, file, chromium)
	out := runNode(t, "node/chrome.mjs", modules, browser)
	for _, want := range []string{"Harbour", "net::ERR_ABORTED", "Target closed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in:\n%s", want, out)
		}
	}
	decoded, _ := command(t, nil, "decode", "-q", "-o", "ndjson", file)
	for _, want := range []string{`"framing":"nul"`, `"errorText":"net::ERR_ABORTED"`} {
		if !strings.Contains(string(decoded), want) {
			t.Errorf("the capture has no %s", want)
		}
	}
	calls, _ := command(t, nil, "calls", "-q", file)
	for _, want := range []string{`(?m)^Page.navigate .* tool-error`, `(?m)^Runtime.callFunctionOn .* abandoned`} {
		if !regexp.MustCompile(want).Match(calls) {
			t.Errorf("no %s in:\n%s", want, calls)
		}
	}
	command(t, nil, "lint", "-q", "--fail-on", "error,warning,note", file)
}

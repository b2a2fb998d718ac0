//go:build unix

package test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A terminal sends a signal to its whole foreground process group. A relayed command
// receives it once, either in a group of its own or in the relay's. ssh is in the relay's,
// because it may ask for a password, and so is an agent, which owns the terminal.
func TestTerminalInterruptsOnce(t *testing.T) {
	const script = `trap "echo once >> $HEARD; exit 3" INT; echo ready; while :; do sleep 0.05; done`
	dir := t.TempDir()
	ssh := "#!/bin/sh\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(ssh), 0o700); err != nil { //nolint:gosec // an executable
		t.Fatal(err)
	}
	for name, line := range map[string][]string{
		"relay": {"relay", "-q", "--no-tap", "--", "sh", "-c", script}, "ssh": {"relay", "-q", "--no-tap", "ssh", "host"}, "run": {"run", "sh", "-c", script},
	} {
		heard := filepath.Join(dir, "heard-"+name)
		status := interrupted(t, line, "HEARD="+heard, "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "XDG_STATE_HOME="+dir)
		if got, err := os.ReadFile(heard); status != 3 || string(got) != "once\n" {
			t.Errorf("%s: status %d, and it heard %q, %v", name, status, got, err)
		}
	}
}

// interrupted runs wirectl with a command on its own terminal, types Ctrl-C once the command is
// ready, and returns its status. The last output on the terminal may be lost.
func interrupted(t *testing.T, line []string, env ...string) (status int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Args = append([]string{"wirectl"}, line...)
	cmd.Env = append(os.Environ(), env...)
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var all strings.Builder
	buf := make([]byte, 1024)
	typed := false
	for {
		n, err := terminal.Read(buf)
		all.Write(buf[:n])
		if !typed && strings.Contains(all.String(), "ready") {
			typed = true
			if _, err := io.WriteString(terminal, "\x03"); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil { // the last process has closed the terminal
			break
		}
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// The monitor lets the user choose between recorded sessions, and wrap asks whether to
// record.
func TestTerminalChoices(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, ".mcp.json")
	if err := os.WriteFile(config, []byte(`{"mcpServers":{"files":{"command":"cat"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+state, "XDG_RUNTIME_DIR="+dir, "TERM=xterm-256color", "COLORFGBG=15;0")
	relay := exec.Command("wirectl", "relay", "-q", "--no-tap", "--record", "full", "--name=files", "--", "cat")
	relay.Env, relay.Stdin = env, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"\n")
	if err := relay.Run(); err != nil {
		t.Fatal(err)
	}
	typing(t, env, []string{"monitor", "--theme", "dark"}, "wait for a relay", "\x1b[B\r", "tools/list", "q")
	typing(t, env, []string{"wrap", config, "files"}, "Record the sessions?", "full\n", "sessions are recorded in", "")
	wrapped, err := os.ReadFile(config)
	if err != nil || !strings.Contains(string(wrapped), `"--record=full", "--client=Claude Code", "--name=files"`) {
		t.Errorf("%s, %v", wrapped, err)
	}
}

// An agent that stops itself takes the run along, so that the shell has the terminal again, and continues with it.
func TestTerminalStopsTogether(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells that a process has stopped")
	}
	const script = `set -m; wirectl run -q sh -c 'kill -STOP $$; echo "it continues"'; echo "the status is $?"; fg >/dev/null; echo "and then $?"`
	shell := exec.Command("bash", "-c", script)
	dir := t.TempDir()
	shell.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_RUNTIME_DIR="+dir)
	terminal, err := pty.Start(shell)
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	late := time.AfterFunc(30*time.Second, func() { _ = shell.Process.Kill() })
	defer late.Stop()
	output, _ := io.ReadAll(terminal) // it fails when the last process has closed the terminal
	_ = shell.Wait()
	for _, want := range []string{"the status is 147", "it continues", "and then 0"} { // 128 and SIGSTOP
		if !strings.Contains(string(output), want) {
			t.Errorf("no %q in:\n%s", want, output)
		}
	}
}

// typing runs wirectl on a terminal. The texts are pairs: after the output of the first, it
// types the second.
func typing(t *testing.T, env, args []string, texts ...string) {
	t.Helper()
	cmd := exec.Command("wirectl", args...)
	cmd.Env = env
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var all strings.Builder
	buf := make([]byte, 1024)
	for from := 0; ; {
		n, err := terminal.Read(buf)
		all.Write(buf[:n])
		if len(texts) > 0 && strings.Contains(all.String()[from:], texts[0]) {
			from = all.Len()
			if _, err := io.WriteString(terminal, texts[1]); err != nil {
				t.Fatal(err)
			}
			texts = texts[2:]
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil || len(texts) > 0 {
		t.Errorf("%v: %v; it has not written %q:\n%q", args, err, texts, all.String())
	}
}

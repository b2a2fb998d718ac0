//go:build unix

package test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// What a terminal sends to all of its foreground reaches a relayed command once,
// whether that is in a group of its own or, as ssh is, which may ask for a
// password, in that of the relay.
func TestTerminalInterruptsOnce(t *testing.T) {
	const script = `trap "echo once >> $HEARD; exit 3" INT; echo ready; while :; do sleep 0.05; done`
	dir := t.TempDir()
	ssh := "#!/bin/sh\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(ssh), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	for _, endpoint := range [][]string{{"--", "sh", "-c", script}, {"ssh", "host"}} {
		heard := filepath.Join(dir, "heard"+endpoint[0])
		status := interrupted(t, endpoint, "HEARD="+heard, "PATH="+dir+":"+os.Getenv("PATH"))
		if got, err := os.ReadFile(heard); status != 3 || string(got) != "once\n" {
			t.Errorf("%s: status %d, and it heard %q, %v", endpoint[0], status, got, err)
		}
	}
}

// interrupted relays a command on a terminal of its own, types Ctrl-C when that
// is ready, and returns its status. What a terminal is told last may be lost.
func interrupted(t *testing.T, endpoint []string, env ...string) (status int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Args = append([]string{"wirectl", "relay", "-q", "--no-tap"}, endpoint...)
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
		if err != nil { // the last of them has closed the terminal
			break
		}
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

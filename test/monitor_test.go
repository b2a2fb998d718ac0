//go:build unix

package test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// A monitor is wirectl monitor on its own terminal.
type monitor struct {
	*testing.T
	terminal io.ReadWriter
	seen     strings.Builder
}

// monitored runs the monitor until do returns, and then quits it.
func monitored(t *testing.T, args []string, env []string, do func(*monitor)) {
	t.Helper()
	cmd := program(t, "wirectl", append([]string{"monitor"}, args...)...)
	cmd.Env = append(append(cmd.Env, "XDG_STATE_HOME="+t.TempDir()), env...)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 120})
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	m := &monitor{T: t, terminal: terminal}
	do(m)
	_, _ = io.WriteString(terminal, "q")
	_, _ = io.Copy(io.Discard, terminal) // to the end
	if err := cmd.Wait(); err != nil {
		t.Errorf("the monitor ends with %v", err)
	}
}

// program returns a command that runs one of the programs for scripts.
func program(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = append([]string{name}, args...)
	cmd.Env = append(os.Environ(), "TERM=xterm")
	return cmd
}

// sees waits for a text on the screen.
func (m *monitor) sees(text string) {
	m.Helper()
	buf := make([]byte, 4096)
	for !strings.Contains(ansi.Strip(m.seen.String()), text) {
		n, err := m.terminal.Read(buf)
		m.seen.Write(buf[:n])
		if err != nil {
			m.Fatalf("no %q on the screen, %v:\n%q", text, err, m.seen.String())
		}
	}
}

// The monitor waits for a tap that is given by name, as for any other.
func TestMonitorWaitsForTap(t *testing.T) {
	dir, err := os.MkdirTemp("", "tap") // a short name, because the paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	env := []string{"XDG_RUNTIME_DIR=" + dir}
	capture := filepath.Join(dir, "one.pcapng")
	if out, err := program(t, "wirectl", "convert", "fixture:mcp-cancel", capture).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	monitored(t, []string{"tap:server"}, env, func(m *monitor) {
		m.sees("waiting for tap:server")
		end := openTap(t, "server", capture, env)
		m.sees("late result")
		end()
	})
}

// openTap has a program with a tap and a session, until end is called.
func openTap(t *testing.T, name, capture string, env []string) (end func()) {
	t.Helper()
	tapped := program(t, "tapped", name, capture)
	tapped.Env = append(tapped.Env, env...)
	input, err := tapped.StdinPipe()
	output, bad := tapped.StdoutPipe()
	if err = errors.Join(err, bad); err == nil {
		err = tapped.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil { // it listens then
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = io.WriteString(input, "\n")
	return func() {
		input.Close()
		if err := tapped.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// The list of sessions follows those that start and end, and the selection stays on its
// session. If none runs, the first that starts is opened.
func TestMonitorChoicesFollow(t *testing.T) {
	dir, err := os.MkdirTemp("", "tap") // a short name, because the paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	env := []string{"XDG_RUNTIME_DIR=" + dir, "XDG_STATE_HOME=" + dir}
	capture := filepath.Join(dir, "one.pcapng")
	if out, err := program(t, "wirectl", "convert", "fixture:mcp-cancel", capture).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	relay := program(t, "wirectl", "relay", "-q", "--no-tap", "--record", "full", "--", "cat")
	relay.Env = append(relay.Env, env...)
	if out, err := relay.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	monitored(t, nil, env, func(m *monitor) {
		m.sees("wait for a relay")
		end := openTap(t, "first", capture, env)
		m.sees("late result")
		end()
	})
	one := openTap(t, "one", capture, env) // listens, so it is chosen rather than opened
	monitored(t, nil, env, func(m *monitor) {
		m.sees("one-")
		two := openTap(t, "two", capture, env)
		m.sees("two-")
		one()
		m.sees("has ended")
		_, _ = io.WriteString(m.terminal, "k\r")
		m.sees("late result")
		two()
	})
}

// The monitor shows a notice if a filter saved with a file hides frames.
func TestMonitorTellsOfFilter(t *testing.T) {
	capture := filepath.Join(t.TempDir(), "one.pcapng")
	if out, err := program(t, "wirectl", "convert", "fixture:mcp-cancel", capture).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	monitored(t, []string{capture}, nil, func(m *monitor) {
		m.sees("late result")
		_, _ = io.WriteString(m.terminal, "fkind==nothing\r")
		m.sees("filter kind==nothing")
	})
	monitored(t, []string{capture}, nil, func(m *monitor) { m.sees("filter of the last visit (x clears it) ") })
	monitored(t, []string{"--where", "kind==other", capture}, nil, func(m *monitor) { m.sees("filter kind==other") })
}

// An ended session begins with its oldest call. The order that the user chooses is remembered with it.
func TestMonitorRemembersOrder(t *testing.T) {
	capture := filepath.Join(t.TempDir(), "one.pcapng")
	if out, err := program(t, "wirectl", "convert", "fixture:mcp-cancel", capture).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	monitored(t, []string{capture}, nil, func(m *monitor) {
		m.sees("oldest first")
		m.sees("── initialize · 0 ")
		_, _ = io.WriteString(m.terminal, "ss")
		m.sees("slowest first")
	})
	monitored(t, []string{capture}, nil, func(m *monitor) {
		m.sees("slowest first")
		m.sees("── index · tools/call · 3 ")
	})
}

// A request of a record is sent again to a server that the user names, and its answer is shown, or
// what is wrong.
func TestMonitorSendsAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc((&mcpServer{}).serve))
	defer server.Close()
	monitored(t, []string{"fixture:mcp-cancel"}, nil, func(m *monitor) {
		m.sees("initialize")
		_, _ = io.WriteString(m.terminal, "f")
		m.sees("filter ")
		_, _ = io.WriteString(m.terminal, "name==echo\rR")
		m.sees("send tools/call to ")
		_, _ = io.WriteString(m.terminal, "no-such-program\r")
		m.sees("no-such-program: command not found")
		_, _ = io.WriteString(m.terminal, "R\x15"+server.URL+"\r")
		m.sees("tools/call answers: ")
	})
}

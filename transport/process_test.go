//go:build unix

package transport_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wirectl/wirectl/transport"
)

// soon is the grace of children that will not end by themselves.
const soon = 50 * time.Millisecond

func dialScript(t *testing.T, script string) transport.Process {
	t.Helper()
	return dialScriptWith(t, script, soon)
}

func dialScriptWith(t *testing.T, script string, grace time.Duration) transport.Process {
	t.Helper()
	c := dial(t, []string{"exec", "sh", "-c", script}, transport.Options{Grace: grace})
	p, ok := c.(transport.Process)
	if !ok {
		t.Fatalf("%T is not a Process", c)
	}
	return p
}

// A process ends as shells have it, whether by itself or by a signal.
func TestExit(t *testing.T) {
	for script, want := range map[string]struct {
		code   int
		signal os.Signal
	}{
		"exit 0":        {0, nil},
		"exit 42":       {42, nil},
		"kill -TERM $$": {143, syscall.SIGTERM},
		"kill -KILL $$": {137, syscall.SIGKILL},
	} {
		exit, err := dialScript(t, script).Wait()
		if err != nil || exit.Code() != want.code || exit.Signal != want.signal {
			t.Errorf("%s: %+v (code %d), %v", script, exit, exit.Code(), err)
		}
	}
}

func TestStderr(t *testing.T) {
	p := dialScript(t, "echo to stdout; echo to stderr >&2")
	stderr, err := io.ReadAll(p.Stderr())
	if err != nil || string(stderr) != "to stderr\n" {
		t.Errorf("standard error: %q, %v", stderr, err)
	}
	stdout, err := io.ReadAll(p)
	if err != nil || string(stdout) != "to stdout\n" {
		t.Errorf("standard output: %q, %v", stdout, err)
	}
}

// Standard error is logged by lines, also a last one without an end, and read where
// there is no log.
func TestLogStderr(t *testing.T) {
	const script = "printf 'one\\ntwo' >&2"
	var text strings.Builder
	transport.LogStderr(dialScript(t, script), slog.New(slog.NewJSONHandler(&text, nil)), "run", "r1")
	for _, want := range []string{`"msg":"one","run":"r1"`, `"msg":"two","run":"r1"`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is not in the log:\n%s", want, text.String())
		}
	}
	p := dialScript(t, script)
	transport.LogStderr(p, nil)
	if exit, err := p.Wait(); err != nil || exit.Code() != 0 {
		t.Errorf("%v, %v", exit, err)
	}
}

// What a program says at its end can be read after it was closed.
func TestStderrAfterClose(t *testing.T) {
	p := dialScriptWith(t, "cat; echo last words >&2", time.Minute)
	p.Close()
	if got, err := io.ReadAll(p.Stderr()); err != nil || string(got) != "last words\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// A closed standard input is enough for most programs; SIGTERM for others; and
// some have to be killed.
func TestCloseEndsAProcess(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		grace        time.Duration // a busy machine needs some, and the second one waits for it
		code         int
	}{
		{"it ends with its standard input", "echo ready; cat >/dev/null; exit 7", time.Minute, 7},
		{"it ends on SIGTERM", "trap 'exit 8' TERM; echo ready; while :; do sleep 0.01; done", time.Second, 8},
		{"it ignores everything", "trap '' TERM; echo ready; while :; do sleep 0.01; done", soon, 137},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := dialScriptWith(t, tt.script, tt.grace)
			await(t, p)
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if exit, err := p.Wait(); err != nil || exit.Code() != tt.code {
				t.Errorf("%v, %v", exit, err)
			}
			if err := syscall.Kill(p.Pid(), 0); err != syscall.ESRCH {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

// await waits until a child said that it is ready.
func await(t *testing.T, r io.Reader) {
	t.Helper()
	b := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(r, b); err != nil || string(b) != "ready\n" {
		t.Fatalf("read %q, %v", b, err)
	}
}

// If a process has to be terminated, everybody in its group is.
func TestCloseEndsTheGroup(t *testing.T) {
	for name, script := range map[string]string{
		"they end on TERM":      "sleep 1000 & echo ready; wait",
		"they do not mind TERM": "trap '' TERM; sleep 1000 & echo ready; wait; wait",
	} {
		t.Run(name, func(t *testing.T) {
			there, hold := fifo(t)
			p := dialScript(t, hold+script)
			await(t, p)
			p.Close()
			if _, err := io.ReadAll(there); err != nil || p.Outlived() {
				t.Errorf("somebody is still there: %v", err)
			}
		})
	}
}

// A process that exits by itself leaves others running, and nobody waits for them: its output
// ends with what was there, even if they go on writing.
func TestCloseLeavesOthersAlone(t *testing.T) {
	for name, leave := range map[string]string{
		"they hold its output":  "{ read x <go; echo $x >alive; } &",
		"they write to it, too": "yes & { read x <go; echo $x >alive; } &",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			if err := errors.Join(syscall.Mkfifo("go", 0o600), syscall.Mkfifo("alive", 0o600)); err != nil {
				t.Fatal(err)
			}
			p := dialScriptWith(t, leave+" head -c 300000 /dev/zero; echo last words >&2; exit 3", time.Minute)
			output, err := io.ReadAll(p)
			if n := bytes.Count(output, []byte{0}); n != 300_000 || err != nil {
				t.Errorf("read %d bytes, %v", n, err)
			}
			if text, err := io.ReadAll(p.Stderr()); string(text) != "last words\n" || err != nil {
				t.Errorf("standard error: %q, %v", text, err)
			}
			if exit, err := p.Wait(); exit.Status != 3 || exit.Told || err != nil || !p.Outlived() {
				t.Errorf("%+v, %v, others live: %v", exit, err, p.Outlived())
			}
			p.Close()
			if err := os.WriteFile("go", []byte("x\n"), 0); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile("alive"); string(text) != "x\n" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// fifo returns a command that makes a process and all that it starts hold a pipe open, and the
// other end, which ends when all of them have.
func fifo(t *testing.T) (there *os.File, hold string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "there")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, "exec 9>'" + path + "'; "
}

// A connection has hung up when its peer can read nothing any more, whatever it is made of.
func TestHungUp(t *testing.T) {
	pipe := func() (*os.File, io.Closer, error) {
		r, w, err := os.Pipe()
		return w, r, err
	}
	sockets := func() (*os.File, io.Closer, error) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs"), err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, connect := range map[string]func() (*os.File, io.Closer, error){"pipe": pipe, "socket pair": sockets} {
		ours, theirs, err := connect()
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, []string{"stdio"}, transport.Options{Stdin: null, Stdout: ours})
		if transport.HungUp(c) {
			t.Errorf("%s: it has hung up from the start", name)
		}
		theirs.Close()
		if !transport.HungUp(c) {
			t.Errorf("%s: it has not hung up", name)
		}
		if c.Close(); transport.HungUp(c) {
			t.Errorf("%s: it has hung up after it was closed", name)
		}
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	if c := dial(t, []string{"stdio"}, transport.Options{Stdin: null, Stdout: file}); transport.HungUp(c) {
		t.Error("a file has hung up")
	}
}

func TestSignalReachesTheGroup(t *testing.T) {
	p := dialScript(t, "trap : USR1; (trap 'echo child; exit' USR1; echo ready; while :; do sleep 0.01; done) & wait; wait; exit 3")
	await(t, p)
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(p); err != nil || string(got) != "child\n" {
		t.Errorf("read %q, %v", got, err)
	}
	if exit, err := p.Wait(); err != nil || exit.Status != 3 {
		t.Errorf("%v, %v", exit, err)
	}
	if err := p.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signalling what has ended: %v", err)
	}
}

// A program that cannot be started has the status that shells give it.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		program string
		status  int
		text    string
	}{
		{"wirectl-no-such-program", 127, "wirectl-no-such-program: command not found: check the name and PATH"},
		{filepath.Join(dir, "missing"), 127, "command not found"},
		{write("plain", "#!/bin/sh\n", 0o600), 126, "permission denied: it is not executable: try chmod +x"},
		{write("noscript", "echo\n", 0o700), 126, "exec format error: it is not a program for this machine"},
		{write("lost", "#!/no/such/interpreter\n", 0o700), 126, "the interpreter that its first line names is missing"},
		{dir, 126, "is a directory"},
	} {
		e, err := transport.Parse([]string{"--", tt.program}, transport.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Dial(t.Context())
		var se *transport.StartError
		if !errors.As(err, &se) || se.Status != tt.status || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v (status %+v)", tt.program, err, se)
		}
	}
}

// The child's ends of its pipes are blocking ones, which most programs count on.
func TestPipesBlock(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("fdinfo is Linux's")
	}
	got, err := io.ReadAll(dialScript(t, "grep flags /proc/self/fdinfo/0 /proc/self/fdinfo/1"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(got)) {
		_, octal, _ := strings.Cut(line, "flags:")
		flags, err := strconv.ParseInt(strings.TrimSpace(octal), 8, 32)
		if err != nil || flags&syscall.O_NONBLOCK != 0 {
			t.Errorf("%s: %v", line, err)
		}
	}
}

package python_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/env/python"
	"github.com/wirectl/wirectl/rlm/sandbox"
)

// sandboxed returns an environment in the best sandbox of this machine. In the end nothing
// may be left of its workers.
func sandboxed(t *testing.T, c env.Config) (*interpreter, *sandbox.Launcher) {
	t.Helper()
	l, err := sandbox.Probe(t.Context())
	if none := new(sandbox.UnavailableError); errors.As(err, &none) {
		if len(none.Reasons) == 0 || len(none.Help) == 0 {
			t.Errorf("%v: neither why nor what would help", none)
		}
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Log(l.Report())
	t.Cleanup(func() {
		if left := children(t, os.Getpid()); len(left) > 0 {
			t.Error("processes are left:", left)
		}
		group := fmt.Sprintf("wirectl-rlm-%d-", os.Getpid())
		_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(d.Name(), group) {
				t.Error("a cgroup is left:", path)
			}
			return nil // folders of others may vanish
		})
	})
	c.Launcher, c.Spec.Memory = l, 2<<30
	return start(t, c, python.Options{}), l
}

// children returns the child processes of a process.
func children(t *testing.T, parent int) (found []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		stat, _ := os.ReadFile(path) // it may have ended
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if f := strings.Fields(string(rest)); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, pid)
		}
	}
	return found
}

// In the sandbox, too, what code does wrong is an error of its cell, and the next cell runs.
func TestSandboxedFaults(t *testing.T) {
	i, _ := sandboxed(t, env.Config{Setup: "import os, sys, threading, signal"})
	for _, c := range []struct {
		code, want string // prefix of the error, "" for none
		lost       bool
	}{
		{"while True: os.fork()", "1 PermissionError", false},
		{"import subprocess\nsubprocess.run([sys.executable, '-c', '0'])", "2 PermissionError", false},
		{"threading.stack_size(128 << 20)\ngo = threading.Event()\ntry:\n while 1: threading.Thread(target=go.wait).start()\nfinally: go.set()", "4 RuntimeError: can't start new thread", false},
		{"a = [0]\na * 10**10", "2 MemoryError", false},
		{"bytearray(8 << 30)", "1 MemoryError", false},
		{"def f(): f()\nf()", "1 RecursionError", false},
		{"sys.exit('bye')", "1 SystemExit: bye", false},
		{"raise KeyboardInterrupt", "1 KeyboardInterrupt", false},
		{"os._exit(3)", "0 InterpreterDied: the interpreter ended: exit status 3" + gone, true},
		{"os._exit(0)", "0 InterpreterDied: the interpreter ended: with status 0" + gone, true},
		{"import ctypes; ctypes.string_at(0)", "0 InterpreterDied: the interpreter ended: ", true},
		{"os.write(3, b'\\xff\\xff\\xff\\xff')\nwhile True: pass", "0 InterpreterDied: the interpreter ended: frame ", true},
		{"os.close(3); print(1)", "0 InterpreterDied", true},
		{"import time\ndef late():\n while True: time.sleep(.001); print('late')\nthreading.Thread(target=late).start()", "", false},
		{"for _ in range(1024): print('x' * ((1 << 20) - 1))", "", false},
		{"sys.stdout.close(); os.close(1); os.close(2); print('still')", "", false},
		{"f = open('/dev/null'); g = (x for x in []); lock = threading.Lock()", "", false},
		{"class Bad:\n def __repr__(self): raise SystemExit\nbad = Bad()", "", false},
		{"class Hang:\n def __repr__(self):\n  while True: pass\nhang = Hang()", "", false},
		{"del hang; lone = '\\ud800'; print(lone, llm_query(lone)); sys.stderr.write(lone)", "", false},
		{"open('big', 'wb').truncate(2 << 30)", "1 OSError", false},
		{"open('/etc/passwd')", "1 ", false}, // it is not there, or not to be opened
		{"for n in range(1000): open(f'{n}', 'w').write('x'); os.mkdir(f'd{n}')", "", false},
	} {
		r := i.run(c.code)
		got := ""
		if r.Err != nil {
			got = fmt.Sprintf("%d %v", r.Err.Line, r.Err)
		}
		if !strings.HasPrefix(got, c.want) || got != "" && c.want == "" || r.Lost != c.lost {
			t.Errorf("%s\nfailed with %q, lost %v; want %q, %v", c.code, got, r.Lost, c.want, c.lost)
		}
		if len(r.Stdout) > 1<<20 || len(r.Stdout) == 1<<20 && r.Omitted != 1<<30-1<<20 {
			t.Errorf("%s\n%d bytes, %d omitted", c.code, len(r.Stdout), r.Omitted)
		}
		i.prints("print(llm_query('next'))", "next\n")
	}
}

// A cell that takes too long is ended there, too.
func TestSandboxedTimeouts(t *testing.T) {
	i, _ := sandboxed(t, env.Config{Timeout: soon, Grace: soon})
	for code, lost := range map[string]bool{
		"kept = 1\nwhile True: pass": false,
		"while True:\n    try:\n        for _ in iter(int, 1): pass\n    except BaseException: pass": true,
		"7 ** (10 ** 9)": true,
	} {
		r := i.run(code)
		for r.Lost != lost && r.Err != nil {
			r = i.run(code) // a slow machine: it was interrupted earlier, or could not end in time
		}
		if r.Err == nil || r.Err.Type != "Timeout" {
			t.Errorf("%s: %+v %v", code, r, r.Err)
		}
		i.again("print('next')", "next\n")
	}
}

// A worker that is killed while it loads, runs code or waits for a call is replaced.
func TestSandboxedKilled(t *testing.T) {
	i, _ := sandboxed(t, env.Config{})
	kill := func() { // the worker itself, which bwrap may be the parent of
		pid := os.Getpid()
		for found := children(t, pid); len(found) > 0; found = children(t, pid) {
			pid = found[0]
		}
		end(t, pid)
	}
	path := filepath.Join(t.TempDir(), "context")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- i.Load(t.Context(), rlm.Context{Path: path, Type: "jsonl"}) }()
	f, err := os.OpenFile(path, os.O_WRONLY, 0) // once it is open for reading
	if err != nil {
		t.Fatal(err)
	}
	kill()
	if err := <-done; err == nil || !strings.HasPrefix(err.Error(), "load the context: InterpreterDied: the interpreter ended: ") {
		t.Error(err)
	}
	f.Close()
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("text"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := i.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"while True: llm_query('x')", "import threading\nthreading.Thread(target=llm_query, args='x').start()\nwhile True: pass"} {
		i.calls = echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
			kill()
			<-ctx.Done()
			return same(ctx, q)
		})
		if r := i.fails(code, "0 InterpreterDied: the interpreter ended: "); !r.Lost {
			t.Error("not lost")
		}
		i.prints("print(context)", "text\n")
	}
}

// The code of a cell reaches nothing outside its session folder, and the worker survives
// all attempts.
func TestSandboxedEscapes(t *testing.T) {
	t.Setenv("SANDBOX_TEST_SECRET", "secret")
	i, l := sandboxed(t, env.Config{})
	outside := t.TempDir()
	secret, context := filepath.Join(outside, "secret"), filepath.Join(t.TempDir(), "context")
	write(t, secret, "secret")
	write(t, context, "text")
	if err := i.Load(t.Context(), rlm.Context{Path: context, Type: "text"}); err != nil {
		t.Fatal(err)
	}
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	abstract := "wirectl-" + filepath.Base(filepath.Dir(outside))
	hidden, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer hidden.Close()
	port := door.Addr().(*net.TCPAddr).Port
	facts, err := json.Marshal(map[string]any{
		"secret": secret, "outside": outside, "pid": os.Getpid(), "readable": context, "readable_outside": context,
		"tcp": port, "udp": port, "abstract": abstract, "unix": filepath.Join(outside, "socket"),
		"private": slices.Contains(l.Report().Holds, "namespaces") || slices.Contains(l.Report().Holds, "bwrap"),
		"open":    4, // standard input of the code
	})
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.FromSlash("../../sandbox/testdata/escape.py"))
	if err != nil {
		t.Fatal(err)
	}
	r := i.run(fmt.Sprintf("import sys; sys.argv[1:] = [%q]\n%s", facts, script))
	if r.Err != nil || r.Lost || !strings.HasSuffix(r.Stdout, "\nend\n") || strings.Count(r.Stdout, "\n") < 90 {
		t.Errorf("the script did not get to its end: %v\n%s", r.Err, r.Stdout)
	}
	for line := range strings.Lines(r.Stdout) {
		if strings.Contains(line, "REACHED") {
			t.Error(line)
		}
	}
	i.prints("print(context, llm_query('next'))", "text next\n")
	if found, err := os.ReadDir(outside); err != nil || len(found) != 1 {
		t.Error(found, err)
	}
	if text, err := os.ReadFile(secret); string(text) != "secret" {
		t.Errorf("%q, %v", text, err)
	}
}

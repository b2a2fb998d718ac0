package env_test

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
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/env/internal/envtest"
	"github.com/wirectl/wirectl/rlm/env/python"
	"github.com/wirectl/wirectl/rlm/env/starlark"
	"github.com/wirectl/wirectl/rlm/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	starlark.Main()
	goleak.VerifyTestMain(m)
}

// A kind is an environment as users have it, isolated.
type kind struct {
	name     string
	language string
	open     func(t *testing.T, c env.Config) (*env.Env, error)
	// standard is the last descriptor that the worker may have.
	standard int
}

var kinds = []kind{
	{"python", "python", func(t *testing.T, c env.Config) (*env.Env, error) {
		c.Launcher = isolated(t)
		return python.New(interpreter(t), c, python.Options{}), nil
	}, 4},
	{"starlark", "starlark", func(t *testing.T, c env.Config) (*env.Env, error) {
		c.Launcher = isolated(t)
		return starlark.New(c)
	}, 0},
}

// each runs a test for each kind. In the end nothing may be left of its workers.
func each(t *testing.T, test func(t *testing.T, k kind, start func(env.Config) *envtest.Interpreter)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Cleanup(func() { nothingLeft(t) })
			test(t, k, func(c env.Config) *envtest.Interpreter {
				c.Spec.Memory = 1 << 30
				return envtest.Start(t, c, func(c env.Config) (*env.Env, error) { return k.open(t, c) })
			})
		})
	}
}

// need skips a test for which the machine lacks something, which in CI it must not.
func need(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

func interpreter(t *testing.T) python.Interpreter {
	t.Helper()
	p, err := python.Find(t.Context())
	need(t, err)
	return p
}

// isolated returns the best sandbox of this machine.
func isolated(t *testing.T) *sandbox.Launcher {
	t.Helper()
	l, err := sandbox.Probe(t.Context())
	if none := new(sandbox.UnavailableError); errors.As(err, &none) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return l
}

func nothingLeft(t *testing.T) {
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

// soon is a limit that a test waits for, and never passes too early what it is about.
const soon = 100 * time.Millisecond

const gone = "; the interpreter is a new one, without the variables"

// A fault is code that does something wrong. Languages that cannot do it have no code.
type fault struct {
	code map[string]string
	want string // prefix of the error, "" for none
	lost bool
}

func inPython(code string) map[string]string   { return map[string]string{"python": code} }
func inStarlark(code string) map[string]string { return map[string]string{"starlark": code} }
func inBoth(code string) map[string]string {
	return map[string]string{"python": code, "starlark": code}
}

var faults = []fault{
	{inPython("while True: os.fork()"), "1 PermissionError", false},
	{inPython("import subprocess\nsubprocess.run([sys.executable, '-c', '0'])"), "2 PermissionError", false},
	{inPython("threading.stack_size(128 << 20)\ngo = threading.Event()\ntry:\n while 1: threading.Thread(target=go.wait).start()\nfinally: go.set()"), "4 RuntimeError: can't start new thread", false},
	{inPython("a = [0]\na * 10**10"), "2 MemoryError", false},
	{inStarlark("a = [0]\na * (1 << 31)"), "2 MemoryError", false},
	{inPython("bytearray(8 << 30)"), "1 MemoryError", false},
	{inStarlark("a = []\nwhile True: a.append('x' * (1 << 20))"), "2 MemoryError: the variables take more memory", false},
	{inStarlark("a = None"), "", false}, // so that there is room again
	{inPython("def f(): f()\nf()"), "1 RecursionError", false},
	{inStarlark("def f(): f()\nf()"), "1 RecursionError", false},
	{inPython("sys.exit('bye')"), "1 SystemExit: bye", false},
	{inStarlark("fail('bye')"), "1 Error: fail: bye", false},
	{inPython("raise KeyboardInterrupt"), "1 KeyboardInterrupt", false},
	{inPython("os._exit(3)"), "0 InterpreterDied: the interpreter ended: exit status 3" + gone, true},
	{inPython("os._exit(0)"), "0 InterpreterDied: the interpreter ended: with status 0" + gone, true},
	{inPython("import ctypes; ctypes.string_at(0)"), "0 InterpreterDied: the interpreter ended: ", true},
	{inPython("os.write(%d, b'\\xff\\xff\\xff\\xff')\nwhile True: pass"), "0 InterpreterDied: the interpreter ended: frame ", true},
	{inPython("os.close(%d); print(1)"), "0 InterpreterDied", true},
	{inPython("import time\ndef late():\n while True: time.sleep(.001); print('late')\nthreading.Thread(target=late).start()"), "", false},
	{inBoth("s = 'x' * ((1 << 20) - 1)\nfor _ in range(1024): print(s)"), "", false},
	{inPython("sys.stdout.close(); os.close(1); os.close(2); print('still')"), "", false},
	{inPython("f = open('/dev/null'); g = (x for x in []); lock = threading.Lock()"), "", false},
	{inPython("class Bad:\n def __repr__(self): raise SystemExit\nbad = Bad()"), "", false},
	{inPython("class Hang:\n def __repr__(self):\n  while True: pass\nhang = Hang()"), "", false},
	{inPython("del hang; lone = '\\ud800'; print(lone, llm_query(lone)); sys.stderr.write(lone)"), "", false},
	{inStarlark("lone = 'ü'[:1]; print(lone, llm_query(lone)); loop = []; loop.append(loop); d = {}; d['d'] = d"), "", false},
	{inStarlark("deep = []\nfor _ in range(1000000): deep = [deep]"), "", false},
	{inStarlark("big = 1 << 500\nfor _ in range(12): big = big * big"), "", false},
	{inPython("open('big', 'wb').truncate(2 << 30)"), "1 OSError", false},
	{inPython("open('/etc/passwd')"), "1 ", false}, // it is not there, or not to be opened
	{inPython("for n in range(1000): open(f'{n}', 'w').write('x'); os.mkdir(f'd{n}')"), "", false},
}

// What code does wrong is an error of its cell, and the next cell runs.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, k kind, start func(env.Config) *envtest.Interpreter) {
		setup := ""
		if k.language == "python" {
			setup = "import os, sys, threading, signal"
		}
		i := start(env.Config{Setup: setup})
		for _, f := range faults {
			code, ok := f.code[k.language]
			if !ok {
				continue
			}
			if strings.Contains(code, "%d") {
				code = fmt.Sprintf(code, k.standard-1)
			}
			r := i.Run(code)
			got := ""
			if r.Err != nil {
				got = fmt.Sprintf("%d %v", r.Err.Line, r.Err)
			}
			if !strings.HasPrefix(got, f.want) || got != "" && f.want == "" || r.Lost != f.lost {
				t.Errorf("%s\nfailed with %q, lost %v; want %q, %v", code, got, r.Lost, f.want, f.lost)
			}
			if len(r.Stdout) > 1<<20 || len(r.Stdout) == 1<<20 && r.Omitted != 1<<30-1<<20 {
				t.Errorf("%s\n%d bytes, %d omitted", code, len(r.Stdout), r.Omitted)
			}
			i.Prints("print(llm_query('next'))", "next\n")
		}
	})
}

// A cell that takes too long is interrupted, and ended if that does not help.
func TestTimeouts(t *testing.T) {
	each(t, func(t *testing.T, k kind, start func(env.Config) *envtest.Interpreter) {
		i := start(env.Config{Timeout: soon, Grace: soon})
		for _, f := range []fault{
			{inBoth("kept = 1\nwhile True: pass"), "", false},
			{inStarlark("kept = 1\ndef f(n):\n    return f(n - 1) if n else [x for x in range(1 << 40)]\nf(100)"), "", false},
			{inPython("while True:\n    try:\n        for _ in iter(int, 1): pass\n    except BaseException: pass"), "", true},
			{inPython("7 ** (10 ** 9)"), "", true},
			{inStarlark("x = []\nfor _ in range(1000000): x = [x]\nprint(x)"), "", true},
		} {
			code, ok := f.code[k.language]
			if !ok {
				continue
			}
			r := i.Run(code)
			for r.Lost != f.lost && r.Err != nil {
				r = i.Run(code) // a slow machine: it was interrupted earlier, or could not end in time
			}
			if r.Err == nil || r.Err.Type != "Timeout" {
				t.Errorf("%s: %+v %v", code, r, r.Err)
			}
			i.Again("print('next')", "next\n")
		}
	})
}

// kill kills the worker itself, whose parents may be programs that isolate it.
func kill(t *testing.T) {
	pid := os.Getpid()
	for found := children(t, pid); len(found) > 0; found = children(t, pid) {
		pid = found[0]
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Error(err)
	}
}

// A worker that is killed while it loads, runs code or waits for a call is replaced.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, k kind, start func(env.Config) *envtest.Interpreter) {
		i := start(env.Config{})
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
		kill(t)
		if err := <-done; err == nil || !strings.HasPrefix(err.Error(), "load the context: InterpreterDied: the interpreter ended: ") {
			t.Error(err)
		}
		f.Close()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		envtest.Write(t, path, "text")
		if err := i.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
			t.Fatal(err)
		}
		for _, code := range []map[string]string{
			inBoth("while True: llm_query('x')"), inBoth("llm_query_batched(['x'] * 3)"),
			inPython("import threading\nthreading.Thread(target=llm_query, args='x').start()\nwhile True: pass"),
		} {
			if code[k.language] == "" {
				continue
			}
			calls := i.Calls
			i.Calls = envtest.Echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
				kill(t)
				<-ctx.Done()
				return envtest.Same(ctx, q)
			})
			if r := i.Fails(code[k.language], "0 InterpreterDied: the interpreter ended: "); !r.Lost {
				t.Error("not lost")
			}
			i.Calls = calls
			i.Prints("print(context)", "text\n")
		}
	})
}

// Whatever ends a cell ends its calls, and its variables survive.
func TestCancelled(t *testing.T) {
	each(t, func(t *testing.T, k kind, start func(env.Config) *envtest.Interpreter) {
		i := start(env.Config{})
		asked := make(chan struct{}, 100)
		for n, code := range []string{"llm_query('x')", "llm_query_batched(['x'] * 16)", "rlm_query('x')"} {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-asked
				cancel()
			}()
			r, err := i.Exec(ctx, rlm.Cell{Code: fmt.Sprintf("kept = %d\n%s", n, code), Calls: envtest.Blocked(asked)})
			if err != nil || r.Err == nil || r.Err.Type != "KeyboardInterrupt" || r.Lost {
				t.Errorf("%s: %v %v", code, r.Err, err)
			}
			cancel()
			i.Prints("print(kept, llm_query('next'))", strconv.Itoa(n)+" next\n")
		}
	})
}

// The code of a cell reaches nothing outside its session folder, and the worker survives
// all attempts.
func TestEscapes(t *testing.T) {
	t.Setenv("SANDBOX_TEST_SECRET", "secret")
	each(t, func(t *testing.T, k kind, start func(env.Config) *envtest.Interpreter) {
		i := start(env.Config{})
		outside := t.TempDir()
		secret, context := filepath.Join(outside, "secret"), filepath.Join(t.TempDir(), "context")
		envtest.Write(t, secret, "secret")
		envtest.Write(t, context, "text")
		if err := i.Load(t.Context(), rlm.Context{Path: context, Type: "text"}); err != nil {
			t.Fatal(err)
		}
		if k.language == "python" {
			escapePython(t, k, i, outside, context)
		} else {
			escapeStarlark(i, secret)
		}
		i.Prints("print(context, llm_query('next'))", "text next\n")
		if found, err := os.ReadDir(outside); err != nil || len(found) != 1 {
			t.Error(found, err)
		}
		if text, err := os.ReadFile(secret); string(text) != "secret" {
			t.Errorf("%q, %v", text, err)
		}
	})
}

func escapePython(t *testing.T, k kind, i *envtest.Interpreter, outside, context string) {
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
	holds := isolated(t).Report().Holds
	facts, err := json.Marshal(map[string]any{
		"secret": filepath.Join(outside, "secret"), "outside": outside, "pid": os.Getpid(), "readable": context, "readable_outside": context,
		"tcp": port, "udp": port, "abstract": abstract, "unix": filepath.Join(outside, "socket"),
		"private": slices.Contains(holds, "namespaces") || slices.Contains(holds, "bwrap"),
		"open":    k.standard, // standard input of the code
	})
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.FromSlash("../sandbox/testdata/escape.py"))
	if err != nil {
		t.Fatal(err)
	}
	r := i.Run(fmt.Sprintf("import sys; sys.argv[1:] = [%q]\n%s", facts, script))
	if r.Err != nil || r.Lost || !strings.HasSuffix(r.Stdout, "\nend\n") || strings.Count(r.Stdout, "\n") < 90 {
		t.Errorf("the script did not get to its end: %v\n%s", r.Err, r.Stdout)
	}
	for line := range strings.Lines(r.Stdout) {
		if strings.Contains(line, "REACHED") {
			t.Error(line)
		}
	}
}

// escapeStarlark tries what the language has no words for.
func escapeStarlark(i *envtest.Interpreter, secret string) {
	for code, want := range map[string]string{
		fmt.Sprintf("load(%q, 'x')", secret): "1 SyntaxError: load: there are no modules",
		fmt.Sprintf("open(%q)", secret):      "1 NameError: name 'open' is not defined",
		"import os":                          "1 SyntaxError",
		"exec('1')":                          "1 NameError",
		"eval('1')":                          "1 NameError",
		"__import__('os')":                   "1 NameError",
		"print.__class__":                    "1 Error: builtin_function_or_method has no .__class__ field",
		"(lambda: 1).__globals__":            "1 Error: function has no .__globals__ field",
		"time.now()":                         "1 NameError",
		"json.decode('[' * 100)":             "1 Error: json.decode: ",
		"regex_find('(', 'x')":               "1 Error: error parsing regexp",
		"getattr(llm_query, 'x')":            "1 Error",
		"json.nope":                          "1 Error",
		"print(\"%c\" % -1)":                 "1 Error",
		"RLM_DEPTH.x":                        "1 Error",
		"print(dir(json), dir(math))\nfail('%s' % os)": "2 NameError",
	} {
		i.Fails(code, want)
	}
}

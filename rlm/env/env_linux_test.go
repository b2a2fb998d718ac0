package env_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
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
	"github.com/wirectl/wirectl/rlm/env/starlark"
	"github.com/wirectl/wirectl/rlm/sandbox"
	"github.com/wirectl/wirectl/test/kit/envtest"
	"github.com/wirectl/wirectl/test/kit/standin"
)

// engines are the names of the stand-in program, so that no real engine is found.
var engines = []string{"docker", "podman"}

func TestMain(m *testing.M) {
	if slices.Contains(engines, filepath.Base(os.Args[0])) {
		os.Exit(standin.Docker(os.Args[1:]))
	}
	sandbox.Main()
	starlark.Main()
	goleak.VerifyTestMain(m)
}

// A kind is an isolated environment as users run it.
type kind struct {
	name     string
	language string
	open     func(t *testing.T, c env.Config) (*env.Env, error)
	wire     int // the descriptor for the worker's output
}

var kinds = []kind{
	{"python", "python", func(t *testing.T, c env.Config) (*env.Env, error) {
		c.Launcher = isolated(t)
		return env.NewPython(interpreter(t), c, env.PythonOptions{}), nil
	}, 3},
	{"starlark", "starlark", func(t *testing.T, c env.Config) (*env.Env, error) {
		c.Launcher = isolated(t)
		return starlark.New(c)
	}, 3},
	{"container", "python", func(t *testing.T, c env.Config) (*env.Env, error) {
		return engine(t).New(c, env.ContainerOptions{Image: image()}), nil
	}, 5},
	{"exec", "python", func(t *testing.T, c env.Config) (*env.Env, error) {
		c.Files = env.PythonFiles()
		return env.NewExec(c, connector(t))
	}, 5},
}

// connector returns a command that isolates the worker with bwrap.
func connector(t *testing.T) []string {
	t.Helper()
	_, err := exec.LookPath("bwrap")
	need(t, err)
	return append([]string{"sh", "-c", `exec bwrap --die-with-parent --unshare-all --as-pid-1 --ro-bind / / --bind "$PWD" "$PWD" --dev /dev --proc /proc "$@"`, "sh", interpreter(t).Path},
		env.PythonArgs(env.PythonOptions{}, true, 1<<30)...)
}

// realImage is an environment variable with an image of the podman on PATH. Without it, a
// stand-in replaces docker.
const realImage = "REAL_IMAGE"

func image() string { return cmp.Or(os.Getenv(realImage), env.DefaultImage) }

// engine returns the engine. At the end of the test it must have no container.
func engine(t *testing.T) *env.Engine {
	t.Helper()
	if os.Getenv(realImage) != "" {
		t.Cleanup(func() {
			left, err := exec.Command("podman", "ps", "-a", "--filter", "label=wirectl.rlm").CombinedOutput()
			if err != nil || bytes.Contains(left, fmt.Appendf(nil, "wirectl-rlm-%d-", os.Getpid())) {
				t.Errorf("containers are left: %v\n%s", err, left)
			}
		})
		e, err := env.FindEngine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	_, err := exec.LookPath("bwrap")
	need(t, err)
	interpreter(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, state := t.TempDir(), t.TempDir()
	for _, name := range engines {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv(standin.StateDir, state)
	t.Cleanup(func() {
		if left, _ := filepath.Glob(filepath.Join(state, "*")); len(left) > 0 {
			t.Error("containers are left:", left)
		}
	})
	e, err := env.FindEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// each runs a test for each kind. At the end no process of its workers may remain.
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

// need skips a test if the machine lacks something. In CI the test fails.
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

func interpreter(t *testing.T) env.Interpreter {
	t.Helper()
	p, err := env.FindPython(t.Context())
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
		return nil // other processes' folders may vanish
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
		stat, _ := os.ReadFile(path) // it may have exited
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if f := strings.Fields(string(rest)); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, pid)
		}
	}
	return found
}

// A fault is code that does something wrong. Languages without such code leave it empty.
type fault struct {
	code code
	want string // prefix of the error, "" for none
	lost bool
}

// A code has one version for each language, or kind.
type code map[string]string

func (c code) of(k kind) (string, bool) {
	if text := c[k.name]; text != "" {
		return text, true
	}
	return c[k.language], c[k.language] != ""
}

func inPython(text string) code   { return code{"python": text} }
func inStarlark(text string) code { return code{"starlark": text} }
func inBoth(text string) code     { return code{"python": text, "starlark": text} }

// inSandbox returns Python code that only our own sandbox rejects.
func inSandbox(text string) code { return code{"python": text, "container": "0", "exec": "0"} }

var faults = []fault{
	{inSandbox("while True: os.fork()"), "1 PermissionError", false},
	{inSandbox("import subprocess\nsubprocess.run([sys.executable, '-c', '0'])"), "2 PermissionError", false},
	{inPython("threading.stack_size(128 << 20)\ngo = threading.Event()\ntry:\n while 1: threading.Thread(target=go.wait).start()\nfinally: go.set()"), "4 RuntimeError: can't start new thread", false},
	{inPython("a = [0]\na * 10**10"), "2 MemoryError", false},
	{inStarlark("a = [0]\na * (1 << 31)"), "2 MemoryError", false},
	{inPython("bytearray(8 << 30)"), "1 MemoryError", false},
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
	{inSandbox("class Hang:\n def __repr__(self):\n  while True: pass\nhang = Hang()"), "", false},
	{inSandbox("del hang"), "", false},
	{inPython("lone = '\\ud800'; print(lone, llm_query(lone)); sys.stderr.write(lone)"), "", false},
	{inStarlark("lone = 'ü'[:1]; print(lone, llm_query(lone)); loop = []; loop.append(loop); d = {}; d['d'] = d"), "", false},
	{inStarlark("deep = []\nfor _ in range(1000000): deep = [deep]"), "", false},
	{inStarlark("big = 1 << 500\nfor _ in range(12): big = big * big"), "", false},
	{inSandbox("open('big', 'wb').truncate(2 << 30)"), "1 OSError", false},
	{inSandbox("open('/etc/passwd')"), "1 ", false}, // the file is missing, or cannot be opened
	{inPython("for n in range(1000): open(f'{n}', 'w').write('x'); os.mkdir(f'd{n}')"), "", false},
}

// Faulty code is an error of its cell, and the next cell runs.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, k kind, start func(env.Config) *envtest.Interpreter) {
		if testing.Short() && k.name == "container" {
			t.Skip("slow, and the other tests of containers run the same goroutines")
		}
		setup := ""
		if k.language == "python" {
			setup = "import os, sys, threading, signal"
		}
		i := start(env.Config{Setup: setup})
		for _, f := range faults {
			code, ok := f.code.of(k)
			if !ok {
				continue
			}
			if code == "0" {
				f.want = "" // allowed in a container, and does not affect us
			}
			if strings.Contains(code, "%d") {
				code = fmt.Sprintf(code, k.wire)
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

// A cell that takes too long is interrupted, and killed if that does not help.
func TestTimeouts(t *testing.T) {
	each(t, func(t *testing.T, k kind, start func(env.Config) *envtest.Interpreter) {
		i := start(env.Config{Timeout: soon, Grace: soon})
		for _, f := range []fault{
			{inBoth("kept = 1\nwhile True: pass"), "", false},
			{inStarlark("kept = 1\ndef f(n):\n    return f(n - 1) if n else [x for x in range(1 << 40)]\nf(100)"), "", false},
			{inPython("while True:\n    try:\n        for _ in iter(int, 1): pass\n    except BaseException: pass"), "", true},
			{inPython("7 ** (10 ** 9)"), "", true},
		} {
			code, ok := f.code.of(k)
			if !ok {
				continue
			}
			r := i.Run(code)
			for r.Lost != f.lost && r.Err != nil {
				r = i.Run(code) // on a slow machine it was interrupted early, or did not end in time
			}
			if r.Err == nil || r.Err.Type != "Timeout" {
				t.Errorf("%s: %+v %v", code, r, r.Err)
			}
			i.Again("print('next')", "next\n")
		}
	})
}

// kill kills the worker itself. Its parents may be programs that isolate it.
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
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // blocks until a reader opens it
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
		for _, code := range []code{
			inBoth("while True: llm_query('x')"), inBoth("llm_query_batched(['x'] * 3)"),
			inPython("import threading\nthreading.Thread(target=llm_query, args='x').start()\nwhile True: pass"),
		} {
			text, ok := code.of(k)
			if !ok {
				continue
			}
			calls := i.Calls
			i.Calls = envtest.Echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
				kill(t)
				<-ctx.Done()
				return envtest.Same(ctx, q)
			})
			if r := i.Fails(text, "0 InterpreterDied: the interpreter ended: "); !r.Lost {
				t.Error("not lost")
			}
			i.Calls = calls
			i.Prints("print(context)", "text\n")
		}
	})
}

// Every end of a cell ends its calls. Its variables survive.
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

// The code of a cell can access nothing outside its session folder, and the worker survives
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
		switch k.name {
		case "python":
			escapePython(t, k, i, outside, context)
		case "starlark":
			escapeStarlark(i, secret)
		case "container":
			escapeContainer(t, i, secret)
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
		"open":    k.wire + 1, // standard input of the code
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

// escapeStarlark tries operations that the language does not have.
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

// escapeContainer tries to access this machine. Access to the container itself, such as its
// sockets and processes, is allowed.
func escapeContainer(t *testing.T, i *envtest.Interpreter, secret string) {
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	abstract := "wirectl-" + filepath.Base(filepath.Dir(filepath.Dir(secret)))
	hidden, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer hidden.Close()
	i.Prints("import os, socket, signal, ctypes, subprocess, sys\ntcp = lambda *a: socket.create_connection(a, 5)\nunix = lambda a: socket.socket(socket.AF_UNIX).connect(a)", "")
	for _, code := range []string{
		fmt.Sprintf("open(%q)", secret), fmt.Sprintf("os.listdir(%q)", filepath.Dir(secret)), "open('/workspace/worker.py', 'w')",
		"open('/context', 'w')", "open('/usr/x', 'w')", "os.mkdir('/x')", "open('/sys/x', 'w')",
		fmt.Sprintf("tcp('127.0.0.1', %d)", door.Addr().(*net.TCPAddr).Port), "tcp('192.0.2.1', 80)", "tcp('localhost', 80)",
		fmt.Sprintf("unix('\\0%s')", abstract), "unix('/var/run/docker.sock')", "unix('/wirectl.sock')",
		"os.environ['SANDBOX_TEST_SECRET']", "os.environ['" + standin.StateDir + "']",
		fmt.Sprintf("os.kill(%d, 0)", os.Getpid()), fmt.Sprintf("open('/proc/%d/environ')", os.Getpid()),
		"libc = ctypes.CDLL(None, use_errno=True)\nif libc.mount(b'none', b'/tmp', b'tmpfs', 0, None): raise OSError(ctypes.get_errno())",
	} {
		if r := i.Run(code); r.Err == nil || r.Lost {
			t.Errorf("%s: REACHED, or lost: %v", code, r.Lost)
		}
	}
	i.Prints("print(os.getcwd(), sorted(os.listdir('/workspace')), open('/context').read())", "/workspace ['worker.py'] text\n")
	i.Prints("p = subprocess.Popen([sys.executable, '-c', 'while True: pass'], start_new_session=True)\nprint(len(os.listdir('/proc')) > 0)", "True\n")
}

// If wirectl was killed, the next start removes its container. Containers of other
// processes stay.
func TestContainersOfOthers(t *testing.T) {
	engine(t)
	state := os.Getenv(standin.StateDir)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	stray := fmt.Sprintf("wirectl-rlm-%d-aa", ended.Process.Pid)
	ours, alien := fmt.Sprintf("wirectl-rlm-%d-bb", os.Getpid()), fmt.Sprintf("wirectl-rlm-%d-cc", ended.Process.Pid)
	for name, host := range map[string]string{stray: host, ours: host, alien: "elsewhere"} {
		envtest.Write(t, filepath.Join(state, name+".label"), "wirectl.rlm="+host)
		envtest.Write(t, filepath.Join(state, name+".pid"), map[bool]string{true: strconv.Itoa(sleeper.Process.Pid), false: "1"}[name == stray])
	}
	if _, err := env.FindEngine(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Wait(); err == nil {
		t.Error("the stray one was not ended")
	}
	left, _ := filepath.Glob(filepath.Join(state, "*.pid"))
	if want := []string{filepath.Join(state, ours+".pid"), filepath.Join(state, alien+".pid")}; len(left) != 2 || !slices.Contains(left, want[0]) || !slices.Contains(left, want[1]) {
		t.Errorf("left are %v, want %v", left, want)
	}
	for _, name := range []string{ours, alien} {
		if err := errors.Join(os.Remove(filepath.Join(state, name+".label")), os.Remove(filepath.Join(state, name+".pid"))); err != nil {
			t.Error(err)
		}
	}
}

// A container whose start is cancelled is removed, at any point of the start.
func TestCancelledStart(t *testing.T) {
	each(t, func(t *testing.T, _ kind, start func(env.Config) *envtest.Interpreter) {
		for after := range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(after)*30*time.Millisecond)
			i := start(env.Config{})
			_, _ = i.Exec(ctx, rlm.Cell{Code: "1"})
			cancel()
			if err := errors.Join(i.Close(), i.Close()); err != nil {
				t.Error(err)
			}
		}
	})
}

// If the engine is down, the cell fails. The next one runs once it is back.
func TestEngineGone(t *testing.T) {
	i := envtest.Start(t, env.Config{}, func(c env.Config) (*env.Env, error) {
		return engine(t).New(c, env.ContainerOptions{Image: image()}), nil
	})
	i.Prints("print(1)", "1\n")
	marker := filepath.Join(os.Getenv(standin.StateDir), "gone")
	i.Run("import os; os._exit(1)")
	envtest.Write(t, marker, "")
	i.Fails("print(2)", "0 InterpreterDied: start the interpreter: it ended: exit status 1: Cannot connect to the Docker daemon")
	if _, err := env.FindEngine(t.Context()); !errors.Is(err, env.ErrNoEngine) || !strings.Contains(err.Error(), "Cannot connect to the Docker daemon") {
		t.Error(err)
	}
	if err := os.Remove(marker); err != nil {
		t.Fatal(err)
	}
	i.Prints("print(3)", "3\n")
}

// Queries of programs beside the wire are answered while a cell runs, and end with it.
func TestQuery(t *testing.T) {
	each(t, func(t *testing.T, _ kind, start func(env.Config) *envtest.Interpreter) {
		i := start(env.Config{})
		q := rlm.Query{Prompts: []json.RawMessage{json.RawMessage(`"a"`), json.RawMessage(`"bad"`)}, Batch: true}
		refused := func() {
			t.Helper()
			if a := i.Query(t.Context(), q); len(a) != 2 || a[0].Err == nil || a[1].Err == nil {
				t.Errorf("answered between cells: %v", a)
			}
		}
		refused()
		i.Prints("print(1)", "1\n")
		refused()
		inside := make(chan []rlm.Answer, 2)
		i.Calls = envtest.Echo(func(ctx context.Context, asked rlm.Query) []rlm.Answer {
			switch {
			case asked.Batch && string(asked.Prompts[0]) == `"wait"`:
				<-ctx.Done()
				return []rlm.Answer{{Err: ctx.Err()}}
			case !asked.Batch:
				inside <- i.Query(ctx, q)
				go func() {
					inside <- i.Query(t.Context(), rlm.Query{Prompts: []json.RawMessage{json.RawMessage(`"wait"`)}, Batch: true})
				}()
			}
			return envtest.Same(ctx, asked)
		})
		i.Prints("print(llm_query('x'))", "x\n")
		if a := <-inside; len(a) != 2 || a[0].Text != "a" || a[0].Err != nil || a[1].Err == nil {
			t.Errorf("%v", a)
		}
		if a := <-inside; len(a) != 1 || a[0].Err == nil {
			t.Errorf("outlived its cell: %v", a)
		}
		i.Close()
		refused()
	})
}

// Tools are functions in the cells of each environment.
func TestTools(t *testing.T) {
	functions := []rlm.Function{{Name: "get_sum", Tool: "get-sum", Arguments: []string{"a", "b"}}}
	each(t, func(t *testing.T, _ kind, start func(env.Config) *envtest.Interpreter) {
		i := start(env.Config{Functions: functions})
		i.Calls = envtest.Echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
			switch {
			case q.Tool == "":
				return envtest.Same(ctx, q)
			case q.Tool != "get-sum" || string(q.Prompts[0]) == "{}":
				return []rlm.Answer{{Err: errors.New("Validation: a is missing")}}
			}
			return []rlm.Answer{{Text: `{"sum": [null, true, "ü"], "of": ` + string(q.Prompts[0]) + "}"}}
		})
		i.Prints("r = get_sum(1, b=['ü', None])\nprint(r['sum'][0], r['sum'][1], r['sum'][2], r['of']['a'], r['of']['b'][0])", "None True ü 1 ü\n")
		i.Fails("x = 1\nget_sum()", "2 ToolError: Validation: a is missing")
		i.Fails("get_sum(1, 2, 3)", "1 ")
		i.Fails("get_sum(1, a=2)", "1 ")
		i.Fails("get_sum(a=get_sum)", "1 ")
		if r := i.Prints("get_sum = 1", ""); len(r.Locals) != 2 {
			t.Error("locals", r.Locals)
		}
		i.Prints(`print(get_sum(a=2)["of"]["a"], llm_query("still"))`, "2 still\n")
		if r := i.Run(`FINAL_VAR("get_sum")`); r.Final != nil || r.Stdout+r.Stderr != "Error: Variable 'get_sum' not found\n" {
			t.Errorf("a function is no answer: %+v", r)
		}

		asked := make(chan struct{})
		i.Calls = envtest.Blocked(asked)
		ctx, stop := context.WithTimeout(t.Context(), envtest.Guard)
		defer stop()
		go func() {
			<-asked
			stop()
		}()
		r, err := i.Exec(ctx, rlm.Cell{Code: "get_sum(1)", Calls: i.Calls})
		if err != nil || r.Err == nil || r.Err.Type != "KeyboardInterrupt" || r.Lost {
			t.Errorf("cancelled: %+v, %v", r, err)
		}
	})
}

//go:build unix

package env_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
)

// soon is a limit for tests that wait for it. It is long enough not to expire too early.
const soon = 100 * time.Millisecond

const gone = "; the interpreter is a new one, without the variables"

// Faulty code is an error of its cell. The next cell runs with the same variables.
func TestCodeFaults(t *testing.T) {
	i := start(t, env.Config{Spec: env.Spec{Memory: 4 << 30}}, env.PythonOptions{})
	i.prints("kept = 1", "")
	large := "10**18"
	if runtime.GOOS == "linux" { // other systems do not enforce the limit
		large = "10**10"
	}
	for _, c := range []struct{ code, want string }{
		{"a = [0]\na * " + large, "2 MemoryError"},
		{"FINAL('x' * (1 << 23))", "1 ValueError: the answer has 8388608 characters, the limit is 4194304"},
		{"x = 'x' * (1 << 23)\nFINAL_VAR('x')", "2 ValueError: the answer has 8388608 characters, the limit is 4194304"},
		{"answer.update(ready=1, content='x' * (1 << 23))", "0 ValueError: the answer has 8388608 characters"},
		{"def f(): f()\nf()", "1 RecursionError"},
		{"import sys\nsys.exit('bye')", "2 SystemExit: bye"},
		{"class E(Exception):\n    def __str__(self): raise SystemExit\nraise E", "3 E"},
		{"import sys; sys.stdout.close(); sys.stderr.close(); print('still'); 1 / 0", "1 ZeroDivisionError"},
		{"import os; os.close(1); os.close(2); os.close(0); print('still'); 1 / 0", "1 ZeroDivisionError"},
		{"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); 1 / 0", "1 ZeroDivisionError"},
		{"import threading; threading.Thread.start = None; 1 / 0", "1 ZeroDivisionError"},
	} {
		i.fails(c.code, c.want)
		i.prints("print(kept, '\\ud800')", "1 \ufffd\n")
	}
	i.prints("f = open('/dev/null'); g = (x for x in []); import threading; l = threading.Lock()", "")
	i.prints("print(type(f).__name__, type(g).__name__)", "TextIOWrapper generator\n")
}

// A cell that takes too long is interrupted, and its variables survive.
func TestInterrupted(t *testing.T) {
	i := start(t, env.Config{Timeout: soon}, env.PythonOptions{})
	for name, code := range map[string]string{
		"loop":   "while True: pass",
		"sleep":  "import time\ntime.sleep(1000)",
		"lock":   "import threading\nthreading.Event().wait()",
		"join":   "import threading, time\nt = threading.Thread(target=time.sleep, args=(1000,), daemon=True); t.start(); t.join()",
		"caught": "while True:\n    try: 1 / 0\n    except Exception: pass",
		"deep":   "def f(n):\n    if n: f(n - 1)\n    while True: print(end='x')\nf(500)",
	} {
		code = fmt.Sprintf("kept = %q\n%s", name, code)
		r := i.run(code)
		for r.Err != nil && r.Err.Line < 2 && !r.Lost {
			r = i.run(code) // interrupted too early
		}
		if r.Err == nil || r.Err.Type != "Timeout" || r.Err.Message != "the cell ran for more than 100ms and was interrupted; the variables are kept" || r.Err.Line < 2 || r.Lost {
			t.Fatalf("%s: %+v, %v", name, r, r.Err)
		}
		i.worked("print(kept)", name+"\n")
	}
}

// worked runs a cell that may itself be interrupted on a slow machine.
func (i *started) worked(code, want string) {
	i.Helper()
	for {
		r := i.run(code)
		if r.Err != nil && r.Err.Type == "Timeout" {
			continue
		}
		if r.Err != nil || r.Stdout != want {
			i.Fatalf("%s printed %q, error %v", code, r.Stdout, r.Err)
		}
		return
	}
}

// A cell that does not stop is killed, with all processes that it has started.
func TestEnded(t *testing.T) {
	for name, code := range map[string]string{
		"stubborn": "while True:\n    try:\n        for _ in iter(int, 1): pass\n    except BaseException: pass",
		"busy":     "7 ** (10 ** 9)",
		"ignored":  "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: pass",
		"stopped":  "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
		"child":    "import subprocess, sys, time\nwhile True:\n    try: subprocess.run([sys.executable, '-S', '-c', 'while 1: pass'])\n    except BaseException: pass",
		"fork":     "import os\nos.fork()\nwhile True:\n    try:\n        for _ in iter(int, 1): pass\n    except BaseException: pass",
	} {
		t.Run(name, func(t *testing.T) {
			i := start(t, env.Config{Timeout: soon, Grace: soon}, env.PythonOptions{})
			r := i.run(code)
			for r.Err != nil && !r.Lost {
				r = i.run(code) // interrupted too early
			}
			if r.Err == nil || r.Err.Type != "Timeout" || r.Err.Message != "the cell ran for more than 100ms, and did not end when it was interrupted"+gone || !r.Lost {
				t.Fatalf("%+v, %v", r, r.Err)
			}
			i.Again("print('fresh')", "fresh\n")
		})
	}
}

// The processes of a cell end with its worker: at Close, and when a cell is killed.
func TestNothingLeft(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	child := fmt.Sprintf(`
import subprocess, sys, os
os.makedirs("locked/inside", exist_ok=True)
os.chmod("locked", 0)
p = subprocess.Popen([sys.executable, "-S", "-c", "f = open(%q, 'w')\nprint(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
p.stdout.readline()
`, fifo)
	for name, code := range map[string]string{"close": child, "died": child + "os._exit(0)", "ended": child + "import signal; os.kill(os.getpid(), signal.SIGSTOP)"} {
		t.Run(name, func(t *testing.T) {
			// It reports EOF once no process has it open for writing.
			r, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			i := start(t, env.Config{Timeout: 10 * soon, Grace: soon}, env.PythonOptions{})
			i.run(code)
			if err := i.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				t.Error(err)
			}
		})
	}
}

// A worker that exits is an error only of the current cell.
func TestDies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c")
	write(t, path, "text")
	i := start(t, env.Config{Setup: "setup = 1"}, env.PythonOptions{})
	if err := i.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]string{
		"print('partly', flush=True); import os; os._exit(3)":               "0 InterpreterDied: the interpreter ended: exit status 3" + gone,
		"import os, signal; os.kill(os.getpid(), signal.SIGKILL)":           "0 InterpreterDied: the interpreter ended: signal: killed" + gone,
		"import os; os.close(3); print('x')":                                "0 InterpreterDied",
		"import os; os.write(3, b'\\xff\\xff\\xff\\xff')\nwhile True: pass": "0 InterpreterDied: the interpreter ended: frame ",
		"import os; os.write(3, b'\\0\\0\\0\\2[1')\nwhile True: pass":       "0 InterpreterDied: the interpreter ended: the interpreter sent a bad message",
		"import ctypes; ctypes.string_at(0)":                                "0 InterpreterDied: the interpreter ended: signal: segmentation fault",
		"import threading, os; llm_query('x'); os._exit(0)":                 "0 InterpreterDied: the interpreter ended: with status 0",
	} {
		if r := i.fails("mine = 1; "+code, want); !r.Lost {
			t.Error(code, "is not lost")
		}
		if r := i.prints("print(context, setup, 'mine' in globals())", "text 1 False\n"); r.Lost {
			t.Error("lost twice")
		}
	}
	// between two cells, and during a call
	i.kill()
	lost := false
	for !lost {
		lost = i.run("pass").Lost
	}
	pid := i.pid()
	i.Calls = echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
		end(t, pid)
		<-ctx.Done()
		return same(ctx, q)
	})
	i.fails("llm_query('x')", "0 InterpreterDied: the interpreter ended: signal: killed")
	i.prints("print(setup)", "1\n")
}

// pid returns the process id of the worker.
func (i *started) pid() int {
	i.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(i.run("import os; print(os.getpid())").Stdout))
	if err != nil {
		i.Fatal(err)
	}
	return n
}

func (i *started) kill() { end(i, i.pid()) }

// end kills a process.
func end(t testing.TB, pid int) {
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Error(err)
	}
}

// If a worker is killed while it loads, loading fails, and the next cell has a new worker.
func TestDiesWhileLoading(t *testing.T) {
	dir := t.TempDir()
	marker, path := filepath.Join(dir, "marker"), filepath.Join(dir, "c")
	write(t, path, "text")
	i := start(t, env.Config{Setup: fmt.Sprintf("import os\nif os.path.exists(%q):\n    os.remove(%q)\n    os._exit(9)", marker, marker)}, env.PythonOptions{})
	write(t, marker, "")
	err := i.Load(t.Context(), rlm.Context{Path: path, Type: "text"})
	if err == nil || err.Error() != "setup code: InterpreterDied: the interpreter ended: exit status 9"+gone {
		t.Fatal(err)
	}
	write(t, marker, "")
	i.fails("print(context)", "0 InterpreterDied: setup code: ")
	i.prints("print(context)", "text\n")
	i.fails("os._exit(0)", "0 InterpreterDied")
	write(t, marker, "")
	i.fails("print(context)", "0 InterpreterDied: setup code: ")
	i.prints("print(context)", "text\n")
}

func TestOutput(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{})
	for code, total := range map[string]int64{
		"for _ in range(1024): print('x' * ((1 << 20) - 1))": 1 << 30,
		"print('x' * ((1 << 26) - 1))":                       1 << 26,
		"for _ in range(1 << 17): print('ü' * 8, end='')":    2 << 20,
		"print('\\0' * ((1 << 21) - 1))":                     2 << 20,
	} {
		r := i.run(code)
		if r.Err != nil || len(r.Stdout) > 1<<20 || len(r.Stdout) < 1<<20-4 || int64(len(r.Stdout))+r.Omitted != total {
			t.Errorf("%s: %d bytes and %d omitted, %v", code, len(r.Stdout), r.Omitted, r.Err)
		}
		i.prints("print(1)", "1\n")
	}
	// A worker that ignores the limit of output.
	r := i.run(`
import os, json
f = json.dumps({"kind": "output", "id": 9, "text": "x" * (1 << 20)}).encode()
for _ in range(3): os.write(3, len(f).to_bytes(4, "big") + f)`)
	if len(r.Stdout) != 1<<20 || r.Omitted != 2<<20 {
		t.Error(len(r.Stdout), r.Omitted)
	}
}

// A repr that hangs costs a second, but no variables.
func TestHangingRepr(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{})
	r := i.run(`
class Hang:
    def __repr__(self):
        while True: pass
before, hang, after = 1, Hang(), 2`)
	if r.Err != nil || r.Locals["hang"] != "<Hang>" {
		t.Errorf("%v, %v", r.Locals, r.Err)
	}
	i.prints("del hang\nprint(before, after)", "1 2\n")
}

// A thread that outlives its cell does not affect later cells.
func TestThreads(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{})
	i.prints(`
import threading, time
go, said, done = threading.Event(), [], threading.Event()
def late():
    go.wait()
    print("late")
    said.append(llm_query("late"))
    FINAL("late")
    t = threading.Thread(target=lambda: (print("later"), said.append(llm_query("later"))))
    t.start(); t.join()
    done.set()
threading.Thread(target=late).start()
print("first")`, "first\n")
	if r := i.prints("go.set(); done.wait(); print('second')", "second\n"); r.Final != nil {
		t.Error(*r.Final)
	}
	i.prints("print(*said, sep='\\n')", strings.Repeat("Error: LM query failed - the cell that started this thread has ended\n", 2))
	if r := i.run("t = threading.Thread(target=lambda: 1 / 0, name='T'); t.start(); t.join()"); r.Stderr != "T: ZeroDivisionError: division by zero\n" {
		t.Errorf("%q", r.Stderr)
	}
}

// Every end of a cell ends its calls.
func TestCallsEnd(t *testing.T) {
	asked := make(chan struct{}, 100)
	t.Run("cancelled", func(t *testing.T) {
		i := start(t, env.Config{}, env.PythonOptions{})
		for n, code := range []string{`llm_query("x")`, `llm_query_batched(["x"] * 16)`, `
import threading
ts = [threading.Thread(target=llm_query, args=("x",)) for _ in range(8)]
for t in ts: t.start()
while True: pass`, `
import concurrent.futures as c
with c.ThreadPoolExecutor(8) as ex: list(ex.map(llm_query, "abcdefgh"))
while True: pass`} {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-asked
				cancel()
			}()
			r, err := i.Exec(ctx, rlm.Cell{Code: "kept = " + strconv.Itoa(n) + "\n" + code, Calls: blocked(asked)})
			if err != nil || r.Err == nil || r.Err.Type != "KeyboardInterrupt" || r.Lost {
				t.Errorf("%s: %v %v", code, r.Err, err)
			}
			cancel()
			i.prints("print(kept, llm_query('next'))", strconv.Itoa(n)+" next\n")
		}
	})
	t.Run("left", func(t *testing.T) {
		i := start(t, env.Config{}, env.PythonOptions{})
		i.Calls = blocked(asked)
		i.prints("import threading\nt = threading.Thread(target=lambda: said.append(llm_query('x'))); said = []; t.start()", "")
		i.Calls = echo(same)
		i.prints("t.join(); print(len(said), said[0][:22], llm_query('next'))", "1 Error: LM query failed next\n")
	})
	t.Run("died", func(t *testing.T) {
		i := start(t, env.Config{}, env.PythonOptions{})
		i.Calls = echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
			if string(q.Prompts[0]) == `"die"` {
				return same(ctx, q)
			}
			<-ctx.Done()
			return []rlm.Answer{{Err: ctx.Err()}}
		})
		i.fails("import threading, os\nthreading.Thread(target=llm_query, args=('x',)).start()\nllm_query('die'); os._exit(1)", "0 InterpreterDied")
	})
}

// The timeout of a cell does not run while the cell only waits for calls.
func TestClock(t *testing.T) {
	i := start(t, env.Config{Timeout: soon}, env.PythonOptions{})
	i.Calls = echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
		select {
		case <-ctx.Done():
		case <-time.After(5 * soon):
		}
		return same(ctx, q)
	})
	for range 100 {
		r := i.run("print(llm_query('x'))")
		if r.Took < soon {
			if r.Err != nil || r.Stdout != "x\n" {
				t.Errorf("%+v %v", r, r.Err)
			}
			return
		} // otherwise the machine is too slow for the limit
	}
	t.Error("gets older in calls")
}

// It does run while a cell works in parallel with its calls.
func TestClockBeside(t *testing.T) {
	i := start(t, env.Config{Timeout: 2 * soon}, env.PythonOptions{})
	i.Calls = blocked(make(chan struct{}, 9))
	if r := i.run("import threading\nthreading.Thread(target=llm_query, args=('x',)).start()\nwhile True: pass"); r.Err == nil || r.Err.Type != "Timeout" || r.Lost {
		t.Errorf("%+v %v", r, r.Err)
	}
}

// The number of pending calls of a worker is limited.
func TestTooManyCalls(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{})
	i.Calls = blocked(make(chan struct{}, 100))
	i.fails(`
import os
for n in range(1000, 10**9):
    f = b'{"kind":"llm_query","id":%d,"cell":1,"prompt":"x"}' % n
    os.write(3, len(f).to_bytes(4, "big") + f)`, "0 InterpreterDied: the interpreter ended: more than 4096 calls at the same time")
	i.prints("print(1)", "1\n")
	// A worker that does not read its answers times out.
	short := start(t, env.Config{Timeout: soon, Grace: soon}, env.PythonOptions{})
	r := short.run(`
import os, signal
try:
    for n in range(1000, 2000):
        f = b'{"kind":"llm_query","id":%d,"cell":1,"prompt":"%s"}' % (n, b"x" * 10000)
        os.write(3, len(f).to_bytes(4, "big") + f)
finally:
    os.kill(os.getpid(), signal.SIGSTOP)`)
	if r.Err == nil || r.Err.Type != "Timeout" || !r.Lost {
		t.Errorf("%+v %v", r, r.Err)
	}
}

// A thread that outlives its cell cannot send without end, because nobody reads between cells.
func TestMessagesBetweenCells(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{})
	i.prints(`
import os, threading
stop = threading.Event()
def talk():
    f = b'{"kind":"output","id":0,"stream":"stdout","text":"x"}'
    while not stop.is_set():
        os.write(3, len(f).to_bytes(4, "big") + f)
talker = threading.Thread(target=talk)
talker.start()`, "")
	i.prints("stop.set(); talker.join(); print(llm_query('still there'))", "still there\n")
}

func TestFind(t *testing.T) {
	p := find(t)
	if !filepath.IsAbs(p.Path) || p.Version == "" || len(p.Read) == 0 {
		t.Errorf("%+v", p)
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := env.FindPython(t.Context()); !errors.Is(err, env.ErrNoPython) {
		t.Error(err)
	}
	script := `#!/bin/sh
printf 'cpython\0003.7.1\000/p\000/p\000/p\000/p\000/p\n'`
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if _, err := env.FindPython(t.Context()); !errors.Is(err, env.ErrNoPython) || !strings.Contains(err.Error(), "python3: is version 3.7.1") {
		t.Error(err)
	}
	write(t, filepath.Join(dir, "python"), script)
	if err := os.Chmod(filepath.Join(dir, "python"), 0o700); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	if _, err := env.FindPython(t.Context()); !strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

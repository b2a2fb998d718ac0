package env_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/test/kit/envtest"
)

// A turn has one cell.
func BenchmarkCell(b *testing.B) {
	i := start(b, env.Config{}, env.PythonOptions{})
	i.run("import math, json; a = [1, 2]; s = 'text'")
	for b.Loop() {
		if r := i.run("n = len(s)\nprint(n)"); r.Stdout != "4\n" {
			b.Fatal(r)
		}
	}
}

// Consecutive calls, each with a prompt of a few words.
func BenchmarkCall(b *testing.B) {
	i := start(b, env.Config{}, env.PythonOptions{})
	const calls = 1000
	for b.Loop() {
		if r := i.run(fmt.Sprintf("for _ in range(%d): llm_query('what is it?')", calls)); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/calls, "µs/call")
}

func BenchmarkBatch(b *testing.B) {
	i := start(b, env.Config{}, env.PythonOptions{})
	for b.Loop() {
		if r := i.run("llm_query_batched(['what is it?'] * 2000)"); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		i := start(b, env.Config{}, env.PythonOptions{})
		i.run("pass")
		i.Close()
	}
}

// A text of 200 MiB.
func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "context")
	if err := os.WriteFile(path, []byte(strings.Repeat("0123456789abcdef", 200<<16)), 0o600); err != nil {
		b.Fatal(err)
	}
	i := start(b, env.Config{}, env.PythonOptions{})
	for b.Loop() {
		if err := i.Load(b.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
			b.Fatal(err)
		}
	}
	b.Log(i.run("print(len(context), *[l for l in open('/proc/self/status') if 'Rss' in l or 'HWM' in l])").Stdout)
}

func TestCells(t *testing.T) {
	i := start(t, env.Config{Run: "0123", Depth: 2}, env.PythonOptions{})
	i.prints("1 + 1", "") // no echo
	i.prints("a = 2\nprint(a)", "2\n")
	i.prints("print(a + 1, RLM_CORRELATION_ID, RLM_DEPTH, history)", "3 0123 2 []\n")
	i.fails("\n1 / 0", "2 ZeroDivisionError: division by zero")
	i.fails("def f():\n    raise KeyError('x')\n\nf()", "2 KeyError: 'x'")
	i.fails("\n\nf()", "3 KeyError") // the line in this cell, not in the one that defines f
	i.fails("a = 1\nb = = 2", "2 SyntaxError: invalid syntax")
	i.fails("a = '\\0'; exec(a)", "1 ")
	i.fails("import no_such", "1 ModuleNotFoundError: No module named 'no_such'")
	i.fails("from json import no_such", "1 ImportError: cannot import name 'no_such' from 'json'")
	i.fails("raise SystemExit(3)", "1 SystemExit: 3")
	i.fails("exit()", "1 SystemExit")
	i.fails("raise KeyboardInterrupt", "1 KeyboardInterrupt")
	i.fails("input()", "1 EOFError")
	if r := i.fails("import os\nopen(os.path.join(os.getcwd(), 'no'))", "2 FileNotFoundError"); strings.Contains(r.Err.Message, os.TempDir()) {
		t.Error("a path of the host:", r.Err)
	}
	i.prints("import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: 'int' = 1\nprint(P())", "P(x=1)\n")
	if r := i.run("import sys; print('e', file=sys.stderr); sys.stdout.buffer.write(b'b\\n')"); r.Stderr != "e\n" || r.Stdout != "b\n" {
		t.Error("streams:", r)
	}
}

// Our own names are restored, whatever a cell does to them.
func TestRestored(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{})
	path := filepath.Join(t.TempDir(), "c.txt")
	write(t, path, "text ü")
	if err := i.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
		t.Fatal(err)
	}
	names := []string{
		"context", "llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched", "FINAL", "FINAL_VAR",
		"SHOW_VARS", "answer", "history", "RLM_CORRELATION_ID", "RLM_DEPTH",
	}
	i.prints("import builtins; builtins.were = ["+strings.Join(names, ",")+"]", "")
	i.prints(strings.Join(names, "=")+"=1", "")
	i.prints("print(["+strings.Join(names, ",")+"] == builtins.were, context)", "True text ü\n")
	r := i.prints("del "+strings.Join(names, ",")+"; import sys; sys.stdout = sys.stderr = sys.stdin = None; sys.setrecursionlimit(90)", "")
	if got := slices.Sorted(maps.Keys(r.Locals)); !slices.Equal(got, []string{"builtins", "sys"}) {
		t.Error("locals", got)
	}
	i.prints("print(["+strings.Join(names, ",")+"] == builtins.were, sys.getrecursionlimit() > 90)", "True True\n")
}

func TestAnswers(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{})
	for _, c := range []struct{ code, final, best string }{
		{`x = {"a": 1}`, "-", ""},
		{`print(FINAL_VAR("nope"))`, "-", ""},
		{`FINAL_VAR(" 'x' ")`, "{'a': 1}", ""},
		{`FINAL_VAR("llm_query")`, "-", ""},
		{`FINAL(x)`, "{'a': 1}", ""},
		{`FINAL("")`, "", ""},
		{`FINAL("it\ud800"); 1/0`, "it\ufffd", ""},
		{`FINAL("x" * (1 << 23))`, "-", ""},
		{`answer["ready"] = True; answer["content"] = "x" * (1 << 23)`, "-", strings.Repeat("x", 1<<20)},
		{`answer["content"] = 4`, "-", "4"},
		{`answer = {"content": "five", "ready": False}`, "-", "five"},
		{`answer["ready"] = True`, "five", "five"},
		{`answer["ready"] = False; answer = "six"`, "-", "six"},
		{`FINAL_VAR("answer")`, "six", "six"},
		{`FINAL(answer)`, "six", "six"},
		{`answer["content"] = ""; FINAL_VAR("answer")`, "-", ""},
		{`answer = "seven"; FINAL_VAR("answer")`, "seven", "seven"},
		{"def answer(): pass", "-", "seven"},
		{`answer["ready"] = answer["content"] = type("Bad", (), {"__str__": lambda s: 1 / 0, "__bool__": lambda s: 1 / 0})()`, "-", ""},
	} {
		r := i.run(c.code)
		final := "-"
		if r.Final != nil {
			final = *r.Final
		}
		if final != c.final || r.Best != c.best {
			t.Errorf("%s: final %.40q, best %q; want %q and %q", c.code, final, r.Best, c.final, c.best)
		}
	}
	if r := i.run("y = 'why'; FINAL_VAR(y)"); r.Stderr != "Error: Variable 'why' not found\n" {
		t.Error("an unknown variable:", r)
	}
	i.run("answer = {'content': 'eight', 'ready': 0}; _z = 3; loop = type('Loop', (), {'__str__': lambda s: 1 / 0})()")
	for name, want := range map[string]string{"x": "{'a': 1}", "y": "why", "_z": "3", "nope": "-", "answer": "eight", "loop": "-", "FINAL": "-"} {
		text, known, err := i.Var(t.Context(), name)
		if !known {
			text = "-"
		}
		if err != nil || text != want {
			t.Errorf("Var(%s) is %q, %v; want %q", name, text, err, want)
		}
	}
	i.prints("del loop, x\nprint(SHOW_VARS())", "y: str\n")
}

func TestLocals(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{})
	r := i.run(`
import json as j, collections
def f(): pass
_hidden = 1
s, long, n = "it's", "x" * 10**6, 7 ** 100000
d, e, t1, u = {"a": [1, (2,)], 'b': None}, [], (1,), {1}
big = [[i] * 10 for i in range(10**5)]
counts = collections.Counter(range(10**5))
loop = []; loop.append(loop)
class Bad:
    def __repr__(self): raise SystemExit
bad, lone, num = Bad(), "\ud800", 1.5
globals()[3] = 4
`)
	for name, want := range map[string]string{
		"j": "<module 'json'>", "f": "<function 'f'>", "s": `"it's"`, "d": "{'a': [1, (2,)], 'b': None}", "e": "[]",
		"t1": "(1,)", "u": "{1}", "bad": "<Bad>", "lone": `'\ud800'`, "num": "1.5", "counts": "<Counter of 100000 items>",
	} {
		if r.Locals[name] != want {
			t.Errorf("%s is %q, want %q", name, r.Locals[name], want)
		}
	}
	for _, name := range []string{"long", "big"} {
		if len(r.Locals[name]) != 2000 {
			t.Errorf("%s has %d bytes", name, len(r.Locals[name]))
		}
	}
	for name, value := range r.Locals {
		if strings.HasPrefix(name, "_") || name == "answer" || len(value) > 2000 {
			t.Errorf("%s = %.100s", name, value)
		}
	}
	if r.Err != nil {
		t.Error(r.Err)
	}
}

func TestContext(t *testing.T) {
	i := start(t, env.Config{Setup: "n = len(context)"}, env.PythonOptions{})
	path := filepath.Join(t.TempDir(), "context")
	for _, c := range []struct{ kind, content, code, want string }{
		{"text", "", "print(repr(context), n)", "'' 0\n"},
		{"text", "a\r\nb\xff", "print(repr(context), n)", "'a\\r\\nb\ufffd' 5\n"},
		{"json", `{"a": [1, "ü"]}`, "print(context['a'])", "[1, 'ü']\n"},
		{"jsonl", "{\"a\": 1}\n\n[2]\n", "print(context)", "[{'a': 1}, [2]]\n"},
	} {
		write(t, path, c.content)
		if err := i.Load(t.Context(), rlm.Context{Path: path, Type: c.kind}); err != nil {
			t.Fatal(err)
		}
		i.prints(c.code, c.want)
	}
	for kind, content := range map[string]string{"json": "{", "jsonl": "1\n2 3\n", "text": "x"} {
		write(t, path, content)
		bad := path
		if kind == "text" {
			bad += "-missing"
		}
		if err := i.Load(t.Context(), rlm.Context{Path: bad, Type: kind}); err == nil || !strings.HasPrefix(err.Error(), "load the context: ") {
			t.Error(kind, err)
		}
	}
	setup := start(t, env.Config{Setup: "\n1 / 0"}, env.PythonOptions{})
	if err := setup.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err == nil || err.Error() != "setup code: line 2: ZeroDivisionError: division by zero" {
		t.Error(err)
	}
}

func TestHistory(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{})
	var history []rlm.Message
	show := func() {
		t.Helper()
		i.Tell(history)
		r, err := i.Exec(t.Context(), rlm.Cell{Code: "print(len(history), sum(len(m['content']) for m in history), history[-1]['role']); history.clear()"})
		n := 0
		for _, m := range history {
			n += len(m.Content)
		}
		want, _ := json.Marshal([]int{len(history), n})
		if got := strings.NewReplacer("[", "", "]", "", ",", " ").Replace(string(want)) + " " + history[len(history)-1].Role + "\n"; err != nil || r.Stdout != got {
			t.Errorf("%q, %v; want %q", r.Stdout, err, got)
		}
	}
	history = append(history, rlm.Message{Role: "system", Content: "s"}, rlm.Message{Role: "user", Content: "<&>"})
	show()
	history = append(history, rlm.Message{Role: "assistant", Content: strings.Repeat("x", 9<<20)}, rlm.Message{Role: "user", Content: strings.Repeat("y", 9<<20)})
	show()
	i.run("import os; os._exit(0)")
	show()
	history = append(history[:1:1], rlm.Message{Role: "user", Content: "other"})
	show()
}

func TestCalls(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{})
	var mu sync.Mutex
	var queries []rlm.Query
	i.Calls = echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
		mu.Lock()
		queries = append(queries, q)
		mu.Unlock()
		return same(ctx, q)
	})
	i.prints(`print(llm_query("a"), llm_query({"b": 1}, model="m"), rlm_query([{"role": "user"}]), llm_query("c", None, "id", 99))`,
		`a {"b":1} [{"role":"user"}] c`+"\n")
	want := []rlm.Query{
		{ID: "1", Prompts: []json.RawMessage{json.RawMessage(`"a"`)}},
		{ID: "2", Prompts: []json.RawMessage{json.RawMessage(`{"b":1}`)}, Model: "m"},
		{ID: "3", Prompts: []json.RawMessage{json.RawMessage(`[{"role":"user"}]`)}, Nested: true},
		{ID: "4", Prompts: []json.RawMessage{json.RawMessage(`"c"`)}},
	}
	got, _ := json.Marshal(queries)
	if w, _ := json.Marshal(want); string(got) != string(w) {
		t.Errorf("asked %s\nwant %s", got, w)
	}
	i.prints(`print(llm_query("bad"), llm_query(1), llm_query("a", model=1), sep="\n")`, `Error: LM query failed - no such luck
Error: LM query failed - a prompt must be a str, a dict or a list of messages, not int
Error: LM query failed - model must be a str, not int
`)
	i.prints(`print(llm_query({"a": float("nan")})[:30], llm_query([print])[:30], llm_query("x" * (1 << 24))[:44], repr(llm_query("\ud800")))`,
		"Error: LM query failed - Out o Error: LM query failed - Objec Error: LM query failed - the prompt has 1677 '\ufffd'\n")
	i.prints(`print(llm_query_batched([]), llm_query_batched(["a", "bad", 3]), rlm_query_batched(["x"]))`,
		"[] ['a', 'Error: no such luck', 'Error: a prompt must be a str, a dict or a list of messages, not int'] ['x']\n")
	i.prints(`p = ["%d" % i for i in range(3000)]; print(llm_query_batched(p) == p)`, "True\n")
	i.prints(`p = [str(i) * (5 << 20) for i in range(2)]; print(llm_query_batched(p) == p)`, "True\n")
	i.fails(`llm_query_batched("text")`, "1 TypeError: prompts must be a list, not str")
	i.prints(`
import threading, concurrent.futures as c
with c.ThreadPoolExecutor(20) as ex:
    print(list(ex.map(llm_query, map(str, range(500)))) == [str(i) for i in range(500)])`, "True\n")
	i.prints(`
def deep(n):
    try: return deep(n + 1)
    except RecursionError: return llm_query("deep")
print(deep(0) in ("deep", "Error: LM query failed - maximum recursion depth exceeded"))
print(llm_query("after"))`, "True\nafter\n")
}

func TestStrict(t *testing.T) {
	i := start(t, env.Config{}, env.PythonOptions{Strict: true})
	i.prints("import math, json, collections.abc as a\nprint(frozenset([1]))\ntry: 1 / 0\nexcept ZeroDivisionError: print(a.__name__)", "frozenset({1})\ncollections.abc\n")
	i.prints("open('a', 'w').write('x'); print(open('a').read())", "x\n")
	i.fails("import os", "1 ImportError: import of 'os' is not allowed")
	i.fails("from . import os", "1 ImportError")
	i.fails("eval('1')", "1 NameError: name 'eval' is not defined")
	i.fails("open('/etc/passwd')", "1 PermissionError")
	i.fails("open('../x', 'w')", "1 PermissionError")
}

func TestSite(t *testing.T) {
	code := "import sys; print('site' in sys.modules)"
	start(t, env.Config{}, env.PythonOptions{}).prints(code, "False\n")
	start(t, env.Config{}, env.PythonOptions{Site: true}).prints(code, "True\n")
}

// The worker can also use its standard streams, which containers require.
func TestStdio(t *testing.T) {
	i := start(t, env.Config{Stdio: true}, env.PythonOptions{})
	i.prints("import os\nos.write(1, b'lost'); os.write(2, b'lost')\nprint(llm_query('a'))", "a\n")
	i.fails("import os; os._exit(1)", "0 InterpreterDied")
	i.prints("print(1)", "1\n")
}

// The worker gets nothing of our environment.
func TestEnvironment(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Python does not start there without SYSTEMROOT")
	}
	t.Setenv("SOME_API_KEY", "secret")
	i := start(t, env.Config{}, env.PythonOptions{})
	i.prints("import os; print(sorted(os.environ), os.listdir())", "['LANG', 'PATH', 'TMPDIR'] ['worker.py']\n")
}

type echo = envtest.Echo

var (
	same    = envtest.Same
	blocked = envtest.Blocked
	write   = envtest.Write
)

var found = sync.OnceValues(func() (env.Interpreter, error) { return env.FindPython(context.Background()) })

func find(t testing.TB) env.Interpreter {
	t.Helper()
	p, err := found()
	switch {
	case err == nil:
		return p
	case os.Getenv("CI") != "":
		t.Fatal(err)
	}
	t.Skip(err)
	return p
}

// An interpreter is an environment under test.
type started struct {
	*envtest.Interpreter
}

func start(t testing.TB, c env.Config, o env.PythonOptions) *started {
	t.Helper()
	p := find(t)
	return &started{envtest.Start(t, c, func(c env.Config) (*env.Env, error) { return env.NewPython(p, c, o), nil })}
}

func (i *started) run(code string) rlm.Result {
	i.Helper()
	return i.Run(code)
}

func (i *started) prints(code, want string) rlm.Result {
	i.Helper()
	return i.Prints(code, want)
}

func (i *started) fails(code, want string) rlm.Result {
	i.Helper()
	return i.Fails(code, want)
}

// Both sides keep the rules of the protocol.
func TestSession(t *testing.T) {
	var mu sync.Mutex
	var frames []session.Frame
	var raw [][]byte
	tap := func(d frame.Dir, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		b = bytes.Clone(b)
		raw = append(raw, b)
		frames = append(frames, session.Frame{Seq: int64(len(frames) + 1), Conn: 1, Dir: d, Size: len(b), Payload: b[4:]})
	}
	i := start(t, env.Config{Tap: tap, Setup: "import threading"}, env.PythonOptions{})
	path := t.TempDir() + "/c"
	write(t, path, "text")
	if err := i.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
		t.Fatal(err)
	}
	history := []rlm.Message{{Role: "user", Content: "q"}}
	for _, code := range []string{"print(llm_query('x')); 1 / 0", "llm_query_batched(['a', 'bad'])", "print('\ufffd')\nrlm_query(['bad'])", "answer['ready'] = True"} {
		i.Tell(history)
		if _, err := i.Exec(t.Context(), rlm.Cell{Code: code, Calls: i.Calls}); err != nil {
			t.Fatal(err)
		}
		history = append(history, rlm.Message{Role: "assistant", Content: code})
	}
	if _, _, err := i.Var(t.Context(), "context"); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 9)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	r, err := i.Exec(ctx, rlm.Cell{Code: "while True: llm_query('x')", Calls: blocked(asked)})
	if err != nil || r.Err == nil {
		t.Fatal(r, err)
	}
	i.Close()

	tr := session.New(repl.Spec.Protocol, session.Options{})
	for n, f := range frames {
		var m protocol.Message
		if err := repl.Spec.Protocol.Parse(f.Payload, &m); err != nil || m.Faults != 0 || m.From != frame.DirUnknown && m.From != f.Dir {
			t.Errorf("%s: %v, faults %v, from %v", f.Payload, err, m.Faults, m.From)
		}
		var e frame.Extent
		if frame.Len32.Next(raw[n], repl.Limit, true, &e) != nil || e.Raw != len(raw[n]) {
			t.Errorf("%q is not one frame", raw[n])
		}
		tr.Feed(f, &m)
	}
	tr.End(1, time.Time{})
	for f := range tr.Findings() {
		t.Errorf("%+v", f)
	}
	for c := range tr.Cancels() {
		if c.Class.String() != "confirmed" {
			t.Errorf("cancel is %v", c.Class)
		}
	}
}

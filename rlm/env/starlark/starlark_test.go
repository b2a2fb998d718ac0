package starlark_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/repl"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/env/starlark"
	"github.com/wirectl/wirectl/rlm/prompt"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/test/kit/envtest"
)

func TestMain(m *testing.M) {
	starlark.Main()
	goleak.VerifyTestMain(m)
}

func start(t testing.TB, c env.Config) *envtest.Interpreter {
	t.Helper()
	return envtest.Start(t, c, starlark.New)
}

// Functions and cells share their variables, as in Python: a function sees later
// assignments from any cell.
func TestVariables(t *testing.T) {
	i := start(t, env.Config{Run: "0123", Depth: 2})
	i.Prints("1 + 1", "") // no echo
	i.Prints("print(RLM_CORRELATION_ID, RLM_DEPTH, history, context if False else 0)", "0123 2 [] 0\n")
	i.Prints("def f(n): return g(n) + x\nx = 1", "")
	i.Fails("f(1)", "1 NameError: name 'g' is not defined")
	i.Prints("def g(n):\n    return n * 2\nprint(f(2))\nx = 10\nprint(f(2))", "5\n14\n")
	i.Prints("def g(n): return n\nprint(f(2))", "12\n")
	i.Prints("def fact(n): return 1 if n == 0 else n * fact(n - 1)\nprint(fact(5))", "120\n")
	i.Prints("a, (b, [c]) = 1, (2, [3])\nfor d, e in [(4, 5)]: pass\nwhile d < 9: d += 1\nif d: k = 6\nprint(a, b, c, d, e, k)", "1 2 3 9 5 6\n")
	i.Prints("l = [1]\nl += [2]\nl[0] = 7\nx += 1\nprint(l, x, [x for x in l], x)", "[7, 2] 11 [7, 2] 11\n")
	i.Prints("def h():\n    x = 'local'\n    def inner(): return x\n    return inner()\nprint(h(), x)", "local 11\n")
	i.Prints("max = 3\nprint(max, len('abc'))\nh = lambda: max\nmax = 4\nprint(h())", "3 3\n4\n")
	i.Prints("s = set([1, 2])\nprint(type(s), None, True)", "set None True\n")
	i.Fails("y = 1\nz = [][3]\n", "2 Error: index 3 out of range: empty list")
	i.Prints("print(y)", "1\n")
	i.Fails("\ndef bad(): return {}['x']\n\nbad()", "2 Error: key \"x\" not in dict")
	i.Fails("\n\nbad()", "3 Error: key") // the line in this cell, not in the one that defines bad
	i.Fails("a = 1\nb = = 2", "2 SyntaxError: got '='")
	i.Fails("class A: pass", "1 SyntaxError: ")
	i.Fails("return 1", "1 SyntaxError: ")
	i.Fails("1 // 0", "1 Error: floored division by zero")
	i.Fails("a.b = 1", "1 Error: ")
	i.Fails("def w(): undefined = undefined + 1\nw()", "1 Error: local variable undefined referenced before assignment")
}

// Our own names are restored, whatever a cell does to them.
func TestRestored(t *testing.T) {
	i := start(t, env.Config{})
	path := filepath.Join(t.TempDir(), "c.txt")
	envtest.Write(t, path, "text ü")
	if err := i.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
		t.Fatal(err)
	}
	names := []string{
		"context", "llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched", "FINAL", "FINAL_VAR",
		"SHOW_VARS", "answer", "history", "RLM_CORRELATION_ID", "RLM_DEPTH", "json", "math", "regex_find", "regex_all",
	}
	list := strings.Join(names, ", ")
	i.Prints("were = ["+list+"]", "")
	r := i.Prints(strings.Join(names, " = 1\n")+" = 1", "")
	if got := slices.Sorted(maps.Keys(r.Locals)); !slices.Equal(got, []string{"were"}) {
		t.Error("locals", got)
	}
	i.Prints("print(["+list+"] == were, context)", "True text ü\n")
}

func TestAnswers(t *testing.T) {
	i := start(t, env.Config{})
	for _, c := range []struct{ code, final, best string }{
		{`x = {"a": 1}`, "-", ""},
		{`FINAL_VAR("nope")`, "-", ""},
		{`FINAL_VAR(" 'x' ")`, `{"a": 1}`, ""},
		{`FINAL_VAR("llm_query")`, "-", ""},
		{`FINAL(x)`, `{"a": 1}`, ""},
		{`FINAL("")`, "", ""},
		{`FINAL("it" + "ü"[:1]); fail()`, "it\ufffd", ""},
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
		{`answer["ready"] = True; answer["content"] = [answer]`, `[{"content": [...], "ready": True}]`, `[{"content": [...], "ready": True}]`},
	} {
		r := i.Run(c.code)
		final := "-"
		if r.Final != nil {
			final = *r.Final
		}
		if final != c.final || r.Best != c.best {
			t.Errorf("%s: final %.40q, best %q; want %q and %q", c.code, final, r.Best, c.final, c.best)
		}
	}
	i.Prints("y = 'why'; FINAL_VAR(y)", "Error: Variable 'why' not found\n")
	i.Run("answer = {'content': 'eight', 'ready': 0}; _z = 3")
	for name, want := range map[string]string{"x": `{"a": 1}`, "y": "why", "_z": "3", "nope": "-", "answer": "eight", "FINAL": "-", "len": "-", "<session>": "-"} {
		text, known, err := i.Var(t.Context(), name)
		if !known {
			text = "-"
		}
		if err != nil || text != want {
			t.Errorf("Var(%s) is %q, %v; want %q", name, text, err, want)
		}
	}
	i.Prints("print(SHOW_VARS())", "x: dict\ny: string\n")
}

func TestLocals(t *testing.T) {
	i := start(t, env.Config{})
	r := i.Run(`
def f(): pass
g = lambda: 1
_hidden = 1
s, long, n = "it's", "x" * 1000000, 1
for _ in range(20): n = n * (1 << 500)
d, e, t1, u = {"a": [1, (2,)], 'b': None}, [], (1,), set([1])
big = [[i] * 10 for i in range(100000)]
loop = []
loop.append(loop)
lone, num, raw, p = "ü"[:1], 1.5, b"ab", len
`)
	for name, want := range map[string]string{
		"f": "<function 'f'>", "g": "<function 'lambda'>", "s": `"it's"`, "d": `{"a": [1, (2,)], "b": None}`, "e": "[]",
		"t1": "(1,)", "u": "set([1])", "lone": `"\xc3"`, "num": "1.5", "raw": `b"ab"`, "n": "<int of 10001 bits>", "p": "<function 'len'>",
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
	i := start(t, env.Config{Setup: "n = len(context)"})
	path := filepath.Join(t.TempDir(), "context")
	for _, c := range []struct{ kind, content, code, want string }{
		{"text", "", "print(repr(context), n)", "\"\" 0\n"},
		{"text", "a\r\nb\xff", "print(repr(context), n)", "\"a\\r\\nb\ufffd\" 7\n"},
		{"json", `{"a": [1, "ü"]}`, "print(context['a'])", "[1, \"ü\"]\n"},
		{"jsonl", "{\"a\": 1}\n\n[2]\n", "print(context)", "[{\"a\": 1}, [2]]\n"},
	} {
		envtest.Write(t, path, c.content)
		if err := i.Load(t.Context(), rlm.Context{Path: path, Type: c.kind}); err != nil {
			t.Fatal(err)
		}
		i.Prints(c.code, c.want)
	}
	for kind, content := range map[string]string{"json": "{", "jsonl": "1\n2 3\n", "text": "x"} {
		envtest.Write(t, path, content)
		bad := path
		if kind == "text" {
			bad += "-missing"
		}
		if err := i.Load(t.Context(), rlm.Context{Path: bad, Type: kind}); err == nil || !strings.HasPrefix(err.Error(), "load the context: ") || strings.Contains(err.Error(), path) {
			t.Error(kind, err)
		}
	}
	setup := start(t, env.Config{Setup: "\n1 // 0"})
	if err := setup.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err == nil || err.Error() != "setup code: line 2: Error: floored division by zero" {
		t.Error(err)
	}
}

func TestCalls(t *testing.T) {
	for _, stdio := range []bool{false, true} {
		i := start(t, env.Config{Stdio: stdio})
		var mu sync.Mutex
		var queries []rlm.Query
		i.Calls = envtest.Echo(func(ctx context.Context, q rlm.Query) []rlm.Answer {
			mu.Lock()
			queries = append(queries, q)
			mu.Unlock()
			return envtest.Same(ctx, q)
		})
		i.Prints(`print(llm_query("a"), llm_query({"b": 1}, model="m"), rlm_query([{"role": "user"}]), llm_query("c", None, "id", 99))`,
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
		i.Prints(`print(llm_query("bad"), llm_query(1), llm_query("a", model=1), sep="\n")`, `Error: LM query failed - no such luck
Error: LM query failed - a prompt must be a string, a dict or a list of messages, not int
Error: LM query failed - model must be a string, not int
`)
		i.Prints(`print(llm_query({"a": float("nan")})[:30], llm_query([print])[:30], llm_query("x" * (1 << 24))[:44])`,
			"Error: LM query failed - json. Error: LM query failed - json. Error: LM query failed - the prompt has 1677\n")
		i.Prints(`print(llm_query_batched([]), llm_query_batched(["a", "bad", 3]), rlm_query_batched(["x"]), llm_query_batched(["a"], 7))`,
			`[] ["a", "Error: no such luck", "Error: a prompt must be a string, a dict or a list of messages, not int"] ["x"] ["Error: model must be a string, not int"]`+"\n")
		i.Prints(`p = ["%d" % i for i in range(3000)]; print(llm_query_batched(p) == p)`, "True\n")
		i.Prints(`p = [str(i) * (5 << 20) for i in range(2)]; print(llm_query_batched(p) == p)`, "True\n")
		i.Fails(`llm_query_batched("text")`, "1 Error: llm_query_batched: for parameter prompts: got string, want iterable")
		i.Fails(`llm_query_batched({})`, "1 Error: llm_query_batched: prompts must be a list, not dict")
		i.Fails(`llm_query()`, "1 Error: llm_query: missing argument for prompt")
		i.Prints(`print("before"); llm_query("x"); print(llm_query("after"))`, "before\nafter\n")
	}
}

func TestBuiltins(t *testing.T) {
	i := start(t, env.Config{})
	i.Prints(`print(regex_find(r"\d+", "a12b3"), regex_find("x", "y"), regex_find(r"(\w)=(\w)", "a=b"))`, "12 None (\"a\", \"b\")\n")
	i.Prints(`print(regex_all(r"\d", "a12b3"), regex_all(r"(?i)e(r+)", "ERR er"), regex_all(r"(\w)=(\w)?", "a=b c="))`,
		`["1", "2", "3"] ["RR", "r"] [("a", "b"), ("c", "")]`+"\n")
	i.Prints(`print(len([regex_find("%d" % n, "%d" % n) for n in range(300)]))`, "300\n")
	i.Prints(`print(json.decode('{"a": [1.5, null]}'), json.encode({"b": (1, "ü")}), math.floor(2.7))`, "{\"a\": [1.5, None]} {\"b\":[1,\"ü\"]} 2\n")
}

func TestHistory(t *testing.T) {
	i := start(t, env.Config{})
	history := []rlm.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "<&>"}}
	show := func(want string) {
		t.Helper()
		i.Tell(history)
		r, err := i.Exec(t.Context(), rlm.Cell{Code: "print(len(history), history[-1]['role'], len(history[-1]['content']))"})
		if err != nil || r.Stdout != want {
			t.Errorf("%q, %v, %v; want %q", r.Stdout, r.Err, err, want)
		}
	}
	show("2 user 3\n")
	history = append(history, rlm.Message{Role: "assistant", Content: strings.Repeat("x", 9<<20)})
	show("3 assistant 9437184\n")
	history = append(history[:1:1], rlm.Message{Role: "user", Content: "other"})
	show("2 user 5\n")
}

// The description of the language for the model is correct: the examples run.
func TestExamples(t *testing.T) {
	i := start(t, env.Config{})
	path := filepath.Join(t.TempDir(), "c")
	envtest.Write(t, path, "a line\nthe access code is 7\n")
	if err := i.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
		t.Fatal(err)
	}
	blocks, _ := rlm.CodeBlocks(prompt.Starlark(prompt.Facts{}), []string{"repl"})
	if len(blocks) != 3 {
		t.Errorf("%d examples", len(blocks))
	}
	for _, code := range blocks {
		if r := i.Run(code); r.Err != nil || r.Stdout == "" {
			t.Errorf("%s\nprinted %q, %v", code, r.Stdout, r.Err)
		}
	}
}

// Both sides keep the rules of the protocol.
func TestSession(t *testing.T) {
	var mu sync.Mutex
	var frames []session.Frame
	tap := func(d frame.Dir, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		b = bytes.Clone(b)
		frames = append(frames, session.Frame{Seq: int64(len(frames) + 1), Conn: 1, Dir: d, Size: len(b), Payload: b[4:]})
	}
	i := start(t, env.Config{Tap: tap, Setup: "n = 1"})
	path := t.TempDir() + "/c"
	envtest.Write(t, path, "text")
	if err := i.Load(t.Context(), rlm.Context{Path: path, Type: "text"}); err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"print(llm_query('x')); 1 // 0", "llm_query_batched(['a', 'bad'])", "rlm_query(['bad'])", "answer['ready'] = True"} {
		i.Run(code)
	}
	if _, _, err := i.Var(t.Context(), "context"); err != nil {
		t.Fatal(err)
	}
	i.Close()
	tr := session.New(repl.Spec.Protocol, session.Options{})
	for _, f := range frames {
		var m protocol.Message
		if err := repl.Spec.Protocol.Parse(f.Payload, &m); err != nil || m.Faults != 0 || m.From != frame.DirUnknown && m.From != f.Dir {
			t.Errorf("%s: %v, faults %v, from %v", f.Payload, err, m.Faults, m.From)
		}
		tr.Feed(f, &m)
	}
	tr.End(1, time.Time{})
	for f := range tr.Findings() {
		t.Errorf("%+v", f)
	}
}

// FuzzCompile checks that all code is compiled or rejected.
func FuzzCompile(f *testing.F) {
	for _, code := range []string{"x = 1", "def f(a, *b, **c): return lambda: a", "for (x, [y]) in z:\n  if x: y += 1\n  else: pass", "(a, b), [c] = 1", "load('x', 'y')", "x.y[0] = [i for i in x]", "while True: break"} {
		f.Add(code)
	}
	f.Fuzz(func(_ *testing.T, code string) { starlark.Compile(code) })
}

// A turn has one cell.
func BenchmarkCell(b *testing.B) {
	i := start(b, env.Config{})
	i.Run("s = 'text'")
	for b.Loop() {
		if r := i.Run("n = len(s)\nprint(n)"); r.Stdout != "4\n" {
			b.Fatal(r)
		}
	}
}

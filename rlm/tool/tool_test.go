package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file writes a file into a temporary folder, and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, text string, w tool.World) *tool.Set {
	t.Helper()
	set, err := tool.Load(t.Context(), file(t, "tools.yaml", text), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	return set
}

// call calls a tool, and returns its result, or an exclamation mark and the error.
func call(ctx context.Context, set *tool.Set, name, arguments string) string {
	result, err := set.Invoke(ctx, name, json.RawMessage(arguments))
	if err != nil {
		return "!" + err.Error()
	}
	return string(result)
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("needs " + program)
	}
}

// A command reads its arguments and writes JSON or text. Failures are reported.
func TestExec(t *testing.T) {
	need(t, "sh")
	set := load(t, `
same: {exec: [cat]}
text: {exec: [sh, -c, 'echo two; echo lines']}
nothing: {exec: ["true"]}
fails: {exec: [sh, -c, 'echo said; echo why >&2; exit 3']}
dies: {exec: [sh, -c, 'kill -9 $$']}
absent: {exec: [there-is-no-such-program]}
large: {exec: [sh, -c, 'yes | head -c 5000000']}
strict:
  exec: [cat]
  description: Checks what it gets.
  parameters: {type: object, properties: {n: {type: integer}}, required: [n], additionalProperties: false}
`, tool.World{})
	for _, c := range []struct{ name, arguments, want string }{
		{"same", `{"a":"Ü"}`, `{"a":"Ü"}`},
		{"text", `{}`, `"two\nlines"`},
		{"nothing", `{}`, `""`},
		{"fails", `{}`, "!ToolExecution: exit status 3: why"},
		{"dies", `{}`, "!ToolExecution: ended by signal killed"},
		{"absent", `{}`, "!ToolExecution: there-is-no-such-program"},
		{"large", `{}`, "!ToolExecution: more than 4194304 bytes of output"},
		{"strict", `{"n":1}`, `{"n":1}`},
		{"strict", `{"n":"1"}`, "!Validation: validating root: validating /properties/n: type: 1 has type"},
		{"strict", `{}`, "!Validation: validating root: required: missing properties"},
	} {
		if got := call(t.Context(), set, c.name, c.arguments); !strings.HasPrefix(got, c.want) || c.want[0] != '!' && got != c.want {
			t.Errorf("%s %s: %.200s, want %s", c.name, c.arguments, got, c.want)
		}
	}
	defined := set.Definitions()
	if len(defined) != 8 || defined[7].Description != "Checks what it gets." || !strings.Contains(string(defined[7].Parameters), `"required":["n"]`) {
		t.Errorf("defined: %+v", defined)
	}
}

// A command ends with its call, even one that resists.
func TestExecCancelled(t *testing.T) {
	need(t, "sh")
	for _, script := range []string{"sleep 600", "trap '' TERM; while :; do sleep 1; done", "sleep 600 & wait"} {
		begun := filepath.Join(t.TempDir(), "begun")
		set := load(t, fmt.Sprintf("t: {exec: [sh, -c, %q]}", ": > "+begun+"; "+script), tool.World{})
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for {
				if _, err := os.Stat(begun); err == nil || t.Context().Err() != nil {
					cancel(why)
					return
				}
				<-time.After(time.Millisecond)
			}
		}()
		if got := call(ctx, set, "t", "{}"); got != "!ToolExecution: enough" {
			t.Errorf("%s: %s", script, got)
		}
	}
}

// A scripted server gives its answers in the order of the requests.
type scripted struct {
	asked   []string
	answers []string // an exclamation mark begins an error
	closed  int
}

func (s *scripted) Ask(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	s.asked = append(s.asked, method+" "+string(params))
	answer := s.answers[0]
	s.answers = s.answers[1:]
	if answer[0] == '!' {
		return nil, errors.New(answer[1:])
	}
	return json.RawMessage(answer), nil
}

func (s *scripted) Close() error {
	s.closed++
	return nil
}

// A server lists its tools in pages, and they get names that models can call. A result is
// the structured content, or the text, or all of the content.
func TestMCP(t *testing.T) {
	s := &scripted{answers: []string{
		`{"tools":[{"name":"a.b","description":"A.","inputSchema":{"type":"object"}},{"name":"left out"}],"nextCursor":"2"}`,
		`{"tools":[{"name":"c"}]}`,
		`{"content":[{"type":"text","text":"hi"}]}`,
		`{"content":[{"type":"text","text":"{\"n\":1}"}]}`,
		`{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":2}}`,
		`{"content":[{"type":"image","data":"AA=="}]}`,
		`{"content":[{"type":"text","text":"no such city"}],"isError":true}`,
		`{"isError":true}`,
		`{}`,
		`!it has ended`,
	}}
	var words []string
	set := load(t, "s: {mcp: \"http://x/mcp\", token_env: TOKEN, only: [a_b, c]}", tool.World{
		Getenv: func(name string) string { return "the " + name },
		Dial: func(_ context.Context, w []string, token string) (tool.Server, error) {
			words = append(w, token)
			return s, nil
		},
	})
	if got := strings.Join(words, " "); got != "http://x/mcp the TOKEN" {
		t.Errorf("dialled %s", got)
	}
	defined, _ := json.Marshal(set.Definitions())
	if want := `[{"name":"a_b","description":"A.","parameters":{"type":"object"}},{"name":"c","parameters":{"type":"object","properties":{}}}]`; string(defined) != want {
		t.Errorf("defined %s", defined)
	}
	for _, want := range []string{
		`"hi"`, `{"n":1}`, `{"n":2}`, `[{"type":"image","data":"AA=="}]`, "!ToolExecution: no such city", "!ToolExecution: the tool failed: ", "null",
		"!ToolExecution: it has ended",
	} {
		if got := call(t.Context(), set, "a_b", `{"x":1}`); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if s.asked[1] != `tools/list {"cursor":"2"}` || s.asked[2] != `tools/call {"arguments":{"x":1},"name":"a.b"}` {
		t.Errorf("asked %q", s.asked[:3])
	}
}

// withPython runs functions with this machine's Python, unsandboxed.
func withPython(t *testing.T) tool.World {
	t.Helper()
	p, err := env.FindPython(t.Context())
	if errors.Is(err, env.ErrNoPython) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tool.World{Open: func(_ context.Context, code string) (rlm.Environment, error) {
		return env.NewPython(p, env.Config{Dir: t.TempDir(), Setup: code}, env.PythonOptions{}), nil
	}}
}

const functions = `import datetime, decimal, enum, time
from dataclasses import dataclass
from typing import Dict, List, Optional, Set, Tuple, Union

class Unit(enum.Enum):
    C = "c"
    F = "f"

@dataclass
class Place:
    name: str
    height: float = 0.5

def google(place: Place, unit: Unit = Unit.C, days: Optional[int] = None):
    """Weather at a place.

    More of it.

    Args:
        place (Place): Where,
            with its name.
        unit: Of temperatures.
    """
    return {"place": place, "unit": unit, "days": days}

def numpy(numbers: List[int], words: Set[str]) -> dict:
    """Adds.

    Parameters
    ----------
    numbers : list of int
        What is
        added.
    words
    """
    return sum(numbers), words

def sphinx(when: datetime.datetime, price: decimal.Decimal, data: bytes, pair: Dict[str, Tuple[int, str]], **more):
    """Gives back.

    :param when: A time
        of day.
    :param str price: What it costs.
    """
    return [when, price, data, pair, more, {2, 1}, datetime.date(2026, 1, 2), float("nan")]

def fails(n: Union[int, str]):
    raise KeyError(n)

def _hidden(): pass
`

// The description of a function has its types, defaults and docstring. Arguments are
// converted to those types, and results to JSON.
func TestPython(t *testing.T) {
	set := load(t, fmt.Sprintf("f: {python: %q}", file(t, "f.py", functions)), withPython(t))
	var got strings.Builder
	for _, d := range set.Definitions() {
		fmt.Fprintf(&got, "%s: %s\n%s\n", d.Name, d.Description, d.Parameters)
	}
	want, err := os.ReadFile("testdata/python.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	for _, c := range []struct{ name, arguments, want string }{
		{"google", `{"place":{"name":"Ü"},"unit":"f"}`, `{"place": {"name": "Ü", "height": 0.5}, "unit": "f", "days": null}`},
		{"google", `{"place":{"name":"a"},"unit":"x"}`, "!ToolExecution: ValueError: 'x' is not a valid Unit"},
		{"google", `{}`, "!ToolExecution: TypeError: missing a required argument: 'place'"},
		{"google", `{"place":{"name":"a"},"nothing":1}`, "!ToolExecution: TypeError: got an unexpected keyword argument 'nothing'"},
		{"numpy", `{"numbers":[1,2],"words":["b","a","b"]}`, `[3, ["a", "b"]]`},
		{"numpy", `{"numbers":["1"],"words":[]}`, "!ToolExecution: TypeError: '1' is no int"},
		{
			"sphinx", `{"when":"2026-01-02T03:04:05Z","price":"1.10","data":{"__bytes__":"aGk="},"pair":{"k":[1,"v"]},"z":1}`,
			`["2026-01-02T03:04:05+00:00", "1.10", {"__bytes__": "aGk="}, {"k": [1, "v"]}, {"z": 1}, [1, 2], "2026-01-02", "nan"]`,
		},
		{"fails", `{"n":1}`, "!ToolExecution: KeyError: 1"},
	} {
		if got := call(t.Context(), set, c.name, c.arguments); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, c.arguments, got, c.want)
		}
	}
}

// A function ends with its call, and the next call has a working interpreter.
func TestPythonCancelled(t *testing.T) {
	set := load(t, fmt.Sprintf("f: {python: %q}", file(t, "f.py", "import time\ndef wait():\n    open('begun', 'w')\n    time.sleep(600)\ndef two(): return 2\n")), withPython(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("enough")) })
	if got := call(ctx, set, "wait", "{}"); got != "!ToolExecution: enough" {
		t.Error(got)
	}
	if got := call(t.Context(), set, "two", "{}"); got != "2" {
		t.Error(got)
	}
}

// The error in a file of tools has its line.
func TestFaultyFiles(t *testing.T) {
	need(t, "sh")
	bad := file(t, "bad.py", "x = 1\ndef f(:\n    pass\n")
	raises := file(t, "raises.py", "x = 1\ny = x / 0\n")
	none := file(t, "none.py", "x = 1\n")
	args := file(t, "args.py", "def f(*a): pass\n")
	w := withPython(t)
	w.Getenv = func(string) string { return "" }
	w.Dial = func(context.Context, []string, string) (tool.Server, error) {
		return nil, errors.New("nobody is there")
	}
	for _, c := range []struct{ text, want string }{
		{"", "tools.yaml: want one document"},
		{"- a", "tools.yaml:1:1: want a mapping"},
		{"a: {exec: [x]}\nb: {exec: [x], exek: 1}", `tools.yaml:2:16: unknown field "exek"`},
		{"a: {exec: [x]}\na: {exec: [x]}", "tools.yaml:2:1: "},
		{"a: [", "tools.yaml:1:4: "},
		{"a:\n  exec: {x: 1}", "tools.yaml:2:"},
		{"a: {}", "tools.yaml:1:1: a: want one of exec, mcp and python"},
		{"a: {exec: [x], python: y}", "tools.yaml:1:1: a: want one of exec, mcp and python"},
		{"a b: {exec: [x]}", `tools.yaml:1:1: "a b": the name of a tool has at most 64`},
		{"a: {exec: [x], only: [y]}", "tools.yaml:1:1: a: only is for mcp and python"},
		{"a: {mcp: x, description: y}", "tools.yaml:1:1: a: description and parameters are for exec alone"},
		{"a: {exec: [x], token_env: Y}", "tools.yaml:1:1: a: token_env is for mcp"},
		{"a: {exec: [x], parameters: {type: string}}", "tools.yaml:1:1: a: parameters: want a JSON Schema with type: object"},
		{"a: {exec: [x], parameters: {type: objekt, properties: 1}}", "tools.yaml:1:1: a: parameters: "},
		{"a: {mcp: x, token_env: NONE}", "tools.yaml:1:1: a: the environment variable NONE is not set"},
		{"\na: {mcp: [x, y]}", "tools.yaml:2:1: a: nobody is there"},
		{"a: {python: none-such.py}", "tools.yaml:1:1: a: "},
		{"a: {python: " + bad + "}", "bad.py:2: SyntaxError: "},
		{"a: {python: " + raises + "}", "raises.py:2: ZeroDivisionError: division by zero"},
		{"a: {python: " + none + "}", "none.py: ValueError: there are no functions"},
		{"a: {python: " + args + "}", "args.py: TypeError: f: the parameter *a has to have a name for callers"},
	} {
		set, err := tool.Load(t.Context(), file(t, "tools.yaml", c.text), w)
		var e *tool.Error
		if err == nil || !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
		if set != nil {
			_ = set.Close()
		}
	}
	if _, err := tool.Load(t.Context(), "none-such.yaml", w); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A mute server never answers.
type mute struct{ scripted }

func (s *mute) Ask(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A server that never answers is not waited for, and closed.
func TestMuteServer(t *testing.T) {
	s := &mute{}
	w := tool.World{Dial: func(context.Context, []string, string) (tool.Server, error) { return s, nil }, Patience: time.Millisecond}
	_, err := tool.Load(t.Context(), file(t, "tools.yaml", "s: {mcp: [x]}"), w)
	if err == nil || !strings.HasSuffix(err.Error(), "tools.yaml:1:1: s: not ready after 1ms") || s.closed != 1 {
		t.Errorf("%v, closed %d times", err, s.closed)
	}
}

// If two tools have the same name, the server that was started is closed.
func TestSameName(t *testing.T) {
	s := &scripted{answers: []string{`{"tools":[{"name":"a"}]}`}}
	w := tool.World{Dial: func(context.Context, []string, string) (tool.Server, error) { return s, nil }}
	_, err := tool.Load(t.Context(), file(t, "tools.yaml", "a: {exec: [cat]}\ns: {mcp: [x]}"), w)
	if err == nil || !strings.Contains(err.Error(), `tools.yaml:2:1: s: two tools have the name "a"`) || s.closed != 1 {
		t.Errorf("%v, closed %d times", err, s.closed)
	}
}

// JSON is found anywhere in an answer, and validated.
func TestMatch(t *testing.T) {
	schema, err := tool.NewSchema([]byte("{\"type\": \"object\",\n \"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"]}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(schema.Document()); got != `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}` {
		t.Error(got)
	}
	for _, c := range []struct{ answer, want string }{
		{`{"n": 1}`, `{"n": 1}`},
		{" {\"n\": 1}\n", `{"n": 1}`},
		{"Here:\n```json\n{\"n\": 1}\n```\nand {\"n\": 2}", `{"n": 1}`},
		{"```\n{\"n\": 1}\n```", `{"n": 1}`},
		{"```python\nx = {}\n```\n```json\n{\"n\": 3}\n```", `{"n": 3}`},
		{`It is {"n": 1}.`, `{"n": 1}`},
		{`{"n": "1"}`, "!validating root"},
		{`[{"n": 1}]`, "!validating root"},
		{`nothing`, "!not JSON"},
		{`{"n": 1`, "!not JSON"},
		{"", "!not JSON"},
	} {
		got, err := schema.Match(c.answer)
		if err != nil {
			got = "!" + err.Error()
		}
		if !strings.HasPrefix(got, c.want) || c.want[0] != '!' && got != c.want {
			t.Errorf("%q: %s, want %s", c.answer, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"{\n\"type\": \"object\",\n}": "line 3: ", "[]": "cannot unmarshal", `{"$ref": "#/none"}`: "none",
	} {
		if _, err := tool.NewSchema([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

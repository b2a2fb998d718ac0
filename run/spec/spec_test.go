package spec

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at returns a call at a server.
func at(wire, name string) *calls.Call {
	return &calls.Call{Protocol: jsonrpc.MCP.Name(), Kind: "tools/call", Wire: wire, Name: name}
}

// People write the name that the model has for a tool, that of its server, or both.
func TestNames(t *testing.T) {
	for _, tt := range []struct {
		model, wire, server string // what is seen
		is, not             string
	}{
		{"mcp__lab__echo", "lab", "echo", "mcp__lab__echo echo lab_echo lab-echo lab/echo", "mcp__web__echo web_echo Echo mcp__lab__ech lab ech mcp__lab__"},
		{"mcp__lab__echo", "", "", "mcp__lab__echo echo lab_echo", "mcp__web__echo lab"},
		{"mcp__my_lab__get__all", "my-lab", "get__all", "mcp__my-lab__get__all mcp__my_lab__get__all get__all", "all"},
		{"echo", "lab", "echo", "echo mcp__lab__echo lab_echo", "mcp__web__echo"},
		{"", "lab", "echo", "echo mcp__lab__echo lab/echo", "mcp__web__echo my_echo"},
		{"", "", "echo", "echo mcp__lab__echo mcp__web__echo", "lab_echo mcp__lab__my_echo"},
		{"web_search", "", "", "web_search", "search mcp__web__search"},
		{"Bash", "", "", "Bash", "bash mcp__Bash"},
	} {
		tool := &Tool{Name: tt.model}
		if tt.server != "" {
			tool.at = at(tt.wire, tt.server)
			if tool.Name == "" {
				tool.Name = tt.server
			}
		}
		for _, name := range strings.Fields(tt.is) {
			if !tool.is(name) {
				t.Errorf("%s of %q is not %s", tool.Name, tt.wire, name)
			}
		}
		for _, name := range append(strings.Fields(tt.not), "") {
			if tool.is(name) {
				t.Errorf("%s of %q is %s", tool.Name, tt.wire, name)
			}
		}
	}
}

// traceOf is a trace of calls, each at its frame from 1.
func traceOf(names ...string) *Trace {
	t := &Trace{Name: strings.Join(names, " "), mask: func(text string) string { return text }}
	for i, name := range names {
		name, arguments, _ := strings.Cut(name, " ")
		c := at("", name)
		c.Frame = int64(i + 1)
		tool := &Tool{Name: name, at: c, hash: 1}
		if arguments != "" {
			tool.arguments = []byte(arguments)
			for _, b := range tool.arguments {
				tool.hash = tool.hash*31 + uint64(b)
			}
		}
		t.Tools = append(t.Tools, tool)
		t.Path = append(t.Path, Decision{Frame: c.Frame, Tool: tool})
	}
	return t
}

func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		judge       func(*Trace, []string) []string
		names, want string
		calls       string
	}{
		{inOrder, "a b", "", "a c b"},
		{inOrder, "a a", "after a (frame 1), a was not called", "a c b"},
		{inOrder, "b a", "after b (frame 3), a was not called", "a c b"},
		{inOrder, "x", "x was not called: no tool was called", ""},
		{exactly, "a b", "", "a b"},
		{exactly, "", "", ""},
		{exactly, "", "expected no call of a tool; 1 call more: called were a (frame 1)", "a"},
		{exactly, "a b", "call 2, of b, is missing", "a"},
		{exactly, "a b", "call 1 was of b (frame 1)", "b a"},
		{never, "a", "there were 2 (frames 1, 3)", "a b a"},
		{never, "x", "", "a b a"},
		{called, "b a", "", "a b"},
		{called, "serch", "(did you mean search?)", "search"},
	} {
		said := strings.Join(tt.judge(traceOf(strings.Fields(tt.calls)...), strings.Fields(tt.names)), "; ")
		if tt.want == "" && said != "" || !strings.Contains(said, tt.want) {
			t.Errorf("%s of %s: %q, want %q", tt.names, tt.calls, said, tt.want)
		}
	}
}

// What is not seen is not taken for absent.
func TestUnseen(t *testing.T) {
	blind := &Trace{Name: "x", unseen: "nothing shows it"}
	if exactly(blind, nil) == nil || never(blind, []string{"a"}) == nil {
		t.Error("what is not seen is absent")
	}
	if _, err := Compare(blind, traceOf("a"), nil, true); err == nil {
		t.Error("what is not seen is compared")
	}
}

func TestCompare(t *testing.T) {
	ignored := []jsondiff.Path{{"time"}}
	for _, tt := range []struct {
		a, b []string
		want string
	}{
		{[]string{"a", "b"}, []string{"a", "b"}, ""},
		{[]string{"mcp__s__a", "b"}, []string{"a", "b"}, ""},
		{[]string{"a", "b"}, []string{"a"}, "A  frame 2: calls b|B  takes no more decision"},
		{[]string{"a", "b", "c"}, []string{"a", "c"}, "A  frame 2: calls b; then 1 more decision|B  frame 2: calls c"},
		{[]string{`a {"q":1,"r":[1,2]}`}, []string{`a {"q":1,"r":[1,3]}`}, `A  frame 1: calls a {"q":1,"r":[1,2]}|B  frame 1: calls a {"q":1,"r":[1,3]}|   r.1: 2 → 3`},
		{[]string{`a {"q":1,"time":5}`}, []string{`a {"q":1,"time":6}`}, ""},
		{[]string{`a {"q":1}`}, []string{`a {}`}, `A  frame 1: calls a {"q":1}|B  frame 1: calls a {}|   q: 1 → –`},
	} {
		fork, err := Compare(traceOf(tt.a...), traceOf(tt.b...), ignored, true)
		got := ""
		if fork != nil {
			got = strings.Join(fork.Lines(), "|")
		}
		if err != nil || got != tt.want {
			t.Errorf("%q and %q: %q, %v; want %q", tt.a, tt.b, got, err, tt.want)
		}
	}
}

// Only what differs of long arguments is shown.
func TestLongChanges(t *testing.T) {
	long := strings.Repeat("é", 3000)
	got := changes([]byte(`{"text":"`+long+`one"}`), []byte(`{"text":"`+long+`two"}`), nil, nil)
	if len(got) != 1 || !strings.Contains(got[0], `éone" → `) || len(got[0]) > 200 {
		t.Errorf("%q", got)
	}
	for name, value := range map[string]string{"objects": "{}", "lists": "[]"} {
		if got := changes([]byte(value), []byte(`"x"`), nil, nil); len(got) != 1 || !strings.HasPrefix(got[0], "arguments: ") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// What begins, goes on or is answered after a cancel is late.
func TestLate(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	call := func(name string, from, took time.Duration, change ...func(*calls.Call)) *calls.Call {
		c := at("lab", name)
		c.Start, c.Duration, c.Outcome = begin.Add(from), took, session.Done
		for _, f := range change {
			f(c)
		}
		return c
	}
	cancelled := func(c *calls.Call) {
		c.Outcome, c.Stopped, c.Asked = session.Cancelled, true, c.Start.Add(c.Duration)
	}
	answered := func(late time.Duration) func(*calls.Call) {
		return func(c *calls.Call) {
			cancelled(c)
			c.Class, c.Closed = session.LateResult, c.Asked.Add(late)
		}
	}
	for _, tt := range []struct {
		turn []*calls.Call
		want string
	}{
		{[]*calls.Call{call("a", 0, time.Second), call("b", 2*time.Second, time.Second)}, ""},
		{[]*calls.Call{call("a", 0, time.Second, cancelled)}, ""},
		{[]*calls.Call{call("a", 0, time.Second, cancelled), call("b", 2*time.Second, time.Second)}, "b (frame 0) began 1s after the cancel of a (frame 0)"},
		{[]*calls.Call{call("a", 0, time.Second, cancelled), call("b", 0, 10*time.Second)}, "b (frame 0) went on for 9s after the cancel of a (frame 0)"},
		{[]*calls.Call{call("a", 0, time.Second, cancelled), call("b", 0, 1500*time.Millisecond)}, ""},
		{[]*calls.Call{call("a", 0, time.Second, answered(2*time.Second))}, "a (frame 0) was answered 2s after its cancel"},
		{[]*calls.Call{call("a", 0, time.Second, answered(time.Millisecond))}, ""},
	} {
		if got := strings.Join(lateIn(tt.turn), "; "); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// A recorded bound has two digits, and is over what there was.
func TestSlack(t *testing.T) {
	for n, want := range map[float64]float64{0: 0, 1: 1.5, 78: 120, 132: 200, 80461: 130000, 0.00168: 0.0026, 999: 1500, 6.6e8: 9.9e8} {
		if got := slack(n); got != want {
			t.Errorf("%v: %v, want %v", n, got, want)
		}
	}
}

// Words of a command come back as they were.
func TestWords(t *testing.T) {
	for _, text := range []string{"", "a", "-p", "5", "1.5", "true", "null", "~", "a: b", "a #b", "- x", "{x}", "it's", `"q"`, "two\nlines", "ümlaut", "\x00", "*", "&x", "%", "@x", "=", "x:", "0x1f", "1e3", ".5", "yes", "C:/x", "-p", "--flag=x", "-", "--", "---", "---x", "-5", "-.inf", "-.5", "-a:"} {
		s, err := Parse("x.yaml", []byte("run: "+flow([]string{"agent", text})+"\noutcome: done\n"))
		if err != nil || len(s.Command) != 2 || s.Command[1] != text {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
}

// The page on specs has one that can be read.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/test.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	if s, err := Parse("spec.yaml", []byte(text)); err != nil || len(s.checks) != 14 {
		t.Errorf("%v, %v", s, err)
	}
}

// Whatever a file holds, it is a spec or is refused with its name, and a result is written for it.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "session: fixture:mcp-everything\ntools: {called: [echo], at_least: {echo: 2}}\n", "- a\n", "run: [a, 5, true]\ntools: none\n",
		"session: fixture:mcp-http\narguments: {echo: {jq: '.q', schema: {type: object}}}\nfindings: {at_most: 2}\n", "a: &a [*a]\n", "? {a: b}\n: c\n", "<<: {}\n", "session: !!binary x\n", "tools: {at_least: {[a]: 1}}\n",
		"session: x\noutcome: [done]\ntime: {at_most: 1s}\ncost: {at_most: $1}\ntokens: {at_most: 1}\nstatus: 0\nafter_cancel: none\n", "session: |\n  x\ntrajectory: same as y\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("x.yaml", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "x.yaml") {
				t.Errorf("%v has no name", err)
			}
			return
		}
		if len(s.checks) == 0 || s.Session == "" && len(s.Command) == 0 {
			t.Error("it expects nothing")
		}
	})
}

// A session that is not there is no failed expectation, and the others are judged all the same.
func TestSuite(t *testing.T) {
	var specs []*Spec
	for _, text := range []string{
		"session: fixture:mcp-everything\ntools: {called: [echo]}\n", "session: nothere\noutcome: done\n", "session: fixture:mcp-everything\ntools: {called: [nothing]}\n",
	} {
		s, err := Parse("x.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, s)
	}
	var b strings.Builder
	suite := Suite{Specs: specs, Reader: &Reader{Opener: &source.Opener{Getenv: func(string) string { return "" }}}, Jobs: 2, Runs: 1, Pass: 1, Out: table.Output{To: &b, Form: table.AsJUnit, Style: &render.Style{}}}
	result, err := suite.Run(t.Context())
	if err != nil || result != (Result{1, 1, 1}) || strings.Count(b.String(), "<failure") != 2 {
		t.Errorf("%v, %v\n%s", result, err, b.String())
	}
}

// A command on one line is proposed as a list of its words.
func TestCommandWords(t *testing.T) {
	for text, want := range map[string]string{
		"claude -p hello":          "[claude, -p, hello]",
		`claude -p "fix the test"`: `[claude, -p, "fix the test"]`,
		`sh -c 'a  "b"' ""`:        `[sh, -c, "a  \"b\"", ""]`,
		`a --x="1 2"`:              `[a, "--x=1 2"]`,
		"\ta\n 'never ends":        `[a, "never ends"]`,
		"":                         "[]",
	} {
		if got := flow(commandWords(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A schema with a type that does not exist is a mistake in the spec, not in the arguments.
func TestSchemaTypes(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"object","properties":{"type":{"type":"string"},"q":{"type":["null","integer"]}}}`: "",
		`{"required":["type"],"enum":[{"type":"x"}],"default":{"type":"y"}}`:                        "",
		`{"type":"objec"}`:                                `unknown type "objec" (did you mean object?); there are: string, number, integer, boolean, object, array, null`,
		`{"properties":{"type":{"type":"int"}}}`:          `unknown type "int"`,
		`{"anyOf":[{"items":{"type":["string","any"]}}]}`: `unknown type "any"`,
		`{"type":3}`: `unknown type "3"`,
	} {
		var schema any
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		if got := unknownType(schema, false); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

package rlm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/rlm/prompt"
)

// callsIn splits a response into text and calls: lines of the word call, a name and
// arguments.
func callsIn(text string) (rest string, calls []ToolCall) {
	for line := range strings.Lines(text) {
		word, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word != "call" {
			rest += line
			continue
		}
		name, arguments, _ := strings.Cut(call, " ")
		calls = append(calls, ToolCall{ID: fmt.Sprintf("id%d", len(calls)+1), Name: name, Arguments: json.RawMessage(arguments)})
	}
	return rest, calls
}

// A kit has these tools: slow takes a second, fast no time, hang never ends, fail fails,
// and odd returns invalid JSON.
type kit struct {
	mu    sync.Mutex
	ended []string
	on    int // running calls
}

func (k *kit) Definitions() (list []Tool) {
	for _, name := range []string{"slow", "fast", "hang", "fail", "odd", "long"} {
		list = append(list, Tool{Name: name, Parameters: json.RawMessage(`{"type":"object"}`)})
	}
	return list
}

func (k *kit) Invoke(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	k.mu.Lock()
	k.on++
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.on--
		k.ended = append(k.ended, name)
	}()
	switch name {
	case "slow":
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "fail":
		return nil, &ToolError{"ToolExecution", errors.New("broken")}
	case "odd":
		return json.RawMessage("odd"), nil
	case "long":
		return json.RawMessage(`"` + strings.Repeat("x", 30_000) + `"`), nil
	}
	return json.RawMessage(`{"` + name + `":` + string(arguments) + `}`), nil
}

func withTools(change func(*Options)) func(*Options) {
	return func(o *Options) {
		o.Mode, o.Tools, o.Open, o.System = ToolsMode, &kit{}, nil, nil
		if change != nil {
			change(o)
		}
	}
}

// shown returns a conversation, one line per message.
func shown(messages []Message) (lines []string) {
	for _, m := range messages {
		lines = append(lines, strings.TrimSpace(m.Role+" "+m.ToolCallID+" "+m.Content+string(m.ToolCalls)))
	}
	return lines
}

// Calls run in parallel. The model gets their results in the order of the calls, and the
// errors of invalid ones. The run ends with the answer.
func TestTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log, k := &rule{tokens: Tokens{Input: 2, Output: 1}}, &memo{}, &kit{}
		m.root = turns("Look.\ncall slow {\"n\":1}\ncall fast {}\ncall slow {\"n\":2}\ncall none {}\ncall fast [1]\ncall fail {}\ncall odd {}", "It is 1.")
		out, err := start(t.Context(), m, &lab{}, log, withTools(func(o *Options) { o.Tools, o.ToolChoice = k, "required" }))
		if err != nil || out.Answer != "It is 1." || out.Finish != Stop || out.Iterations != 2 || out.Took != time.Second || k.ended[0] == "slow" {
			t.Errorf("%q, %s, %d turns in %v, %v, %v", out.Answer, out.Finish, out.Iterations, out.Took, k.ended, err)
		}
		last := m.asked[1]
		calls := `[{"id":"id1","type":"function","function":{"name":"slow","arguments":"{\"n\":1}"}},{"id":"id2",`
		want := []string{
			"system  " + prompt.Tools(prompt.Facts{}), `user  Answer the original query: "why"`, "assistant  Look.\n" + calls,
			`tool id1 {"slow":{"n":1}}`, `tool id2 {"fast":{}}`, `tool id3 {"slow":{"n":2}}`,
			`tool id4 {"error":"ToolNotFound: there is no tool \"none\": there are slow, fast, hang, fail, odd, long"}`,
			`tool id5 {"error":"Validation: the arguments are not a JSON object"}`, `tool id6 {"error":"ToolExecution: broken"}`,
			`tool id7 {"error":"ToolExecution: the result is not JSON"}`,
		}
		for i, line := range shown(last.Messages) {
			if i >= len(want) || !strings.HasPrefix(line, want[i]) {
				t.Errorf("message %d: %s", i, line)
			}
		}
		if len(last.Messages) != len(want) || m.asked[0].ToolChoice != "required" || last.ToolChoice != "auto" || len(last.Tools) != 6 {
			t.Errorf("%d messages, %q then %q, %d tools", len(last.Messages), m.asked[0].ToolChoice, last.ToolChoice, len(last.Tools))
		}
		logged := log.Run.Iterations[0].ToolCalls
		if len(logged) != 7 || logged[0].Seconds != 1 || string(logged[0].Result) != `{"slow":{"n":1}}` || logged[3].Error == "" || logged[3].Result != "" {
			t.Errorf("logged: %+v", logged)
		}
		if turn := log.events[len(log.events)-4]; turn.Kind != EventTurn || turn.ToolCalls != 0 {
			t.Errorf("%+v", turn)
		}
		checkUsage(t, m, out)
		checkLog(t, log, out, err)
		checkEvents(t, log.events)
	})
}

// After the last round no tool can be called, and the text is the answer.
func TestToolRounds(t *testing.T) {
	for _, c := range []struct{ last, answer string }{
		{"At last.", "At last."},
		{"Half.\ncall fast {}", "Half.\n"},
		{"call fast {}", "On.\n"}, // the best answer available
	} {
		m, log := &rule{}, &memo{}
		m.root = func(n int, _ []Message) string {
			if n > 10 {
				return c.last
			}
			return "On.\ncall fast {}"
		}
		out, err := start(t.Context(), m, &lab{}, log, withTools(func(o *Options) { o.Limits.Iterations = 0 }))
		last := m.asked[len(m.asked)-1]
		if err != nil || out.Answer != c.answer || out.Finish != MaxIterations || out.Limit != MaxIterations || len(m.asked) != 11 {
			t.Errorf("%q, %s after %d calls, %v", out.Answer, out.Finish, len(m.asked), err)
		}
		if last.ToolChoice != "none" || last.Messages[len(last.Messages)-1].Content != prompt.LastTools || m.asked[9].ToolChoice != "auto" {
			t.Errorf("%q: %s", last.ToolChoice, last.Messages[len(last.Messages)-1].Content)
		}
		checkLog(t, log, out, err)
	}
}

// A tool that times out counts as failed. Turns whose calls fail count towards that limit,
// and every limit holds.
func TestToolLimits(t *testing.T) {
	for _, c := range []struct {
		name, root, answer string
		change             func(*Options)
		finish             FinishReason
		took               time.Duration
	}{
		{"a slow tool", "call hang {}", "done", func(o *Options) { o.ToolTimeout = time.Minute }, Stop, time.Minute},
		{"errors", "So far.\ncall fail {}\ncall fast {}", "So far.\n", func(o *Options) { o.Limits.Errors = 1 }, MaxErrors, 0},
		{"tokens", "So far.\ncall fast {}", "So far.\n", func(o *Options) { o.Limits.Tokens = 3 }, MaxTokens, 0},
		{"time", "So far.\ncall hang {}", "So far.\n", func(o *Options) { o.Limits.Timeout = time.Hour; o.ToolTimeout = 2 * time.Hour }, Timeout, time.Hour},
		{"a policy", "So far.\ncall fast {}", "So far.\n", func(o *Options) { o.Stopping = stopAt(2) }, PolicyStop, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, log := &rule{root: turns(c.root, "done"), tokens: Tokens{Input: 2, Output: 1}}, &memo{}
			out, err := start(t.Context(), m, &lab{}, log, withTools(c.change))
			if err != nil || out.Answer != c.answer || out.Finish != c.finish || out.Took != c.took {
				t.Errorf("%s: %q, %s after %v, %v", c.name, out.Answer, out.Finish, out.Took, err)
			}
			checkUsage(t, m, out)
			checkLog(t, log, out, err)
			checkEvents(t, log.events)
		})
	}
}

// Long results are shortened, but the model still gets valid JSON.
func TestLongResult(t *testing.T) {
	m := &rule{root: turns("call long {}", "done")}
	if _, err := start(t.Context(), m, &lab{}, &memo{}, withTools(nil)); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Beginning string `json:"beginning"`
		Omitted   int    `json:"omitted_characters"`
	}
	if err := json.Unmarshal([]byte(m.asked[1].Messages[3].Content), &got); err != nil || len(got.Beginning) != 20_000 || got.Omitted != 10_002 {
		t.Errorf("%d characters, %d omitted, %v", len(got.Beginning), got.Omitted, err)
	}
}

// A history that fills the window is summarized between turns, so that every call keeps its
// result.
func TestCompactTools(t *testing.T) {
	m, log := &rule{window: 3000}, &memo{}
	m.root = func(n int, messages []Message) string {
		open := map[string]bool{}
		for _, msg := range messages {
			var calls []struct{ ID string }
			_ = json.Unmarshal([]byte(msg.ToolCalls), &calls)
			for _, c := range calls {
				open[c.ID] = true
			}
			if msg.Role == "tool" && !open[msg.ToolCallID] {
				t.Errorf("turn %d: a result without its call", n)
			}
		}
		switch last := messages[len(messages)-1]; {
		case strings.Contains(last.Content, "Write a summary"):
			return "summary"
		case n == 9:
			return "done"
		}
		return "call fast {\"x\":\"" + strings.Repeat("x", 2000) + "\"}"
	}
	out, err := start(t.Context(), m, &lab{}, log, withTools(func(o *Options) { o.Limits.Iterations = 9 }))
	summaries := 0
	for _, r := range m.asked {
		if strings.HasSuffix(r.Ref, "/summary") {
			summaries++
			if r.ToolChoice != "none" || len(r.Tools) == 0 {
				t.Errorf("%s may call tools: %q", r.Ref, r.ToolChoice)
			}
		}
	}
	if err != nil || out.Answer != "done" || summaries < 2 {
		t.Errorf("%q, %d summaries, %v", out.Answer, summaries, err)
	}
	checkUsage(t, m, out)
}

// A context that is a list of messages becomes the conversation.
func TestConversation(t *testing.T) {
	for _, c := range []struct{ text, kind, question, want string }{
		{`[{"role":"user","content":"hi"},{"role":"assistant","content":"yes?"}]`, "json", "why", `user  hi|assistant  yes?|user  Answer the original query: "why"`},
		{`{"role":"user","content":"hi"}`, "json", "", `user  hi`},
		{`[{"role":"nobody","content":"hi"}]`, "json", "", `user  [{"role":"nobody","content":"hi"}]`},
		{`{"a":1}`, "json", "why", "user  {\"a\":1}\n\nAnswer the original query: \"why\""},
		{`text`, "text", "", "user  text"},
	} {
		path := filepath.Join(t.TempDir(), "context")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		m := &rule{root: turns("done")}
		_, err := start(t.Context(), m, &lab{}, &memo{}, withTools(func(o *Options) { o.Question, o.Context = c.question, Context{Path: path, Type: c.kind} }))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(shown(m.asked[0].Messages[1:]), "|"); got != c.want {
			t.Errorf("%s: %s", c.text, got)
		}
	}
}

// A policy may let children use tools, or only some of them.
func TestToolChild(t *testing.T) {
	m, l, log := &rule{sub: echo}, &lab{}, &memo{}
	m.root = func(n int, messages []Message) string {
		switch {
		case strings.Contains(messages[0].Content, "Call tools"):
			return []string{"call fast {}\ncall slow {}", "child: " + messages[len(messages)-1].Content}[n-1]
		case n == 1:
			return code("ask deep", "final last")
		}
		return ""
	}
	out, err := start(t.Context(), m, l, log, func(o *Options) {
		o.Tools, o.Limits.Depth, o.Nesting = &kit{}, 2, nestTools{}
	})
	if err != nil || out.Answer != `child: {"error":"ToolNotFound: there is no tool \"slow\": there are fast"}` {
		t.Errorf("%q, %v", out.Answer, err)
	}
	child := log.Run.Iterations[0].CodeBlocks[0].Result.Calls[0].Run
	if child == nil || len(child.Iterations[0].ToolCalls) != 2 {
		t.Errorf("the child's log: %+v", child)
	}
	checkUsage(t, m, out)
	checkLog(t, log, out, err)
}

type nestTools struct{}

func (nestTools) Orchestrate(context.Context, json.RawMessage, int) (Nested, bool, error) {
	return Nested{Mode: ToolsMode, Tools: []string{"fast"}}, true, nil
}

// A run with tools can be cancelled at each of its events. It ends at once, together with
// its tools.
func TestCancelTools(t *testing.T) {
	total := 0
	synctest.Test(t, func(t *testing.T) {
		log := &memo{}
		if out, err := start(t.Context(), busyTools(), &lab{}, log, withTools(nil)); err != nil || out.Answer != "end" {
			t.Fatalf("%q, %v", out.Answer, err)
		}
		total = len(log.events)
	})
	for at := range total - 2 { // the last two are the answer and the end
		for _, later := range []time.Duration{0, time.Second / 2} {
			synctest.Test(t, func(t *testing.T) { cancelToolsAt(t, at, later) })
		}
	}
}

func busyTools() *rule {
	return &rule{root: turns("a\ncall slow {}\ncall fast {}\ncall fail {}", "b\ncall slow {}\ncall slow {}", "end"), delay: time.Second, tokens: Tokens{Input: 3, Output: 2}}
}

func cancelToolsAt(t *testing.T, at int, later time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m, k, log := busyTools(), &kit{}, &memo{}
	var cancelled time.Time
	seen, late := 0, make(chan struct{})
	log.observe = func(Event) {
		if seen++; seen == at+1 {
			cancelled = time.Now().Add(later)
			time.AfterFunc(later, func() {
				cancel()
				close(late)
			})
		}
	}
	out, err := start(ctx, m, &lab{}, log, withTools(func(o *Options) { o.Tools = k }))
	ended := time.Now()
	<-late
	over := out.Finish == Stop && !ended.After(cancelled)
	if err != nil || out.Finish != Cancelled && !over || out.Finish == Cancelled && !ended.Equal(cancelled) || k.on != 0 {
		t.Errorf("event %d, after %v: %s, %v after the cancel, %d tools on, %v", at, later, out.Finish, ended.Sub(cancelled), k.on, err)
	}
	checkUsage(t, m, out)
	checkLog(t, log, out, err)
	checkEvents(t, log.events)
}

// digits is a schema whose answers are a number in brackets.
type digits struct{}

func (digits) Document() json.RawMessage { return json.RawMessage(`{"type":"integer"}`) }

func (digits) Match(answer string) (string, error) {
	var n int
	if _, err := fmt.Sscanf(answer, "[%d]", &n); err != nil {
		return answer, fmt.Errorf("%q is no number", answer)
	}
	return fmt.Sprint(n), nil
}

// An answer that does not match the schema goes back to the model, at most twice. The
// answer at a limit is accepted as it is.
func TestSchema(t *testing.T) {
	for _, c := range []struct {
		name   string
		root   []string
		change func(*Options)
		answer string
		finish FinishReason
		asked  int
		failed bool
	}{
		{"code", []string{"FINAL([4])"}, nil, "4", Stop, 1, false},
		{"code, repaired", []string{code("final x", "print never"), "FINAL(y)", code("final [4]")}, nil, "4", Stop, 3, false},
		{"code, not repaired", []string{"FINAL(x)"}, nil, "x", Stop, 3, true},
		{"code, repaired after the last turn", []string{code("print a"), "x", "FINAL([4])"}, func(o *Options) { o.Limits.Iterations = 1 }, "4", MaxIterations, 3, false},
		{"code, a limit", []string{code("best x")}, func(o *Options) { o.Limits.Tokens = 1 }, "x", MaxTokens, 1, true},
		{"code, a limit with a good answer", []string{code("best [4]")}, func(o *Options) { o.Limits.Tokens = 1 }, "4", MaxTokens, 1, false},
		{"shallow, repaired", []string{"x", "[4]"}, func(o *Options) { o.Limits.Depth = 0 }, "4", Stop, 2, false},
		{"shallow, not repaired", []string{"x"}, func(o *Options) { o.Limits.Depth = 0 }, "x", Stop, 3, true},
		{"tools, repaired", []string{"call fast {}", "x", "call fast {}", "[4]"}, withTools(nil), "4", Stop, 4, false},
		{"tools, not repaired", []string{"x"}, withTools(nil), "x", Stop, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, log := &rule{root: turns(c.root...), sub: echo, tokens: Tokens{Input: 1}}, &memo{}
			out, err := start(t.Context(), m, &lab{}, log, func(o *Options) {
				o.Schema = digits{}
				if c.change != nil {
					c.change(o)
				}
			})
			if err != nil || out.Answer != c.answer || out.Finish != c.finish || m.calls != c.asked || (out.SchemaErr != nil) != c.failed {
				t.Errorf("%q, %s after %d calls, %v, %v", out.Answer, out.Finish, m.calls, out.SchemaErr, err)
			}
			if !slices.ContainsFunc(m.asked[0].Messages, func(msg Message) bool { return strings.Contains(msg.Content, `{"type":"integer"}`) }) {
				t.Error("the model is not told the schema")
			}
			if asked := m.asked[m.calls-1]; m.calls > 1 && c.finish == Stop {
				n := len(asked.Messages)
				repair := slices.IndexFunc(asked.Messages, func(msg Message) bool { return strings.Contains(msg.Content, `is no number`) })
				if repair < 1 || asked.Messages[repair-1].Role != "assistant" || asked.Messages[n-1].Role == "assistant" {
					t.Errorf("the last call: %q", shown(asked.Messages))
				}
			}
			checkUsage(t, m, out)
			checkLog(t, log, out, err)
			checkEvents(t, log.events)
		})
	}
}

// Code can call tools, also in a child run. An invalid call fails the cell, and the end of
// the run ends a running one.
func TestToolsOfCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log, k := &rule{}, &memo{}, &kit{}
		m.root = turns(code("tool fast {}", "tool none {}", "tool fail {}"), code("tool hang {}"))
		withKit := func(o *Options) { o.Tools, o.Limits.Timeout = k, time.Minute }
		out, err := start(t.Context(), m, &lab{}, log, withKit)
		if err != nil || out.Finish != Timeout || out.Took != time.Minute || out.Calls != 0 || k.on != 0 {
			t.Errorf("%s in %v, %d calls, %d tools on, %v", out.Finish, out.Took, out.Calls, k.on, err)
		}
		var got []string
		for _, i := range log.Run.Iterations {
			for _, c := range i.ToolCalls {
				got = append(got, c.ID+" "+c.Name+" "+string(c.Result)+c.Error)
			}
		}
		want := []string{
			`c1/q1 fast {"fast":{}}`, `c2/q1 none ToolNotFound: there is no tool "none": there are slow, fast, hang, fail, odd, long`,
			"c3/q1 fail ToolExecution: broken", "c1/q1 hang the run has taken 1m0s",
		}
		if !slices.Equal(got, want) {
			t.Errorf("calls %q, want %q", got, want)
		}
		if _, err := start(t.Context(), &rule{root: turns(code("tool fast {}"))}, &lab{}, &memo{}, func(o *Options) { o.Limits.Iterations = 1 }); err != nil {
			t.Error("without tools:", err)
		}
	})
}

// Arguments have the order of the schema, with the required ones first. Code cannot call a
// tool by a name that is taken.
func TestFunction(t *testing.T) {
	schema := `{"properties": {"z": {}, "b": {"default": 1}, "a": {}}, "required": ["a", "z"]}`
	f, err := Tool{Name: "get-it", Parameters: json.RawMessage(schema)}.Function()
	if err != nil || f.Name != "get_it" || f.Tool != "get-it" || strings.Join(f.Arguments, " ") != "z a b" {
		t.Errorf("%+v, %v", f, err)
	}
	for _, name := range []string{"context", "FINAL", "class", "print", "1st", "_x", "-"} {
		if f, err := (Tool{Name: name}).Function(); err == nil {
			t.Errorf("%q becomes %+v", name, f)
		}
	}
	for _, odd := range []string{"", "[]", `{"properties": [1]}`, `{"properties": {"a": `} {
		if f, err := (Tool{Name: "odd", Parameters: json.RawMessage(odd)}).Function(); err != nil || len(f.Arguments) > 0 {
			t.Errorf("%q: %+v, %v", odd, f, err)
		}
	}
}

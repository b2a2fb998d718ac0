package rlm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/rlm/prompt"
)

// question returns the first question of a run to its model, without the surrounding text.
func question(messages []Message) string {
	for _, m := range messages {
		if _, rest, ok := strings.Cut(m.Content, `original query: "`); ok {
			q, _, _ := strings.Cut(rest, "\"\n")
			return q
		}
	}
	return ""
}

// countdown nests until its question is 0.
func countdown(_ int, messages []Message) string {
	var n int
	if _, err := fmt.Sscan(question(messages), &n); err != nil {
		return code("nest 3\nfinal last")
	}
	return code(fmt.Sprintf("nest %d\nfinal last", n-1))
}

// A child run has its own environment, a longer ref, half of the turns, and a log nested in
// that of its call. At the greatest depth it is a plain call.
func TestChildren(t *testing.T) {
	m := &rule{root: countdown, sub: func(p string) (string, error) { return "I say FINAL, so:\nFINAL(plain " + p + ")", nil }}
	l, log := &lab{}, &memo{}
	out, err := start(t.Context(), m, l, log, func(o *Options) { o.Limits.Depth = 3; o.Limits.Iterations = 8 })
	if err != nil || out.Answer != "plain 1" || l.opened != 3 || l.closed != 3 || out.Calls != 3 {
		t.Errorf("%q, %d environments of which %d are closed, %d calls, %v", out.Answer, l.opened, l.closed, out.Calls, err)
	}
	call := log.Run.Iterations[0].CodeBlocks[0].Result.Calls[0]
	for depth, turns := range []int{4, 2} {
		r := call.Run
		if r == nil || r.Metadata.MaxIterations != turns || r.Metadata.RootModel != "sub" || r.Metadata.CorrelationID != out.ID {
			t.Fatalf("the child of depth %d is %+v, want one of %d turns", depth+1, r, turns)
		}
		if r.Metadata.SchemaVersion != 1 || r.Metadata.Type != "metadata" || r.Iterations[0].SchemaVersion != 1 || r.Iterations[0].Type != "iteration" {
			t.Errorf("depth %d: the records are no lines of a log: %+v", depth+1, r)
		}
		if want := int64(3 - depth); call.Usage.Models["sub"].Calls != want || *r.Iterations[0].FinalAnswer != "plain 1" {
			t.Errorf("depth %d: %+v, want %d calls", depth+1, call, want)
		}
		call = r.Iterations[0].CodeBlocks[0].Result.Calls[0]
	}
	if call.Run != nil || call.Response != "plain 1" {
		t.Errorf("the deepest call is %+v", call)
	}
	if ref := out.ID + strings.Repeat("/t1/c1/q1", 3); m.refs[len(m.refs)-1] != ref {
		t.Errorf("the deepest call is %s, want %s", m.refs[len(m.refs)-1], ref)
	}
	checkUsage(t, m, out)
	checkLog(t, log, out, err)
}

// Children are charged to the account of the whole tree, and the end of a child does not
// end the run.
func TestChildrenEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		child  string // the child's response
		change func(*Options)
		want   string
	}{
		{"failed", "!status 500", nil, "Error: child run failed: status 500"},
		{"no answer", "Hm.", nil, "Hm."},
		{"no calls left", code("ask a\nask b"), func(o *Options) { o.Limits.Calls = 2 }, code("ask a\nask b")},
		{"no call at all", "FINAL(1)", func(o *Options) { o.Limits.Calls = 1; o.Nesting = Match{regexp.MustCompile("ch")} }, "Error: child run ended without an answer: calls"},
		{"errors", code("fail x"), func(o *Options) { o.Limits.Errors = 1 }, code("fail x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, l, log := &rule{sub: echo}, &lab{}, &memo{}
			m.root = func(n int, messages []Message) string {
				switch {
				case question(messages) == "child":
					return c.child
				case c.name == "no call at all":
					return code("ask first\nask child\nfinal last")
				}
				return code("nest child\nfinal last")
			}
			out, err := start(t.Context(), m, l, log, func(o *Options) {
				o.Limits.Depth = 2
				if c.change != nil {
					c.change(o)
				}
			})
			if err != nil || out.Finish != Stop || out.Answer != c.want || l.opened != l.closed {
				t.Errorf("%q, %s, %v, want %q", out.Answer, out.Finish, err, c.want)
			}
			checkUsage(t, m, out)
			checkLog(t, log, out, err)
		})
	}
}

// Children that wait for slots do not block their own children.
func TestChildrenInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &rule{sub: echo, delay: time.Second}
		m.root = func(n int, messages []Message) string {
			if question(messages) == "why" {
				return code("nest a\nprint b\n"+"final done", "print never")
			}
			return code("many 5\nnest "+question(messages)+"x\nnest y") + "FINAL_VAR(last)"
		}
		l := &lab{}
		out, err := start(t.Context(), m, l, &memo{}, func(o *Options) {
			o.Limits.Depth, o.Parallel, o.Nesting = 4, 1, Over(2)
		})
		if err != nil || out.Finish != Stop || m.largest != 1 || l.opened != l.closed {
			t.Errorf("%s, %d at once, %d of %d environments closed, %v", out.Finish, m.largest, l.closed, l.opened, err)
		}
		checkUsage(t, m, out)
	})
}

// Policies decide which calls are child runs, and change the results.
func TestPolicies(t *testing.T) {
	long := strings.Repeat("ü", 30_000)
	for _, c := range []struct {
		name   string
		cell   string
		change func(*Options)
		want   string
		opened int
	}{
		{"none", "ask abc", nil, "<abc>", 1},
		{"never", "ask abc", func(o *Options) { o.Nesting = Never{} }, "<abc>", 1},
		{"always", "ask abc", func(o *Options) { o.Nesting = Always{} }, "child of abc", 2},
		{"over", "batch a|abc", func(o *Options) { o.Nesting = Over(2) }, "child of abc", 2},
		{"match", "batch abc|x", func(o *Options) { o.Nesting = Match{regexp.MustCompile("^ab")} }, "<x>", 2},
		{"a policy that fails", "ask abc", func(o *Options) { o.Nesting = badNesting{} }, "<abc>", 1},
		{"the depth of a policy", "nest abc", func(o *Options) { o.Limits.Depth = 1; o.Nesting = Always{} }, "<abc>", 1},
		{"truncate", "ask abcdef", func(o *Options) { o.Compressor = Truncate(3) }, "<ab\n[5 characters omitted]", 1},
		{"truncate what is short", "ask ab", func(o *Options) { o.Compressor = Truncate(4) }, "<ab>", 1},
		{"summarize", "ask " + long, func(o *Options) { o.Compressor = Summarize("small") }, "short", 1},
		{"summarize what is short", "ask ab", func(o *Options) { o.Compressor = Summarize("small") }, "<ab>", 1},
		{"summarize without calls", "ask " + long, func(o *Options) { o.Compressor = Summarize("small"); o.Limits.Calls = 1 }, "<" + long + ">", 1},
		{"a handler", "ask abc", func(o *Options) { o.Handler = handler{} }, "handled abc", 1},
		{"a handler that does not", "ask x", func(o *Options) { o.Handler = handler{} }, "<x>", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, l, log := &rule{}, &lab{}, &memo{}
			m.root = func(_ int, messages []Message) string {
				if q := question(messages); q != "why" {
					return "FINAL(child of " + q + ")"
				}
				return code(c.cell + "\nfinal last")
			}
			m.sub = func(p string) (string, error) {
				if strings.HasPrefix(p, "Summarize the text below") && strings.HasSuffix(p, long+">") {
					return "short", nil
				}
				return echo(p)
			}
			out, err := start(t.Context(), m, l, log, func(o *Options) {
				o.Limits.Depth = 2
				if c.change != nil {
					c.change(o)
				}
			})
			if err != nil || out.Answer != c.want || l.opened != c.opened {
				t.Errorf("%q with %d environments, %v, want %q with %d", out.Answer, l.opened, err, c.want, c.opened)
			}
			failed := c.name == "a policy that fails" || c.name == "summarize without calls"
			if (out.PolicyErr != nil) != failed {
				t.Errorf("policy error: %v", out.PolicyErr)
			}
			checkLog(t, log, out, err)
			if c.name == "a handler" {
				if got := out.Usage["handler"].Calls; got != 1 || m.calls != 1 {
					t.Errorf("%d calls handled, %d asked", got, m.calls)
				}
				return
			}
			checkUsage(t, m, out)
		})
	}
}

type badNesting struct{}

func (badNesting) Orchestrate(context.Context, json.RawMessage, int) (Nested, bool, error) {
	return Nested{}, true, errors.New("no idea")
}

type handler struct{}

func (handler) Handle(_ context.Context, c NestedCall) (string, bool, error) {
	text := promptText(c.Prompt)
	return "handled " + text, text == "abc", nil
}

// A policy can give a child more or fewer turns, and let it nest deeper.
func TestNested(t *testing.T) {
	m, log := &rule{sub: echo}, &memo{}
	m.root = func(_ int, messages []Message) string {
		if question(messages) == "why" {
			return code("ask a\nfinal last")
		}
		return code("nest b\nfinal last")
	}
	out, err := start(t.Context(), m, &lab{}, log, func(o *Options) { o.Limits.Depth = 1; o.Nesting = deeper{} })
	run := log.Run.Iterations[0].CodeBlocks[0].Result.Calls[0].Run
	if err != nil || out.Answer != "<b>" || run.Metadata.MaxIterations != 7 || run.Metadata.MaxDepth != 2 {
		t.Errorf("%q, %v, %+v", out.Answer, err, run)
	}
}

type deeper struct{}

func (deeper) Orchestrate(context.Context, json.RawMessage, int) (Nested, bool, error) {
	return Nested{MaxIterations: 7, MaxDepth: 2}, true, nil
}

// With depth 0 a run is one completion of the context and the question.
func TestShallow(t *testing.T) {
	c, remove, err := (&tree{}).fileContext("the context", "text")
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	m, l, log := &rule{root: turns("So:\nFINAL(4)")}, &lab{}, &memo{}
	out, err := start(t.Context(), m, l, log, func(o *Options) { o.Limits.Depth = 0; o.Context = c })
	want := []Message{{Role: "user", Content: "the context\n\nAnswer the original query: \"why\""}}
	if err != nil || out.Answer != "4" || out.Finish != Stop || l.opened != 0 || !cmp.Equal(m.asked[0].Messages, want) {
		t.Errorf("%q, %s, %v, asked %q", out.Answer, out.Finish, err, m.asked[0].Messages)
	}
	checkLog(t, log, out, err)
}

// A prompt of any JSON value is a context, and its shape is described in Python's terms.
func TestPromptContext(t *testing.T) {
	for _, c := range []struct {
		prompt, kind string
		want         prompt.Shape
	}{
		{`"häh"`, "text", prompt.Shape{Type: "str", Chars: 3, Lengths: []int64{3}, Chunks: 1}},
		{`[{"role":"user","content":"ab"},"abc",[1]]`, "json", prompt.Shape{Type: "list", Chars: 8, Lengths: []int64{2, 3, 3}, Chunks: 3}},
		{`{"b":"x","a":"xy"}`, "json", prompt.Shape{Type: "dict", Chars: 3, Lengths: []int64{2, 1}, Chunks: 2}},
	} {
		got, shape, remove, err := (&tree{}).promptContext([]byte(c.prompt))
		if err != nil || got.Type != c.kind || !cmp.Equal(shape, c.want) {
			t.Errorf("%s: %+v of type %s, %v", c.prompt, shape, got.Type, err)
			continue
		}
		remove()
	}
	if _, _, _, err := (&tree{}).promptContext([]byte(`{`)); err == nil {
		t.Error("what is not JSON is a context")
	}
}

package rlm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each limit ends the run with the best answer so far, except that calls over the limit are
// rejected.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		root   []string
		change func(*Options)
		answer string
		finish FinishReason
		limit  FinishReason
		calls  int // of all models
	}{
		{
			"tokens, the last response",
			[]string{"one", "two", "three"},
			func(o *Options) { o.Limits.Tokens = 25 }, "three", MaxTokens, MaxTokens, 3,
		},
		{
			"tokens, the answer so far",
			[]string{code("best nearly")},
			func(o *Options) { o.Limits.Tokens = 15 }, "nearly", MaxTokens, MaxTokens, 2,
		},
		{
			"tokens end a cell",
			[]string{code("best nearly\nask a\nask b\nask c\nwait")},
			func(o *Options) { o.Limits.Tokens = 25 }, "nearly", MaxTokens, MaxTokens, 3,
		},
		{
			"tokens are exceeded by the answer",
			[]string{code("ask a\nfinal done")},
			func(o *Options) { o.Limits.Tokens = 15 }, "done", Stop, "", 2,
		},
		{
			"cost",
			[]string{"one", "two"},
			func(o *Options) { o.Limits.Cost = 0.03 }, "two", MaxCost, MaxCost, 2,
		},
		{
			"errors",
			[]string{code("fail a"), code("print a"), code("fail a"), code("fail b", "print c"), "FINAL(1)"},
			func(o *Options) { o.Limits.Errors = 2; o.Limits.Iterations = 9 }, code("fail b", "print c"), MaxErrors, MaxErrors, 4,
		},
		{
			"calls",
			[]string{code("ask a\nask b\nask c\nfinal last")},
			func(o *Options) { o.Limits.Calls = 2 }, "Error: the run has used all of its 2 calls: continue without calls", Stop, Calls, 3,
		},
		{
			"a policy",
			[]string{"one", "two"},
			func(o *Options) { o.Stopping = stopAt(2) }, "one", PolicyStop, PolicyStop, 1,
		},
		{
			"a policy before the first turn", nil,
			func(o *Options) { o.Stopping = stopAt(1) }, Stopped, PolicyStop, PolicyStop, 0,
		},
		{
			"a policy that fails ends nothing",
			[]string{"FINAL(1)"},
			func(o *Options) { o.Stopping = stopAt(-1) }, "1", Stop, "", 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, log := &rule{root: turns(append(c.root, "x")...), sub: echo, tokens: Tokens{Input: 9, Output: 1, Cost: 0.02}}, &memo{}
			out, err := start(t.Context(), m, &lab{}, log, c.change)
			if err != nil || out.Answer != c.answer || out.Finish != c.finish || out.Limit != c.limit || m.calls != c.calls {
				t.Errorf("%q, %s, limit %q, %d calls, %v; want %q, %s, limit %q, %d calls",
					out.Answer, out.Finish, out.Limit, m.calls, err, c.answer, c.finish, c.limit, c.calls)
			}
			if (out.PolicyErr != nil) != (c.name == "a policy that fails ends nothing") {
				t.Errorf("policy error: %v", out.PolicyErr)
			}
			checkUsage(t, m, out)
			if m.calls > 0 {
				checkLog(t, log, out, err)
			}
		})
	}
}

// Where the provider does not count, limits count the estimate, and nothing else does.
func TestEstimate(t *testing.T) {
	m := &rule{root: turns("one", "two", "three"), estimate: Tokens{Input: 9, Output: 1, Cost: 0.02}}
	for reason, limits := range map[FinishReason]Limits{MaxTokens: {Tokens: 20}, MaxCost: {Cost: 0.03}} {
		m.calls = 0
		out, err := start(t.Context(), m, &lab{}, &memo{}, func(o *Options) { o.Limits.Tokens, o.Limits.Cost = limits.Tokens, limits.Cost })
		if err != nil || out.Answer != "two" || out.Finish != reason {
			t.Errorf("%q, %s, %v; want %s", out.Answer, out.Finish, err, reason)
		}
		checkUsage(t, m, out)
	}
}

// stopAt stops before that turn. With -1 it fails.
type stopAt int

func (n stopAt) Stop(_ context.Context, s State) (string, error) {
	if n < 0 {
		return "stopped", errors.New("no idea")
	}
	if s.Iteration == int(n) {
		return "enough", nil
	}
	return "", nil
}

func (stopAt) Done(State) {}

// checkUsage compares the outcome with the model's own count.
func checkUsage(t *testing.T, m *rule, out Outcome) {
	t.Helper()
	want := Tokens{Input: m.tokens.Input * int64(m.calls), Output: m.tokens.Output * int64(m.calls)}
	got := out.Usage.Total()
	if got.Calls != int64(m.calls) || got.Input != want.Input || got.Output != want.Output {
		t.Errorf("the run counts %+v, the model %d calls with %+v", got, m.calls, want)
	}
	if m.open != 0 {
		t.Errorf("%d calls are still on", m.open)
	}
}

// The limits of calls and of parallel calls are exact, even for calls made at once.
func TestCallsAreExact(t *testing.T) {
	for _, parallel := range []int{40, 2000} {
		synctest.Test(t, func(t *testing.T) { callsAreExact(t, parallel) })
	}
}

func callsAreExact(t *testing.T, parallel int) {
	m := &rule{root: turns(code("many 2000"), "FINAL_VAR(last)"), sub: echo, delay: time.Second, tokens: Tokens{Input: 1}}
	log := &memo{}
	out, err := start(t.Context(), m, &lab{}, log, func(o *Options) { o.Limits.Calls = 1234; o.Parallel = parallel })
	if err != nil || out.Finish != Stop || out.Limit != Calls || out.Calls != 1234 || m.calls != 1236 || m.largest != min(parallel, 1234) {
		t.Errorf("%s, %s, %d calls of %d, %d at once, %v", out.Finish, out.Limit, out.Calls, m.calls, m.largest, err)
	}
	checkUsage(t, m, out)
	refused := 0
	for n, call := range log.Run.Iterations[0].CodeBlocks[0].Result.Calls {
		if call.FinishReason == string(Calls) && call.Error != "" {
			refused++
		}
		if call.Error == "" && call.Response != "<x>" {
			t.Errorf("call %d answered %q", n, call.Response)
		}
	}
	if refused != 2000-1234 {
		t.Errorf("%d calls were refused", refused)
	}
	// 1,234 calls of one second, run in parallel, and two turns.
	if want := (1234+parallel-1)/parallel + 2; out.Took != time.Duration(want)*time.Second {
		t.Errorf("took %v, want %d s", out.Took, want)
	}
}

// The tokens used are over the limit by at most those of the calls in flight.
func TestTokensInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &rule{root: turns(code("many 100\nwait")), sub: echo, delay: time.Second, tokens: Tokens{Input: 10}}
		out, err := start(t.Context(), m, &lab{}, &memo{}, func(o *Options) { o.Limits.Tokens = 200; o.Parallel = 8 })
		used := out.Usage.Total().Input
		if err != nil || out.Finish != MaxTokens || used < 200 || used >= 200+8*10 {
			t.Errorf("%s, %d tokens, %v", out.Finish, used, err)
		}
		checkUsage(t, m, out)
	})
}

// The timeout of a run ends whatever it waits for: a provider, a call, or the code.
func TestTimeout(t *testing.T) {
	for _, root := range []string{"slow", code("best b\nwait"), code("best b\nbatch a|b|c"), code("best b\nnest slow")} {
		synctest.Test(t, func(t *testing.T) {
			m, l, log := &rule{root: turns(root), sub: echo, delay: 40 * time.Second, tokens: Tokens{Input: 1}}, &lab{}, &memo{}
			out, err := start(t.Context(), m, l, log, func(o *Options) { o.Limits.Timeout = time.Minute; o.Limits.Depth = 2 })
			if err != nil || out.Finish != Timeout || out.Took != time.Minute {
				t.Errorf("%q: %s after %v, %v", root, out.Finish, out.Took, err)
			}
			if want := map[bool]string{true: "slow", false: "b"}[root == "slow"]; out.Answer != want {
				t.Errorf("%q: the best answer is %q", root, out.Answer)
			}
			checkUsage(t, m, out)
			checkLog(t, log, out, err)
			if l.opened != l.closed {
				t.Errorf("%d environments opened, %d closed", l.opened, l.closed)
			}
		})
	}
}

// A failure of the run says where it happened. Everything paid until then is counted.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		root   []string
		change func(*Options)
		want   Error
	}{
		{[]string{code("best b"), "!no credit"}, nil, Error{"LLM", "/t2", errors.New("no credit"), "b"}},
		{[]string{code("best b\ndie")}, nil, Error{"Execution", "/t1", errors.New("the worker cannot be started again"), code("best b\ndie")}},
		{nil, func(o *Options) {
			o.Open = func(context.Context, Session) (Environment, error) { return nil, errors.New("no interpreter") }
		}, Error{"Execution", "", errors.New("no interpreter"), ""}},
		{nil, func(o *Options) { o.Question = "" }, Error{"Validation", "", errors.New("a run needs a question or a context"), ""}},
	} {
		m, log := &rule{root: turns(c.root...), tokens: Tokens{Input: 1}}, &memo{}
		out, err := start(t.Context(), m, &lab{}, log, c.change)
		var e *Error
		if !errors.As(err, &e) || e.Type != c.want.Type || strings.TrimPrefix(e.At, out.ID) != c.want.At || e.Error() != c.want.Error() || e.Best != c.want.Best {
			t.Errorf("failed with %#v, want %#v", err, c.want)
		}
		checkUsage(t, m, out)
		answered := slices.ContainsFunc(log.events, func(e Event) bool { return e.Kind == EventAnswer && e.Text == c.want.Best && e.Finish == "" })
		if out.Answer != c.want.Best || answered != (c.want.Best != "") {
			t.Errorf("the best answer is %q, with an event: %t; want %q", out.Answer, answered, c.want.Best)
		}
		if len(c.root) > 0 {
			checkLog(t, log, out, err)
		}
	}
}

// A log that fails does not end the run.
func TestLogFails(t *testing.T) {
	full := errors.New("disk full")
	out, err := start(t.Context(), &rule{root: turns(code("print 1"), "FINAL(1)")}, &lab{}, &memo{}, func(o *Options) { o.Log = badLog{full} })
	if err != nil || out.Answer != "1" || !errors.Is(out.LogErr, full) {
		t.Errorf("%q, %v, log: %v", out.Answer, err, out.LogErr)
	}
}

// A failed call does not affect the others of its batch, and answers keep their order.
func TestBatchFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &rule{root: turns(code("batch a|bad|c\nask strange:d"), "FINAL(x)"), delay: time.Second, sub: func(p string) (string, error) {
			if p == "bad" {
				return "", errors.New("status 500")
			}
			return echo(p)
		}}
		known := func(model string) error {
			if model == "strange" {
				return errors.New("not known")
			}
			return nil
		}
		log := &memo{}
		out, err := start(t.Context(), m, &lab{}, log, func(o *Options) { o.Check = known })
		block := log.Run.Iterations[0].CodeBlocks[0].Result
		want := "<a>\nError: status 500\n<c>\nError: not known\n"
		if err != nil || out.Finish != Stop || block.Stdout != want {
			t.Errorf("%v, %s, printed %q", err, out.Finish, block.Stdout)
		}
		for n, call := range block.Calls {
			if failed := call.Error != ""; failed != (n%2 == 1) {
				t.Errorf("call %d: %+v", n, call)
			}
		}
		if ref := fmt.Sprintf("%s/t1/c1/q1", out.ID); !strings.Contains(strings.Join(m.refs, " "), ref) {
			t.Errorf("no call has the ref %s: %q", ref, m.refs)
		}
		checkUsage(t, m, out)
	})
}

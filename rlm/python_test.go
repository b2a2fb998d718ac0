package rlm_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
)

// A silent model answers the root, and leaves sub-calls pending until they are closed.
type silent struct {
	code     string
	begun    chan struct{} // one for each sub-call
	open     atomic.Int64
	closed   atomic.Int64 // when the last sub-call was closed, in Unix nanoseconds
	calls    atomic.Int64
	wasAsked atomic.Bool
}

func (s *silent) Window(string) int { return 0 }

func (s *silent) Complete(ctx context.Context, r rlm.Request) (rlm.Completion, error) {
	s.calls.Add(1)
	c := rlm.Completion{Model: r.Model, Tokens: rlm.Tokens{Input: 10}}
	if r.Messages != nil {
		c.Text = "I write code."
		if !s.wasAsked.Swap(true) || r.Model == "sub" {
			c.Text += "\n" + cell(s.code)
		}
		return c, nil
	}
	s.open.Add(1)
	defer s.open.Add(-1)
	s.begun <- struct{}{}
	<-ctx.Done()
	s.closed.Store(time.Now().UnixNano())
	return c, ctx.Err()
}

// findPython returns the machine's interpreter. In CI there must be one.
func findPython(t *testing.T) env.Interpreter {
	t.Helper()
	p, err := env.FindPython(t.Context())
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return p
}

// A run is cancelled while its code waits for calls, or for nothing. It closes the calls
// within 100 ms, ends the interpreters, and has the answer so far.
func TestCancelInPython(t *testing.T) {
	p := findPython(t)
	for _, c := range []struct {
		name, code string
		calls      int // pending when the run is cancelled
	}{
		{"a batch", `answer["content"] = "so far"
llm_query_batched(["a", "b", "c"])`, 3},
		{"threads", `answer["content"] = "so far"
import threading
threads = [threading.Thread(target=llm_query, args=("x",)) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]`, 4},
		{"children", `answer["content"] = "so far"
llm_query_batched(["a"]) if RLM_DEPTH else rlm_query_batched(["a", "b"])`, 2},
		{"a loop", `answer["content"] = "so far"
import threading
threading.Thread(target=llm_query, args=("x",), daemon=True).start()
while True: pass`, 1},
	} {
		attempt := func(t *testing.T) time.Duration {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var cancelled time.Time
			m := &silent{code: c.code, begun: make(chan struct{}, 100)}
			go func() {
				for range c.calls {
					<-m.begun
				}
				cancelled = time.Now()
				cancel()
			}()
			var closed atomic.Int64
			out, err := rlm.Run(ctx, rlm.Options{
				Model: m, Question: "q", Root: "root", Sub: "sub", Limits: rlm.Limits{Depth: 2},
				Open: func(_ context.Context, s rlm.Session) (rlm.Environment, error) {
					return counted{env.NewPython(p, env.Config{Run: s.ID, Depth: s.Depth, Grace: time.Minute}, env.PythonOptions{}), &closed}, nil
				},
			})
			if err != nil || out.Finish != rlm.Cancelled || out.Answer != "so far" {
				t.Errorf("%q, %s, %v", out.Answer, out.Finish, err)
			}
			used := out.Usage.Total()
			if m.open.Load() != 0 || used.Calls != m.calls.Load() || used.Input != 10*m.calls.Load() {
				t.Errorf("%d calls are on, %d were made, the run counts %+v", m.open.Load(), m.calls.Load(), used)
			}
			if want := int64(1 + 2*strings.Count(c.name, "children")); closed.Load() != want {
				t.Errorf("%d environments closed, want %d", closed.Load(), want)
			}
			return time.Unix(0, m.closed.Load()).Sub(cancelled)
		}
		t.Run(c.name, func(t *testing.T) {
			var took time.Duration
			for range 20 { // a busy machine may take longer, but not every time
				if took = attempt(t); took <= 100*time.Millisecond || t.Failed() {
					return
				}
			}
			t.Errorf("the last call was closed %v after the cancel", took)
		})
	}
}

// A counted environment counts its closings.
type counted struct {
	rlm.Environment
	closed *atomic.Int64
}

func (c counted) Close() error {
	c.closed.Add(1)
	return c.Environment.Close()
}

// The timeout of a cell ends its calls, and the run continues with its variables.
func TestCellTimeoutInPython(t *testing.T) {
	p := findPython(t)
	m := &writer{turns: []string{
		cell("x = 4\nwhile True: pass"),
		"FINAL_VAR(x)",
	}}
	out, err := rlm.Run(t.Context(), rlm.Options{
		Model: m, Question: "q", Root: "root", Limits: rlm.Limits{Depth: 1},
		Open: func(_ context.Context, s rlm.Session) (rlm.Environment, error) {
			return env.NewPython(p, env.Config{Run: s.ID, Timeout: 3 * time.Second, Grace: time.Minute}, env.PythonOptions{}), nil
		},
	})
	if err != nil || out.Answer != "4" || out.Finish != rlm.Stop || out.Iterations != 2 {
		t.Errorf("%q, %s after %d turns, %v", out.Answer, out.Finish, out.Iterations, err)
	}
}

// The variable history has the conversation before the turn, in each cell.
func TestHistoryInPython(t *testing.T) {
	out := run(t, "text", 1, cell("n = len(history)"), cell(`FINAL(f"{n} {len(history)} {history[2]['role']} {history[4]['content'][:7]}")`))
	if want := "3 5 user Output:"; out.Answer != want {
		t.Errorf("%q, want %q", out.Answer, want)
	}
}

// The depth that code claims to have does not count: at the greatest depth, a child run is a
// plain call.
func TestDepthIsNotTrusted(t *testing.T) {
	out := run(t, "text", 1, cell(`
RLM_DEPTH = -9
FINAL(rlm_query("which city") + " " + llm_query("which city", depth=-9))`))
	if want := "location location"; out.Answer != want || out.Calls != 2 {
		t.Errorf("%q after %d calls, want %q", out.Answer, out.Calls, want)
	}
}

// In a batch of 2,000 calls, as many are answered as the limit allows.
func TestBatchInPython(t *testing.T) {
	out := run(t, "text", 1, cell(`
got = llm_query_batched(["which city"] * 2000)
FINAL(f"{len(got)} {got.count('location')} {sum(g.startswith('Error: the run has used all of its 500 calls') for g in got)}")`))
	if want := "2000 500 1500"; out.Answer != want || out.Calls != 500 || out.Limit != rlm.Calls {
		t.Errorf("%q after %d calls, limit %s, want %q", out.Answer, out.Calls, out.Limit, want)
	}
}

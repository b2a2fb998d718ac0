package rlm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// These responses end a run or not, and the model gets these messages.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		name   string
		says   []string
		answer string
		finish FinishReason
		turns  int
		told   string // in the last messages to the model
		ran    string
	}{
		{"an answer in the text", []string{"FINAL(4)"}, "4", Stop, 1, "", ""},
		{"an empty answer", []string{"FINAL()"}, "", Stop, 1, "", ""},
		{"an answer after code", []string{code("print hello"), "FINAL(4)"}, "4", Stop, 2, "hello", "print hello"},
		{"an answer beside code waits for it", []string{code("set x 1") + "FINAL_VAR(x)"}, "1", Stop, 1, "", "set x 1"},
		{"a cell answers", []string{code("final 7", "print never") + "FINAL(8)"}, "7", Stop, 1, "", "final 7"},
		{"a failed cell does not stop the next", []string{code("fail bad", "final 7")}, "7", Stop, 1, "", "fail bad;final 7"},
		{"a failed cell is told", []string{code("fail bad"), "FINAL(1)"}, "1", Stop, 2, "line 1: ValueError: bad", "fail bad"},
		{"an unknown variable is told", []string{"FINAL_VAR(x)", "FINAL(1)"}, "1", Stop, 2, "FINAL_VAR(x) is no answer", ""},
		{"an answer that was cut is told", []string{"FINAL(see (1) and[cut]", "FINAL(it's (1) now)[cut]", "FINAL(2)[cut]"}, "2", Stop, 3, "ends inside FINAL", ""},
		{"an unclosed block is told", []string{"```repl\nprint 1", "FINAL(1)"}, "1", Stop, 2, "That block was not run", ""},
		{"neither code nor answer", []string{"Hm.", "FINAL(1)"}, "1", Stop, 2, "neither a block of code", ""},
		{"asked once more", []string{"a", "b", "c", "d", "e"}, "e", MaxIterations, 5, "no turns left", ""},
		{"asked once more, answers", []string{"a", "b", "c", "d", "FINAL(5)"}, "5", MaxIterations, 5, "", ""},
		{"asked once more, says nothing", []string{"a", "b", "c", "d", ""}, "d", MaxIterations, 5, "", ""},
		{
			"asked once more, answers by a variable",
			[]string{code("set x 6"), "b", "c", "d", "FINAL_VAR(x)"},
			"6", MaxIterations, 5, "", "set x 6",
		},
		{
			"asked once more, answers by an unknown variable",
			[]string{code("best so far"), "b", "c", "d", "FINAL_VAR(x)"},
			"so far", MaxIterations, 5, "", "best so far",
		},
		{
			"the best answer outlives its interpreter",
			[]string{code("best so far"), code("lose"), code("print 1"), "d", code("print 2")},
			"so far", MaxIterations, 5, "", "best so far;lose;print 1",
		},
		{
			"asked once more, no code runs",
			[]string{"a", "b", "c", "d", code("final 1") + "FINAL(2)"},
			"2", MaxIterations, 5, "", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, l, log := &rule{root: turns(c.says...)}, &lab{}, &memo{}
			out, err := start(t.Context(), m, l, log, nil)
			if err != nil || out.Answer != c.answer || out.Finish != c.finish || out.Iterations != c.turns {
				t.Errorf("%q, %s, %d turns, %v; want %q, %s, %d turns", out.Answer, out.Finish, out.Iterations, err, c.answer, c.finish, c.turns)
			}
			last := m.asked[len(m.asked)-1].Messages
			if told := last[len(last)-1]; told.Role != "user" || !strings.Contains(told.Content, c.told) {
				t.Errorf("the model was told %q, which lacks %q", told.Content, c.told)
			}
			if ran := strings.Join(l.ran, ";"); ran != c.ran {
				t.Errorf("ran %q, want %q", ran, c.ran)
			}
			checkLog(t, log, out, err)
			if l.opened != 1 || l.closed != 1 {
				t.Errorf("%d environments opened, %d closed", l.opened, l.closed)
			}
		})
	}
}

// checkLog checks the invariants of every log. Each turn is there, the last one says how
// the run ended, and the usage adds up to that of the outcome.
func checkLog(t *testing.T, log *memo, out Outcome, err error) {
	t.Helper()
	if log.meta != 1 || log.Run.Metadata.CorrelationID != out.ID {
		t.Errorf("%d lines of metadata, of run %q", log.meta, log.Run.Metadata.CorrelationID)
	}
	sum := Usage{}
	for n, i := range log.Run.Iterations {
		last := n == len(log.Run.Iterations)-1
		if i.Iteration != n+1 || len(i.Prompt) == 0 && i.Response != "" {
			t.Errorf("iteration %d is number %d with %d messages", n+1, i.Iteration, len(i.Prompt))
		}
		if (i.FinishReason != "") != (last && err == nil) {
			t.Errorf("iteration %d of %d has the finish reason %q", n+1, len(log.Run.Iterations), i.FinishReason)
		}
		if last && err == nil && i.FinishReason != string(out.Finish) {
			t.Errorf("the log ends with %q, the run with %q", i.FinishReason, out.Finish)
		}
		if last && i.FinalAnswer != nil && string(*i.FinalAnswer) != out.Answer {
			t.Errorf("the log has the answer %q, the outcome %q", *i.FinalAnswer, out.Answer)
		}
		for name, u := range i.Usage.Models {
			s := sum[name]
			s.Calls += u.Calls
			s.Input += u.InputTokens
			s.Output += u.OutputTokens
			sum[name] = s
		}
		logged := Usage{}
		for name, u := range i.Cumulative.Models {
			logged[name] = ModelUsage{Calls: u.Calls, Tokens: Tokens{Input: u.InputTokens, Output: u.OutputTokens}}
		}
		if diff := cmp.Diff(sum, logged); diff != "" {
			t.Errorf("iteration %d: the usage of turns and the cumulative one differ:\n%s", n+1, diff)
		}
	}
	for name, u := range out.Usage {
		u.Cost = 0
		if u != sum[name] {
			t.Errorf("%s used %+v, in the log %+v", name, u, sum[name])
		}
	}
}

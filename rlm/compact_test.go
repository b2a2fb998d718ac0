package rlm

import (
	"context"
	"strings"
	"testing"
)

// A history that fills the window is replaced by the opening and a summary. The code can
// still read all of it.
func TestCompact(t *testing.T) {
	m, l, log := &rule{window: 5000}, &lab{}, &memo{}
	m.root = func(n int, messages []Message) string {
		if last := messages[len(messages)-1].Content; strings.Contains(last, "Write a summary") {
			return "n is 4"
		}
		if n == 8 {
			return "FINAL(done)"
		}
		return code("print "+strings.Repeat("x", 2000), "ask a")
	}
	m.sub = echo
	out, err := start(t.Context(), m, l, log, func(o *Options) { o.Limits.Iterations = 9 })
	if err != nil || out.Answer != "done" || out.Iterations != 8 {
		t.Fatalf("%q after %d turns, %v", out.Answer, out.Iterations, err)
	}
	summaries := 0
	for i, r := range m.asked {
		if strings.HasSuffix(r.Ref, "/summary") {
			summaries++
			next := m.asked[i+1].Messages
			if len(next) != 5 || next[3] != (Message{Role: "assistant", Content: "n is 4"}) || !strings.Contains(next[4].Content, "Go on") {
				t.Errorf("after the summary, the model is sent %q", next[3:])
			}
		}
		if size := size(r.Messages); r.Messages != nil && size > 5000*BytesPerToken {
			t.Errorf("%s has %d bytes", r.Ref, size)
		}
	}
	if summaries == 0 || len(l.kept) < 7 || l.kept[2].Role != "user" {
		t.Errorf("%d summaries, history of %d messages", summaries, len(l.kept))
	}
	for _, m := range l.kept {
		if strings.Contains(m.Content, "n is 4") {
			t.Errorf("the full history has a summary")
		}
	}
	if out.Calls != 7 {
		t.Errorf("%d sub-calls, want 7: a summary is none", out.Calls)
	}
	checkUsage(t, m, out)
	checkLog(t, log, out, err)
}

func size(messages []Message) int {
	var b []byte
	for _, m := range messages {
		b = appendMessage(b, m)
	}
	return len(b)
}

// A model's own token count takes precedence over the length. The last request stays last.
func TestCompactCounts(t *testing.T) {
	m := &counting{rule: rule{window: 500}}
	m.root = func(n int, messages []Message) string {
		last := messages[len(messages)-1].Content
		switch {
		case strings.Contains(last, "Write a summary"):
			return "summary"
		case strings.Contains(last, "Go on") && strings.Contains(last, "no turns left"):
			return "FINAL(last)"
		}
		return code("print x")
	}
	out, err := start(t.Context(), m, &lab{}, &memo{}, nil)
	if err != nil || out.Answer != "last" || out.Finish != MaxIterations {
		t.Errorf("%q, %s, %v", out.Answer, out.Finish, err)
	}
	checkUsage(t, &m.rule, out)
}

// A counting model reports that four turns fill its window.
type counting struct{ rule }

func (m *counting) CountTokens(_ context.Context, _ string, messages []Message) (int, error) {
	if len(messages) < 3+2*4 {
		return 0, nil
	}
	return m.window, nil
}

package join_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/session/stats"
)

// sumsOf says what a report has of each session, agent and day.
func sumsOf(s *join.Sums) (lines []string) {
	r := stats.New()
	s.AddTo(r)
	for _, list := range [][]stats.Sum{r.Sessions, r.Agents, r.Days} {
		for _, sum := range list {
			lines = append(lines, fmt.Sprintf("%s: %d calls, %d failed, %d in, %s", sum.Name, sum.Calls, sum.Errors, sum.Usage.Input, sum.By))
		}
	}
	if r.Usage != nil {
		lines = append(lines, fmt.Sprintf("all: %d in", r.Usage.Input))
	}
	return lines
}

func day(n int) time.Time { return time.Date(2026, 11, n, 12, 0, 0, 0, time.Local) }

// Calls are summed up by session and day; what a session tells of an agent that it has started is also there
// by itself.
func TestSums(t *testing.T) {
	var s join.Sums
	s.Sum("a", &calls.Call{Frame: 1, Start: day(1), Model: "claude-opus-5", Usage: protocol.Usage{Input: 10, Cost: 5, Listed: 5}})
	s.Sum("a", &calls.Call{Frame: 2, Operation: 1, Name: "explore", Usage: protocol.Usage{Input: 4}})
	s.Sum("a", &calls.Call{Frame: 3, Operation: 1, Name: "Bash"})
	s.Sum("b", &calls.Call{Frame: 4, Start: day(2), Outcome: session.Failed, Usage: protocol.Usage{Input: 7, Cost: 9}})
	want := []string{
		"a: 1 calls, 0 failed, 10 in, list prices of 2026-07", "b: 1 calls, 1 failed, 7 in, reported",
		"explore: 1 calls, 0 failed, 4 in, ",
		"2026-11-01: 1 calls, 0 failed, 10 in, list prices of 2026-07", "2026-11-02: 1 calls, 1 failed, 7 in, reported",
	}
	if got := sumsOf(&s); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// In a run, the tokens of the calls to models count, not those that the agent tells of them. Those below an
// agent are its own.
func TestSumsOfRuns(t *testing.T) {
	var s join.Sums
	model := func(depth int, input int64) *calls.Call {
		return &calls.Call{Protocol: "anthropic", Model: "m", Start: day(1), Usage: protocol.Usage{Input: input}, Place: calls.Place{Depth: depth}}
	}
	s.AddRun("r", []*calls.Call{
		{Protocol: "claude", Name: "user", Start: day(1), Usage: protocol.Usage{Input: 60}},
		{Place: calls.Place{Turn: true}, Usage: protocol.Usage{Input: 60}},
		model(1, 10),
		{Name: "explore", Place: calls.Place{Agent: true, Depth: 2}, Usage: protocol.Usage{Input: 50}},
		model(3, 20),
		{Protocol: "mcp", Name: "echo", Start: day(1), Place: calls.Place{Depth: 4}},
		model(3, 30),
		model(1, 0),
	})
	want := []string{"explore: 2 calls, 0 failed, 50 in, ", "all: 60 in"}
	if got := sumsOf(&s); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a tool has of a context is its part of the call's input and cost.
func TestAllocation(t *testing.T) {
	var s join.Sums
	given := &context.Call{Items: []*context.Item{
		{Kind: context.Tool, Name: "read", Bytes: 100},
		{Kind: context.System, Bytes: 300},
		{Kind: context.ToolCall, Name: "read", Bytes: 50},
		{Kind: context.Result, Name: "read", Bytes: 350},
		{Kind: context.Tool, Name: "write", Bytes: 200},
		{Kind: context.Attachment, Name: "image/png", Bytes: 1000},
	}}
	for _, it := range given.Items {
		given.Sums[it.Kind].Bytes += it.Bytes
	}
	for range 2 {
		s.Sum("a", &calls.Call{Start: day(1), Model: "m", Context: given, Usage: protocol.Usage{Input: 400, Output: 9, Cost: 800}})
	}
	s.Sum("a", &calls.Call{Start: day(1), Model: "m", Context: &context.Call{Told: true, Items: given.Items, Sums: given.Sums}, Usage: protocol.Usage{Input: 400}})
	r := stats.New()
	s.AddTo(r)
	var got []string
	for _, sum := range r.Prompted {
		got = append(got, fmt.Sprintf("%s: %d calls, %d in, %d out, %d", sum.Name, sum.Calls, sum.Usage.Input, sum.Usage.Output, sum.Cost))
	}
	if want := []string{"read: 2 calls, 200 in, 0 out, 400", "write: 2 calls, 80 in, 0 out, 160"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

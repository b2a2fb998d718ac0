package provider_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
)

// Each model gets all turns in order. A call after the last one fails, and its error says
// so.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := provider.NewMock(provider.MockConfig{Turns: []provider.Turn{
			{Say: "one"},
			{Status: 429},
			{Say: "three", ToolCalls: []provider.ToolCall{{Name: "f"}}, Delay: time.Minute},
		}})
		ask := func(model string) string {
			var c provider.Completion
			err := m.Complete(t.Context(), &provider.Request{Model: model, Prompt: []byte(`"q"`)}, &c)
			if pe, ok := errors.AsType[*provider.Error](err); ok {
				return pe.Cause.String() + " " + pe.Err.Error()
			}
			return c.Plain() + " " + c.Finish
		}
		start := time.Now()
		for _, want := range []struct{ model, said string }{
			{"a", "one stop"},
			{"a", "rate_limited the script says so"},
			{"b", "one stop"},
			{"a", "three tool_calls"},
			{"a", `unsupported The mock has no more turns for the model "a": it had 3.`},
			{"a", `unsupported The mock has no more turns for the model "a": it had 3.`},
			{"b", "rate_limited"},
		} {
			if got := ask(want.model); !strings.HasPrefix(got, want.said) {
				t.Errorf("%s: %s, want %s", want.model, got, want.said)
			}
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("took %v, want the delay of one turn", took)
		}
	})
}

// A streamed answer arrives in parts of the given size, one after each delay, with the
// thoughts first.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := provider.NewMock(provider.MockConfig{Latency: time.Hour, Delay: time.Minute, Chunk: 2, Turns: []provider.Turn{{Thought: "hm…", Say: `é"😀 so`}}})
		var parts []string
		start := time.Now()
		var c provider.Completion
		err := m.Complete(t.Context(), &provider.Request{Model: "m", Prompt: []byte(`"q"`), Emit: func(p provider.Part) error {
			parts = append(parts, time.Since(start).String()+" "+provider.Unquote(p.Thought)+"|"+provider.Unquote(p.Text))
			return nil
		}}, &c)
		want := `1h0m0s hm|, 1h1m0s …|, 1h2m0s |é", 1h3m0s |😀 , 1h4m0s |so`
		if got := strings.Join(parts, ", "); err != nil || got != want || c.Plain() != `é"😀 so` || provider.Unquote(c.Thoughts) != "hm…" {
			t.Errorf("%v\n got %s\nwant %s", err, got, want)
		}
	})
}

// A paced answer ends with its call.
func TestPacedCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := provider.NewMock(provider.MockConfig{Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var c provider.Completion
		start := time.Now()
		err := m.Complete(ctx, &provider.Request{Model: "m", Prompt: []byte(`"q r s"`), Emit: func(provider.Part) error { return nil }}, &c)
		if err == nil || time.Since(start) != time.Minute {
			t.Errorf("ended after %v: %v", time.Since(start), err)
		}
	})
}

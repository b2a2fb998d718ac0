package mock_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/broker/provider/mock"
)

// Turns are said in order, to each model from the first one on. A call after the last one
// fails, and says so to whoever asked.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.New(mock.Config{Turns: []mock.Turn{
			{Line: mock.Line{Say: "one"}},
			{Line: mock.Line{Status: 429}},
			{Line: mock.Line{Say: "three", ToolCalls: []provider.ToolCall{{Name: "f"}}}, Delay: time.Minute},
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

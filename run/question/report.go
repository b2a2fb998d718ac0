package question

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// A reporter reports the progress of a run.
type reporter struct {
	events *json.Encoder // of -o ndjson; nil for none
	err    error         // the first error of events
	say    func(string)  // prints a line for a person
}

// observe reports an event.
func (r *reporter) observe(e rlm.Event) {
	if r.events != nil && r.err == nil {
		r.err = r.events.Encode(e)
	}
	switch {
	case e.Kind == rlm.EventPolicy:
		r.say("warning: " + e.Error)
	case e.Kind == rlm.EventTurn && e.Done && e.Depth == 0:
		r.say(turnLine(&e))
	}
}

// turnLine describes a turn.
func turnLine(e *rlm.Event) string {
	_, turn, _ := strings.Cut(e.Ref, "/t")
	did := render.Count(int64(e.Cells), "cell")
	if tools := render.Count(int64(e.ToolCalls), "tool call"); e.Cells > 0 && e.ToolCalls > 0 {
		did += ", " + tools
	} else if e.ToolCalls > 0 {
		did = tools
	}
	line := fmt.Sprintf("turn %s: %s, %s, %s", turn, did, render.Count(int64(e.Calls), "call"), amount(e.Tokens, e.Took))
	if e.Error != "" {
		line += ": " + e.Error
	}
	return line
}

// amount formats the usage: tokens in and out, dollars if prices are known, and seconds.
func amount(t *rlm.Tokens, took float64) string {
	if t == nil {
		t = &rlm.Tokens{}
	}
	text := fmt.Sprintf("%d + %d tokens", t.Input, t.Output)
	if t.Cost > 0 {
		text += fmt.Sprintf(", $%.4f", t.Cost)
	}
	return fmt.Sprintf("%s, %.2f s", text, took)
}

// total reports the usage of a run, and why it ended.
func (r *reporter) total(o *rlm.Outcome) {
	used := o.Usage.Total()
	line := fmt.Sprintf("total: %s, %s, %s", render.Count(int64(o.Iterations), "turn"), render.Count(int64(o.Calls), "call"), amount(&used.Tokens, o.Took.Seconds()))
	if reason := cmp.Or(reasons[o.Finish], reasons[o.Limit]); reason != "" {
		line += ": " + reason
	}
	switch {
	case !o.Finish.Limited():
	case o.Answer == "":
		line += ", and there is no answer yet"
	default:
		line += ", and this is the best answer so far"
	}
	r.say(line)
}

// reasons say what ended a run, or which limit was reached.
var reasons = map[rlm.FinishReason]string{
	rlm.Cancelled:     "interrupted",
	rlm.MaxIterations: "--max-iterations is reached",
	rlm.Calls:         "--max-calls is reached, and calls were refused",
	rlm.PolicyStop:    "the policy stop ended it",
	rlm.Timeout:       "--timeout is over",
	rlm.MaxTokens:     "--max-tokens is reached",
	rlm.MaxCost:       "--max-cost is reached",
	rlm.MaxErrors:     "--max-errors is reached",
}

// A result is the output of -o json: a completion with the run.
type result struct {
	runlog.ChatCompletion
	Iterations int              `json:"iterations"`
	Limit      rlm.FinishReason `json:"limit,omitempty"`
	Log        string           `json:"log,omitempty"`
	TraceID    string           `json:"trace_id"`
}

func writeResult(w io.Writer, question, log string, o *rlm.Outcome) error {
	c := runlog.ChatCompletion{
		RootModel: o.Model, Prompt: provider.Quote(question), Response: runlog.Text(o.Answer), Usage: *o.Usage.Record(),
		Seconds: o.Took.Seconds(), FinishReason: string(o.Finish),
	}
	c.SetTokens()
	return jsonscan.NewEncoder(w).Encode(result{c, o.Iterations, o.Limit, log, o.ID})
}

// failure is the output of -o json for a failed run.
type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	At      string `json:"at,omitempty"`
	Best    string `json:"best,omitempty"` // the best answer so far
}

func writeFailure(w io.Writer, err error) error {
	f := failure{Type: "Execution", Message: err.Error()}
	if wrong := (*cmdline.Error)(nil); errors.As(err, &wrong) {
		f.Type = "Validation"
	}
	if failed := (*rlm.Error)(nil); errors.As(err, &failed) {
		f.Type, f.At, f.Best = failed.Type, failed.At, failed.Best
	}
	return jsonscan.NewEncoder(w).Encode(map[string]failure{"error": f})
}

package question

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/runlog"
)

// Show writes the log of a run as text. The name - stands for stdin.
func Show(w io.Writer, name string, stdin io.Reader) error {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		stdin = f
	}
	out := bufio.NewWriter(w)
	s := shower{w: out}
	for r := runlog.NewReader(stdin); ; {
		record, err := r.Read()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			if err = errors.Join(err, out.Flush()); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return err
		}
		if record.Metadata != nil {
			s.metadata(record.Metadata)
		}
		if record.Iteration != nil {
			s.turn(record.Iteration)
		}
	}
}

// A shower writes records, child runs indented.
type shower struct {
	w      *bufio.Writer
	indent string
}

// line writes a line, and text writes the lines of a text below it.
func (s *shower) line(format string, args ...any) {
	fmt.Fprintf(s.w, s.indent+format+"\n", args...)
}

func (s *shower) text(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		s.line("    %s", strings.TrimRight(line, "\r\n"))
	}
}

func (s *shower) metadata(m *runlog.Metadata) {
	s.line("run of %s, %s, at most %s, depth %d: %s", m.RootModel, m.EnvironmentType, render.Count(int64(m.MaxIterations), "turn"), m.MaxDepth, m.Timestamp)
	if m.CorrelationID != "" {
		s.line("  id %s", m.CorrelationID)
	}
}

func (s *shower) turn(it *runlog.Iteration) {
	s.line("turn %d: %s", it.Iteration, spent(it.Usage, it.Seconds))
	s.text(string(it.Response))
	for i := range it.CodeBlocks {
		result := &it.CodeBlocks[i].Result
		s.line("  block %d: %s, %s", i+1, render.Count(int64(len(result.Calls)), "call"), spent(nil, result.Seconds))
		for n := range result.Calls {
			s.showCall(n+1, &result.Calls[n])
		}
		s.text(result.Stdout)
		s.text(result.Stderr)
	}
	for n := range it.ToolCalls {
		c := &it.ToolCalls[n]
		said := string(c.Result)
		if c.Error != "" {
			said = "failed: " + c.Error
		}
		s.line("  tool call %d of %s, %s: %s → %s", n+1, c.Name, spent(nil, c.Seconds), render.Shorten(string(c.Arguments), shown), render.Shorten(said, shown))
	}
	if it.FinalAnswer != nil {
		reason := ""
		if it.FinishReason != "" {
			reason = " (" + it.FinishReason + ")"
		}
		s.line("answer%s:", reason)
		s.text(string(*it.FinalAnswer))
	}
}

// shown is how many bytes of prompts and responses of calls are shown.
const shown = 60

func (s *shower) showCall(n int, c *runlog.ChatCompletion) {
	asked := provider.Unquote(c.Prompt)
	if asked == "" {
		asked = string(c.Prompt)
	}
	said := string(c.Response)
	if c.Error != "" {
		said = "failed: " + c.Error
	}
	s.line("    call %d of %s, %s: %q → %q", n, c.RootModel, spent(&c.Usage, c.Seconds), render.Shorten(asked, shown), render.Shorten(said, shown))
	if c.Run == nil {
		return
	}
	child := shower{s.w, s.indent + "      "}
	child.metadata(&c.Run.Metadata)
	for i := range c.Run.Iterations {
		child.turn(&c.Run.Iterations[i])
	}
}

// spent formats the tokens in and out, if any, and the time.
func spent(u *runlog.Usage, seconds float64) string {
	text := fmt.Sprintf("%.2f s", seconds)
	if u == nil {
		return text
	}
	var in, out int64
	for _, m := range u.Models {
		in, out = in+m.InputTokens, out+m.OutputTokens
	}
	return fmt.Sprintf("%d + %d tokens, %s", in, out, text)
}

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

package question

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/render"
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

package context

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
)

// A Prompt is a context in a few numbers, as written to JSON. Tokens are estimates: four bytes each.
type Prompt struct {
	System      *Part `json:"system,omitempty"`
	Tools       *Part `json:"tools,omitempty"`
	Messages    *Part `json:"messages,omitempty"`
	Attachments *Part `json:"attachments,omitempty"`
	// Previous is the frame of the previous request of the same conversation. Same is the
	// beginning that both share, with its percentage of this request, and Added are the messages
	// after it.
	Previous int64 `json:"previous,omitempty"`
	Same     *Same `json:"same,omitempty"`
	Added    *Part `json:"added,omitempty"`
}

// A Part is a part of a prompt.
type Part struct {
	Count  int64  `json:"count"`
	Bytes  int64  `json:"bytes"`
	Tokens int64  `json:"tokens_estimate"`
	Each   []Part `json:"each,omitempty"`
	Name   string `json:"name,omitempty"`
}

// Same is what two requests have in common.
type Same struct {
	Bytes   int64 `json:"bytes"`
	Tokens  int64 `json:"tokens_estimate"`
	Percent int64 `json:"percent"`
}

// estimate returns the tokens of so many bytes, without knowing better.
func estimate(bytes int64) int64 { return (bytes + 2) / 4 }

func partOf(s Share) *Part {
	if s.Count == 0 {
		return nil
	}
	return &Part{Count: s.Count, Bytes: s.Bytes, Tokens: estimate(s.Bytes)}
}

// messages returns the messages as one share.
func (c *Call) messages() Share {
	return Share{c.Messages, c.messageBytes - c.Sums[Attachment].Bytes}
}

// Prompt returns the context in a few numbers.
func (c *Call) Prompt() *Prompt {
	out := &Prompt{System: partOf(c.Sums[System]), Tools: partOf(c.Sums[Tool]), Messages: partOf(c.messages()), Attachments: partOf(c.Sums[Attachment])}
	for _, t := range c.Tools {
		out.Tools.Each = append(out.Tools.Each, Part{1, t.Bytes, estimate(t.Bytes), nil, strings.ToValidUTF8(t.Name, "\ufffd")})
	}
	if c.Since != 0 {
		out.Previous = c.Since
		out.Same = &Same{c.SameSize, estimate(c.SameSize), c.SameSize * 100 / max(c.Bytes(), 1)}
		out.Added = &Part{Count: c.Added.Count, Bytes: c.Added.Bytes, Tokens: estimate(c.Added.Bytes)}
	}
	return out
}

// Lines describes the context in lines. It lists at most the given number of tools, largest first.
func (c *Call) Lines(tools int) (lines []string) {
	var parts []string
	for _, s := range []struct {
		noun string
		Share
	}{{"system text", c.Sums[System]}, {"tool", c.Sums[Tool]}, {"message", c.messages()}, {"attachment", c.Sums[Attachment]}} {
		if s.Count > 0 {
			parts = append(parts, render.Count(s.Count, s.noun)+" "+sized(s.Bytes))
		}
	}
	lines = append(lines, "prompt: "+strings.Join(parts, ", "))
	if c.Since != 0 {
		lines = append(lines, fmt.Sprintf("since #%d: %s added, %s; the first %d %% are the same, %s",
			c.Since, render.Count(c.Added.Count, "message"), sized(c.Added.Bytes), c.SameSize*100/max(c.Bytes(), 1), sized(c.SameSize)))
	}
	largest := slices.SortedStableFunc(slices.Values(c.Tools), func(a, b ToolShare) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, t := range largest[:min(len(largest), tools)] {
		lines = append(lines, fmt.Sprintf("tool %s: %s", render.Safe(t.Name), sized(t.Bytes)))
	}
	if rest := int(c.Sums[Tool].Count) - tools; rest > 0 && tools > 0 {
		lines = append(lines, "and "+render.Count(int64(rest), "smaller tool"))
	}
	return lines
}

func sized(bytes int64) string { return fmt.Sprintf("%d B (~%d tokens)", bytes, estimate(bytes)) }

package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// A Prompt is the input of a model, as written to JSON. Tokens are estimates; see [Tokens].
type Prompt struct {
	System      *Share `json:"system,omitempty"`
	Tools       *Share `json:"tools,omitempty"`
	Messages    *Share `json:"messages,omitempty"`
	Attachments *Share `json:"attachments,omitempty"`
	// Previous is the frame of the previous request of the same conversation. Same is the
	// beginning that both share, with its percentage of this request, and Added are the messages
	// after it.
	Previous int64  `json:"previous,omitempty"`
	Same     *Same  `json:"same,omitempty"`
	Added    *Share `json:"added,omitempty"`
}

// A Share is a part of a prompt.
type Share struct {
	Count  int64   `json:"count"`
	Bytes  int64   `json:"bytes"`
	Tokens int64   `json:"tokens_estimate"`
	Each   []Share `json:"each,omitempty"`
	Name   string  `json:"name,omitempty"`
}

// Same is what two requests have in common.
type Same struct {
	Bytes   int64 `json:"bytes"`
	Tokens  int64 `json:"tokens_estimate"`
	Percent int64 `json:"percent"`
}

// PromptOf returns a prompt in its JSON form.
func PromptOf(p *session.Prompt) *Prompt {
	out := &Prompt{System: shareOf(p.System), Tools: shareOf(p.Tools), Messages: shareOf(p.Messages), Attachments: shareOf(p.Attachments)}
	for _, t := range p.Each {
		out.Tools.Each = append(out.Tools.Each, Share{1, t.Bytes, Tokens(t.Bytes), nil, strings.ToValidUTF8(t.Name, "\ufffd")})
	}
	if p.Previous != 0 {
		out.Previous = p.Previous
		out.Same = &Same{p.Same, Tokens(p.Same), p.Same * 100 / max(p.Bytes(), 1)}
		out.Added = &Share{Count: p.Added.Count, Bytes: p.Added.Bytes, Tokens: Tokens(p.Added.Bytes)}
	}
	return out
}

func shareOf(s session.Share) *Share {
	if s.Count == 0 {
		return nil
	}
	return &Share{Count: s.Count, Bytes: s.Bytes, Tokens: Tokens(s.Bytes)}
}

// PromptText describes the input of a model in lines. It lists at most the given number of
// tools, largest first.
func PromptText(p *session.Prompt, tools int) (lines []string) {
	var parts []string
	for _, s := range []struct {
		noun string
		session.Share
	}{{"system prompt", p.System}, {"tool", p.Tools}, {"message", p.Messages}, {"attachment", p.Attachments}} {
		if s.Count > 0 {
			parts = append(parts, render.Count(s.Count, s.noun)+" "+sized(s.Bytes))
		}
	}
	lines = append(lines, "prompt: "+strings.Join(parts, ", "))
	if p.Previous != 0 {
		lines = append(lines, fmt.Sprintf("since #%d: %s added, %s; the first %d %% are the same, %s",
			p.Previous, render.Count(p.Added.Count, "message"), sized(p.Added.Bytes), p.Same*100/max(p.Bytes(), 1), sized(p.Same)))
	}
	for _, t := range largest(p.Each, tools) {
		lines = append(lines, fmt.Sprintf("tool %s: %s", render.Safe(t.Name), sized(t.Bytes)))
	}
	if rest := int(p.Tools.Count) - tools; rest > 0 {
		lines = append(lines, "and "+render.Count(int64(rest), "smaller tool"))
	}
	return lines
}

// largest returns the largest tools, the largest first.
func largest(tools []session.ToolShare, n int) []session.ToolShare {
	sorted := slices.SortedStableFunc(slices.Values(tools), func(a, b session.ToolShare) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return sorted[:min(len(sorted), n)]
}

func sized(bytes int64) string { return fmt.Sprintf("%d B (~%d tokens)", bytes, Tokens(bytes)) }

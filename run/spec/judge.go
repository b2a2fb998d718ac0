package spec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/lint"
	"github.com/wirectl/wirectl/session/query"
)

// of returns the calls of a tool.
func (t *Trace) of(name string) (list []*Tool) {
	for _, tool := range t.Tools {
		if tool.is(name) {
			list = append(list, tool)
		}
	}
	return list
}

// framesOf lists where a tool is called: " (frames 12, 20)".
func (t *Trace) framesOf(name string) string {
	list := t.of(name)
	if len(list) == 0 {
		return t.instead(name)
	}
	return " (" + frames(list) + ")"
}

// maxListed bounds the tools and findings that a sentence lists.
const maxListed = 8

func frames(list []*Tool) string {
	text := "frame "
	if len(list) > 1 {
		text = "frames "
	}
	for i, tool := range list[:min(len(list), maxListed)] {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(tool.Frame())
	}
	if len(list) > maxListed {
		text += ", …"
	}
	return text
}

// list names the tools that were called, in order, with their frames.
func (t *Trace) list(tools []*Tool) string {
	if len(tools) == 0 {
		return "no tool was called"
	}
	var words []string
	for _, tool := range tools[:min(len(tools), maxListed)] {
		words = append(words, fmt.Sprintf("%s (frame %d)", render.Safe(tool.full()), tool.Frame()))
	}
	if more := len(tools) - maxListed; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	return "called were " + strings.Join(words, ", ")
}

// instead names the tool that was called, and may be meant.
func (t *Trace) instead(name string) string {
	var names []string
	for _, tool := range t.Tools {
		names = append(names, tool.Name)
		if tool.at != nil {
			names = append(names, tool.at.Name)
		}
	}
	return nearest.Question(name, names)
}

func called(t *Trace, names []string) (said []string) {
	for _, name := range names {
		if len(t.of(name)) == 0 {
			said = append(said, fmt.Sprintf("expected a call of %s; there was none%s: %s", name, t.instead(name), t.list(t.Tools)))
		}
	}
	return said
}

func inOrder(t *Trace, names []string) []string {
	at := 0
	for i, name := range names {
		n := slices.IndexFunc(t.Tools[at:], func(tool *Tool) bool { return tool.is(name) })
		if n >= 0 {
			at += n + 1
			continue
		}
		said := "expected " + strings.Join(names, ", then ") + "; "
		switch {
		case len(t.of(name)) == 0:
			said += name + " was not called" + t.instead(name)
		case i == 0:
			said += name + " was not called"
		default:
			said += fmt.Sprintf("after %s (frame %d), %s was not called", names[i-1], t.Tools[at-1].Frame(), name)
		}
		return []string{said + ": " + t.list(t.Tools)}
	}
	return nil
}

func exactly(t *Trace, names []string) []string {
	if t.unseen != "" {
		return []string{t.unseen}
	}
	n := 0
	for n < min(len(names), len(t.Tools)) && t.Tools[n].is(names[n]) {
		n++
	}
	if n == len(names) && n == len(t.Tools) {
		return nil
	}
	said := "expected no call of a tool; "
	if len(names) > 0 {
		said = "expected exactly " + strings.Join(names, ", ") + "; "
	}
	switch {
	case n == len(names):
		said += fmt.Sprintf("%s more: %s", render.Count(int64(len(t.Tools)-n), "call"), t.list(t.Tools[n:]))
	case n == len(t.Tools):
		said += fmt.Sprintf("call %d, of %s, is missing: %s", n+1, names[n], t.list(t.Tools))
	default:
		said += fmt.Sprintf("call %d was of %s (frame %d)", n+1, render.Safe(t.Tools[n].Name), t.Tools[n].Frame())
	}
	return []string{said}
}

func never(t *Trace, names []string) (said []string) {
	if t.unseen != "" {
		return []string{t.unseen}
	}
	for _, name := range names {
		if list := t.of(name); len(list) > 0 {
			said = append(said, fmt.Sprintf("expected no call of %s; there %s%s", name, wereCalls(len(list)), t.framesOf(name)))
		}
	}
	return said
}

func wereCalls(n int) string {
	switch n {
	case 0:
		return "was none"
	case 1:
		return "was one"
	}
	return fmt.Sprintf("were %d", n)
}

// fit judges the arguments of each call of a tool.
func fit(ctx context.Context, t *Trace, name string, judge func(context.Context, []byte) string) (said []string) {
	list := t.of(name)
	if len(list) == 0 {
		return []string{fmt.Sprintf("expected arguments of %s; it was not called%s", name, t.instead(name))}
	}
	for _, tool := range list {
		why := "expected certain arguments; those of this call were not recorded, or are too long"
		if arguments := cmp.Or(string(tool.got), string(tool.arguments)); arguments != "" {
			if why = judge(ctx, []byte(arguments)); why != "" {
				why += " in " + t.brief(arguments)
			}
		}
		if why != "" {
			said = append(said, fmt.Sprintf("frame %d: %s", tool.Frame(), render.Safe(render.Shorten(t.mask(why), 3*maxShown))))
		}
		if len(said) == maxListed {
			break
		}
	}
	return said
}

// patience is how long a filter may take for the arguments of a call.
const patience = 10 * time.Second

// holds says why a filter does not give true for arguments; "" if it does.
func holds(ctx context.Context, filter *query.JQ, text string, arguments []byte) string {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	results, err := filter.Append(ctx, nil, arguments)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("expected %s to be true; it has no result within %v", text, patience)
	case err != nil && !errors.Is(err, query.ErrHalt):
		return fmt.Sprintf("expected %s to be true; %v", text, err)
	case len(results) == 0:
		return fmt.Sprintf("expected %s to be true; it has no result", text)
	}
	for line := range bytes.Lines(results) {
		if result := string(bytes.TrimSpace(line)); result == "false" || result == "null" {
			return fmt.Sprintf("expected %s to be true; it is %s", text, result)
		}
	}
	return ""
}

// others lists the findings that may not be there.
func (t *Trace) others(may func(session.Finding) bool) (said []string) {
	for _, f := range t.findings {
		if may(f) {
			continue
		}
		where := ""
		if len(f.Frames) > 0 {
			where = fmt.Sprintf(" (frame %d)", f.Frames[len(f.Frames)-1])
		}
		said = append(said, fmt.Sprintf("expected no %s %s; there is one%s: %s", f.Severity, f.Name, where, t.brief(f.Message)))
	}
	for _, rule := range lint.Rules {
		if n := t.unkept[rule.Name]; n > 0 && !may(session.Finding{Name: rule.Name, Severity: rule.Severity}) {
			said = append(said, fmt.Sprintf("expected no %s %s; there are %d more", rule.Severity, rule.Name, n))
		}
	}
	return said
}

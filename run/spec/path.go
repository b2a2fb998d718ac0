package spec

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/table"
)

// A Fork is the first decision that differs between two sessions.
type Fork struct {
	Same    int      `json:"same"` // decisions before it
	A       *Choice  `json:"a"`    // nil if there is no decision more
	B       *Choice  `json:"b"`
	Changes []string `json:"changes,omitempty"` // of the arguments
	MoreA   int      `json:"more_a"`            // decisions after it
	MoreB   int      `json:"more_b"`
}

// A Choice is a decision as it is shown.
type Choice struct {
	Frame int64  `json:"frame"`
	Turn  int    `json:"turn,omitempty"`
	Text  string `json:"decision"`
}

// maxChanges bounds the changes that are shown, and maxShown their bytes.
const (
	maxChanges = 4
	maxShown   = 120
)

// Compare returns the first decision that differs; nil if none does. Texts of answers count if withTexts is set. What a
// session does not show, such as answers in one without models, is no difference.
func Compare(a, b *Trace, ignore []jsondiff.Path, withTexts bool) (*Fork, error) {
	for _, t := range []*Trace{a, b} {
		if t.unseen != "" {
			return nil, &source.Error{Err: fmt.Errorf("%s: %s", t.Name, t.unseen)}
		}
	}
	pathA, pathB := a.Path, b.Path
	if !a.answers() || !b.answers() {
		pathA, pathB = tools(pathA), tools(pathB)
	}
	n := 0
	for n < min(len(pathA), len(pathB)) && sameDecision(&pathA[n], &pathB[n], ignore, withTexts) {
		n++
	}
	if n == len(pathA) && n == len(pathB) {
		return nil, nil
	}
	f := &Fork{Same: n, A: a.choice(pathA, n), B: b.choice(pathB, n), MoreA: max(0, len(pathA)-n-1), MoreB: max(0, len(pathB)-n-1)}
	if f.A == nil || f.B == nil {
		return f, nil
	}
	if x, y := pathA[n].Tool, pathB[n].Tool; x != nil && y != nil && sameTool(x, y) && x.arguments != nil && y.arguments != nil {
		f.Changes = changes(x.arguments, y.arguments, ignore, a.mask)
	}
	return f, nil
}

// Fork reads two sessions and compares their decisions, with the texts of answers.
func (r *Reader) Fork(ctx context.Context, a, b string) (*Fork, error) {
	first, err := r.Read(ctx, a)
	if err != nil {
		return nil, err
	}
	second, err := r.Read(ctx, b)
	if err != nil {
		return nil, err
	}
	return Compare(first, second, r.Ignore, true)
}

// answers reports whether the session shows what models answer.
func (t *Trace) answers() bool {
	return slices.ContainsFunc(t.Path, func(d Decision) bool { return d.Tool == nil || d.Tool.by != nil })
}

func tools(path []Decision) []Decision {
	return slices.DeleteFunc(slices.Clone(path), func(d Decision) bool { return d.Tool == nil })
}

// sameTool reports whether two calls are of the same tool, whose name may be that of the model or that of the server.
func sameTool(a, b *Tool) bool { return a.is(b.Name) || b.is(a.Name) }

func sameDecision(a, b *Decision, ignore []jsondiff.Path, withTexts bool) bool {
	switch {
	case a.Tool == nil && b.Tool == nil:
		texts := !withTexts || a.sum == b.sum || a.text == "" || b.text == ""
		return a.outcome == b.outcome && a.stop == b.stop && texts
	case a.Tool == nil || b.Tool == nil, !sameTool(a.Tool, b.Tool):
		return false
	case a.Tool.hash == 0 || b.Tool.hash == 0 || a.Tool.hash == b.Tool.hash:
		return true
	}
	return a.Tool.arguments != nil && b.Tool.arguments != nil && len(ignore) > 0 && len(changes(a.Tool.arguments, b.Tool.arguments, ignore, nil)) == 0
}

// changes lists what differs between arguments, without secrets.
func changes(a, b []byte, ignore []jsondiff.Path, mask func(string) string) (list []string) {
	more := 0
	show := func(value []byte) string {
		if value == nil {
			return "–"
		}
		return render.Safe(render.Shorten(string(value), maxShown))
	}
	hide := func(value []byte) []byte {
		if mask == nil || value == nil {
			return value
		}
		return []byte(mask(string(value)))
	}
	w := &jsondiff.Walk{Ignore: ignore, Leaf: func(keys []string, a, b []byte) {
		switch {
		case jsondiff.Same(a, b):
		case len(list) == maxChanges:
			more++
		default:
			a, b = around(hide(a), hide(b))
			list = append(list, fmt.Sprintf("%s: %s → %s", render.Safe(cmp.Or(jsondiff.Join(keys), "arguments")), show(a), show(b)))
		}
	}}
	w.Values(a, b)
	if more > 0 {
		list = append(list, "and "+render.Count(int64(more), "more change"))
	}
	return list
}

// around leaves out what long texts share at their beginning.
func around(a, b []byte) (_, _ []byte) {
	const kept = 24
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	if n <= maxShown/2 {
		return a, b
	}
	for n -= kept; n > 0 && a[n]&0xC0 == 0x80; {
		n--
	}
	return slices.Concat([]byte("…"), a[n:]), slices.Concat([]byte("…"), b[n:])
}

// choice shows a decision of a path; nil if there is none at n.
func (t *Trace) choice(path []Decision, n int) *Choice {
	if n >= len(path) {
		return nil
	}
	return &Choice{path[n].Frame, path[n].Turn, t.show(&path[n])}
}

func (t *Trace) show(d *Decision) string {
	switch {
	case d.Tool != nil && d.Tool.arguments == nil:
		return "calls " + render.Safe(d.Tool.Name)
	case d.Tool != nil:
		return "calls " + render.Safe(d.Tool.Name) + " " + t.brief(string(d.Tool.arguments))
	case d.outcome != session.Done:
		return "ends as " + d.outcome.String()
	}
	text := "answers"
	if d.text != "" {
		text += " " + t.brief(fmt.Sprintf("%q", d.text))
	}
	if d.stop != "" {
		text += " (" + render.Safe(d.stop) + ")"
	}
	return text
}

// brief returns the beginning of a text from the wire, without secrets.
func (t *Trace) brief(text string) string {
	return render.Safe(render.Shorten(t.mask(text), maxShown))
}

// Summary says how far two sessions are the same.
func (f *Fork) Summary() string {
	if f == nil {
		return "both take the same decisions"
	}
	if f.Same == 0 {
		return "the first decision differs"
	}
	return fmt.Sprintf("the first %s are the same, and the next differs", render.Count(int64(f.Same), "decision"))
}

// Lines show the decisions, one below the other.
func (f *Fork) Lines() (lines []string) {
	for i, c := range []*Choice{f.A, f.B} {
		text := "takes no more decision"
		if c != nil {
			text = fmt.Sprintf("frame %d: %s", c.Frame, c.Text)
			if c.Turn > 0 {
				text = fmt.Sprintf("turn %d, %s", c.Turn, text)
			}
		}
		if more := []int{f.MoreA, f.MoreB}[i]; more > 0 {
			text += "; then " + render.Count(int64(more), "more decision")
		}
		lines = append(lines, fmt.Sprintf("%c  %s", 'A'+i, text))
	}
	for _, c := range f.Changes {
		lines = append(lines, "   "+c)
	}
	return lines
}

// Write writes what differs: as text, or as JSON on one line.
func (f *Fork) Write(out table.Output) error {
	switch {
	case f == nil:
		return nil
	case out.Form != table.AsText:
		return out.Document(f)
	}
	_, err := fmt.Fprintln(out.To, strings.Join(f.Lines(), "\n"))
	return err
}

package replay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/diff"
)

// appendText appends the changes and then both frames side by side, in at most width
// cells; 0 means no limit.
func (d *Divergence) appendText(b []byte, width int, style *render.Style) []byte {
	if b = d.appendChanges(b, width, style); len(d.Changes) > 0 {
		b = append(b, '\n')
	}
	return appendBeside(b, d.Recorded, d.Live, width, style)
}

func (d *Divergence) appendChanges(b []byte, width int, style *render.Style) []byte {
	for i, c := range d.Changes {
		if i == maxChanges {
			b = fmt.Appendf(b, "  and %d more\n", len(d.Changes)-i)
			break
		}
		b = append(b, "  "...)
		if c.Path != "" {
			b = append(style.Key.Append(b, render.Safe(c.Path)), ": "...)
		}
		b = append(style.String.Append(b, shown(c.Recorded, width)), " → "...)
		b = append(style.String.Append(b, shown(c.Live, width)), '\n')
	}
	return b
}

const (
	maxChanges = 10
	maxLines   = 400 // of a payload, that are compared
	maxRows    = 40  // shown rows
	rowsBefore = 6   // rows before the first difference
)

// appendBeside appends two frames side by side; one of them may be nil.
func appendBeside(b []byte, recorded, live *Side, width int, style *render.Style) []byte {
	title := [2]string{"recorded: " + recorded.title(), "live: " + live.title()}
	rows := diff.Beside(recorded.lines(), live.lines())
	column := max((width-3)/2, 10)
	if width == 0 {
		column = widest(append(rows, title))
	}
	b = appendRow(b, title[0], title[1], " │ ", column, style.Dim)
	from := max(slices.IndexFunc(rows, func(r [2]string) bool { return r[0] != r[1] })-rowsBefore, 0)
	to := min(from+maxRows, len(rows))
	if from > 0 {
		b = fmt.Appendf(b, "… %s\n", render.Count(int64(from), "line"))
	}
	for _, r := range rows[from:to] {
		if r[0] == r[1] {
			b = appendRow(b, r[0], r[1], " │ ", column, style.Dim)
		} else {
			b = appendRow(b, r[0], r[1], " ≠ ", column, style.Error)
		}
	}
	if to < len(rows) {
		b = fmt.Appendf(b, "… %s\n", render.Count(int64(len(rows)-to), "line"))
	}
	return b
}

// widest returns the width of a column that fits all rows.
func widest(rows [][2]string) int {
	column := 0
	for _, r := range rows {
		column = max(column, render.Cells([]byte(render.Safe(r[0]))), render.Cells([]byte(render.Safe(r[1]))))
	}
	return column
}

func appendRow(b []byte, left, right, bar string, column int, paint render.Paint) []byte {
	cell := render.AppendFit(nil, []byte(left), column)
	b = append(b, cell...)
	b = append(b, strings.Repeat(" ", max(0, column-render.Cells(cell)))...)
	b = paint.Append(b, bar)
	return append(bytes.TrimRight(render.AppendFit(b, []byte(right), column), " "), '\n')
}

func (s *Side) title() string {
	switch {
	case s == nil:
		return "nothing"
	case s.Seq == 0:
		return strings.TrimSpace(s.Kind + " " + s.ID)
	}
	return strings.TrimSpace(fmt.Sprintf("frame %d %s %s", s.Seq, s.Kind, s.ID))
}

// lines returns a payload as lines of text.
func (s *Side) lines() []string {
	if s == nil || len(s.Payload) == 0 {
		return nil
	}
	text := s.Payload
	if isJSON(text) {
		text = render.AppendJSON(nil, text, "  ", "", nil)
	} else {
		text = render.Hex{End: len(text)}.Append(nil, text, nil)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return lines[:min(len(lines), maxLines)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Summary counts the points by their outcome.
func Summary(points []*Point) string {
	counts, broken, reached := map[session.Class]int{}, 0, 0
	for _, p := range points {
		if p.Breaks() {
			broken++
		}
		if p.Reached {
			reached++
			counts[p.Class]++
		}
	}
	text := fmt.Sprintf("cancelled at %d of %d points", reached, len(points))
	for class := session.Pending; class <= session.Silent; class++ {
		if n := counts[class]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, class)
		}
	}
	if broken > 0 {
		text += fmt.Sprintf("; rules are broken at %d", broken)
	}
	return text
}

// shown returns a value for display; absent values are a dash. If width is 0, it is not
// shortened.
func shown(value string, width int) string {
	switch {
	case value == "":
		return "–"
	case width == 0:
		return render.Safe(value)
	}
	return string(render.AppendFit(nil, []byte(value), maxShown))
}

// maxShown is how much of a value is shown, in cells.
const maxShown = 60

// Summary counts the frames of a run.
func (r *Result) Summary() string {
	text := fmt.Sprintf("%s sent, %d received as recorded", render.Count(r.Sent, "frame"), r.Matched)
	if r.Extra > 0 {
		text += fmt.Sprintf(", %d more", r.Extra)
	}
	if r.Missing > 0 {
		text += fmt.Sprintf(", %d missing", r.Missing)
	}
	for i, v := range r.Versions {
		text += []string{"; version ", ", "}[min(i, 1)] + render.Safe(v)
	}
	return text
}

package calls

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/stats"
)

// Text writes a table for people. Its lines are no wider than Width; 0 means no limit. The
// column widths are those of the first calls, or default ones if the list is live.
type Text struct {
	Width int
	Live  bool
	Style *render.Style
	// Prompts means that the input of a model is listed below its call.
	Prompts bool

	above  int64 // the frame of the last operation
	widths [columns]int
	shown  []int     // the columns that fit
	ahead  []textRow // buffered until the widths are known
	fitted bool
}

// The columns, in their order.
const (
	nameColumn = iota
	kindColumn
	versionColumn
	idColumn
	startColumn
	firstColumn
	tookColumn
	outColumn
	inColumn
	givenColumn
	cachedColumn
	gaveColumn
	rateColumn
	toolsColumn
	costColumn
	outcomeColumn
	columns
)

var (
	titles = [columns]string{"name", "kind", "version", "id", "start", "first part", "took", "bytes out", "bytes in", "tokens in", "cached", "tokens out", "tokens/s", "tools", "cost", "outcome"}
	// usual are the default widths, before any row is known; 0 hides the column.
	usual = [columns]int{28, 10, 0, 4, 9, 10, 7, 9, 9, 0, 0, 0, 0, 0, 0, 10}
	// rare are the columns shown only if they have content.
	rare = []int{versionColumn, givenColumn, cachedColumn, gaveColumn, rateColumn, toolsColumn, costColumn}
	// spared are the columns hidden on a narrow terminal, the first one first.
	spared = []int{kindColumn, rateColumn, toolsColumn, cachedColumn, firstColumn, outColumn, startColumn, givenColumn, gaveColumn, costColumn, versionColumn, idColumn, inColumn}
)

const (
	space      = 2   // between columns
	leastName  = 20  // cells
	maxOutcome = 20  // cells of the outcome before columns are hidden
	maxID      = 12  // cells of an id on a terminal
	maxKind    = 24  // cells of a kind on a terminal
	learnt     = 500 // rows
)

// A textRow holds the cells of a call, and the lines below it.
type textRow struct {
	cells []string
	below []string
}

// maxPromptTools is how many tools, the largest, are listed below a call.
const maxPromptTools = 5

func (t *Text) call(dst []byte, c *Call) []byte {
	row := textRow{cells: t.rowOf(c)}
	if t.Prompts && c.Prompt != nil {
		row.below = stats.PromptText(c.Prompt, maxPromptTools)
	}
	if t.fitted {
		return t.appendRow(dst, row)
	}
	t.ahead = append(t.ahead, row)
	if t.Live || len(t.ahead) == learnt {
		return t.rest(dst)
	}
	return dst
}

// rest writes the buffered rows after the titles.
func (t *Text) rest(dst []byte) []byte {
	if len(t.ahead) == 0 {
		return dst
	}
	t.fit()
	dst = append(dst, t.Style.Dim.On...)
	dst = t.appendCells(dst, titles[:], &render.Style{})
	dst = append(append(dst, t.Style.Dim.Off...), '\n')
	for _, row := range t.ahead {
		dst = t.appendRow(dst, row)
	}
	t.ahead = nil
	return dst
}

// rowOf returns the cells of a call, sanitized for display.
func (t *Text) rowOf(c *Call) []string {
	row := make([]string, columns)
	row[nameColumn] = c.Kind
	if c.Name != "" {
		row[nameColumn], row[kindColumn] = c.Name, c.Kind
	}
	switch {
	case c.Operation == 0:
		t.above = c.Frame
	case c.Guessed:
		row[nameColumn] = "└? " + row[nameColumn]
	default:
		row[nameColumn] = "└ " + row[nameColumn]
	}
	if c.Operation != 0 && c.Operation != t.above {
		row[nameColumn] += fmt.Sprintf(" (of frame %d)", c.Operation)
	}
	row[versionColumn], row[idColumn] = c.Version, c.ID
	row[givenColumn] = tokensCell(c.Usage.Input, c.Usage.Perhaps.Input)
	row[cachedColumn] = tokensCell(c.Usage.Cached, c.Usage.Perhaps.Cached)
	row[gaveColumn] = tokensCell(c.Usage.Output, c.Usage.Perhaps.Output)
	if c.TokensPerSecond > 0 {
		row[rateColumn] = strconv.FormatFloat(c.TokensPerSecond, 'f', 1, 64)
	}
	row[toolsColumn] = strings.Join(c.ToolCalls, " ")
	if c.Usage.Cost > 0 {
		row[costColumn] = render.Dollars(c.Usage.Cost)
	}
	if !c.Start.IsZero() {
		row[startColumn] = fmt.Sprintf("%.3f", c.Offset.Seconds())
	}
	row[firstColumn], row[tookColumn] = durationCell(c.FirstPart), durationCell(c.Duration)
	row[outColumn], row[inColumn] = strconv.FormatInt(c.BytesOut, 10), strconv.FormatInt(c.BytesIn, 10)
	row[outcomeColumn] = outcomeCell(c)
	for _, i := range []int{nameColumn, kindColumn, versionColumn, idColumn, toolsColumn, outcomeColumn} {
		row[i] = render.Safe(row[i])
	}
	return row
}

func tokensCell(n, perhaps int64) string {
	if n == 0 && perhaps == 0 {
		return ""
	}
	return render.Range(n, n+perhaps)
}

func durationCell(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return stats.Millis(d).String()
}

// outcomeCell returns how a call ended, and the reason.
func outcomeCell(c *Call) string {
	text := c.Outcome.String()
	if c.Inferred {
		text += " (inferred)"
	}
	if c.Stopped && !c.Outcome.Stopped() && c.Outcome != session.Open {
		text += ", cancel " + c.Class.String()
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	if c.StopReason != "" {
		text += " (" + c.StopReason + ")"
	}
	return text
}

// fit chooses the columns and their widths.
func (t *Text) fit() {
	t.fitted = true
	for i := range columns {
		t.widths[i] = len(titles[i])
		if t.Live {
			t.widths[i] = max(t.widths[i], usual[i])
			continue
		}
		for _, row := range t.ahead {
			t.widths[i] = max(t.widths[i], render.Cells([]byte(row.cells[i])))
		}
	}
	t.shown = nil
	for i := range columns {
		if !slices.Contains(rare, i) || !t.Live && t.tells(i) {
			t.shown = append(t.shown, i)
		}
	}
	if t.Width > 0 {
		t.fitTerminal()
	}
}

// tells reports whether a rare column has content; for the version column, whether there are
// several versions.
func (t *Text) tells(column int) bool {
	first := ""
	for _, row := range t.ahead {
		switch cell := row.cells[column]; {
		case cell == "" || cell == first:
		case column != versionColumn || first != "":
			return true
		default:
			first = cell
		}
	}
	return false
}

// fitTerminal hides columns until there is room for names.
func (t *Text) fitTerminal() {
	t.widths[idColumn] = min(t.widths[idColumn], maxID)
	t.widths[kindColumn] = min(t.widths[kindColumn], maxKind)
	t.widths[toolsColumn] = min(t.widths[toolsColumn], maxKind)
	name := min(t.widths[nameColumn], leastName)
	for _, i := range spared {
		if t.others()+name <= t.Width {
			break
		}
		t.shown = slices.DeleteFunc(t.shown, func(at int) bool { return at == i })
	}
	t.widths[nameColumn] = max(min(t.widths[nameColumn], t.Width-t.others()), 1)
}

// others returns the width in cells of all columns except the names.
func (t *Text) others() int {
	cells := 0
	for _, i := range t.shown[1:] {
		width := t.widths[i]
		if i == outcomeColumn {
			width = min(width, maxOutcome)
		}
		cells += space + width
	}
	return cells
}

func (t *Text) appendRow(dst []byte, row textRow) []byte {
	dst = append(t.appendCells(dst, row.cells, t.Style), '\n')
	for _, line := range row.below {
		line = "  " + line
		if t.Width > 0 {
			line = string(render.AppendFit(nil, []byte(line), t.Width))
		}
		dst = append(t.Style.Dim.Append(dst, line), '\n')
	}
	return dst
}

// appendCells appends the cells of the columns that are shown.
func (t *Text) appendCells(dst []byte, row []string, style *render.Style) []byte {
	used := 0
	for at, i := range t.shown {
		cell := row[i]
		cells := render.Cells([]byte(cell))
		if at > 0 {
			dst, used = pad(dst, space), used+space
		}
		switch i {
		case nameColumn, kindColumn, versionColumn, idColumn, toolsColumn:
			if t.Width > 0 && cells > t.widths[i] {
				cell = string(render.AppendFitPath(nil, []byte(cell), t.widths[i]))
				cells = render.Cells([]byte(cell))
			}
			dst = paintOf(i, row, style).Append(dst, cell)
			dst = pad(dst, t.widths[i]-cells)
			used += max(t.widths[i], cells)
		case outcomeColumn:
			if t.Width > 0 {
				cell = string(render.AppendFit(nil, []byte(cell), t.Width-used))
			}
			dst = paintOf(i, row, style).Append(dst, cell)
		default:
			dst = append(pad(dst, t.widths[i]-cells), cell...)
			used += max(t.widths[i], cells)
		}
	}
	return dst
}

// paintOf returns how a column is painted in a row.
func paintOf(column int, row []string, style *render.Style) render.Paint {
	switch column {
	case nameColumn:
		return style.Kind
	case idColumn:
		return style.ID
	case outcomeColumn:
		for _, o := range []session.Outcome{session.Failed, session.ToolError, session.TimedOut, session.Died} {
			if strings.HasPrefix(row[column], o.String()) {
				return style.Error
			}
		}
	}
	return render.Paint{}
}

func pad(dst []byte, n int) []byte { return append(dst, strings.Repeat(" ", max(n, 0))...) }

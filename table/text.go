package table

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
)

// A layout writes rows as text.
type layout[R any] struct {
	*Printer[R]
	columns []Column[R] // in the order of text; at first all, then those that are shown
	titles  row
	widths  []int
	ahead   []row // buffered until the widths are known
	hinted  []int // columns that rows may come to have
	last    int   // the index of the last column that is shown
	fitted  bool
	space   row // of rows that are not buffered
}

// A row has cells that are safe to show, one after the other in text, and a bar.
type row struct {
	text   []byte
	ends   []int
	paints []render.Paint // of the cells
	below  []string
	bar    *Bar
}

func (r *row) cell(i int) []byte {
	if i == 0 {
		return r.text[:r.ends[0]]
	}
	return r.text[r.ends[i-1]:r.ends[i]]
}

const space = 2 // cells between columns

func (l *layout[R]) setUp(p *Printer[R]) {
	l.Printer = p
	for _, c := range p.Columns {
		if c.Title != "" {
			l.columns = append(l.columns, c)
		}
	}
	slices.SortStableFunc(l.columns, func(a, b Column[R]) int { return cmp.Compare(a.At, b.At) })
	for i := range l.columns {
		l.titles.text = append(l.titles.text, strings.TrimSpace(l.columns[i].Title)...)
		l.titles.ends, l.titles.paints = append(l.titles.ends, len(l.titles.text)), append(l.titles.paints, render.Paint{})
	}
}

func (l *layout[R]) addRow(out *bytes.Buffer, r *R) {
	if l.fitted {
		l.space.bar = nil
		l.space.text, l.space.ends, l.space.paints = l.space.text[:0], l.space.ends[:0], l.space.paints[:0]
		l.fill(&l.space, r)
		l.write(out, &l.space)
		return
	}
	var x row
	l.fill(&x, r)
	l.ahead = append(l.ahead, x)
	if l.Live || len(l.ahead) == l.Learn {
		for i := range l.columns {
			if c := &l.columns[i]; l.Live && c.Hint != nil && c.Hint(r) {
				l.hinted = append(l.hinted, i)
			}
		}
		l.rest(out)
	}
}

// fill makes the cells of a row.
func (l *layout[R]) fill(x *row, r *R) {
	for i := range l.columns {
		switch c := &l.columns[i]; {
		case l.fitted && l.widths[i] == hidden:
		case c.Cell != nil:
			x.text = render.AppendSafe(x.text, []byte(c.Cell(r)))
		default:
			v := c.Value(r)
			if bar, ok := v.(Bar); ok {
				x.bar = &bar
			}
			if applies(v) {
				x.text = appendText(x.text, v)
			}
		}
		var paint render.Paint
		if paints := l.columns[i].Paint; paints != nil {
			paint = paints(r, l.Style)
		}
		x.ends, x.paints = append(x.ends, len(x.text)), append(x.paints, paint)
	}
	if l.Below != nil {
		x.below = l.Below(r)
	}
}

// rest writes the buffered rows after the titles.
func (l *layout[R]) rest(out *bytes.Buffer) {
	if len(l.ahead) == 0 {
		return
	}
	l.fit()
	if len(l.titles.text) > 0 {
		out.WriteString(l.Style.Dim.On)
		l.writeCells(out, &l.titles)
		out.WriteString(l.Style.Dim.Off + "\n")
	}
	for i := range l.ahead {
		l.write(out, &l.ahead[i])
	}
	l.ahead = nil
}

// hidden marks a column that is not shown.
const hidden = -1

// fit chooses the columns and their widths.
func (l *layout[R]) fit() {
	l.fitted = true
	l.widths, l.last = make([]int, len(l.columns)), -1
	for i := range l.columns {
		c, w := &l.columns[i], &l.widths[i]
		*w = render.Cells(l.titles.cell(i))
		if l.Live {
			*w = max(*w, c.Usual)
		}
		var first []byte
		several := false
		for j := range l.ahead {
			cell := l.ahead[j].cell(i)
			if !l.Live {
				*w = max(*w, render.Cells(cell))
			}
			several = several || first != nil && len(cell) > 0 && !bytes.Equal(cell, first)
			if first == nil && len(cell) > 0 {
				first = cell
			}
		}
		switch {
		case c.Shown == Always, slices.Contains(l.hinted, i), !l.Live && several, (!l.Live && c.Shown == IfAny || c.Shown == IfFirst) && first != nil:
		default:
			*w = hidden
		}
	}
	if l.Width > 0 {
		l.narrow()
	}
	for i, w := range l.widths {
		if w != hidden {
			l.last = i
		}
	}
}

// narrow hides columns, and then cuts others, until a line fits.
func (l *layout[R]) narrow() {
	for i := range l.columns {
		if most := l.columns[i].Most; most > 0 {
			l.widths[i] = min(l.widths[i], most)
		}
	}
	for l.room() < 0 {
		first := -1
		for i := range l.columns {
			if c := &l.columns[i]; l.widths[i] != hidden && c.Drop > 0 && (first < 0 || c.Drop < l.columns[first].Drop) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		l.widths[first] = hidden
	}
	room := l.room()
	lacks := room < 0
	for i := range l.columns {
		if lacks { // the last columns give cells first, as the first ones get what is left
			i = len(l.columns) - 1 - i
		}
		if w := &l.widths[i]; l.columns[i].Least > 0 && *w != hidden {
			least := min(*w, l.columns[i].Least)
			*w = max(min(*w, least+room), 1)
			room -= *w - least
		}
	}
}

// room returns how many cells of a line are free if all columns have their least widths.
func (l *layout[R]) room() int {
	room := l.Width - len(l.Indent) + space
	for i, w := range l.widths {
		if least := l.columns[i].Least; least > 0 {
			w = min(w, least)
		}
		if w > 0 { // a bar takes what is left
			room -= space + w
		}
	}
	return room
}

func (l *layout[R]) write(out *bytes.Buffer, x *row) {
	l.writeCells(out, x)
	out.WriteByte('\n')
	for _, line := range x.below {
		line = "  " + line
		if l.Width > 0 {
			line = string(render.AppendFit(nil, []byte(line), l.Width))
		}
		out.Write(append(l.Style.Dim.Append(nil, line), '\n'))
	}
}

// writeCells writes the cells of the columns that are shown. Spaces are only written before a cell.
func (l *layout[R]) writeCells(out *bytes.Buffer, x *row) {
	out.WriteString(l.Indent)
	used, at := len(l.Indent), len(l.Indent) // cells that are written, and that come before the column
	pad := func(to int) {
		for ; used < to; used++ {
			out.WriteByte(' ')
		}
	}
	for i, width := range l.widths {
		if width == hidden {
			continue
		}
		c, cell, n := &l.columns[i], x.cell(i), 0
		if n = render.Cells(cell); l.Width > 0 && !c.Right {
			switch {
			case i == l.last && n > l.Width-at:
				cell = render.AppendFit(nil, cell, l.Width-at)
				n = render.Cells(cell)
			case i != l.last && n > width:
				cell = render.AppendFitPath(nil, cell, width)
				n = render.Cells(cell)
			}
		}
		paint := x.paints[i]
		if i == l.last && x.bar != nil {
			cell, paint = []byte(l.draw(x.bar, at)), l.Style.Number
			n = render.Cells(cell)
		}
		if n > 0 {
			if c.Right {
				pad(at + width - n)
			}
			pad(at)
			out.WriteString(paint.On)
			out.Write(cell)
			out.WriteString(paint.Off)
			used += n
		}
		at = max(at+width, used) + space
	}
}

// draw draws a bar after so many cells, if there is room.
func (l *layout[R]) draw(bar *Bar, used int) string {
	room := maxBar
	if l.Width > 0 {
		room = min(l.Width-used, maxBar)
	}
	if room < minBar {
		return ""
	}
	return barOf(bar.Solid, bar.Shade, room)
}

package tui

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/internal/render"
)

// A line of the screen is put together from left to right. What is appended to
// it is cut at its width, so that no text from the wire breaks the layout.
type line struct {
	buf  []byte
	used int // cells
	room int // cells in all

	brush   render.Paint // of the last glyph, which ends at painted
	painted int
}

func newLine(width int) *line { return &line{buf: make([]byte, 0, 2*width+64), room: width} }

// addText appends wire text, cut to width cells or to what is left.
func (l *line) addText(p render.Paint, s string, width int) {
	l.used += l.fit(p, s, width)
}

// fit appends text and returns how many cells it took.
func (l *line) fit(p render.Paint, s string, width int) int {
	width = min(width, l.room-l.used)
	if width <= 0 || s == "" {
		return 0
	}
	l.buf = append(l.buf, p.On...)
	start := len(l.buf)
	l.buf = render.AppendFitPath(l.buf, []byte(s), width)
	n := render.Cells(l.buf[start:])
	l.buf = append(l.buf, p.Off...)
	return n
}

// left appends a column, padded at its right, and a space; nothing if its width is 0.
func (l *line) left(p render.Paint, s string, width int) {
	if width == 0 {
		return
	}
	n := l.fit(p, s, width)
	l.used += n
	l.pad(width - n + 1)
}

// name is left for a name, which is never cut at its end: that tells it from others.
func (l *line) name(p render.Paint, s string, width int) {
	l.left(p, middle(s, min(width, l.room-l.used)), width)
}

// middle shortens a name to so many cells by leaving out its middle.
func middle(name string, cells int) string {
	name = render.Safe(name)
	n, head := ansi.StringWidth(name), cells/3
	if n <= cells || cells < 8 {
		return name
	}
	return ansi.Truncate(name, head, "") + "…" + ansi.TruncateLeft(name, n-(cells-head-1), "")
}

// words shortens a text to so many cells: a path as a name, and else at the end of a word if
// there is one.
func words(text string, cells int) string {
	text = strings.Join(strings.Fields(render.Safe(text)), " ")
	if ansi.StringWidth(text) <= cells || strings.HasPrefix(text, "/") {
		return middle(text, cells)
	}
	text = ansi.Truncate(text, cells-1, "")
	if at := strings.LastIndexByte(text, ' '); at > len(text)/2 {
		text = text[:at]
	}
	return text + "…"
}

// right appends a column, padded at its left, and a space; nothing if its width is 0.
func (l *line) right(p render.Paint, s string, width int) {
	if width == 0 {
		return
	}
	n := render.Cells([]byte(s))
	l.pad(width - n)
	l.addText(p, s, width)
	l.pad(1)
}

// whole is right for a column that is left out if it does not fit.
func (l *line) whole(p render.Paint, s string, width int) {
	if l.used+width <= l.room {
		l.right(p, s, width)
	}
}

// glyph appends one of our own characters, one cell wide. Those of one paint
// that follow each other are painted as one.
func (l *line) glyph(p render.Paint, s string) {
	if l.used >= l.room {
		return
	}
	if l.brush == p && l.painted == len(l.buf) {
		l.buf = l.buf[:len(l.buf)-len(p.Off)]
	} else {
		l.buf = append(l.buf, p.On...)
	}
	l.buf = append(append(l.buf, s...), p.Off...)
	l.used++
	l.brush, l.painted = p, len(l.buf)
}

func (l *line) pad(n int) {
	n = min(n, l.room-l.used)
	for range n {
		l.buf = append(l.buf, ' ')
	}
	l.used += max(n, 0)
}

// fill pads the line to its end.
func (l *line) fill() *line {
	l.pad(l.room - l.used)
	return l
}

// selected paints the whole line as selected, over its other paints.
func (l *line) selected(th *theme) {
	l.fill()
	if th.Selected.On == "" {
		return
	}
	on := th.Selected.On
	again := strings.NewReplacer("\x1b[0m", "\x1b[0m"+on, "\x1b[m", "\x1b[m"+on) // the end of a paint turns the selection off
	l.buf = []byte(on + again.Replace(string(l.buf)) + th.Selected.Off)
}

func (l *line) String() string { return string(l.buf) }

// text draws a line with one text, indented.
func (m *Model) text(indent int, paint render.Paint, text string) string {
	l := newLine(m.width)
	l.pad(indent)
	l.addText(paint, text, m.width)
	return l.String()
}

// row draws a row of a list.
func (m *Model) row(selected bool, draw func(*line)) string {
	l := newLine(m.width)
	draw(l)
	if selected {
		l.selected(m.theme)
	}
	return l.String()
}

// count writes a number with its thousands parted.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size writes a number of bytes in five cells at most.
func size(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	v := float64(n)
	for _, u := range units {
		if v /= 1000; v < 999.5 {
			return strconv.FormatFloat(v, 'f', digits(v), 64) + string(u)
		}
	}
	return "∞"
}

// digits is how many of a number's decimals fit three digits in all.
func digits(v float64) int {
	switch {
	case v < 9.995:
		return 2
	case v < 99.95:
		return 1
	}
	return 0
}

// span writes a duration in six cells at most.
func span(ns int64) string { return spanTo(ns, 0) }

// maxDigits is how many digits spanTo adds at most.
const maxDigits = 12

// spanTo is span with that many more digits.
func spanTo(ns int64, more int) string {
	v, unit := float64(ns), "ns"
	switch {
	case ns < 0:
		return "-"
	case ns == 0:
		return "0"
	case ns >= 60e9 && more > 0:
		return clock(ns, more-1)
	case ns >= 100*3600e9:
		return strconv.FormatInt(ns/(24*3600e9), 10) + "d"
	case ns >= 3600e9:
		return strconv.FormatInt(ns/3600e9, 10) + "h" + two(ns/60e9%60)
	case ns >= 60e9:
		return strconv.FormatInt(ns/60e9, 10) + "m" + two(ns/1e9%60)
	case ns >= 1e9:
		v, unit = v/1e9, "s"
	case ns >= 1e6:
		v, unit = v/1e6, "ms"
	case ns >= 1e3:
		v, unit = v/1e3, "µs"
	}
	return strconv.FormatFloat(v, 'f', digits(v)+more, 64) + unit
}

// clock writes a duration of minutes or more with that many decimals of its seconds.
func clock(ns int64, decimals int) string {
	s := strconv.FormatInt(ns/60e9, 10) + "m"
	if ns >= 3600e9 {
		s = strconv.FormatInt(ns/3600e9, 10) + "h" + two(ns/60e9%60) + "m"
	}
	s += two(ns / 1e9 % 60)
	if decimals = min(decimals, 9); decimals > 0 {
		fraction := strconv.FormatInt(1e9+ns%1e9, 10)
		s += "." + fraction[1:1+decimals]
	}
	return s
}

func two(n int64) string { return string([]byte{byte('0' + n/10), byte('0' + n%10)}) }

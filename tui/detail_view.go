package tui

import (
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store"
)

// detailView draws a frame: its head, its payload, its exchange.
func (m *Model) detailView(n int) []string {
	d, f := m.detail, m.about()
	if f == nil {
		return padded(nil, n)
	}
	list := m.aboveLines(f, n)
	rows := max(n-len(list)-belowLines(f, n), 1)
	switch {
	case d.beside != nil:
		list = append(list, m.sideBySide(rows)...)
	case d.answer != nil && d.inTree() && d.failed == "":
		list = append(list, m.together(rows)...)
	default:
		list = append(list, m.payload(rows)...)
	}
	if ledger := belowLines(f, n) - 1; ledger > 0 {
		list = append(list, m.rule(exchangeTitle(f.Exchange)+" · "+f.Exchange.OutcomeName()))
		list = append(list, m.ledger(f, ledger, f.Seq)...)
	}
	return padded(list, n)
}

// lineRows is how many lines of the frame fit.
func (m *Model) lineRows() int {
	f, n := m.about(), m.body()
	if f == nil {
		return n
	}
	rows := max(n-len(m.aboveLines(f, n))-belowLines(f, n), 1)
	if d := m.detail; d.answer != nil && d.inTree() {
		asked, answer := m.share(rows)
		if d.inAnswer() {
			return answer
		}
		return asked
	}
	return rows
}

// besides reports whether request and answer fit side by side.
func (m *Model) besides() bool { return m.width >= 110 }

// share returns how many lines of the request are shown, and how many of its answer, in so many
// rows: below each other, each has half of them unless the other needs less.
func (m *Model) share(rows int) (asked, answer int) {
	if m.besides() {
		return max(rows-1, 1), max(rows-1, 1)
	}
	d := m.detail
	rows-- // the title of the answer
	n := d.shownAsked()
	asked = max(min(n, rows/2, rows), min(n, rows-(len(d.shown)-n)), 1)
	return asked, max(rows-asked, 1)
}

// together draws the lines of a request and of its answer, side by side if there is room.
func (m *Model) together(rows int) []string {
	d, width := m.detail, m.width
	if m.besides() {
		width = m.besideWidth()
	}
	n, split := d.shownAsked(), len(d.shown)
	above, below := m.share(rows)
	asked := m.treeLines(d, 0, n, listState{min(d.at, n-1), d.top}, width, above)
	answer := m.treeLines(d, n, split, listState{max(d.at-n, 0), max(d.top-n, 0)}, width, below)
	if !m.besides() {
		return append(append(asked, m.rule(answerTitle(d.answer))), answer...)
	}
	head := newLine(m.width)
	head.left(m.theme.Title, " request", width)
	head.pad(2)
	head.name(m.theme.Title, answerTitle(d.answer), width)
	list := []string{head.String()}
	for i := range asked {
		list = append(list, asked[i]+m.theme.Rule.On+" │ "+m.theme.Rule.Off+answer[i])
	}
	return list
}

// answerTitle names the answer to a request.
func answerTitle(f *store.Detail) string {
	what := "answer"
	switch {
	case f.Joined > 0 && f.Part:
		what = "answer without its end"
	case f.Part:
		what = "not answered to the end · last frame"
	}
	switch {
	case f.Missing && f.Joined > 0:
		return what + " · joined from " + count(int64(f.Joined)) + " events; others are no longer kept"
	case f.Joined > 0:
		return what + " · joined from " + count(int64(f.Joined)) + " events"
	}
	if !f.Part {
		what += " ·"
	}
	return what + " #" + count(f.Seq) + " " + f.Kind + " · " + count(f.Size) + " bytes"
}

// aboveLines draws the rows above the lines of a frame: its head, its findings, and the
// heading of the lines.
func (m *Model) aboveLines(f *store.Detail, n int) []string {
	list := m.detailHead(f)
	if f.Exchange != nil {
		if facts := m.facts(f.Exchange); facts != "" {
			lines := m.wrapped(m.theme.Dim, render.Safe(facts))
			list = append(list, lines[:min(len(lines), max(n/4, 1))]...)
		}
	}
	for _, x := range f.Findings {
		list = append(list, m.finding(&x, false)...)
		list = append(list, m.wrapped(m.theme.Dim, x.Rule+". "+x.Do)...)
		if len(list) > n/4 {
			break
		}
	}
	switch d := m.detail; {
	case d.beside != nil:
		list = append(list, m.besideHead())
	case d.jq != nil && d.other == 0:
		list = append(list, m.jqLine())
	}
	return list
}

// belowLines is how many rows the exchange of a frame takes below its lines, the
// heading included.
func belowLines(f *store.Detail, n int) int {
	if len(f.Ledger) < 2 || n <= 14 {
		return 0
	}
	return min(len(f.Ledger), n/3) + 1
}

// detailHead draws the head of a frame: its kind and ids, and then the rest, which goes to
// lines of its own if there is no room.
func (m *Model) detailHead(f *store.Detail) []string {
	th := m.theme
	l := newLine(m.width)
	l.pad(1)
	l.addText(th.Title, "#"+count(f.Seq), 14)
	l.pad(1)
	arrow(l, th, f.Dir)
	l.pad(1)
	rest := []string{count(f.Size) + " bytes", f.Wire}
	if m.page.overview.Conns > 1 {
		rest = append(rest, f.Peer)
	}
	if !f.Time.IsZero() {
		rest = append(rest, f.Time.UTC().Format("15:04:05.000000"))
		if took := f.Written.Sub(f.Time); !f.Written.IsZero() && took > 0 {
			rest = append(rest, "handed on after "+span(int64(took)))
		} else if !f.Written.IsZero() && took < 0 { // in a merged session
			rest = append(rest, "at the other end "+span(int64(-took))+" before")
		}
	}
	text := strings.Join(rest, " · ")
	l.addText(th.Kind, f.Kind, m.width)
	if f.ID != "" || f.Ref != "" {
		l.pad(1)
		l.addText(th.ID, idsOf(&f.Frame), m.width)
	}
	list := []string{l.String()}
	if room := m.width - l.used - 2; ansi.StringWidth(text) <= room {
		l.addText(th.Dim, "  "+text, m.width)
		list[0] = l.String()
	} else {
		if room < 0 { // the name or the ids are cut
			list = m.wrapped(th.Kind, render.Safe("#"+count(f.Seq)+" "+f.Kind+" "+idsOf(&f.Frame)))
		}
		list = append(list, m.wrapped(th.Dim, render.Safe(text))...)
	}
	if f.Fault != "" {
		list = append(list, m.wrapped(th.Error, render.Safe(f.Fault))...)
	}
	return list
}

// jqLine draws the filter, and how to see the whole payload again.
func (m *Model) jqLine() string {
	l := newLine(m.width)
	l.pad(1)
	l.addText(m.theme.Title, "jq ", 3)
	l.addText(m.theme.Found, m.detail.jqText, m.width-40)
	l.addText(m.theme.Dim, "  | and an empty line shows everything", m.width)
	return l.String()
}

// payload draws the tree, the bytes, or both side by side.
func (m *Model) payload(n int) []string {
	d := m.detail
	switch {
	case d.frame == nil:
		return padded(nil, n)
	case d.failed != "":
		return padded([]string{m.text(1, m.theme.Error, d.failed)}, n)
	case len(d.tree) == 0 || d.pane == paneHex:
		return m.hexLines(d, m.width, n, d.listState)
	case d.pane == paneTree || m.width < hexWidth:
		return m.treeLines(d, 0, len(d.shown), d.listState, m.width, n)
	case m.width < 130:
		return m.stacked(d, n)
	}
	left := m.treeLines(d, 0, len(d.shown), d.listState, m.width-hexWidth-2, n)
	right := m.hexLines(d, hexWidth, n, unselected)
	for i := range left {
		left[i] += m.theme.Rule.On + "│ " + m.theme.Rule.Off + right[i]
	}
	return left
}

// hexWidth is how wide the bytes are.
const hexWidth = 80

// stacked draws the tree, and the bytes below it if some of them fit.
func (m *Model) stacked(d *detail, n int) []string {
	tree := len(d.shown) + len(m.treeLine(d, d.at, m.width, n)) - 1
	if tree+3 > n {
		return m.treeLines(d, 0, len(d.shown), d.listState, m.width, n)
	}
	list := append(m.treeLines(d, 0, len(d.shown), d.listState, m.width, tree), m.rule("bytes"))
	return append(list, m.hexLines(d, m.width, n-len(list), unselected)...)
}

// treeLines draws n rows of the shown lines from one number to before another, each of that width.
// The line that the cursor is on is whole, in as many rows as it takes, and so are others if
// there is room.
func (m *Model) treeLines(d *detail, from, to int, at listState, width, n int) []string {
	selected := m.treeLine(d, from+at.at, width, n)
	spare := max(n-(to-from)-len(selected)+1, 0)
	var list []string
	for row := min(max(at.from(n), at.at+len(selected)-n), at.at); from+row < to && row >= 0 && len(list) < n; row++ {
		lines := selected
		if row != at.at {
			lines = m.treeLine(d, from+row, width, 1+spare)
			spare -= len(lines) - 1
		}
		list = append(list, lines...)
	}
	for len(list) < n {
		list = append(list, newLine(width).fill().String())
	}
	return list[:n]
}

// treeLine draws a line of the payload in at most n rows.
func (m *Model) treeLine(d *detail, row, width, n int) (list []string) {
	if row >= len(d.shown) {
		return []string{""}
	}
	th, i, l := m.theme, d.shown[row], newLine(width)
	text := d.tree[i].text
	switch {
	case d.folded[i]:
		l.glyph(th.Key, glyphFolded)
		text += " … " + strings.TrimLeft(d.tree[d.tree[i].end].text, " ")
	case d.tree[i].end > i:
		l.glyph(th.Dim, glyphUnfolded)
	default:
		l.pad(1)
	}
	rows, _ := l.json(th, text, n)
	for _, l := range rows {
		if row == d.at {
			l.selected(th)
		} else if d.search != "" && strings.Contains(strings.ToLower(text), strings.ToLower(d.search)) {
			l.fill()
			l.buf = []byte(th.Found.On + ansi.Strip(string(l.buf)) + th.Found.Off)
		}
		list = append(list, l.fill().String())
	}
	return list
}

// lineBreak matches up to the first line feed in a string of JSON, behind which a row ends.
var lineBreak = regexp.MustCompile(`^(?:[^\\]|\\[^n])*\\n`)

// json appends a line of JSON in its colours, in at most n rows, the first of which is l. It
// returns them, and how many bytes do not fit.
func (l *line) json(th *theme, text string, n int) (rows []*line, left int) {
	rest := strings.TrimLeft(text, " ")
	indent := l.used + len(text) - len(rest)
	l.pad(indent - l.used)
	if strings.HasPrefix(rest, `"`) {
		if i := strings.Index(rest, `": `); i > 0 {
			l.addText(th.JSON.Key, rest[:i+1], l.room)
			l.addText(th.JSON.Punct, ": ", 2)
			rest = rest[i+3:]
		}
	}
	paint := th.JSON.Punct
	switch {
	case strings.HasPrefix(rest, `"`):
		paint = th.JSON.String
	case rest != "" && strings.ContainsAny(rest[:1], "-0123456789"):
		paint = th.JSON.Number
	case rest != "" && strings.ContainsAny(rest[:1], "tfn"):
		paint = th.JSON.Literal
	}
	for rows = append(rows, l); ; rows = append(rows, l) {
		part := ansi.Truncate(rest[:min(len(rest), 8*l.room)], l.room-l.used, "")
		if end := lineBreak.FindStringIndex(part); end != nil {
			part = part[:end[1]]
		}
		if len(rows) == n || part == rest || part == "" && l.used < l.room {
			l.addText(paint, rest, l.room)
			return rows, len(rest) - len(part)
		}
		l.addText(paint, part, l.room)
		rest = rest[len(part):]
		l = newLine(l.room)
		l.pad(min(indent+2, l.room/2))
	}
}

// hex appends a line of bytes in hexadecimal.
func (l *line) hex(th *theme, text string) {
	l.addText(th.Dim, text[:min(8, len(text))], l.room)
	l.addText(render.Paint{}, text[min(8, len(text)):], l.room)
}

// unselected is the state of bytes beside the lines that the cursor moves in.
var unselected = listState{at: -1}

// hexLines draws the bytes that fit.
func (m *Model) hexLines(d *detail, width, n int, of listState) []string {
	top := of.from(n)
	var list []string
	for row := top; row < min(top+n, len(d.hex)); row++ {
		text := d.hex[row]
		l := newLine(width)
		l.hex(m.theme, text)
		if row == of.at {
			l.selected(m.theme)
		}
		list = append(list, l.fill().String())
	}
	for len(list) < n {
		list = append(list, newLine(width).fill().String())
	}
	return list
}

// besideWidth is the width of each of two frames that are shown side by side.
func (m *Model) besideWidth() int { return (m.width - 3) / 2 }

// besideHead says which two frames are compared.
func (m *Model) besideHead() string {
	a, b, width := m.detail.frame, m.detail.beside, m.besideWidth()
	l := newLine(m.width)
	l.name(m.theme.Title, " #"+count(a.Seq)+" "+a.Kind, width)
	l.pad(2)
	l.name(m.theme.Title, "#"+count(b.Seq)+" "+b.Kind, width)
	return l.String()
}

// sideBySide compares the lines of two payloads.
func (m *Model) sideBySide(n int) []string {
	th, d, width := m.theme, m.detail, m.besideWidth()
	top := d.from(n)
	var list []string
	for row := top; row < min(top+n, len(d.pairs)); row++ {
		p := &d.pairs[row]
		paint, glyph := render.Paint{}, " "
		switch {
		case p[0] == "" && p[1] != "":
			paint, glyph = th.Done, "+"
		case p[1] == "" && p[0] != "":
			paint, glyph = th.Failed, "-"
		case p[0] != p[1]:
			paint, glyph = th.Warning, "≠"
		}
		list = append(list, m.row(row == d.at, func(l *line) {
			l.left(paint, " "+p[0], width)
			l.glyph(paint, glyph)
			l.pad(1)
			l.addText(paint, p[1], width)
		}))
	}
	return padded(list, n)
}

func linesOf(f *store.Detail) []string {
	if f.JSON == nil {
		h := render.Hex{Base: f.Offset, Start: f.Start, End: f.End}
		return splitLines(h.Append(nil, f.Raw[:min(len(f.Raw), maxHex)], nil))
	}
	return splitLines(render.AppendJSON(nil, f.JSON, "  ", "", nil))
}

// gist returns n events of an exchange: the first, the last, and between them those after
// its cancel, or else the latest.
func gist(events []store.Event, cancel int64, n int) []store.Event {
	if len(events) <= n || n < 3 {
		return events
	}
	last := len(events) - 1
	from := last - (n - 2)
	for i := range events {
		if events[i].Seq == cancel {
			from = max(1, min(from, i-1))
		}
	}
	list := append(events[:1:1], events[from:from+n-2]...)
	return append(list, events[last])
}

// ledger draws n frames of an exchange around the one of that number.
func (m *Model) ledger(d *store.Detail, n int, current int64) []string {
	th := m.theme
	events := d.Ledger
	from, kinds := 0, []string(nil)
	for i := range events {
		kinds = append(kinds, events[i].Kind)
		if events[i].Seq == current {
			from = i - n/2
		}
	}
	if current == 0 {
		events = gist(events, d.Exchange.Cancel, n)
	}
	from = max(0, min(from, len(events)-n))
	events = events[from:min(from+n, len(events))]
	columns := m.frameColumns(2+9+9, false, kinds)
	var list []string
	for i := range events {
		e := &events[i]
		list = append(list, m.row(e.Seq == current, func(l *line) {
			l.pad(1)
			if e.After {
				l.glyph(th.After, glyphAfter)
			} else {
				l.pad(1)
			}
			if m.page.overview.Timed {
				l.right(th.Dim, "+"+span(e.Time-e.Since), 8)
			}
			l.right(th.Dim, "#"+count(e.Seq), 8)
			m.frameText(l, &e.Frame, columns)
		}))
	}
	return list
}

package tui

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/query"
	"github.com/wirectl/wirectl/render"
	"github.com/wirectl/wirectl/store"
)

// A pane is what of a frame is shown.
type pane uint8

const (
	paneBoth pane = iota
	paneTree
	paneHex
	numPanes
)

// detail is a frame that is looked at.
type detail struct {
	seq, other int64
	pane       pane
	top        int
	at         int // the selected line of the tree
	folded     map[int]bool
	search     string
	jq         *query.JQ
	jqText     string

	of     int64 // the frame that the lines are of
	tree   []treeLine
	hex    []string
	failed string
}

// A treeLine is a line of a payload, and where what it opens ends.
type treeLine struct {
	text string
	end  int // index of the closing line; its own if it opens nothing
}

// wantDetail is what a detail needs of the store.
type wantDetail struct{ seq, other int64 }

func (d *detail) want() wantDetail {
	if d == nil {
		return wantDetail{}
	}
	return wantDetail{d.seq, d.other}
}

func (m *Model) openFrame(seq int64) tea.Cmd {
	next := &detail{seq: seq, folded: map[int]bool{}}
	if d := m.detail; d != nil {
		next.pane, next.jq, next.jqText = d.pane, d.jq, d.jqText
	}
	m.detail = next
	return m.ask()
}

// compare shows a frame beside the one that is selected: the request beside
// its answer if none was chosen.
func (m *Model) compare(seq int64) tea.Cmd {
	return m.askFor("compare with frame # ", "", func(text string) tea.Cmd {
		other, err := number64(text)
		if err != nil {
			m.said, m.wrong = text+" is no number of a frame", true
			return nil
		}
		cmd := m.openFrame(seq)
		m.detail.other = other
		return tea.Batch(cmd, m.ask())
	})
}

// settle makes the lines of what the store has returned.
func (d *detail) settle(p page) {
	if p.detail == nil || p.detail.Seq != d.seq || d.of == d.seq {
		return
	}
	d.of, d.failed = d.seq, p.detail.Err
	d.layOut(p.detail)
}

// layOut makes the lines of the payload, or of what jq makes of it.
func (d *detail) layOut(f *store.Detail) {
	d.tree, d.hex, d.folded = nil, nil, map[int]bool{}
	form := f.JSON
	if d.jq != nil && form != nil {
		ctx, cancel := context.WithTimeout(context.Background(), jqTime)
		out, err := d.jq.Append(ctx, nil, form)
		cancel()
		if err != nil {
			d.failed = err.Error()
		}
		for _, one := range bytes.Split(bytes.TrimSpace(out), []byte("\n")) {
			d.tree = append(d.tree, treeOf(one, len(d.tree))...)
		}
	} else if form != nil {
		d.tree = treeOf(form, 0)
	}
	h := render.Hex{Base: f.Offset, Start: f.Start, End: f.End}
	d.hex = splitLines(h.Append(nil, f.Raw[:min(len(f.Raw), maxHex)], nil))
}

const (
	// maxHex bounds the bytes that are shown in hexadecimal.
	maxHex = 1 << 20
	// jqTime is how long a filter may take.
	jqTime = 20 * time.Millisecond
)

func splitLines(b []byte) []string {
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// treeOf makes the lines of a JSON text, of which the first has that number.
// What a line opens ends where one begins as deep.
func treeOf(form []byte, first int) []treeLine {
	var list []treeLine
	var open []int
	for i, text := range splitLines(render.AppendJSON(nil, form, "  ", "", nil)) {
		list = append(list, treeLine{text, first + i})
		trimmed := strings.TrimLeft(text, " ")
		if strings.HasPrefix(trimmed, "}") || strings.HasPrefix(trimmed, "]") {
			if n := len(open); n > 0 {
				list[open[n-1]].end = first + i
				open = open[:n-1]
			}
		}
		if strings.HasSuffix(text, "{") || strings.HasSuffix(text, "[") {
			open = append(open, i)
		}
	}
	return list
}

// shown returns the numbers of the lines that are not folded away.
func (d *detail) shown() (list []int) {
	for i := 0; i < len(d.tree); i++ {
		list = append(list, i)
		if d.folded[i] {
			i = d.tree[i].end
		}
	}
	return list
}

func (d *detail) scroll(by int) {
	n := len(d.hex)
	if d.pane != paneHex && len(d.tree) > 0 {
		n = len(d.shown())
	}
	d.at = max(0, min(d.at+by, n-1))
}

func (m *Model) detailKey(k tea.KeyMsg) tea.Cmd {
	keys, d := &m.keys, m.detail
	if by, ok := m.movement(k, m.body()/2); ok {
		d.scroll(by)
		return nil
	}
	switch {
	case key.Matches(k, keys.Back):
		m.detail = nil
		return m.ask()
	case key.Matches(k, keys.Left):
		return m.neighbour(-1)
	case key.Matches(k, keys.Right):
		return m.neighbour(1)
	case key.Matches(k, keys.Pane):
		d.pane = (d.pane + 1) % numPanes
		d.at, d.top = 0, 0
	case key.Matches(k, keys.Fold), key.Matches(k, keys.Open):
		d.fold()
	case key.Matches(k, keys.FoldAll):
		d.foldAll()
	case key.Matches(k, keys.Search):
		return m.askFor("search ", d.search, func(text string) tea.Cmd {
			d.search = text
			m.seek(1)
			return nil
		})
	case key.Matches(k, keys.SearchNext):
		m.seek(1)
	case key.Matches(k, keys.SearchBack):
		m.seek(-1)
	case key.Matches(k, keys.JQ):
		return m.askFor("jq ", d.jqText, m.setJQ)
	case key.Matches(k, keys.Copy):
		return m.copyPayload()
	case key.Matches(k, keys.Bookmark):
		m.store.Bookmark(d.seq)
		return m.ask()
	case key.Matches(k, keys.Write):
		if f := m.page.detail; f != nil {
			return m.askForFile(d.seq, f.Mark)
		}
	case key.Matches(k, keys.Diff):
		if f := m.page.detail; f != nil && f.Exchange != nil && d.other == 0 {
			d.other = counterpart(f)
			return m.ask()
		}
		d.other = 0
	default:
		if f := m.page.detail; f != nil {
			return m.exchangeKey(k, f.Exchange)
		}
	}
	return nil
}

// counterpart returns the frame to compare with: the last of the exchange for
// its first, the first for any other.
func counterpart(f *store.Detail) int64 {
	if f.Seq == f.Exchange.First {
		return f.Exchange.Last
	}
	return f.Exchange.First
}

// neighbour goes to the frame of the exchange before or after.
func (m *Model) neighbour(by int) tea.Cmd {
	f := m.page.detail
	if f == nil || f.Seq != m.detail.seq {
		return nil
	}
	for i := range f.Ledger {
		if f.Ledger[i].Seq == f.Seq && i+by >= 0 && i+by < len(f.Ledger) {
			return m.openFrame(f.Ledger[i+by].Seq)
		}
	}
	if len(f.Ledger) == 0 {
		return m.openFrame(max(f.Seq+int64(by), 1))
	}
	return nil
}

// fold folds what the selected line opens, or unfolds it.
func (d *detail) fold() {
	list := d.shown()
	if d.at >= len(list) {
		return
	}
	i := list[d.at]
	switch {
	case d.folded[i]:
		delete(d.folded, i)
	case d.tree[i].end > i:
		d.folded[i] = true
	}
}

// foldAll folds everything below the top, or unfolds everything.
func (d *detail) foldAll() {
	any := len(d.folded) > 0
	d.folded = map[int]bool{}
	for i, l := range d.tree {
		if !any && i > 0 && l.end > i {
			d.folded[i] = true
		}
	}
	d.at, d.top = 0, 0
}

// seek moves to the next line that contains the search text.
func (m *Model) seek(by int) {
	d := m.detail
	if d.search == "" {
		return
	}
	d.folded = map[int]bool{}
	lines := d.hex
	if d.pane != paneHex && len(d.tree) > 0 {
		lines = nil
		for _, l := range d.tree {
			lines = append(lines, l.text)
		}
	}
	for i := d.at + by; i >= 0 && i < len(lines); i += by {
		if strings.Contains(strings.ToLower(lines[i]), strings.ToLower(d.search)) {
			d.at = i
			return
		}
	}
	m.said, m.wrong = "no more lines contain "+d.search, true
}

func (m *Model) setJQ(text string) tea.Cmd {
	d := m.detail
	if d == nil {
		return nil
	}
	var jq *query.JQ
	if text != "" {
		var err error
		if jq, err = query.CompileJQ(text); err != nil {
			m.said, m.wrong = err.Error(), true
			return nil
		}
	}
	d.jqText, d.jq, d.failed = text, jq, ""
	d.of, d.at, d.top = 0, 0, 0
	return m.ask()
}

// copyPayload hands the payload to the terminal's clipboard.
func (m *Model) copyPayload() tea.Cmd {
	f := m.page.detail
	if f == nil {
		return nil
	}
	text := f.JSON
	if text == nil {
		text = f.Payload
	}
	out := m.config.Clipboard
	if out == nil {
		return nil
	}
	return func() tea.Msg {
		if _, err := io.WriteString(out, "\x1b]52;c;"+base64.StdEncoding.EncodeToString(text)+"\a"); err != nil {
			return saidMsg{err.Error(), true}
		}
		return saidMsg{"copied " + size(int64(len(text))) + " bytes, if the terminal allows it", false}
	}
}

// detailView draws a frame: what it is, its payload, its exchange.
func (m *Model) detailView(n int) []string {
	d, f := m.detail, m.page.detail
	if f == nil || f.Seq != d.seq {
		return padded(nil, n)
	}
	list := []string{m.detailHead(f)}
	for _, x := range f.Findings {
		list = append(list, m.findingLine(&x), m.ruleLine(&x))
		if len(list) > 4 {
			break
		}
	}
	if d.jq != nil && d.other == 0 {
		list = append(list, m.jqLine())
	}
	ledger := 0
	if len(f.Ledger) > 1 && n > 14 {
		ledger = min(len(f.Ledger), n/3)
	}
	rows := max(n-len(list)-ledger, 1)
	if ledger > 0 {
		rows--
	}
	if m.page.other != nil && d.other != 0 {
		list = append(list, m.sideBySide(f, m.page.other, rows)...)
	} else {
		list = append(list, m.payload(rows)...)
	}
	if ledger > 0 {
		list = append(list, m.rule(f.Exchange.Kind+" "+idOf(f.Exchange.ID)+" · "+f.Exchange.OutcomeName()))
		list = append(list, m.ledger(f, ledger, f.Seq)...)
	}
	return padded(list, n)
}

// detailHead says what the frame is.
func (m *Model) detailHead(f *store.Detail) string {
	th := m.theme
	l := newLine(m.width)
	l.pad(1)
	l.text(th.Title, "#"+count(f.Seq), 14)
	l.pad(1)
	arrow(l, th, f.Dir)
	l.pad(1)
	l.text(th.Kind, f.Kind, 40)
	l.pad(1)
	l.text(th.ID, idOf(f.ID), 24)
	if f.Ref != "" {
		l.text(th.ID, "→"+idOf(f.Ref), 24)
	}
	text := "  " + count(f.Size) + " bytes  " + f.Wire
	if f.Conn > 0 {
		text += "  conn " + count(int64(f.Conn))
	}
	if !f.Time.IsZero() {
		text += "  " + f.Time.UTC().Format("15:04:05.000000")
		if took := f.Written.Sub(f.Time); !f.Written.IsZero() && took > 0 {
			text += "  handed on after " + span(int64(took))
		}
	}
	l.text(th.Dim, text, m.width)
	if f.Fault != "" {
		l.text(th.Error, "  "+f.Fault, m.width)
	}
	return l.String()
}

// jqLine says what was asked of the payload, and that this is not all of it.
func (m *Model) jqLine() string {
	l := newLine(m.width)
	l.pad(1)
	l.text(m.theme.Title, "jq ", 3)
	l.text(m.theme.Found, m.detail.jqText, m.width-40)
	l.text(m.theme.Dim, "  all of it: | and an empty line", m.width)
	return l.String()
}

// payload draws the tree, the bytes, or both side by side.
func (m *Model) payload(n int) []string {
	d := m.detail
	switch {
	case d.failed != "":
		l := newLine(m.width)
		l.text(m.theme.Error, " "+d.failed, m.width)
		return padded([]string{l.String()}, n)
	case len(d.tree) == 0 || d.pane == paneHex:
		return m.hexLines(d, m.width, n, d.at)
	case d.pane == paneTree || m.width < hexWidth:
		return m.treeLines(d, m.width, n)
	case m.width < 130:
		return m.stacked(d, n)
	}
	left := m.treeLines(d, m.width-hexWidth-2, n)
	right := m.hexLines(d, hexWidth, n, 0)
	for i := range left {
		left[i] += m.theme.Rule.On + "│ " + m.theme.Rule.Off + right[i]
	}
	return left
}

// hexWidth is how wide the bytes are.
const hexWidth = 80

// stacked draws the tree, and the bytes below it if some of them fit.
func (m *Model) stacked(d *detail, n int) []string {
	tree := len(d.shown())
	if tree+3 > n {
		return m.treeLines(d, m.width, n)
	}
	list := append(m.treeLines(d, m.width, tree), m.rule("bytes"))
	return append(list, m.hexLines(d, m.width, n-len(list), 0)...)
}

// treeLines draws the lines of the payload that fit, each of that width.
func (m *Model) treeLines(d *detail, width, n int) []string {
	th := m.theme
	shown := d.shown()
	d.at = max(0, min(d.at, len(shown)-1))
	d.top = max(min(d.top, d.at), d.at-n+1, 0)
	var list []string
	for row := d.top; row < min(d.top+n, len(shown)); row++ {
		i := shown[row]
		l := newLine(width)
		text := d.tree[i].text
		switch {
		case d.folded[i]:
			l.glyph(th.Key, "+")
			text += " … " + strings.TrimLeft(d.tree[d.tree[i].end].text, " ")
		case d.tree[i].end > i:
			l.glyph(th.Dim, "-")
		default:
			l.pad(1)
		}
		l.json(th, text)
		if row == d.at {
			l.selected(th)
		} else if d.search != "" && strings.Contains(strings.ToLower(text), strings.ToLower(d.search)) {
			l.fill()
			l.buf = []byte(th.Found.On + ansi.Strip(string(l.buf)) + th.Found.Off)
		}
		list = append(list, l.fill().String())
	}
	for len(list) < n {
		list = append(list, newLine(width).fill().String())
	}
	return list
}

// json appends a line of JSON in its colours.
func (l *line) json(th *theme, text string) {
	rest := strings.TrimLeft(text, " ")
	l.pad(len(text) - len(rest))
	if strings.HasPrefix(rest, `"`) {
		if i := strings.Index(rest, `": `); i > 0 {
			l.text(th.JSON.Key, rest[:i+1], l.room)
			l.text(th.JSON.Punct, ": ", 2)
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
	l.text(paint, rest, l.room)
}

func (m *Model) hexLines(d *detail, width, n, at int) []string {
	top := max(0, min(at, len(d.hex)-n))
	var list []string
	for _, text := range d.hex[top:min(top+n, len(d.hex))] {
		l := newLine(width)
		l.text(m.theme.Dim, text[:min(8, len(text))], width)
		l.text(render.Paint{}, text[min(8, len(text)):], width)
		list = append(list, l.fill().String())
	}
	for len(list) < n {
		list = append(list, newLine(width).fill().String())
	}
	return list
}

// sideBySide compares the lines of two payloads.
func (m *Model) sideBySide(a, b *store.Detail, n int) []string {
	th := m.theme
	width := (m.width - 3) / 2
	pairs := align(linesOf(a), linesOf(b))
	m.detail.at = max(0, min(m.detail.at, len(pairs)-n))
	head := newLine(m.width)
	head.left(th.Title, " #"+count(a.Seq)+" "+a.Kind, width)
	head.pad(2)
	head.text(th.Title, "#"+count(b.Seq)+" "+b.Kind, width)
	list := []string{head.String()}
	for _, p := range pairs[m.detail.at:] {
		l := newLine(m.width)
		paint, glyph := render.Paint{}, " "
		switch {
		case p.a == "" && p.b != "":
			paint, glyph = th.Done, "+"
		case p.b == "" && p.a != "":
			paint, glyph = th.Failed, "-"
		case p.a != p.b:
			paint, glyph = th.Warning, "≠"
		}
		l.left(paint, " "+p.a, width)
		l.glyph(paint, glyph)
		l.pad(1)
		l.text(paint, p.b, width)
		list = append(list, l.String())
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

// gist returns n events of an exchange: the first, the last, and between them
// what came after its cancel, or else what came last.
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
	from := 0
	for i := range events {
		if events[i].Seq == current {
			from = i - n/2
		}
	}
	if current == 0 {
		events = gist(events, d.Exchange.Cancel, n)
	}
	from = max(0, min(from, len(events)-n))
	var list []string
	for i := from; i < min(from+n, len(events)); i++ {
		e := &events[i]
		l := newLine(m.width)
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
		m.frameText(l, &e.Frame, m.frameColumns())
		if e.Seq == current {
			l.selected(th)
		}
		list = append(list, l.String())
	}
	return list
}

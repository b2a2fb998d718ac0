package tui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store"
)

// A window is the time that lanes show.
type window struct {
	from, to int64
	width    int // cells
}

// window fits the time to the rows, and zooms and pans as was asked for.
func (m *Model) window(width int) window {
	w := window{width: width}
	for i := range m.page.ids.List {
		x := &m.page.ids.List[i]
		if x.Group != nil {
			continue
		}
		if w.from == 0 || x.Opened < w.from {
			w.from = x.Opened
		}
		w.to = max(w.to, endOf(x, m.page.now))
	}
	w.to = max(w.to, w.from+1)
	span := w.to - w.from
	for range m.ids.zoom {
		span = max(span/2, 1)
	}
	for range -m.ids.zoom {
		span *= 2
	}
	shift := span / 4 * int64(m.ids.pan)
	w.to += shift
	w.from = w.to - span
	return w
}

// endOf returns when an exchange ended, or now if it has not.
func endOf(x *store.Exchange, now int64) int64 {
	if x.Open() {
		return now
	}
	return max(x.Closed, x.LastPart, x.Confirmed)
}

// cell returns the cell of a time, which may lie outside.
func (w window) cell(at int64) int {
	return int(float64(at-w.from) / float64(w.to-w.from) * float64(w.width-1))
}

// axis draws the scale of the lanes: the times since the beginning of the
// session, or numbers of frames.
func (m *Model) axis(l *line, w window) {
	end := l.used + w.width
	const step = 16
	var ticks []int64
	lanes := slices.ContainsFunc(m.page.ids.List, func(x store.Exchange) bool { return x.Group == nil })
	for x := 0; lanes && x+8 <= w.width; x += step {
		at := w.from + int64(float64(w.to-w.from)*float64(x)/float64(max(w.width-1, 1)))
		ticks = append(ticks, at)
	}
	for i, label := range m.tickLabels(ticks) {
		l.glyph(m.theme.Rule, "╷")
		l.left(m.theme.Dim, label, min(step-2, w.width-i*step-2))
	}
	l.pad(end - l.used)
}

// tickLabels names places on the axis, with as many digits as it takes to tell them apart.
// A place before the session, or equal to the previous one, has no name.
func (m *Model) tickLabels(at []int64) []string {
	labels, o := make([]string, len(at)), &m.page.overview
	for more := 0; more <= maxDigits; more++ {
		for i, t := range at {
			switch {
			case i > 0 && t == at[i-1]:
			case o.Timed && t >= o.First:
				labels[i] = spanTo(t-o.First, more)
			case !o.Timed && t > 0:
				labels[i] = "#" + count(t)
			}
		}
		if !repeats(labels) {
			break
		}
	}
	return labels
}

// repeats reports whether a label that is not blank equals the one before.
func repeats(labels []string) bool {
	for i := 1; i < len(labels); i++ {
		if labels[i] != "" && labels[i] == labels[i-1] {
			return true
		}
	}
	return false
}

// lane draws the life of an exchange over time.
func (m *Model) lane(l *line, x *store.Exchange, w window) {
	th := m.theme
	end := endOf(x, m.page.now)
	begin, stop := w.cell(x.Opened), w.cell(end)
	first, last := w.cell(x.FirstPart), w.cell(x.LastPart)
	asked := -1
	if x.Cancelled {
		asked = w.cell(x.Asked)
	}
	parts := m.partsOf(x, w)
	most := 1
	for _, n := range parts {
		most = max(most, n)
	}
	paint, glyph := th.outcome(x)
	for c := range w.width {
		late := x.Cancelled && c > asked
		switch {
		case c == asked:
			l.glyph(th.Cancel, glyphCancel)
		case c == stop && !x.Open() && stop > begin || c == stop && begin == stop:
			l.glyph(paint, glyph)
		case c == stop && x.Open():
			l.glyph(th.Open, glyphOpen)
		case c < begin || c > stop:
			l.pad(1)
		case parts[c] > 0 && late:
			l.glyph(th.After, glyphAfter)
		case parts[c] > 0:
			l.glyph(th.Part, bars[min(2+parts[c]*6/most, 7)])
		case c == begin:
			l.glyph(th.Wait, glyphBegin)
		case x.Parts > 0 && c > first && c < last:
			l.glyph(th.Gap, glyphGap)
		case late:
			l.glyph(th.After, glyphSilent)
		default:
			l.glyph(th.Wait, glyphWait)
		}
	}
}

// partsOf counts the parts of an exchange in each cell of the window. Where
// slots of time are wider than a cell their parts are spread.
func (m *Model) partsOf(x *store.Exchange, w window) []int {
	cells := make([]int, w.width)
	if x.Slot == 0 {
		return cells
	}
	for i, n := range x.Ticks {
		if n == 0 {
			continue
		}
		from := x.Opened + int64(i)*x.Slot
		a, b := w.cell(max(from, x.FirstPart)), w.cell(min(from+x.Slot-1, x.LastPart))
		b = min(b, a+int(n)-1) // no more cells than parts
		for c := max(a, 0); c <= b && c < w.width; c++ {
			cells[c] += max(int(n)/(b-a+1), 1)
		}
	}
	return cells
}

// treeName draws an exchange in the tree of its run, indented by its level: its place, and
// then its name.
func (m *Model) treeName(l *line, x *store.Exchange, width int) {
	th := m.theme
	end := l.used + width + 1
	l.pad(min(2*x.Level, width/2))
	switch {
	case !x.Parent:
		l.pad(1)
	case m.ids.cut.Has(x.Mark):
		l.glyph(th.Key, glyphFolded)
	default:
		l.glyph(th.Key, glyphUnfolded)
	}
	l.pad(1)
	if place := placeOf(x); place != "" {
		l.addText(th.ID, place, 10)
		l.pad(1)
	}
	if room := end - l.used - 1; room > 0 {
		l.named(th, x, room)
	}
}

// placeOf returns the last part of the place of an exchange in its run; its id if it is of no run.
func placeOf(x *store.Exchange) string {
	if x.Run == "" {
		return idOf(x.ID)
	}
	return x.Place[strings.LastIndexByte(x.Place, '/')+1:]
}

// treeWidth is how many cells treeName needs to cut nothing: neither the name nor the
// prompt, nor the beginning of the answer.
func treeWidth(x *store.Exchange) int {
	text := strings.Join([]string{placeOf(x), cmp.Or(x.Name, x.Kind), moreOf(x, 24)}, " ")
	return 2*x.Level + 2 + render.Cells([]byte(render.Safe(text)))
}

// foldTree folds the rows below an exchange in the tree, or unfolds them. If there are
// none, it folds the row above.
func (st *idsState) foldTree(x *store.Exchange) {
	of := store.Spot{Number: x.Mark}
	switch {
	case x.Parent:
	case x.Under != 0:
		of.Number = x.Under
	default:
		st.folds.Turn(x.Within)
		st.at, st.line = store.Spot{Number: x.Within, Heading: true}, 0
		return
	}
	st.cut.Turn(of.Number)
	st.at = of
}

// selectsRun reports whether the selected row is a run, or a place in one.
func (m *Model) selectsRun() bool {
	what, _ := runOf(m.page.ids)
	return what != ""
}

// runOf says which run is selected, or which place in it, and how it is named to its tap.
func runOf(p store.IDs) (what, name string) {
	i := p.Index - p.Top
	if i < 0 || i >= len(p.List) {
		return "", ""
	}
	switch x := &p.List[i]; {
	case x.Group != nil && x.Group.Run != "":
		return x.Group.Name, x.Group.Run
	case x.Group == nil && x.Place != "":
		return x.Place, x.Run + "/" + x.Place
	}
	return "", ""
}

// interrupt interrupts the selected run, or the selected part of a run, after a
// confirmation.
func (m *Model) interrupt(p store.IDs) tea.Cmd {
	what, name := runOf(p)
	if !m.changeable() {
		return nil
	}
	w := m.config.Wire
	m.pending = &pending{"interrupt " + what + "?", func() tea.Cmd {
		return m.done("interrupt "+what, func() error { return w.Cancel(0, `"`+name+`"`) })
	}}
	return nil
}

// peersRows is how many connections fit.
func (m *Model) peersRows() int { return max(m.body()/2, 3) }

// peersView draws the connections, the whole command of the selected one, and the lines that
// came beside the frames.
func (m *Model) peersView(n int) []string {
	p := &m.page.peers
	top := min(m.peers.from(m.peersRows()), len(p.Peers))
	shown := p.Peers[top:min(top+m.peersRows(), len(p.Peers))]
	c := m.peerColumns(shown)
	list := []string{m.peersHead(c)}
	for i := range shown {
		list = append(list, m.row(top+i == m.peers.at, func(l *line) { m.peerRow(l, &shown[i], c) }))
	}
	if i := m.peers.at - top; i >= 0 && i < len(shown) {
		about := m.wrapped(m.theme.Dim, aboutPeer(&shown[i]))
		list = append(list, about[:min(len(about), max(n-len(list)-4, 1))]...)
	}
	list = append(list, m.rule("standard error and events · "+count(int64(p.Total))))
	room := max(n-len(list), 0)
	for i := max(len(p.Lines)-room, 0); i < len(p.Lines); i++ {
		list = append(list, m.besideLine(&p.Lines[i], c.name))
	}
	return padded(list, n)
}

// aboutPeer describes a connection in a sentence.
func aboutPeer(p *store.Peer) string {
	text := "connection " + count(int64(max(p.Conn, 1)))
	if p.Name != "" {
		text += ": " + p.Name
	}
	if p.Note != "" {
		text += " · " + p.Note
	}
	return render.Safe(text)
}

// peerColumns are the widths of the columns; 0 leaves one out.
type peerColumns struct {
	name, frames, bytes, state int
	stalls                     bool
}

// peerColumns returns the columns for some connections: their names get their room first.
func (m *Model) peerColumns(shown []store.Peer) peerColumns {
	c := peerColumns{name: 10, frames: 8, state: 5}
	for i := range shown {
		c.name = max(c.name, ansi.StringWidth(shown[i].Label))
		c.state = max(c.state, ansi.StringWidth(stateOf(&shown[i])))
		c.stalls = c.stalls || shown[i].Stall != [3]time.Duration{}
	}
	room := m.width - 1 - 2*(c.frames+1) - c.state - 1
	if c.name+1+2*7 <= room {
		c.bytes = 6
	}
	c.name = min(c.name, room-1)
	return c
}

// peersHead names the columns.
func (m *Model) peersHead(c peerColumns) string {
	th := m.theme
	head := newLine(m.width)
	head.pad(1)
	head.left(th.Dim, "NAME", c.name)
	for _, arrow := range []string{glyphOut, glyphIn} {
		head.right(th.Dim, arrow+" FRAMES", c.frames)
		head.right(th.Dim, "BYTES", c.bytes)
	}
	head.left(th.Dim, "STATE", c.state)
	if c.stalls {
		head.addText(th.Dim, "STALLS", 20)
	}
	return head.String()
}

// besideLine draws a line that came beside the frames, and whose it is if there are several
// connections.
func (m *Model) besideLine(said *store.Line, name int) string {
	th := m.theme
	l := newLine(m.width)
	l.pad(1)
	if !said.Time.IsZero() {
		l.left(th.Dim, said.Time.UTC().Format("15:04:05.000"), 12)
	}
	if len(m.page.peers.Peers) > 1 {
		l.name(th.ID, said.Peer, min(name, m.width*2/5))
	}
	paint := th.Note
	if said.Kind == capture.Stderr {
		paint = render.Paint{}
	}
	l.addText(paint, strings.TrimRight(said.Text, "\r\n"), m.width)
	return l.String()
}

// stateOf returns the state of a connection, with a mark if there is a note on it.
func stateOf(p *store.Peer) string {
	if p.Note != "" {
		return p.State() + " " + glyphWarning
	}
	return p.State()
}

func (m *Model) peerRow(l *line, p *store.Peer, c peerColumns) {
	th := m.theme
	l.pad(1)
	l.name(render.Paint{}, p.Label, c.name)
	for _, of := range [][2]int64{
		{p.Frames[frame.C2U] + p.Frames[0], p.Bytes[frame.C2U] + p.Bytes[0]},
		{p.Frames[frame.U2C], p.Bytes[frame.U2C]},
	} {
		l.right(th.Number, count(of[0]), c.frames)
		l.right(th.Dim, size(of[1]), c.bytes)
	}
	paint := th.Done
	switch ended := p.Half[frame.C2U] && p.Half[frame.U2C]; {
	case p.Note != "", p.Failed, p.Exit == "" && !ended && p.State() != "open":
		paint = th.Warning
	case p.State() != "open":
		paint = th.Dim
	}
	l.left(paint, stateOf(p), c.state)
	for d, arrow := range []string{"", glyphOut, glyphIn} {
		if p.Stall[d] > 0 {
			l.whole(th.Warning, arrow+" "+span(int64(p.StallTotal[d])), 8)
		}
	}
}

package tui

import (
	"cmp"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/store"
)

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
	if x.Edge != "" && x.Edge != "exact" {
		l.glyph(th.Warning, glyphGuessed)
	}
	if place := placeOf(x); place != "" {
		l.addText(th.ID, place, 10)
		l.pad(1)
	}
	paint := th.Kind
	if m.ids.lit && len(x.Path) == 0 {
		paint = th.Dim
	}
	if room := end - l.used - 1; room > 0 {
		l.named(th, paint, x, room)
	}
}

// letter draws what works in an exchange, as on its lane. On the lit critical path it stands out.
func (m *Model) letter(l *line, x *store.Exchange) {
	paint := m.role(x)
	if m.ids.lit && len(x.Path) > 0 {
		paint = m.theme.Lit
	}
	l.glyph(paint, letters[x.Role])
}

// onPath is how much of the critical path an exchange is; "" if it is not on it.
func (m *Model) onPath(x *store.Exchange) string {
	if len(x.Path) == 0 {
		return ""
	}
	var sum int64
	for _, s := range x.Path {
		if s.To == 0 {
			s.To = m.page.now
		}
		sum += max(s.To-s.From, 0)
	}
	return span(sum)
}

// headRow draws a turn, or an agent at its level.
func (m *Model) headRow(l *line, x *store.Exchange, c idColumns, w window) {
	th, g, h := m.theme, x.Group, x.Group.Head
	end := l.used + 3 + c.kind + 1
	fold := glyphUnfolded
	if g.Folded {
		fold = glyphFolded
	}
	name := h.Name
	if h.Agent {
		l.pad(1)
		l.glyph(th.Roles[join.Agent], letters[join.Agent])
		l.pad(1 + min(2*x.Level, c.kind/2))
	}
	l.glyph(th.Key, fold)
	l.pad(1)
	l.addText(th.Title, name, end-l.used-1)
	if room := end - l.used - 2; room > 8 {
		text := count(g.Total) + " " + plural(g.Total, "call", "calls")
		if g.Found > 0 {
			text += ", " + count(g.Found) + " " + plural(g.Found, "finding", "findings")
		}
		if h.Reason != "" {
			text = h.Reason
		}
		l.pad(1)
		l.addText(th.Dim, words(text, room), room)
	}
	l.pad(end - l.used)
	if c.wire > 0 {
		l.pad(c.wire + 1)
	}
	m.headLane(l, h, w)
	l.pad(1)
	l.right(th.Dim, "", c.parts)
	l.right(th.Dim, size(g.Bytes), c.bytes)
	over := h.Over
	if h.GoesOn() {
		over = m.page.now
	}
	took := span(over - h.Opened)
	if m.ids.lit && !h.OnPath {
		took = ""
	}
	l.right(render.Paint{}, took, c.latency)
	paint, glyph := th.outcome(&store.Exchange{Outcome: h.Outcome})
	l.glyph(paint, glyph)
	l.pad(1)
	l.left(paint, (&store.Exchange{Outcome: h.Outcome}).OutcomeName(), c.outcome-2)
}

// headPreview draws how far the cancel of a turn went, each call over the time from shortly before it.
// Of any other turn or agent it says how long nothing in it was at work.
func (m *Model) headPreview(h *store.Head, n int) []string {
	if h == nil || n < 2 {
		return nil
	}
	th := m.theme
	var waited int64
	for _, s := range h.Waits {
		waited += s.To - s.From
	}
	title := h.Name
	if waited > 0 {
		title += " · no call at work for " + span(waited)
	}
	if len(h.Stops) == 0 {
		return []string{m.rule(title)}
	}
	first := h.Stops[0].At
	w, name, wire, text := window{from: first, to: first}, 0, 0, 0
	for _, s := range h.Stops {
		name, wire, text = max(name, ansi.StringWidth(s.Name)), max(wire, ansi.StringWidth(s.Wire)), max(text, ansi.StringWidth(s.Text))
		w.to = max(w.to, s.At, s.Ended)
		if s.Ended == 0 {
			w.to = max(w.to, m.page.now)
		}
	}
	name, wire = min(name, m.width/5), min(wire, m.width/6)
	w.width = min(max(m.width-name-wire-text-5, 8), m.width/2)
	w.from -= max((w.to-w.from)/6, 1)
	list := []string{m.rule(title + " · cancelled at " + span(first-m.page.overview.First))}
	for i := range h.Stops {
		s := &h.Stops[i]
		l := newLine(m.width)
		l.pad(1)
		l.name(th.Kind, s.Name, name)
		l.name(th.Dim, s.Wire, wire)
		m.stopLane(l, s, first, w)
		l.pad(1)
		l.addText(render.Paint{}, s.Text, m.width)
		list = append(list, l.String())
	}
	return list
}

// stopLane draws what a cancel did to a call.
func (m *Model) stopLane(l *line, s *store.Stop, first int64, w window) {
	th := m.theme
	end := s.Ended
	if end == 0 {
		end = m.page.now
	}
	stop, at := w.cell(max(end, s.At)), w.cell(max(s.At, first))
	for c := range w.width {
		switch {
		case s.At != 0 && c == at:
			l.glyph(th.Cancel, glyphCancel)
		case c < w.cell(s.Opened) || c > stop:
			l.pad(1)
		case c == stop && s.Ended == 0:
			l.glyph(th.Open, glyphOpen)
		case c == stop:
			l.glyph(th.After, glyphDone)
		case c > at:
			l.glyph(th.After, glyphAfter)
		default:
			l.glyph(th.Wait, glyphWork)
		}
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
// prompt, nor the beginning of the answer. Arguments and errors get the room that is left.
func treeWidth(x *store.Exchange) int {
	more := moreOf(x, 24)
	if more == x.Arguments || more == whyOf(x) {
		more = ""
	}
	text := strings.Join([]string{placeOf(x), cmp.Or(x.Name, x.Kind), more}, " ")
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

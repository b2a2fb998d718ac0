package tui

import (
	"cmp"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/internal/render"
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

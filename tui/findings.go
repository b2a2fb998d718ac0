package tui

import (
	"strings"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/store"
)

// findingLines is how many rows a finding takes.
const findingLines = 2

// findingRows is how many findings fit wholly.
func (m *Model) findingRows() int { return max(m.rows()/findingLines, 1) }

func (m *Model) selectedFinding() *store.Finding {
	if i := m.findings.at - m.page.findings.From; i >= 0 && i < len(m.page.findings.List) {
		return &m.page.findings.List[i]
	}
	return nil
}

// findingsView draws the findings with their rules, and the whole text of the selected one.
func (m *Model) findingsView(n int) []string {
	th := m.theme
	list := []string{m.text(1, th.Dim, "FINDINGS  enter jumps to the frame")}
	for i := range m.page.findings.List {
		f := &m.page.findings.List[i]
		selected := m.page.findings.From+i == m.findings.at
		list = append(list, m.row(selected, func(l *line) { m.finding(l, f) }), m.ruleLine(f))
	}
	if f := m.selectedFinding(); f != nil {
		whole := append([]string{m.rule(f.Name)}, m.wrapped(render.Paint{}, f.Message)...)
		whole = append(whole, m.wrapped(m.theme.Dim, f.Rule+". "+f.Do)...)
		return append(padded(list, n-m.previewRows()), padded(whole, m.previewRows())...)
	}
	if len(m.page.findings.List) == 0 {
		list = append(list, m.text(3, th.Done, glyphDone+" no rule was broken"))
	}
	return padded(list, n)
}

// ruleLine draws the rule of a finding, and the advice.
func (m *Model) ruleLine(f *store.Finding) string {
	return m.text(4, m.theme.Dim, f.Rule+". "+f.Do)
}

func (m *Model) finding(l *line, f *store.Finding) {
	th := m.theme
	paint, glyph := th.Note, "i"
	switch f.Severity {
	case session.Error:
		paint, glyph = th.Error, glyphFinding
	case session.Warning:
		paint, glyph = th.Warning, glyphWarning
	}
	l.pad(1)
	l.glyph(paint, glyph)
	l.pad(1)
	name := 10
	for i := range m.page.findings.List {
		name = max(name, len(m.page.findings.List[i].Name))
	}
	l.left(paint, f.Name, max(name, len(f.Name)))
	var frames []string
	for _, seq := range f.Frames {
		frames = append(frames, "#"+count(seq))
	}
	l.left(th.Number, strings.Join(frames, " "), min(18, m.width/8))
	l.addText(render.Paint{}, f.Message, m.width)
}

package tui

import (
	"strings"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/store"
)

// findingRows is about how many findings fit.
func (m *Model) findingRows() int { return max(m.rows()/2, 1) }

func (m *Model) selectedFinding() *store.Finding {
	if i := m.findings.at - m.page.findings.From; i >= 0 && i < len(m.page.findings.List) {
		return &m.page.findings.List[i]
	}
	return nil
}

// findingsView draws the findings, and the rule of the selected one with what to do.
func (m *Model) findingsView(n int) []string {
	list := []string{m.text(1, m.theme.Dim, "FINDINGS  enter jumps to the frame")}
	rows, _ := m.findingLines()
	list = append(list, rows...)
	if f := m.selectedFinding(); f != nil {
		whole := append([]string{m.rule(f.Name)}, m.wrapped(render.Paint{}, f.Rule+".")...)
		whole = append(whole, m.wrapped(m.theme.Dim, f.Do)...)
		return append(padded(list, n-m.previewRows()), padded(whole, m.previewRows())...)
	}
	if len(m.page.findings.List) == 0 {
		list = append(list, m.text(3, m.theme.Done, glyphDone+" no rule was broken"))
	}
	return padded(list, n)
}

// findingLines draws the findings that fit, each in as many rows as its message takes, and
// returns for each row the index of its finding. The selected one is among them.
func (m *Model) findingLines() (rows []string, of []int) {
	for i := range m.page.findings.List {
		index := m.page.findings.From + i
		for _, l := range m.finding(&m.page.findings.List[i], index == m.findings.at) {
			rows, of = append(rows, l), append(of, index)
		}
		if over := len(rows) - m.rows(); over > 0 {
			if index > m.findings.at {
				return rows[:m.rows()], of[:m.rows()]
			}
			rows, of = rows[over:], of[over:]
		}
	}
	return rows, of
}

// finding draws a finding, whose message is whole.
func (m *Model) finding(f *store.Finding, selected bool) (list []string) {
	th := m.theme
	paint, glyph := th.Note, "i"
	switch f.Severity {
	case session.Error:
		paint, glyph = th.Error, glyphFinding
	case session.Warning:
		paint, glyph = th.Warning, glyphWarning
	}
	name := 10
	for i := range m.page.findings.List {
		name = max(name, len(m.page.findings.List[i].Name))
	}
	var frames []string
	for _, seq := range f.Frames {
		frames = append(frames, "#"+count(seq))
	}
	const mark = 3 // cells before the name
	name = min(max(name, len(f.Name)), m.width/3)
	about := min(18, m.width/8)
	text := strings.Split(wrap(render.Safe(f.Message), m.width-mark-name-about-3), "\n")
	for i, part := range text[:min(len(text), max(m.height/4, 1))] {
		list = append(list, m.row(selected, func(l *line) {
			if i == 0 {
				l.pad(1)
				l.glyph(paint, glyph)
				l.pad(1)
				l.left(paint, f.Name, name)
				l.left(th.Number, strings.Join(frames, " "), about)
			}
			l.pad(mark + name + 1 + about + 1 - l.used)
			l.addText(render.Paint{}, part, m.width)
		}))
	}
	return list
}

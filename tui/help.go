package tui

import (
	"strings"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/join"
)

// helpColumn is how wide a column of the help is.
const helpColumn = 38

// helpView draws the keys that fit.
func (m *Model) helpView(n int) []string { return padded(m.helpLines()[m.helpTop:], n) }

// scrollHelp scrolls the help.
func (m *Model) scrollHelp(by int) {
	m.helpTop = max(0, min(m.helpTop+by, len(m.helpLines())-m.body()))
}

// helpLines draws the keys, in as many columns as fit.
func (m *Model) helpLines() []string {
	var blocks [][]string
	for _, g := range m.keys.groups() {
		blocks = append(blocks, m.keyBlock(g, helpColumn))
	}
	blocks = append(blocks, m.roles(helpColumn), m.legend(helpColumn))
	return inColumns(blocks, max(1, m.width/helpColumn), helpColumn)
}

// keyBlock draws a group of keys, and an empty line below.
func (m *Model) keyBlock(g keyGroup, width int) []string {
	th := m.theme
	head := newLine(width)
	head.pad(1)
	head.addText(th.Bold, g.title, width)
	list := []string{head.fill().String()}
	for _, b := range g.keys {
		h := b.Help()
		if h.Key == " " {
			h.Key = "space"
		}
		l := newLine(width)
		l.pad(1)
		l.left(th.Key, h.Key, 13)
		l.addText(th.Help, h.Desc, width-16)
		list = append(list, l.fill().String())
	}
	return append(list, newLine(width).fill().String())
}

// inColumns puts blocks of lines, all of that width, side by side: each into the column
// that is shortest then.
func inColumns(blocks [][]string, columns, width int) []string {
	tall := make([][]string, columns)
	for _, b := range blocks {
		shortest := 0
		for i := range tall {
			if len(tall[i]) < len(tall[shortest]) {
				shortest = i
			}
		}
		tall[shortest] = append(tall[shortest], b...)
	}
	rows := 0
	for _, c := range tall {
		rows = max(rows, len(c))
	}
	list := make([]string, rows)
	for row := range list {
		for _, c := range tall {
			if row < len(c) {
				list[row] += c[row]
			} else {
				list[row] += strings.Repeat(" ", width)
			}
		}
	}
	return list
}

// legend explains the glyphs of lanes.
func (m *Model) legend(width int) []string {
	th := m.theme
	head := newLine(width)
	head.pad(1)
	head.addText(th.Bold, "Lanes", width)
	list := []string{head.fill().String()}
	for _, e := range []struct {
		paint render.Paint
		glyph string
		text  string
	}{
		{th.Wait, glyphBegin, "the request"},
		{th.Wait, glyphWait, "waiting"},
		{th.Roles[join.Tool], glyphWork, "at work"},
		{th.Part, bars[6], "parts: the more, the higher"},
		{th.Gap, glyphGap, "a gap between parts"},
		{th.Open, glyphOpen, "in flight"},
		{th.Done, glyphDone, "done"},
		{th.Failed, glyphFailed, "failed"},
		{th.Cancel, glyphCancel, "a cancel was sent"},
		{th.After, glyphAfter, "parts after the cancel"},
		{th.Cancelled, glyphStopped, "ended as cancelled"},
		{th.Silent, glyphSilent, "silence after the cancel"},
		{th.Silent, glyphLost, "abandoned: its connection ended"},
	} {
		list = append(list, entry(th, width, e.paint, e.glyph, e.text))
	}
	return list
}

// roles explains the letters of a run.
func (m *Model) roles(width int) []string {
	th := m.theme
	head := newLine(width)
	head.pad(1)
	head.addText(th.Bold, "Runs", width)
	list := []string{head.fill().String()}
	for role, text := range []string{join.Model: "a model", join.Tool: "a tool", join.Process: "a process", join.Agent: "an agent", join.User: "waits for the user"} {
		if text != "" {
			list = append(list, entry(th, width, th.Roles[role], letters[role], text))
		}
	}
	return append(list, newLine(width).fill().String())
}

func entry(th *theme, width int, paint render.Paint, glyph, text string) string {
	l := newLine(width)
	l.pad(1)
	l.glyph(paint, glyph)
	l.pad(2)
	l.addText(th.Help, text, width-5)
	return l.fill().String()
}

func (m *Model) helpKey(k tea.KeyMsg) tea.Cmd {
	if by, ok := movement(&m.keys, k, m.body()); ok {
		m.scrollHelp(by)
		return nil
	}
	m.help = false
	if key.Matches(k, m.keys.Quit) && k.String() != "q" {
		return tea.Quit
	}
	return nil
}

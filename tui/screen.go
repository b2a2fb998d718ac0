package tui

import (
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/store"
)

// The least that the screen is drawn on.
const (
	minWidth  = 40
	minHeight = 10
)

// head returns the number of rows above the view.
func (m *Model) head() int {
	if m.filter != "" {
		return 3
	}
	return 2
}

// body is how many rows the view has, its own heading included.
func (m *Model) body() int { return max(m.height-m.head()-len(m.caption())-1, 1) }

// listHead is how many rows a list has as heading.
func (m *Model) listHead() int { return 1 }

// rows is how many rows of its list the view shows.
func (m *Model) rows() int {
	return max(m.body()-m.listHead()-m.previewRows(), 1)
}

// View returns the screen, which is asked for after every message.
func (m *Model) View() string {
	if m.screen == "" {
		m.screen = m.draw()
	}
	return m.screen
}

func (m *Model) draw() string {
	if m.width < minWidth || m.height < minHeight {
		return "wirectl needs " + strconv.Itoa(minWidth) + "×" + strconv.Itoa(minHeight)
	}
	list := make([]string, 0, m.height)
	list = append(list, m.title(), m.tabs())
	if m.filter != "" {
		list = append(list, m.filterLine())
	}
	switch {
	case m.help:
		list = append(list, m.helpView(m.body())...)
	case m.detail != nil:
		list = append(list, m.detailView(m.body())...)
	default:
		list = append(list, m.viewOf(m.view)...)
	}
	foot := m.foot()
	list = append(padded(list, m.height-len(foot)), foot...)
	return strings.Join(list, "\n")
}

func (m *Model) viewOf(v view) []string {
	switch {
	case v == viewFrames && m.wide():
		return m.split(m.framesView, m.payloadPreview)
	case v == viewIDs && m.wide():
		return m.split(m.idsView, m.preview)
	}
	switch v {
	case viewFrames:
		return m.framesView(m.rows())
	case viewFindings:
		return m.findingsView(m.body())
	case viewStats:
		return m.statsView(m.body())
	case viewPeers:
		return m.peersView(m.body())
	}
	return append(m.idsView(m.rows()), m.preview(m.previewRows())...)
}

// padded returns n lines: those of the list, and empty ones.
func padded(list []string, n int) []string {
	for len(list) < n {
		list = append(list, "")
	}
	return list[:n]
}

// title draws the first line: the session, and how it goes. Its name needs room first; the
// protocols and the name of the program are shown if they fit.
func (m *Model) title() string {
	right := newLine(m.width)
	m.counts(right)
	room := m.width - right.used - 1
	name, spoken := m.config.Name, ""
	if list := m.page.overview.Protocols; len(list) > 0 {
		spoken = " · " + strings.Join(list, ", ")
	}
	l := newLine(m.width)
	const program = " wirectl"
	need := 1 + render.Cells([]byte(render.Safe(name)))
	if need += len(program); need <= room {
		l.addText(m.theme.Title, program, room)
	}
	l.pad(1)
	l.addText(render.Paint{}, name, room-l.used)
	if need+render.Cells([]byte(spoken)) <= room {
		l.addText(render.Paint{}, spoken, room)
	}
	l.pad(m.width - right.used - l.used)
	l.buf = append(l.buf, right.buf...)
	return l.String()
}

// counts draws the right of the first line: whether the screen is live, and what needs
// attention.
func (m *Model) counts(right *line) {
	th, o := m.theme, &m.page.overview
	stat := func(n int64, word string, p render.Paint) {
		right.pad(2)
		right.addText(p, count(n), 20)
		right.addText(th.Dim, " "+word, 20)
	}
	if o.Altered {
		right.addText(th.Warning, glyphAltered+" altered", 9)
		right.pad(2)
	}
	m.state(right)
	if o.Open > 0 || !o.Ended {
		stat(o.Open, "in flight", th.Open)
	}
	if n := o.Failed; n > 0 && m.width >= 80 {
		stat(n, "failed", th.Failed)
	}
	if n := o.Lost; n > 0 {
		stat(n, "missed", th.Warning)
	}
	if n := o.Dropped; n > 0 && m.width >= 100 {
		stat(n, "dropped", th.Warning)
	}
	right.pad(1)
}

// state says whether the screen is live.
func (m *Model) state(l *line) {
	th, o := m.theme, &m.page.overview
	switch {
	case m.frozen:
		l.addText(th.Warning, "‖ frozen", 10)
	case o.Ended && o.Err != nil:
		l.addText(th.Error, "■ broken off", 14)
	case o.Ended && m.config.Next:
		l.addText(th.Dim, "○ ended, waiting", 20)
	case o.Ended:
		l.addText(th.Dim, "■ ended", 10)
	case o.Frames == 0:
		l.addText(th.Dim, "○ waiting", 10)
	default:
		l.addText(th.Done, "● live", 10)
	}
}

// tabs draws the names of the views.
func (m *Model) tabs() string {
	th := m.theme
	l := newLine(m.width)
	for v := range numViews {
		paint := th.Tab
		switch {
		case m.view == v:
			paint = th.TabOn
		case v == viewFindings && m.page.overview.Findings > 0:
			paint = th.Warning
		}
		l.addText(paint, m.tab(v), m.width)
	}
	if m.view == viewIDs && m.detail == nil && m.width >= 100 {
		label := m.ids.sort.String() + " first"
		switch m.ids.group {
		case store.Ungrouped:
		case store.GroupRun:
			label = "by run"
		default:
			label += ", grouped by " + m.ids.group.String()
		}
		if m.ids.openOnly {
			label += ", in flight only"
		}
		if room := m.width - l.used - len(label) - 1; room > 0 {
			l.pad(room)
			l.addText(th.Dim, label, m.width)
		}
	}
	return l.String()
}

// tab is the name of a view with its key and how much is in it; on a narrow screen
// without the key, and with the number of findings alone.
func (m *Model) tab(v view) string {
	o := &m.page.overview
	name, n := viewNames[v]+" ", [numViews]int64{viewFindings: o.Findings}
	if m.width >= 76 {
		n[viewIDs], n[viewFrames] = o.Exchanges, o.Frames
	}
	if n[v] > 0 {
		name += size(n[v]) + " "
	}
	if m.width < 60 {
		return name
	}
	return " " + strconv.Itoa(int(v)+1) + " " + name
}

// clickTab turns to the view whose name is at that column.
func (m *Model) clickTab(x int) tea.Cmd {
	at := 0
	for v := range numViews {
		if at += len(m.tab(v)); x < at {
			return m.show(v)
		}
	}
	return nil
}

func (m *Model) filterLine() string {
	th, o := m.theme, &m.page.overview
	l := newLine(m.width)
	label, paint := " filter ", th.Key
	if m.config.FilterKept && m.filter == strings.TrimSpace(m.config.Filter) {
		label, paint = " filter of the last visit (x clears it) ", th.Warning
	}
	l.addText(paint, label, max(m.width-32, 8))
	l.addText(render.Paint{}, m.filter, max(m.width-32-l.used, 12))
	l.addText(th.Dim, " · "+count(o.Matches)+" of "+count(o.Frames)+" frames", 40)
	if o.Searched < o.Frames-o.Dropped {
		l.addText(th.Dim, " · looking…", 12)
	}
	return l.String()
}

// foot draws the last line: the prompt, a message, or the keys.
func (m *Model) foot() []string {
	th := m.theme
	l := newLine(m.width)
	switch {
	case m.pending != nil:
		return m.wrapped(th.Warning, m.pending.question+" y/n")
	case m.prompt != nil:
		return append(m.answerLines(), m.promptLine())
	case len(m.page.overview.Held) > 0:
		m.heldLine(l, m.page.overview.Held)
		return append(m.answerLines(), l.String())
	case m.said != "":
		return m.answerLines()
	case m.page.overview.Ended && m.page.overview.Err != nil:
		return m.wrapped(th.Error, m.page.overview.Err.Error())
	default:
		m.hints(l)
	}
	return append(m.caption(), l.String())
}

// caption draws the caption of the demonstration.
func (m *Model) caption() []string {
	if !m.config.Captions || m.page.overview.Notice == "" {
		return nil
	}
	return m.wrapped(m.theme.Title, m.page.overview.Notice)
}

// answerLines draws the message, if there is one.
func (m *Model) answerLines() []string {
	paint := m.theme.Title
	switch {
	case m.said == "":
		return nil
	case m.wrong:
		paint = m.theme.Error
	}
	return m.wrapped(paint, m.said)
}

// promptLine draws the prompt and its completions.
func (m *Model) promptLine() string {
	th, p := m.theme, m.prompt
	l := newLine(m.width)
	l.addText(th.Key, " "+p.label, m.width*3/4)
	l.addText(render.Paint{}, tail(string(p.text[:p.at]), (m.width-l.used)/2), m.width)
	l.glyph(th.Key, "▏")
	l.addText(render.Paint{}, string(p.text[p.at:]), m.width)
	if len(p.text) == 0 {
		l.addText(th.Dim, " "+p.hint, m.width)
	}
	if p.complete != nil {
		l.addText(th.Dim, "   "+strings.Join(p.complete(string(p.text)), " "), m.width)
	}
	return l.String()
}

// wrapped draws a text in as many lines as it takes, up to half of the screen. Names with
// hyphens are not split.
func (m *Model) wrapped(paint render.Paint, text string) []string {
	const hyphen = "\u2011" // at which lines do not break
	var list []string
	for part := range strings.SplitSeq(ansi.Wrap(strings.ReplaceAll(text, "-", hyphen), m.width-2, ""), "\n") {
		list = append(list, m.text(1, paint, strings.ReplaceAll(part, hyphen, "-")))
	}
	return list[:min(len(list), m.height/2)]
}

// heldLine names the frame that is held, and its keys.
func (m *Model) heldLine(l *line, held []store.Held) {
	th := m.theme
	l.addText(th.Warning, " ‖ "+count(int64(len(held)))+" held ", 16)
	for _, b := range []key.Binding{m.keys.Release, m.keys.Edit, m.keys.Drop} {
		l.addText(th.Key, b.Help().Key+" ", 4)
		word, _, _ := strings.Cut(b.Help().Desc, " ")
		l.addText(th.Help, word+" ", 12)
	}
	arrow(l, th, held[0].Dir)
	l.pad(1)
	l.addText(th.ID, "#"+count(held[0].Number)+" ", 12)
	l.addText(render.Paint{}, held[0].Text, m.width)
}

// tail returns the end of text, about n cells of it.
func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if len(text)-i <= n {
			return text[i:]
		}
	}
	return text
}

// hints draws the keys that are useful here.
func (m *Model) hints(l *line) {
	k := &m.keys
	list := []key.Binding{k.Help, k.Next, k.Open, k.Filter, k.Freeze, k.Quit}
	switch {
	case m.help:
		list = []key.Binding{k.Back, k.Up, k.Down}
	case m.detail != nil:
		list = []key.Binding{k.Back, k.Help, k.Pane, k.Fold, k.Search, k.JQ, k.Copy, k.Write}
	case m.view == viewIDs:
		list = append(list, k.Sort, k.Group, k.Live, k.Wider)
		if m.page.changeable {
			list = append(list, k.Cancel)
		}
	case m.view == viewFrames:
		list = append(list, k.Search, k.Follow, k.Bookmark, k.Diff, k.Write)
	}
	for _, b := range list {
		h := b.Help()
		if h.Key, _, _ = strings.Cut(h.Key, " "); h.Key == "" {
			h.Key = "space"
		}
		if l.used+len(h.Key)+len(h.Desc)+3 > l.room {
			return
		}
		l.pad(1)
		l.addText(m.theme.Key, h.Key, 20)
		l.pad(1)
		l.addText(m.theme.Help, h.Desc, 40)
		l.pad(1)
	}
}

// rule draws a horizontal line with a title in it.
func (m *Model) rule(title string) string {
	l := newLine(m.width)
	l.addText(m.theme.Rule, "──", 2)
	l.pad(1)
	l.addText(m.theme.Bold, title, m.width-6)
	l.pad(1)
	l.addText(m.theme.Rule, strings.Repeat("─", max(m.width-l.used, 0)), m.width)
	return l.String()
}

// nothing says why a list is empty.
func (m *Model) nothing(yet, filtered string) string {
	text := yet
	switch {
	case m.filter != "":
		text = filtered
	case m.page.overview.Frames == 0 && m.config.Waiting != "" && (m.config.Next || !m.page.overview.Ended):
		text = m.config.Waiting
	case m.page.overview.Ended:
		text = strings.TrimSuffix(yet, " yet") // there will be none
	}
	return m.text(3, m.theme.Dim, text)
}

// formatSeconds writes seconds with that many decimals.
func formatSeconds(d time.Duration, decimals int) string {
	return strconv.FormatFloat(d.Seconds(), 'f', decimals, 64)
}

package tui

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/store"
)

// inputState is the input that waits. A key acts on the row that the keys before it
// selected, even if they were typed before the screen showed that row.
type inputState struct {
	input   []tea.Msg // keys and clicks, in their order
	due     int       // number of the page with the selected row: an action waits for it
	listDue int       // number of the page with the list: a movement waits for it
	seeking bool      // a search is under way, which moves the selection
	reading bool      // a request is read, of which the next keys are
	finds   int       // number of searches so far
	acting  int       // commands to the wire under way, which change the held frames
	await   time.Time // until then, keys wait for all frames that match a new filter
}

// typed adds keys to the input: keys that are typed fast come as one message.
func (m *Model) typed(k tea.KeyMsg) {
	if k.Type != tea.KeyRunes || k.Paste {
		m.input = append(m.input, k)
		return
	}
	for _, r := range k.Runes {
		m.input = append(m.input, tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}, Alt: k.Alt})
	}
}

// takeInput handles the input up to the first key that must wait.
func (m *Model) takeInput() tea.Cmd {
	var cmds []tea.Cmd
	for len(m.input) > 0 && !m.waits(m.input[0]) {
		msg := m.input[0]
		m.input = m.input[1:]
		_, moves := m.direction(msg)
		before := m.query
		switch msg := msg.(type) {
		case tea.KeyMsg:
			cmds = append(cmds, m.key(msg))
		case tea.MouseMsg:
			cmds = append(cmds, m.mouse(msg))
		}
		if m.query != before {
			m.needPage(moves)
		}
	}
	if len(m.input) > 0 && m.filtering() && m.page.query == m.query {
		cmds = append(cmds, m.askStore())
	}
	return tea.Batch(cmds...)
}

// needPage has actions wait for the page that was asked for last, and movements as well
// unless that page has the same list.
func (m *Model) needPage(sameList bool) {
	if m.due = m.query; !sameList {
		m.listDue = m.query
	}
}

// filtering reports whether keys wait for a filter, which has not seen all frames yet.
func (m *Model) filtering() bool {
	o := &m.page.overview
	return o.Filter != "" && o.Searched < o.Frames-o.Dropped && time.Now().Before(m.await)
}

// waits reports whether the row that the input acts on is not known yet.
func (m *Model) waits(msg tea.Msg) bool {
	k, isKey := msg.(tea.KeyMsg)
	if m.pending != nil || m.prompt != nil || m.help || isKey && key.Matches(k, m.keys.Quit, m.keys.Back) {
		return false
	}
	if m.seeking || m.reading || m.filtering() || m.acting > 0 && isKey && key.Matches(k, m.keys.Release, m.keys.Edit, m.keys.Drop) {
		return true
	}
	if m.detail != nil && m.detail.of != m.detail.wants() && !(isKey && m.leaves(k)) {
		return true
	}
	if by, moves := m.direction(msg); moves {
		// Rows beyond the screen are counted by the store, which stops at the ends of the list:
		// there and back is not the same as neither.
		return m.page.query < m.listDue || m.view == viewIDs && by*m.ids.moved < 0
	}
	return m.page.query < m.due
}

// direction reports whether input moves in the list, and where.
func (m *Model) direction(msg tea.Msg) (by int, moves bool) {
	if m.detail != nil {
		return 0, false
	}
	switch msg := msg.(type) {
	case tea.KeyMsg:
		return movement(&m.keys, msg, 2)
	case tea.MouseMsg:
		switch msg.Button {
		case tea.MouseButtonWheelUp:
			return -1, true
		case tea.MouseButtonWheelDown:
			return 1, true
		}
		return 0, msg.Y != 1
	}
	return 0, false
}

// pasted inserts text into the prompt. Elsewhere it is ignored: its letters were not meant
// as keys.
func (m *Model) pasted(text string) tea.Cmd {
	if m.pending != nil {
		return nil
	}
	m.notice, m.wrong = "", false
	if m.prompt == nil {
		m.notice = "open an input line before pasting: f filters, / searches"
		return nil
	}
	m.prompt.insert([]rune(strings.Join(strings.FieldsFunc(text, unicode.IsControl), " ")))
	return nil
}

// freeze keeps the screen as it is while the session goes on, or ends that.
func (m *Model) freeze() {
	m.frozen = !m.frozen
	m.limit = 0
	if m.frozen {
		m.limit = m.page.overview.Listed
	}
}

// key handles a key.
func (m *Model) key(k tea.KeyMsg) tea.Cmd {
	if k.Paste {
		return m.pasted(string(k.Runes))
	}
	m.notice, m.wrong = "", false
	switch {
	case m.seeking && key.Matches(k, m.keys.Back):
		m.seeking, m.notice = false, "the search was stopped"
		return nil
	case m.pending != nil:
		return m.confirm(k)
	case m.prompt != nil:
		return m.promptKey(k)
	case m.help:
		return m.helpKey(k)
	}
	if cmd, done := m.globalKey(k); done {
		return cmd
	}
	if cmd, done := m.holdKey(k); done {
		return cmd
	}
	if m.detail != nil {
		return m.detailKey(k)
	}
	if cmd, done := m.searchKey(k); done {
		return cmd
	}
	switch m.view {
	case viewIDs:
		return m.idsKey(k)
	case viewFrames:
		return m.framesKey(k)
	}
	return m.listKey(k)
}

// leaves reports whether a key turns to a view, whatever is shown.
func (m *Model) leaves(k tea.KeyMsg) bool {
	keys := &m.keys
	return key.Matches(k, keys.Next, keys.Previous, keys.IDs, keys.Frames, keys.Findings, keys.Stats, keys.Peers)
}

// globalKey handles a key that has the same meaning everywhere.
func (m *Model) globalKey(k tea.KeyMsg) (tea.Cmd, bool) {
	keys := &m.keys
	switch {
	case key.Matches(k, keys.Quit):
		return tea.Quit, true
	case key.Matches(k, keys.Help):
		m.help, m.helpTop = true, 0
		return nil, true
	case key.Matches(k, keys.Theme):
		name := "dark"
		if m.dark {
			name = "light"
		}
		m.setTheme(name)
		return m.askStore(), true
	case key.Matches(k, keys.Mouse):
		return m.turnMouse(), true
	case key.Matches(k, keys.Freeze):
		m.freeze()
		return m.askStore(), true
	case key.Matches(k, keys.Next):
		return m.show((m.view + 1) % numViews), true
	case key.Matches(k, keys.Previous):
		return m.show((m.view + numViews - 1) % numViews), true
	case key.Matches(k, keys.Filter):
		return m.askForFilter(), true
	case key.Matches(k, keys.Clear):
		return m.setFilter(""), true
	}
	for i, b := range keys.Chips {
		if key.Matches(k, b) {
			return m.setFilter(store.Turn(m.filter, store.Chips[i])), true
		}
	}
	for v, b := range []key.Binding{keys.IDs, keys.Frames, keys.Findings, keys.Stats, keys.Peers} {
		if key.Matches(k, b) {
			return m.show(view(v)), true
		}
	}
	return nil, false
}

// turnMouse leaves the mouse to the terminal, to select text with, or takes it back.
func (m *Model) turnMouse() tea.Cmd {
	if m.mouseOff = !m.mouseOff; m.mouseOff {
		m.notice = "the mouse now selects text; M returns it to the monitor"
		return tea.DisableMouse
	}
	m.notice = "the mouse controls the monitor again"
	return tea.EnableMouseCellMotion
}

// setTheme changes the colours.
func (m *Model) setTheme(name string) {
	m.dark = name != "light"
	m.theme = newTheme(name, m.config.Color)
}

// show turns to a view.
func (m *Model) show(v view) tea.Cmd {
	m.view, m.detail = v, nil
	return m.askStore()
}

// farAway is further than any list is long.
const farAway = 1 << 40

// movement returns how far a key moves in a list of which n rows are visible; the first and
// the last are far away.
func movement(keys *keyMap, k tea.KeyMsg, n int) (by int, ok bool) {
	switch {
	case key.Matches(k, keys.Up):
		return -1, true
	case key.Matches(k, keys.Down):
		return 1, true
	case key.Matches(k, keys.PageUp):
		return -max(n-1, 1), true
	case key.Matches(k, keys.PageDown):
		return max(n-1, 1), true
	case key.Matches(k, keys.Top):
		return -farAway, true
	case key.Matches(k, keys.Bottom):
		return farAway, true
	}
	return 0, false
}

// mouse scrolls and selects.
func (m *Model) mouse(e tea.MouseMsg) tea.Cmd {
	if m.prompt != nil || m.pending != nil {
		return nil
	}
	switch {
	case e.Button == tea.MouseButtonWheelUp:
		return m.scroll(-3)
	case e.Button == tea.MouseButtonWheelDown:
		return m.scroll(3)
	case e.Action != tea.MouseActionPress || e.Button != tea.MouseButtonLeft:
		return nil
	case e.Y == 1:
		return m.clickTab(e.X)
	case e.Y == 2 && m.head() == 3:
		return m.clickChip(e.X)
	}
	return m.click(e.Y - m.head() - m.listHead())
}

func (m *Model) scroll(by int) tea.Cmd {
	switch {
	case m.help:
		m.scrollHelp(by)
		return nil
	case m.detail != nil:
		m.scrollLines(by)
		return nil
	}
	return m.move(by)
}

// move moves the selection of the view.
func (m *Model) move(by int) tea.Cmd {
	switch p := &m.page; m.view {
	case viewIDs:
		m.ids.move(by, p.ids)
	case viewFrames:
		m.frames.move(by, p.frames)
	case viewFindings:
		m.findings.move(by, p.findings.First, p.findings.Total, m.findingRows())
	case viewStats:
		m.moveInStats(by)
	case viewPeers:
		m.peers.move(by, 0, len(p.peers.Peers), m.peersRows())
	}
	return m.askStore()
}

// click selects a row of the list, and opens it if it is selected already.
func (m *Model) click(row int) tea.Cmd {
	if row < 0 || m.detail != nil || m.help {
		return nil
	}
	by := 0
	switch m.view {
	case viewIDs:
		by = row - (m.page.ids.Index - m.page.ids.Top) - m.ids.moved
	case viewFrames:
		by = row - int(m.frames.at-m.page.frames.From)
	case viewFindings:
		_, of := m.findingLines()
		if row >= len(of) {
			return nil
		}
		by = of[row] - m.findings.at
	case viewStats:
		row -= m.statsHead() - m.listHead()
		lines, top := m.statLines(), m.stats.from(m.statsRows())
		if row < 0 || row >= min(m.statsRows(), len(lines)-top) || !lines[row+top].selectable() {
			return nil
		}
		_, at := m.selectedStat()
		if by = row + top - at; by != 0 {
			m.stats.at = at
		}
	case viewPeers:
		top := m.peers.from(m.peersRows())
		if row >= min(m.peersRows(), len(m.page.peers.Peers)-top) {
			return nil
		}
		by = row + top - m.peers.at
	}
	if by == 0 {
		m.input = slices.Insert(m.input, 0, tea.Msg(tea.KeyMsg{Type: tea.KeyEnter}))
		return nil
	}
	return m.move(by)
}

// listKey is for the views that are a plain list.
func (m *Model) listKey(k tea.KeyMsg) tea.Cmd {
	n := map[view]func() int{viewFindings: m.findingRows, viewStats: m.statsRows, viewPeers: m.peersRows}[m.view]()
	if by, ok := movement(&m.keys, k, n); ok {
		return m.move(by)
	}
	if key.Matches(k, m.keys.Open) {
		return m.openSelected()
	}
	return nil
}

// openSelected opens the selected row of the view.
func (m *Model) openSelected() tea.Cmd {
	switch m.view {
	case viewIDs:
		if x := m.ids.selected(m.page.ids); x != nil {
			return m.openCall(x)
		}
		m.ids.fold(m.page.ids)
		return m.askStore()
	case viewFrames:
		if f := m.frames.selected(m.page.frames); f != nil {
			return m.openFrame(f.Seq)
		}
	case viewFindings:
		if f := m.selectedFinding(); f != nil && len(f.Frames) > 0 {
			return m.openFrame(f.Frames[len(f.Frames)-1])
		}
	case viewStats:
		switch s, _ := m.selectedStat(); {
		case s.name != nil:
			m.view = viewIDs
			return m.setFilter("kind==" + quoteValue(s.name.Kind) + " and name==" + quoteValue(s.name.Name))
		case s.kind != nil:
			m.view = viewIDs
			return m.setFilter("kind==" + quoteValue(s.kind.Name))
		}
	case viewPeers:
		if i := m.peers.at; i < len(m.page.peers.Peers) && m.page.peers.Peers[i].Conn != 0 {
			m.view = viewFrames
			return m.setFilter("conn==" + strconv.Itoa(m.page.peers.Peers[i].Conn))
		}
	}
	return nil
}

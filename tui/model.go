package tui

import (
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/store"
)

// A view is one of the screens.
type view uint8

const (
	viewIDs view = iota
	viewFrames
	viewFindings
	viewStats
	viewPeers
	numViews
)

var viewNames = [numViews]string{"Ids", "Frames", "Findings", "Stats", "Peers"}

// Model is the monitor: what is on the screen, and what is selected there. It
// reads the session through its store, in commands, so that neither Update nor
// View ever waits.
type Model struct {
	store  *store.Store
	config Config
	keys   keyMap
	theme  *theme
	dark   bool

	width, height int
	view          view
	ids           idsState
	frames        framesState
	findings      listState
	stats         listState
	peers         listState
	detail        *detail
	help          bool
	helpTop       int
	prompt        *prompt
	pending       *pending // what is to be confirmed
	filter        string
	search        string
	frozen        bool
	limit         int64 // of the list of frames while it is frozen

	page    page
	asked   int // number of the last question to the store
	version int64
	drawn   time.Time // when the screen was last refreshed
	saying  *saidMsg  // to be said with the next page, which shows what was done
	said    string    // the line for answers to what was typed
	wrong   bool      // it is about a failure
}

// listState is where a list is.
type listState struct {
	at, top int
}

// move moves in a list of that length, of which n fit on the screen.
func (l *listState) move(by, total, n int) {
	l.at = max(0, min(l.at+by, total-1))
	l.top = max(min(l.top, l.at), l.at-n+1, 0)
}

// New returns the monitor of what s keeps.
func New(s *store.Store, c Config) *Model {
	m := &Model{store: s, config: c, keys: newKeyMap(), width: 80, height: 24, dark: c.Theme != "light"}
	m.theme = newTheme(c.Theme, c.Color)
	m.frames.follow = true
	return m
}

// The messages.
type (
	tickMsg struct{}
	// A page is what the store answered: all that the screen shows.
	page struct {
		asked    int
		version  int64
		now      int64 // stamp of the present
		overview store.Overview
		ids      store.IDs
		preview  *store.Detail
		frames   store.Frames
		findings store.Findings
		stats    store.Stats
		peers    store.Peers
		detail   *store.Detail
		other    *store.Detail
	}
	// saidMsg is the outcome of a command.
	saidMsg struct {
		text  string
		wrong bool
	}
	// foundMsg is where a search has led, around the end of the list or not.
	foundMsg struct {
		index  int64
		around bool
	}
)

// frameRate is how often the screen is refreshed, at most.
const frameRate = time.Second / 30

func tick() tea.Cmd { return tea.Tick(frameRate, func(time.Time) tea.Msg { return tickMsg{} }) }

// Init begins to draw.
func (m *Model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.ask(), tick()}
	if m.config.Filter != "" {
		cmds = append(cmds, m.setFilter(m.config.Filter))
	}
	return tea.Batch(cmds...)
}

// Update decides what becomes of a message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m, m.ask()
	case tickMsg:
		return m, tea.Batch(tick(), m.refresh())
	case page:
		m.take(msg)
		return m, nil
	case saidMsg:
		m.saying = &msg
		return m, m.ask()
	case foundMsg:
		return m, m.found(msg)
	case tea.KeyMsg:
		return m, m.typed(msg)
	case tea.MouseMsg:
		return m, m.mouse(msg)
	}
	return m, nil
}

// refresh asks for the screen again if there is anything new, or if something
// is in flight, whose age is shown.
func (m *Model) refresh() tea.Cmd {
	if m.frozen {
		return nil
	}
	ages := m.page.overview.Open > 0 && !m.page.overview.Ended && time.Since(m.drawn) > time.Second/5
	searching := m.page.overview.Filter != "" && m.page.overview.Searched < m.page.overview.Frames-m.page.overview.Dropped
	if m.store.Version() == m.version && !ages && !searching && !m.page.ids.Stale {
		return nil
	}
	m.version = m.store.Version()
	return m.ask()
}

// take shows a page, unless a later one was asked for.
func (m *Model) take(p page) {
	if p.asked != m.asked {
		return
	}
	m.page, m.drawn = p, time.Now()
	if m.saying != nil {
		m.said, m.wrong, m.saying = m.saying.text, m.saying.wrong, nil
	}
	m.ids.settle(p.ids, m.frozen)
	m.frames.settle(p.frames)
	if m.detail != nil {
		m.detail.settle(p)
	}
}

// ask returns the command that asks the store for the screen.
func (m *Model) ask() tea.Cmd {
	m.asked++
	w := want{
		asked: m.asked, view: m.view, rows: m.rows(), preview: m.previewRows() > 0,
		limit: m.limit, ids: m.ids.query(m.rows()), from: m.frames.from(m.rows()), list: m.listOf(), detail: m.detail.want(),
	}
	s := m.store
	return func() tea.Msg { return w.get(s) }
}

// listOf returns where the list of the view is, if it has one of its own.
func (m *Model) listOf() *listState {
	switch m.view {
	case viewFindings:
		return &m.findings
	case viewPeers:
		return &m.peers
	}
	return &m.stats
}

// A want is what the screen needs of the store.
type want struct {
	asked   int
	view    view
	rows    int
	preview bool
	limit   int64 // of the list of frames; 0 is none
	ids     store.IDsQuery
	from    int64
	list    *listState
	detail  wantDetail
}

// searchTime is how long the filter looks at frames at once.
const searchTime = 8 * time.Millisecond

func (w want) get(s *store.Store) page {
	s.Search(searchTime)
	p := page{asked: w.asked, version: s.Version()}
	p.overview = s.Overview()
	p.now = p.overview.Last
	if p.overview.Timed && !p.overview.Ended {
		// The clock of a live session goes on while nothing comes; that of one
		// which is replayed is its own.
		if now := time.Now().UnixNano(); now-p.now < int64(time.Minute) {
			p.now = max(p.now, now)
		}
	}
	switch w.view {
	case viewIDs:
		p.ids = s.IDs(w.ids)
		if w.preview && p.ids.Total > 0 {
			p.preview = s.Detail(p.ids.List[p.ids.Index-p.ids.Top].First)
		}
	case viewFrames:
		p.frames = w.frames(s)
	case viewFindings:
		p.findings = s.Findings(w.list.top, w.rows)
	case viewStats:
		p.stats = s.Stats()
	case viewPeers:
		p.peers = s.Peers(-1, w.rows)
	}
	if w.detail.seq != 0 {
		p.detail = s.Detail(w.detail.seq)
	}
	if w.detail.other != 0 {
		p.other = s.Detail(w.detail.other)
	}
	return p
}

// typed takes in keys: what was typed fast comes as one message.
func (m *Model) typed(k tea.KeyMsg) tea.Cmd {
	if k.Type != tea.KeyRunes || len(k.Runes) < 2 {
		return m.key(k)
	}
	var cmds []tea.Cmd
	for _, r := range k.Runes {
		cmds = append(cmds, m.key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}, Alt: k.Alt}))
	}
	return tea.Batch(cmds...)
}

// frames asks for the list of frames, up to where it was frozen.
func (w want) frames(s *store.Store) store.Frames {
	if w.limit == 0 {
		return s.Frames(w.from, w.rows)
	}
	f := s.Frames(max(min(w.from, w.limit-int64(w.rows)), 0), w.rows)
	f.Total = min(f.Total, w.limit)
	f.List = f.List[:max(min(int64(len(f.List)), f.Total-f.From), 0)]
	return f
}

// freeze keeps what is on the screen in its place, whatever comes, or goes on.
func (m *Model) freeze() {
	m.frozen = !m.frozen
	m.limit = 0
	if m.frozen {
		m.limit = m.page.overview.Frames - m.page.overview.Dropped
		if m.filter != "" {
			m.limit = m.page.overview.Matches
		}
	}
}

// key decides what a key does.
func (m *Model) key(k tea.KeyMsg) tea.Cmd {
	m.said, m.wrong = "", false
	switch {
	case k.String() == "ctrl+c":
		return tea.Quit
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
	switch m.view {
	case viewIDs:
		return m.idsKey(k)
	case viewFrames:
		return m.framesKey(k)
	}
	return m.listKey(k)
}

// globalKey does what a key does everywhere.
func (m *Model) globalKey(k tea.KeyMsg) (tea.Cmd, bool) {
	keys := &m.keys
	switch {
	case key.Matches(k, keys.Quit):
		return tea.Quit, true
	case key.Matches(k, keys.Help):
		m.help, m.helpTop = true, 0
		return nil, true
	case key.Matches(k, keys.Theme):
		m.dark = !m.dark
		name := Themes[0]
		if !m.dark {
			name = Themes[1]
		}
		m.theme = newTheme(name, m.config.Color)
		return m.ask(), true
	case key.Matches(k, keys.Freeze):
		m.freeze()
		return m.ask(), true
	case key.Matches(k, keys.Next):
		return m.show((m.view + 1) % numViews), true
	case key.Matches(k, keys.Previous):
		return m.show((m.view + numViews - 1) % numViews), true
	case key.Matches(k, keys.Filter):
		return m.ask4Filter(), true
	case key.Matches(k, keys.Clear):
		return m.setFilter(""), true
	}
	for v, b := range []key.Binding{keys.IDs, keys.Frames, keys.Findings, keys.Stats, keys.Peers} {
		if key.Matches(k, b) {
			return m.show(view(v)), true
		}
	}
	return nil, false
}

// show turns to a view.
func (m *Model) show(v view) tea.Cmd {
	m.view, m.detail = v, nil
	return m.ask()
}

// movement returns by how much a key moves in a list of which n rows are seen;
// the first and the last are far away.
func (m *Model) movement(k tea.KeyMsg, n int) (by int, ok bool) {
	const far = 1 << 40
	keys := &m.keys
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
		return -far, true
	case key.Matches(k, keys.Bottom):
		return far, true
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
	}
	return m.click(e.Y - m.head() - m.listHead())
}

func (m *Model) scroll(by int) tea.Cmd {
	switch {
	case m.help:
		m.helpTop = max(0, m.helpTop+by)
		return nil
	case m.detail != nil:
		m.detail.scroll(by)
		return nil
	}
	return m.move(by)
}

// move moves the selection of the view.
func (m *Model) move(by int) tea.Cmd {
	switch m.view {
	case viewIDs:
		m.ids.moved += by
	case viewFrames:
		m.frames.move(by, m.page.frames.Total)
	case viewFindings:
		m.findings.move(by, m.page.findings.Total, m.rows()/findingLines)
	case viewStats:
		m.stats.move(by, len(m.page.stats.Kinds), m.statsRows())
	case viewPeers:
		m.peers.move(by, len(m.page.peers.Peers), m.rows())
	}
	return m.ask()
}

// click selects a row of the list, and opens it if it is selected already.
func (m *Model) click(row int) tea.Cmd {
	if row < 0 || m.detail != nil || m.help {
		return nil
	}
	by := 0
	switch m.view {
	case viewIDs:
		by = row - (m.page.ids.Index - m.page.ids.Top)
	case viewFrames:
		by = row - int(m.frames.at-m.page.frames.From)
	case viewFindings:
		by = row/findingLines + m.findings.top - m.findings.at
	default:
		return nil
	}
	if by == 0 {
		return m.openSelected()
	}
	return m.move(by)
}

// listKey is for the views that are a plain list.
func (m *Model) listKey(k tea.KeyMsg) tea.Cmd {
	n := m.rows()
	if m.view == viewFindings {
		n /= findingLines
	}
	if by, ok := m.movement(k, n); ok {
		return m.move(by)
	}
	if key.Matches(k, m.keys.Open) {
		return m.openSelected()
	}
	return nil
}

// openSelected opens what is selected in the view.
func (m *Model) openSelected() tea.Cmd {
	switch m.view {
	case viewIDs:
		if x := m.ids.selected(m.page.ids); x != nil {
			return m.openFrame(x.First)
		}
		m.ids.fold(m.page.ids)
		return m.ask()
	case viewFrames:
		if f := m.frames.selected(m.page.frames); f != nil {
			return m.openFrame(f.Seq)
		}
	case viewFindings:
		if f := m.selectedFinding(); f != nil && len(f.Frames) > 0 {
			return m.openFrame(f.Frames[len(f.Frames)-1])
		}
	case viewStats:
		if i := m.stats.at; i < len(m.page.stats.Kinds) {
			m.view = viewIDs
			return m.setFilter("kind==" + quoteValue(m.page.stats.Kinds[i].Name))
		}
	case viewPeers:
		if i := m.peers.at; i < len(m.page.peers.Peers) && m.page.peers.Peers[i].Conn != 0 {
			m.view = viewFrames
			return m.setFilter("conn==" + count(int64(m.page.peers.Peers[i].Conn)))
		}
	}
	return nil
}

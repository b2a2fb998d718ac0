package tui

import (
	"time"

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

// Model is the state of the monitor: the screen and the selection. It
// reads the session through its store, and marks it there, in commands, so that
// neither Update nor View ever waits.
type Model struct {
	store   *store.Store
	changes changes          // of the store
	outside []func() tea.Msg // effects outside, done or to be done
	config  Config
	keys    keyMap
	theme   *theme
	dark    bool

	width, height int
	view          view
	ids           idsState
	frames        framesState
	findings      listState
	stats         listState
	chosen        statKey // in the stats; zero is the first
	peers         listState
	detail        *detail
	help          bool
	helpTop       int
	prompt        *prompt
	pending       *pending // the action that awaits confirmation
	filter        string
	search        string
	frozen        bool
	mouseOff      bool  // the terminal selects text with it
	limit         int64 // of the list of frames while it is frozen

	inputState

	screen  string // as View has drawn it; "" if it must be drawn again
	page    page
	asked   int // number of the last question to the store
	version int64
	drawn   time.Time // when the screen was last refreshed
	saying  *saidMsg  // for the next page, which shows the effect
	said    string    // the line for answers
	wrong   bool      // said is about a failure
	refused bool      // the prompt opens again
}

// listState is the position in a list.
type listState struct {
	at, top int
}

// move moves in a list that begins and ends there. n rows fit on the screen.
func (l *listState) move(by, first, total, n int) {
	l.at = max(first, min(l.at+by, total-1))
	l.top = l.from(n)
}

// from returns the first visible row if n fit. There may have been fewer rows at the last
// move.
func (l *listState) from(n int) int { return max(min(l.top, l.at), l.at-n+1, 0) }

const welcome = "Welcome: j/k select, enter opens, tab changes the view, ? lists keys, q quits."

// New returns the monitor of the session in s.
func New(s *store.Store, c Config) *Model {
	m := &Model{store: s, config: c, keys: newKeyMap(), width: 80, height: 24}
	m.setTheme(c.Theme)
	m.frames.follow = true
	m.due, m.listDue = 1, 1 // the first page
	if c.Welcome {
		m.said = welcome
	}
	return m
}

// The messages.
type (
	tickMsg struct{}
	// saidMsg is the outcome of a command.
	saidMsg struct {
		text  string
		wrong bool
		wire  bool // the command was for the wire
	}
	// foundMsg is the result of the search of that number, which may have gone around the end
	// of the list.
	foundMsg struct {
		search int
		index  int64
		around bool
	}
)

// frameRate is how often the screen is refreshed, at most.
const frameRate = time.Second / 30

func tick() tea.Cmd { return tea.Tick(frameRate, func(time.Time) tea.Msg { return tickMsg{} }) }

// Init begins to draw.
func (m *Model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.askStore(), tick(), m.config.ask}
	if m.config.Filter != "" {
		cmds = append(cmds, m.setFilter(m.config.Filter))
	}
	return tea.Batch(cmds...)
}

// Update handles a message. Every message but the tick may change the screen.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if _, ok := msg.(tickMsg); ok {
		return m, tea.Batch(tick(), m.refresh())
	}
	m.screen = ""
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.scrollHelp(0)
		return m, m.askStore()
	case page:
		return m, tea.Batch(m.showPage(msg), m.takeInput())
	case *content:
		if m.detail != nil && m.detail.wants() == msg.of {
			m.detail.showContent(msg)
			m.scrollLines(0) // there may be fewer lines now
		}
		return m, m.takeInput()
	case saidMsg:
		m.saying = &msg
		cmd := m.askStore()
		if msg.wire {
			m.acting--
			m.needPage(true) // it shows which frames are still held
		}
		return m, cmd
	case foundMsg:
		return m, m.found(msg)
	case background:
		m.setTheme(msg.theme(m.config.Theme))
		return m, m.askStore()
	case tea.KeyMsg:
		if msg.Type == tea.KeyCtrlC {
			return m, tea.Quit
		}
		m.typed(msg)
		return m, m.takeInput()
	case tea.MouseMsg:
		m.input = append(m.input, msg)
		return m, m.takeInput()
	}
	return m, nil
}

// refresh asks for the screen again if there is anything new, or if exchanges are in
// flight, because their age is shown.
func (m *Model) refresh() tea.Cmd {
	if m.frozen || m.page.asked != m.asked {
		return nil // the page under way would be dropped for the next
	}
	ages := m.page.overview.Open > 0 && !m.page.overview.Ended && time.Since(m.drawn) > time.Second/5
	searching := m.page.overview.Filter != "" && m.page.overview.Searched < m.page.overview.Frames-m.page.overview.Dropped
	if m.store.Version() == m.version && !ages && !searching && !m.page.ids.Stale && !m.page.stats.Stale {
		return nil
	}
	m.version = m.store.Version()
	return m.askStore()
}

// showPage shows a page, unless a later one was requested.
func (m *Model) showPage(p page) tea.Cmd {
	if p.asked != m.asked {
		return nil
	}
	rows := m.rows()
	m.page, m.drawn = p, time.Now()
	m.keepStat()
	if m.saying != nil {
		m.said, m.wrong, m.saying = m.saying.text, m.saying.wrong, nil
	}
	m.ids.settle(p.ids, m.frozen)
	m.frames.settle(p.frames)
	m.findings.at = max(m.findings.at, p.findings.First)
	if p.overview.Run && !m.ids.grouped { // people look at a run for its tree
		m.ids.group, m.ids.grouped = store.GroupRun, true
		cmd := m.askStore()
		m.needPage(false)
		return cmd
	}
	if m.rows() != rows {
		return m.askStore()
	}
	return nil
}

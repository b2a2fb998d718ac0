package tui

import (
	"bytes"
	"image/color"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

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

var viewNames = [numViews]string{"Calls", "Frames", "Findings", "Stats", "Peers"}

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
	names         namesMsg // of tools and models, for the filter's completions
	search        string
	server        string // that a request of a record was sent to last
	frozen        bool
	mouseOff      bool  // the terminal selects text with it
	limit         int64 // of the list of frames while it is frozen

	inputState

	screen  string // as View has drawn it; "" if it must be drawn again
	page    page
	query   int // number of the last question to the store
	version int64
	asleep  bool      // no tick comes until a message does
	idle    int       // ticks at which nothing could change any more
	drawn   time.Time // when the screen was last refreshed
	saying  *saidMsg  // for the next page, which shows the effect
	notice  string    // the line for answers
	wrong   bool      // notice is about a failure
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
	m.frames.follow, m.ids.sort = true, c.Sort
	m.due, m.listDue = 1, 1 // the first page
	if c.Welcome {
		m.notice = welcome
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
	// frameMsg is a frame to copy.
	frameMsg struct{ *store.Detail }
	// namesMsg are names of tools and models.
	namesMsg []string
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

// awaitRate is how often it is looked for the session that follows an ended one.
const awaitRate = time.Second / 2

// tick returns the command that wakes the monitor for the next refresh.
func (m *Model) tick() tea.Cmd {
	rate := frameRate
	if m.settled() {
		rate = awaitRate
	}
	return tea.Tick(rate, func(time.Time) tea.Msg { return tickMsg{} })
}

// settled reports whether the screen shows all of a session that has ended, so that only a key or
// another session changes it.
func (m *Model) settled() bool {
	return m.page.overview.Ended && m.page.query == m.query && m.store.Version() == m.version && !m.searching() && !m.page.ids.Stale && !m.page.stats.Stale
}

// searching reports whether frames are still checked against the filter.
func (m *Model) searching() bool {
	o := &m.page.overview
	return o.Filter != "" && o.Searched < o.Frames-o.Dropped
}

// Init begins to draw.
func (m *Model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.askStore(), m.tick(), m.config.ask}
	if m.config.Filter != "" {
		cmds = append(cmds, m.setFilter(m.config.Filter))
	}
	return tea.Batch(cmds...)
}

// Update handles a message. Every message but the tick may change the screen. There are no ticks
// while nothing can change.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if _, ok := msg.(tickMsg); ok {
		cmd := m.refresh()
		if m.idle++; !m.settled() || m.config.Next {
			m.idle = 0
		}
		if m.asleep = m.idle > 1; !m.asleep { // the first leaves time to draw the last screen
			return m, tea.Batch(m.tick(), cmd)
		}
		m.sleep()
		return m, cmd
	}
	m.screen, m.idle = "", 0
	_, cmd := m.handle(msg)
	if m.asleep {
		m.asleep = false
		m.sleep()
		cmd = tea.Batch(cmd, m.tick())
	}
	return m, cmd
}

// sleep stops or starts the program's clock.
func (m *Model) sleep() {
	if m.config.sleep != nil {
		m.config.sleep(m.asleep)
	}
}

func (m *Model) handle(msg tea.Msg) (tea.Model, tea.Cmd) {
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
	case frameMsg:
		if msg.Detail != nil {
			return m, m.copyFrame(msg.Detail)
		}
	case requestMsg:
		return m, tea.Batch(m.requested(msg), m.takeInput())
	case namesMsg:
		m.names = msg
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
	if m.frozen || m.page.query != m.query {
		return nil // the page under way would be dropped for the next
	}
	ages := m.page.overview.Open > 0 && !m.page.overview.Ended && time.Since(m.drawn) > time.Second/5
	if m.store.Version() == m.version && !ages && !m.searching() && !m.page.ids.Stale && !m.page.stats.Stale {
		return nil
	}
	m.version = m.store.Version()
	return m.askStore()
}

// showPage shows a page, unless a later one was requested.
func (m *Model) showPage(p page) tea.Cmd {
	if p.query != m.query {
		return nil
	}
	rows := m.rows()
	m.page, m.drawn = p, time.Now()
	m.keepStat()
	if m.saying != nil {
		m.notice, m.wrong, m.saying = m.saying.text, m.saying.wrong, nil
	}
	m.ids.settle(p.ids, m.frozen)
	m.frames.settle(p.frames)
	m.findings.at = max(m.findings.at, p.findings.First)
	answer := m.followAnswer()
	if p.overview.Run && !m.ids.grouped { // people look at a run for its tree
		m.ids.group, m.ids.grouped = store.GroupRun, true
		cmd := m.askStore()
		m.needPage(false)
		return cmd
	}
	if m.rows() != rows {
		return tea.Batch(answer, m.askStore())
	}
	return answer
}

// A question asks a terminal, once, for the colour of its background. Nobody waits for the
// answer, which may never come: it is removed from the keys when it does.
type question struct {
	keyboard
	terminal  io.Writer
	program   *tea.Program
	queriedAt time.Time
	answered  bool
	leaving   bool
	opened    *os.File // or nil
}

// patience is how long after the question an answer may still come, which the shell
// would take for keys if the monitor had ended by then.
const patience = 200 * time.Millisecond

// A background is the answer; the colour is nil if it cannot be read.
type background struct{ color color.Color }

// theme returns the theme for a background, or otherwise if the background is unknown.
func (b background) theme(otherwise string) string {
	if b.color == nil {
		return otherwise
	}
	if red, green, blue, _ := b.color.RGBA(); 299*red+587*green+114*blue > 500*0xffff {
		return "light"
	}
	return "dark"
}

// newQuestion returns nil if nothing can be asked: keys come from no terminal.
func newQuestion(c Config) *question {
	q := &question{terminal: c.Output}
	switch in := c.Input.(type) {
	case file:
		q.keyboard.file = in
	case nil:
		tty, err := os.Open("/dev/tty")
		if err != nil {
			return nil
		}
		q.keyboard.file, q.opened = tty, tty
	default:
		return nil
	}
	q.heard = func(c color.Color) { q.program.Send(background{c}) }
	return q
}

// ask asks. It must be called when the terminal no longer echoes.
func (q *question) ask() tea.Msg {
	_, _ = io.WriteString(q.terminal, ansi.RequestBackgroundColor)
	return nil
}

// filter keeps the program from ending while the answer is under way.
func (q *question) filter(_ tea.Model, msg tea.Msg) tea.Msg {
	switch msg.(type) {
	case background:
		q.answered = true
		if q.leaving {
			return tea.Quit()
		}
	case tea.QuitMsg:
		if rest := patience - time.Since(q.queriedAt); rest > 0 && !q.answered && !q.leaving {
			q.leaving = true
			time.AfterFunc(rest, q.program.Quit)
			return nil
		}
	}
	return msg
}

func (q *question) closeOpened() {
	if q.opened != nil {
		q.opened.Close()
	}
}

// A file is an input that Bubble Tea can stop reading.
type file interface {
	io.ReadWriteCloser
	Fd() uintptr
	Name() string
}

// A keyboard is the keys of a terminal, without the answer among them.
type keyboard struct {
	file
	heard func(color.Color) // is called once; nil afterwards
	held  []byte            // possibly the beginning of the answer
}

// How an answer begins, and how long it can be.
var answerBegins = []byte("\x1b]11;")

const maxAnswer = 64

// Read reads keys: none, if all that came is of the answer.
func (k *keyboard) Read(p []byte) (int, error) {
	held := copy(p, k.held)
	if k.held = k.held[held:]; held == len(p) {
		return held, nil
	}
	n, err := k.file.Read(p[held:])
	if n += held; k.heard == nil || err != nil {
		return n, err
	}
	return len(k.listen(p[:n], n == len(p))), nil
}

// listen returns the bytes that were read without the answer; more may follow at once.
func (k *keyboard) listen(b []byte, more bool) []byte {
	at := bytes.Index(b, answerBegins)
	if at < 0 {
		at = len(b) - beginning(b, more)
		return k.hold(b, at)
	}
	text := b[at+len(answerBegins):]
	end := bytes.IndexAny(text, "\a\x1b")
	switch {
	case end < 0 && len(text) < maxAnswer, end >= 0 && text[end] == '\x1b' && end+1 == len(text):
		return k.hold(b, at)
	case end < 0: // not the answer
		k.heard = nil
		return b
	}
	k.heard(ansi.XParseColor(string(text[:end])))
	k.heard = nil
	if text[end] == '\x1b' {
		end++ // with a backslash
	}
	return append(b[:at], text[end+1:]...)
}

// hold keeps back bytes that may begin the answer.
func (k *keyboard) hold(b []byte, at int) []byte {
	k.held = bytes.Clone(b[at:])
	return b[:at]
}

// beginning returns how many bytes at the end of b may begin an answer. An ESC alone is the
// key, unless more follows.
func beginning(b []byte, more bool) int {
	least := 2
	if more {
		least = 1
	}
	for n := len(answerBegins) - 1; n >= least; n-- {
		if bytes.HasSuffix(b, answerBegins[:n]) {
			return n
		}
	}
	return 0
}

// Background returns the theme for the terminal, as far as its environment tells, and
// whether the terminal may be asked for its background. Old consoles would print the
// question, and screen has no background of its own.
func Background(getenv func(string) string) (theme string, ask bool) {
	name := getenv("TERM")
	silent := name == "" || name == "linux" || strings.HasPrefix(name, "screen") && getenv("TMUX") == ""
	theme = "dark"
	// "15;0": the number of the foreground's colour and of the background's.
	colors := strings.Split(getenv("COLORFGBG"), ";")
	switch colors[len(colors)-1] {
	case "7", "15":
		theme = "light"
	}
	return theme, !silent && runtime.GOOS != "windows"
}

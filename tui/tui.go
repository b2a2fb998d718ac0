// Package tui is the monitor: it draws a session on a terminal while the session goes
// on.
//
// A session comes in through a [store.Store], which the caller feeds, or a [store.Viewing];
// commands to the wire go out through [Wire].
package tui

import (
	"context"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui/quiet"
)

func init() { quiet.Restore() }

// Config is the monitor's link to the outside.
type Config struct {
	// Name is that of the session.
	Name string
	// Waiting is shown as long as nothing has come: what the monitor is waiting for.
	Waiting string
	// Captions has the store's last notice shown above the keys.
	Captions bool
	// Sort is the order of calls at the beginning.
	Sort store.Sort
	// Next says that when the session has ended another one is waited for.
	Next bool
	// Theme is one of [Themes], and Color says whether to use colour.
	Theme string
	Color bool
	// Ask has the terminal asked for its background, which then decides the theme.
	Ask bool
	// Welcome says that the user has not seen the monitor before: until a key is pressed,
	// the last line tells which keys to begin with.
	Welcome bool
	// Filter is set from the beginning. FilterKept says that it was kept from the last
	// visit; the screen shows that.
	Filter     string
	FilterKept bool
	// Input is the source of keys, the controlling terminal if it is nil, and Output the
	// terminal.
	Input  io.Reader
	Output io.Writer
	// Clipboard receives the sequences that copy text; nil copies nothing.
	Clipboard io.Writer
	// Write writes records to a file whose name tells the format.
	Write func(name string, r *store.Records) error
	// Wire changes the wire; nil if that cannot be done.
	Wire Wire
	// Repeat runs wirectl send with these arguments, and returns its answer; nil if it cannot.
	// Speaks are the protocols of which it sends any method, and Server is the server that it asked last.
	Repeat func(args []string) (string, error)
	Speaks []string
	Server string

	ask   tea.Cmd           // or nil
	sleep func(asleep bool) // stops the program's own clock, or starts it again; or nil
}

// A Wire is a session that can be changed while it goes on. Every change is
// asked for twice before it is made.
type Wire interface {
	// Refuses says why nothing can be done; "" if it can.
	Refuses() string
	// Cancel asks to end an exchange, whose id is as it was written. Without a connection
	// it is a run of wirectl rlm, or a place in it, such as RUN/t3/c1.
	Cancel(conn int, id string) error
	// Resend sends the frame of that number again.
	Resend(seq int64) error
	// Hold makes frames wait that meet a condition; "" ends that.
	Hold(where string) error
	// Release lets a waiting frame go, Drop drops it, and Edit lets another one go in its
	// place.
	Release(held int64) error
	Drop(held int64) error
	Edit(held int64, payload []byte) error
}

// Run draws the session in s until the user quits or ctx ends. It returns when all marks
// are kept, the files are written, and the wire is changed.
func Run(ctx context.Context, s *store.Store, c Config) error {
	var m *Model
	err := run(ctx, c, func(c Config) tea.Model {
		m = New(s, c)
		return m
	}, tea.WithMouseCellMotion())
	m.applyChanges()
	return err
}

// Watch shows a session while it is read.
func Watch(ctx context.Context, v *store.Viewing, c Config) error {
	feeding, stop := context.WithCancel(ctx)
	defer stop()
	if err := v.Open(feeding); err != nil {
		return err
	}
	defer v.Close()
	if v.Wire != nil {
		c.Wire, c.Next = v.Wire, v.IsTap()
	}
	c.Waiting = v.Waiting
	// What reads keeps all processors busy. A key is answered by threads that
	// have slept, which the system lets run at once if they may.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	reading.Go(func() { v.Run(feeding) })
	return Run(ctx, v.Store, c)
}

// run runs a program on the whole terminal until it quits or ctx ends.
func run(ctx context.Context, c Config, model func(Config) tea.Model, options ...tea.ProgramOption) error {
	options = append(options, tea.WithContext(ctx), tea.WithOutput(c.Output), tea.WithoutSignalHandler(), tea.WithAltScreen())
	var q *question
	if c.Ask {
		q = newQuestion(c)
	}
	switch {
	case q != nil:
		defer q.closeOpened()
		c.ask = q.ask
		options = append(options, tea.WithInput(&q.keyboard), tea.WithFilter(q.filter))
	case c.Input == nil:
		options = append(options, tea.WithInputTTY())
	default:
		options = append(options, tea.WithInput(c.Input))
	}
	var p *tea.Program
	c.sleep = func(asleep bool) {
		switch clock := clockOf(p); {
		case clock == nil:
		case asleep:
			clock.Stop()
		default:
			clock.Reset(time.Second / 60)
		}
	}
	p = tea.NewProgram(model(c), options...)
	if q != nil {
		q.program, q.queriedAt = p, time.Now()
	}
	if _, err := p.Run(); ctx.Err() == nil {
		return err
	}
	return nil // ctx ended it
}

// clockOf returns the clock by which a program draws, 60 times a second even if nothing has changed;
// nil if it is not found. Bubble Tea has no way to stop it.
func clockOf(p *tea.Program) *time.Ticker {
	renderer := reflect.ValueOf(p).Elem().FieldByName("renderer")
	if !renderer.IsValid() || renderer.Kind() != reflect.Interface || renderer.Elem().Kind() != reflect.Pointer || renderer.Elem().Elem().Kind() != reflect.Struct {
		return nil
	}
	clock := renderer.Elem().Elem().FieldByName("ticker")
	if !clock.IsValid() || clock.Type() != reflect.TypeFor[*time.Ticker]() {
		return nil
	}
	return *(**time.Ticker)(clock.Addr().UnsafePointer())
}

// keyMap holds all keys; the help is drawn from it.
type keyMap struct {
	Up, Down, PageUp, PageDown, Top, Bottom, Left, Right    key.Binding
	Next, Previous, Open, Back                              key.Binding
	IDs, Frames, Findings, Stats, Peers                     key.Binding
	Freeze, Follow, Sort, Group, Live, Wider, Narrower, Fit key.Binding
	Path                                                    key.Binding
	Filter, Search, SearchNext, SearchBack, Clear           key.Binding
	Chips                                                   []key.Binding // one for each of [store.Chips]
	Fold, FoldAll, JQ, Copy, Diff, Pane                     key.Binding
	Bookmark, Note, Write                                   key.Binding
	Cancel, Resend, Hold, Release, Edit, Drop               key.Binding
	Theme, Mouse, Help, Quit                                key.Binding
}

func bind(help string, keys ...string) key.Binding {
	shown := keys[0]
	if len(keys) > 1 {
		shown += " " + keys[1]
	}
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(shown, help))
}

func newKeyMap() keyMap {
	return keyMap{
		Up: bind("up", "k", "up"), Down: bind("down", "j", "down"),
		PageUp: bind("page up", "pgup", "ctrl+b", "ctrl+u"), PageDown: bind("page down", "pgdown", "ctrl+f", "ctrl+d"),
		Top: bind("first", "g", "home"), Bottom: bind("last", "G", "end"),
		Left: bind("earlier", "h", "left"), Right: bind("later", "l", "right"),
		Next: bind("next view", "tab"), Previous: bind("previous view", "shift+tab"),
		Open: bind("open", "enter"), Back: bind("back", "esc", "backspace"),
		IDs: bind("calls", "1"), Frames: bind("frames", "2"), Findings: bind("findings", "3"), Stats: bind("stats", "4"), Peers: bind("peers", "5"),
		Freeze: bind("freeze", " "), Follow: bind("follow the newest", "F"),
		Path: bind("critical path of a run", "p"),
		Sort: bind("sort", "s"), Group: bind("group", "b"), Live: bind("in flight only", "c"),
		Wider: bind("zoom in", "+", "="), Narrower: bind("zoom out", "-"), Fit: bind("show the whole time", "0"),
		Filter: bind("filter", "f", ":"), Search: bind("search", "/"), SearchNext: bind("next match", "n"), SearchBack: bind("previous match", "N"),
		Clear: bind("clear the filter", "x"),
		Chips: []key.Binding{bind("failed", "E"), bind("slow (1s, models 10s)", "S"), bind("cancelled", "C"), bind("models only", "L"), bind("tools only", "t")},
		Fold:  bind("fold", "o"), FoldAll: bind("fold all", "O"), JQ: bind("jq on the payload", "|"), Copy: bind("copy, or as a command", "y"),
		Diff: bind("compare frames", "d"), Pane: bind("tree, hex or both", "v"),
		Bookmark: bind("bookmark", "m"), Note: bind("note", "a"), Write: bind("write to a file", "w"),
		Cancel: bind("send a cancel", "X"), Resend: bind("repeat, a record, too", "R"), Hold: bind("hold frames that match", "H"),
		Release: bind("release the held frame", "u"), Edit: bind("edit the held frame", "e"), Drop: bind("drop the held frame", "D"),
		Theme: bind("dark or light", "T"), Mouse: bind("mouse on or off", "M"), Help: bind("help", "?"), Quit: bind("quit", "q", "ctrl+c"),
	}
}

// A keyGroup is a part of the help.
type keyGroup struct {
	title string
	keys  []key.Binding
}

func (k *keyMap) groups() []keyGroup {
	return []keyGroup{
		{"Views", []key.Binding{k.IDs, k.Frames, k.Findings, k.Stats, k.Peers, k.Next, k.Previous, k.Open, k.Back}},
		{"Moving", []key.Binding{k.Up, k.Down, k.PageUp, k.PageDown, k.Top, k.Bottom, k.Left, k.Right, k.Follow, k.Freeze}},
		{"Calls", []key.Binding{k.Sort, k.Group, k.Fold, k.FoldAll, k.Live, k.Wider, k.Narrower, k.Fit, k.Path, k.Note}},
		{"Filter and search", append([]key.Binding{k.Filter, k.Clear, k.Search, k.SearchNext, k.SearchBack, k.Bookmark}, k.Chips...)},
		{"A frame", []key.Binding{k.Pane, k.Fold, k.FoldAll, k.JQ, k.Copy, k.Diff, k.Write}},
		{"Live traffic", []key.Binding{k.Cancel, k.Resend, k.Hold, k.Release, k.Edit, k.Drop}},
		{"wirectl", []key.Binding{k.Theme, k.Mouse, k.Help, k.Quit}},
	}
}

// A page is the store's answer for everything on the screen.
type page struct {
	query    int
	now      int64 // stamp of the present
	overview store.Overview
	ids      store.IDs
	preview  *store.Detail
	sample   *sample // of the selected frame, or of the last one of the selected exchange
	asked    *sample // of the request of that exchange, if it has another frame
	frames   store.Frames
	findings store.Findings
	stats    store.Stats
	widths   statWidths
	peers    store.Peers
	detail   *store.Detail // all but its bytes

	changeable bool // the wire takes commands
}

// askStore returns the command that asks the store for the screen, with all changes that were
// requested before.
func (m *Model) askStore() tea.Cmd {
	m.query++
	w := want{
		query: m.query, view: m.view, rows: m.rows(), preview: m.previewRows() > 0 || m.wide(),
		limit: m.limit, ids: m.ids.query(m.rows(), m.page.ids), from: m.frames.from(m.rows()), frames: m.frames,
		finding: m.findings.from(m.rows()), detail: m.detail.frameNumber(), sample: m.page.sample, asked: m.page.asked,
	}
	s, wire := m.store, m.config.Wire
	return func() tea.Msg {
		m.changes.settle()
		p := w.get(s)
		p.changeable = wire != nil && wire.Refuses() == ""
		return p
	}
}

// A want is the part of the store that the screen shows. It shares nothing with the model,
// which goes on while the store is asked.
type want struct {
	query   int
	view    view
	rows    int
	preview bool
	limit   int64 // of the list of frames; 0 means none
	ids     store.IDsQuery
	from    int64
	frames  framesState
	finding int   // the first in the list
	detail  int64 // the frame shown in detail; 0 means none
	sample  *sample
	asked   *sample
}

// searchTime is how long the filter looks at frames at once.
const searchTime = 8 * time.Millisecond

func (w want) get(s *store.Store) page {
	s.Search(searchTime)
	p := page{query: w.query}
	p.overview = s.Overview()
	p.now = p.overview.Last
	if p.overview.Timed && !p.overview.Ended {
		// The clock of a live session goes on while nothing comes; a replayed session has a
		// clock of its own.
		if now := time.Now().UnixNano(); now-p.now < int64(time.Minute) {
			p.now = max(p.now, now)
		}
	}
	switch w.view {
	case viewIDs:
		p.ids = s.IDs(w.ids)
		if w.preview && p.ids.Total > 0 {
			x := &p.ids.List[p.ids.Index-p.ids.Top]
			p.preview = s.Outline(x.First)
			if p.sample = w.sample.get(s, x.Last, answerOf(x) != 0 && x.Parts <= maxPreviewed); x.Last != x.First {
				p.asked = w.asked.get(s, x.First, false)
			}
		}
	case viewFrames:
		p.frames = w.listFrames(s)
		w.frames.settle(p.frames)
		if f := w.frames.selected(p.frames); w.preview && f != nil {
			p.sample = w.sample.get(s, f.Seq, false)
		}
	case viewFindings:
		p.findings = s.Findings(w.finding, w.rows)
	case viewStats:
		p.stats = s.Stats()
		p.widths = widthsOf(&p.stats)
	case viewPeers:
		p.peers = s.Peers(w.rows)
	}
	if w.detail != 0 {
		p.detail = s.Outline(w.detail)
	}
	return p
}

// listFrames asks for the list of frames, up to where it was frozen.
func (w want) listFrames(s *store.Store) store.Frames {
	if w.limit == 0 {
		return s.Frames(w.from, w.rows)
	}
	f := s.Frames(max(min(w.from, w.limit-int64(w.rows)), 0), w.rows)
	f.Total = min(f.Total, w.limit)
	f.List = f.List[:max(min(int64(len(f.List)), f.Total-f.From), 0)]
	return f
}

// A theme is every colour of the screen. States differ by their glyphs too.
type theme struct {
	Dim, Bold, Title, Tab, TabOn, Rule       render.Paint
	Kind, ID, Number, Help, Key              render.Paint
	C2U, U2C                                 render.Paint // directions
	Open, Wait, Part, Gap, Done              render.Paint // the life of an exchange
	Roles                                    [len(letters)]render.Paint
	Lit                                      render.Paint // of the critical path
	Failed, Cancel, After, Cancelled, Silent render.Paint
	Error, Warning, Note                     render.Paint // severities, and failures
	Selected, Marked, Found                  render.Paint
	JSON                                     render.Style
}

// A palette is the colours that a theme is made of, by number of the 256.
type palette struct {
	dim, blue, cyan, green, yellow, orange, red, magenta, title, tab, selection string
}

var (
	dark = palette{
		dim: "247", blue: "75", cyan: "80", green: "114", yellow: "222", orange: "215", red: "210",
		magenta: "213", title: "117", tab: "24", selection: "236",
	}
	light = palette{
		dim: "240", blue: "25", cyan: "23", green: "22", yellow: "58", orange: "94", red: "124",
		magenta: "127", title: "24", tab: "153", selection: "255",
	}
)

// Themes are the names of the themes.
var Themes = []string{"dark", "light"}

// newTheme returns the theme of that name. Without colour it has only the attributes that
// every terminal shows: bold, faint, reverse.
func newTheme(name string, colorful bool) *theme {
	p := dark
	if name == "light" {
		p = light
	}
	r := lipgloss.NewRenderer(nil)
	r.SetColorProfile(termenv.ANSI256)
	fg := func(color string) lipgloss.Style {
		if !colorful {
			return r.NewStyle()
		}
		return r.NewStyle().Foreground(lipgloss.Color(color))
	}
	bg := func(s lipgloss.Style, color string) lipgloss.Style {
		if !colorful {
			return s.Reverse(true)
		}
		return s.Background(lipgloss.Color(color))
	}
	plain := r.NewStyle()
	th := &theme{
		Dim: paint(fg(p.dim)), Bold: paint(plain.Bold(true)), Title: paint(fg(p.title).Bold(true)),
		Tab: paint(fg(p.dim)), TabOn: paint(bg(plain.Bold(true), p.tab)), Rule: paint(fg(p.dim)),
		Kind: paint(plain.Bold(true)), ID: paint(fg(p.yellow)), Number: paint(fg(p.cyan)),
		Help: paint(fg(p.dim)), Key: paint(fg(p.title)),
		C2U: paint(fg(p.blue)), U2C: paint(fg(p.green)),
		Open: paint(fg(p.cyan)), Wait: paint(fg(p.dim)), Part: paint(fg(p.blue)), Gap: paint(fg(p.dim)), Done: paint(fg(p.green)),
		Failed: paint(fg(p.red)), Cancel: paint(fg(p.magenta).Bold(true)), After: paint(fg(p.orange)),
		Cancelled: paint(fg(p.magenta)), Silent: paint(fg(p.orange)),
		Error: paint(fg(p.red).Bold(true)), Warning: paint(fg(p.orange)), Note: paint(fg(p.cyan)),
		Selected: paint(bg(plain, p.selection)), Marked: paint(fg(p.orange)), Found: paint(bg(plain.Bold(true), p.tab)),
	}
	th.Lit = th.Found
	th.Roles = [...]render.Paint{
		join.NoRole: th.Part, join.Model: th.Part, join.Tool: paint(fg(p.cyan)), join.Process: paint(fg(p.yellow)), join.Agent: paint(plain), join.User: th.Dim,
	}
	th.JSON = render.Style{
		Key: paint(fg(p.blue)), String: paint(fg(p.green)), Number: paint(fg(p.cyan)), Literal: paint(fg(p.magenta)),
		Punct: paint(fg(p.dim)), Dim: paint(fg(p.dim)), Offset: paint(fg(p.dim)), Kind: th.Kind, ID: th.ID, Error: th.Error,
	}
	return th
}

// paint returns the sequences that a style puts around text.
func paint(s lipgloss.Style) render.Paint {
	on, off, _ := strings.Cut(s.Render("x"), "x")
	return render.Paint{On: on, Off: off}
}

// The glyphs, each one cell wide.
const (
	glyphWait    = "─"
	glyphWork    = "━"
	glyphGap     = "╌"
	glyphBegin   = "├"
	glyphOpen    = "▸"
	glyphDone    = "●"
	glyphFailed  = "✖"
	glyphCancel  = "✗"
	glyphStopped = "⊘"
	glyphSilent  = "┄"
	glyphLost    = "╳"
	glyphAfter   = "▒"
	glyphOut     = "→"
	glyphIn      = "←"
	glyphSame    = "┃"
	glyphMark    = "◆"
	glyphFinding = "!"
	glyphWarning = "▲"
	glyphAltered = "≠"

	glyphFolded   = "▸"
	glyphUnfolded = "▾"
	glyphBelow    = "└"
	glyphGuessed  = "?"
)

// bars are how full a slot of time is.
var bars = [...]string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}

package tui

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/session/diff"
	"github.com/wirectl/wirectl/store"
)

// faulty returns a store of that many frames, each of which breaks a rule.
func faulty(t *testing.T, n int) *store.Store {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"jsonrpc":"2.0","id":%d}`+"\n", i)
	}
	s := store.New(store.Options{})
	t.Cleanup(func() { s.Close() })
	in := decode.Input{Stream: strings.NewReader(text.String())}
	if err := s.Take(t.Context(), in, decode.Config{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	return s
}

// The store is asked for the screen at that time, even if keys are typed before it answers.
func TestQuestionKeepsItsPlace(t *testing.T) {
	m := New(faulty(t, 50), Config{})
	m.view = viewFindings
	ask := m.askStore()
	m.findings.move(20, 0, 50, 3)
	if p := ask().(page); p.findings.From != 0 {
		t.Errorf("findings from %d on, though those from the first on were asked for", p.findings.From)
	}
}

// The selected finding is on the screen, wherever it is in the list. If the last one is
// only partly visible, a click still selects the row under the mouse.
func TestFindingsScroll(t *testing.T) {
	m := New(faulty(t, 12), Config{})
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 23})
	m.view = viewFindings
	m.Update(m.askStore()())
	m.Update(m.move(11)())
	if text := ansi.Strip(m.View()); !strings.Contains(text, " #12 ") || strings.Contains(text, " #1 ") {
		t.Errorf("the last finding is selected, and not on the screen:\n%s", text)
	}
	first := m.page.findings.From
	m.Update(tea.MouseMsg{Y: 3, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
	if m.findings.at != first {
		t.Errorf("a click on finding %d selects %d", first, m.findings.at)
	}
}

// A page that takes longer than a tick is shown although more frames have arrived. They are
// requested afterwards.
func TestSlowPageIsShown(t *testing.T) {
	s := faulty(t, 1)
	m := New(s, Config{})
	slow := m.askStore()
	p := slow()
	s.Notice("more has come")
	m.Update(tickMsg{})
	m.Update(p)
	if m.page.query == 0 {
		t.Fatal("the page is thrown away")
	}
	before := m.query
	if m.Update(tickMsg{}); m.query == before {
		t.Error("what came since is not asked for")
	}
}

// If there are more choices than rows, the selected one is visible.
func TestPickScrolls(t *testing.T) {
	p := &picker{keys: newKeyMap(), theme: newTheme("dark", false)}
	for i := range 10 {
		p.choices = append(p.choices, store.Choice{Name: fmt.Sprintf("tap-%d", i)})
	}
	p.Update(tea.WindowSizeMsg{Width: 40, Height: 6})
	for range 8 {
		p.Update(tea.KeyMsg{Type: tea.KeyDown})
	}
	text := ansi.Strip(p.View())
	if lines := strings.Split(text, "\n"); len(lines) != 6 || !strings.Contains(lines[5], "tap-8") {
		t.Errorf("tap-8 is selected:\n%s", text)
	}
	p.Update(tea.WindowSizeMsg{Width: 40, Height: 4})
	if lines := strings.Split(p.View(), "\n"); len(lines) != 4 || !strings.Contains(lines[3], "tap-8") {
		t.Errorf("tap-8 is selected:\n%s", p.View())
	}
}

// The list follows sessions that start and end. The selection stays on its session. One that
// has ended is listed, and cannot be opened, until another is selected. If the user waits for
// a session, the first that starts is opened.
func TestPickFollows(t *testing.T) {
	for _, tt := range []struct{ lists, keys, want string }{
		{"a b c", "\r", "a"},
		{"a b c", "jj\r", "c"},
		{"a b c; n a b c", "j|\r", "b"},
		{"a b c; n m a c", "j|\r", ""},   // b has ended
		{"a b c; n m a c", "j|j\r", "c"}, // those beside it
		{"a b c; n m a c", "j|k\r", "a"},
		{"a b c; a c; a b c", "j||\r", "b"}, // it is there again
		{"a b c; a c; n a c", "j||\r", ""},
		{"a b; live p", "j|j\r", "live"},
		{"a b c; c", "G|j\r", "c"},
		{"a b c; ; d a b c", "G||\r", "c"}, // the list could not be read
		{"live p q; a p q", "|", "live"},
		{"live p q; a p q", "j|\r", "p"},
		{"live p q; b a p q", "|\r", "b"},
		{"live p q; live r p q; a r p q", "j|k|\r", "r"},
		{"a; live a; b a", "||\r", "a"},
		{"a p; live p; b p", "|j|", "live"},
		{"a p; live p; b p", "|jj|\r", "p"},
	} {
		p := &picker{keys: newKeyMap(), theme: newTheme("dark", false), width: 80, height: 24}
		lists := strings.Split(tt.lists, ";")
		for i, keys := range strings.Split(tt.keys, "|") {
			var list changed
			for _, name := range strings.Fields(lists[i]) {
				input := name
				if name < "live" {
					input = "tap:" + name
				}
				list = append(list, store.Choice{Name: name, Input: input})
			}
			if i == 0 {
				p.choices = list
			} else {
				p.Update(list)
			}
			for _, k := range keys {
				msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{k}}
				if k == '\r' {
					msg = tea.KeyMsg{Type: tea.KeyEnter}
				}
				p.Update(msg)
			}
		}
		if got := strings.TrimPrefix(p.chosen, "tap:"); got != tt.want || got == "" && !strings.Contains(p.View(), "has ended") {
			t.Errorf("%s, %s: opens %q, want %q\n%s", tt.lists, tt.keys, got, tt.want, p.View())
		}
	}
}

// Drawing the screen changes nothing. Selection and scroll position were set before, for
// any size of the terminal.
func TestViewChangesNothing(t *testing.T) {
	m := New(faulty(t, 1), Config{})
	m.detail = &detail{seq: 1}
	many := make([]string, 100)
	for name, of := range map[string]content{
		"tree": {tree: make([]treeLine, 100)}, "bytes": {hex: many}, "comparison": {beside: &store.Detail{}, pairs: diff.Beside(many, many)},
	} {
		m.Update(tea.WindowSizeMsg{Width: 80, Height: 40})
		m.Update(m.askStore()())
		of.of, of.frame = m.detail.wants(), &store.Detail{}
		m.Update(&of)
		m.Update(tea.KeyMsg{Type: tea.KeyEnd})
		m.Update(tea.WindowSizeMsg{Width: 80, Height: 20})
		before := m.detail.listState
		if seen := m.View(); m.detail.listState != before || before.at != 99 || before.top == 0 || !strings.Contains(seen, "\x1b[7m") {
			t.Errorf("the %s is at %v, and was at %v:\n%s", name, m.detail.listState, before, seen)
		}
	}
	m.detail = nil
	m.page.stats.Kinds, m.page.peers.Peers = make([]store.Kind, 100), make([]store.Peer, 100)
	m.stats.at, m.peers.at = 99, 99
	for m.view = range numViews {
		if m.draw(); m.stats.top != 0 || m.peers.top != 0 {
			t.Fatalf("to draw %s has scrolled", viewNames[m.view])
		}
	}
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{'?'}})
	m.Update(tea.KeyMsg{Type: tea.KeyEnd})
	before := m.helpTop
	if m.View(); m.helpTop != before || before == 0 {
		t.Errorf("the help is at %d, and was at %d", m.helpTop, before)
	}
	if m.Update(tea.WindowSizeMsg{Width: 80, Height: 100}); m.helpTop != 0 {
		t.Errorf("all of the help fits, and it is at %d", m.helpTop)
	}
}

// Bookmarks are saved even if the user quits at once: each change once, and in the order of
// the keys, whichever command runs first.
func TestChangesAreMade(t *testing.T) {
	s := faulty(t, 3)
	m := New(s, Config{})
	show := func() { m.showPage(m.askStore()().(page)) }
	m.view = viewFrames
	show()
	_, ask := m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("gmq")})
	_, late := m.Update(ask()) // m waits for the row that g selects
	m.changes.settle()
	if kept := s.Notes().Bookmarks; len(kept) != 1 {
		t.Errorf("the bookmarks are %v", kept)
	}
	for _, cmd := range late().(tea.BatchMsg) {
		if cmd != nil {
			cmd()
		}
	}
	if kept := s.Notes().Bookmarks; len(kept) != 1 {
		t.Errorf("the bookmarks are %v when the command has run, too", kept)
	}
	first, second := m.setFilter("kind==a"), m.setFilter("kind==b")
	second()
	first()
	if kept := s.Notes().Filter; kept != "kind==b" {
		t.Errorf("the filter is %q", kept)
	}
}

// A file is written, once, even if the user quits at once.
func TestFilesAreWritten(t *testing.T) {
	var wrote []string
	m := New(faulty(t, 3), Config{Write: func(name string, r *store.Records) error {
		wrote = append(wrote, fmt.Sprint(name, " ", r.Len()))
		return nil
	}})
	m.view = viewFrames
	m.showPage(m.askStore()().(page))
	var cmd tea.Cmd
	for _, k := range []tea.KeyMsg{
		{Type: tea.KeyRunes, Runes: []rune{'w'}},
		{Type: tea.KeyRunes, Runes: []rune("a.ndjson"), Paste: true},
		{Type: tea.KeyEnter},
	} {
		_, cmd = m.Update(k)
	}
	m.applyChanges()
	if said := cmd(); !slices.Equal(wrote, []string{"a.ndjson 1"}) || said != (saidMsg{text: "wrote 1 frame to a.ndjson"}) {
		t.Errorf("wrote %q, and says %v", wrote, said)
	}
}

// holding is a wire that records the rule for held frames.
type holding struct {
	Wire
	on []string
}

func (h *holding) Refuses() string { return "" }

func (h *holding) Hold(where string) error {
	h.on = append(h.on, where)
	return nil
}

// A confirmed action is done, once, even if the user quits at once.
func TestWireIsChanged(t *testing.T) {
	w := &holding{}
	m := New(faulty(t, 3), Config{Wire: w})
	m.showPage(m.askStore()().(page))
	var cmd tea.Cmd
	for _, k := range []tea.KeyMsg{
		{Type: tea.KeyRunes, Runes: []rune{'H'}},
		{Type: tea.KeyRunes, Runes: []rune("kind==a"), Paste: true},
		{Type: tea.KeyEnter},
		{Type: tea.KeyRunes, Runes: []rune{'y'}},
		{Type: tea.KeyRunes, Runes: []rune{'y'}},
	} {
		_, cmd = m.Update(k)
	}
	m.applyChanges()
	if said := cmd(); !slices.Equal(w.on, []string{"kind==a"}) || said != (saidMsg{text: "done: hold frames that match kind==a", wire: true}) {
		t.Errorf("held %q, and says %v", w.on, said)
	}
}

// A saved filter shows its origin until another one is set.
func TestFilterOfTheLastVisit(t *testing.T) {
	for _, width := range []int{40, 80, 120} {
		m := New(faulty(t, 3), Config{Filter: "kind==other", FilterKept: true})
		m.Init()
		m.changes.settle()
		m.Update(tea.WindowSizeMsg{Width: width, Height: 24})
		show := func() string {
			m.showPage(m.askStore()().(page))
			return strings.Split(ansi.Strip(m.draw()), "\n")[2]
		}
		if line := show(); !strings.HasPrefix(line, " filter") || !strings.Contains(line, "kind==other") || width >= 80 && !strings.HasPrefix(line, " filter of the last visit (x clears it) kind==other · 0 of 0 calls") {
			t.Errorf("%d: %q", width, line)
		}
		m.setFilter("kind==object")
		if line := show(); !strings.Contains(line, " filter kind==object · ") || strings.Contains(line, " slow ") != (width > 40) {
			t.Errorf("%d: another filter: %q", width, line)
		}
	}
}

// No two ticks of the axis have the same label, however short or late the visible time is.
func TestTicksDiffer(t *testing.T) {
	const first = 1_700_000_000_000_000_000
	for _, tt := range []struct {
		untimed  bool
		from, by int64
		want     string
	}{
		{false, first, 166_000_000, "0 166ms 332ms"},
		{false, first + 2_000_000_000, 100_000, "2.0000s 2.0001s 2.0002s"},
		{false, first + 59_999_000_000, 500_000, "59.9990s 59.9995s 1m00.00"},
		{false, first + 602_100_000_000, 100_000_000, "10m02.1 10m02.2 10m02.3"},
		{false, first + 2*3600_000_000_000, 1_000_000_000, "2h00m00 2h00m01 2h00m02"},
		{false, first - 1_000_000_000, 1_000_000_000, " 0 1.00s"},
		{true, 7, 1, "#7 #8 #9"},
		{true, 7, 0, "#7  "},
	} {
		m := New(faulty(t, 1), Config{})
		m.page.overview.Timed, m.page.overview.First = !tt.untimed, first
		if got := strings.Join(m.tickLabels([]int64{tt.from, tt.from + tt.by, tt.from + 2*tt.by}), " "); got != tt.want {
			t.Errorf("from %d by %d: %q, want %q", tt.from, tt.by, got, tt.want)
		}
	}
}

// A unit that ended normally is not a warning. One that failed is.
func TestStateOfAnEndedUnit(t *testing.T) {
	for _, tt := range []struct {
		record  capture.Record
		want    string
		warning bool
	}{
		{capture.Record{Kind: capture.Exited}, "exit status 0", false},
		{capture.Record{Kind: capture.Exited, Status: 1}, "exit status 1", true},
		{capture.Record{Kind: capture.Signalled, Text: []byte("killed")}, "ended by killed", true},
	} {
		s := faulty(t, 1)
		s.Event(&tt.record)
		m := New(s, Config{Theme: "dark", Color: true})
		m.view = viewPeers
		m.showPage(m.askStore()().(page))
		l := newLine(120)
		m.peerRow(l, &m.page.peers.Peers[0], m.peerColumns(m.page.peers.Peers))
		if got := l.String(); strings.Contains(got, m.theme.Warning.On+tt.want) != tt.warning || !strings.Contains(got, tt.want) {
			t.Errorf("%s, as a warning: %v: %q", tt.want, tt.warning, got)
		}
	}
}

// The caption of a demonstration is above the keys, and hides no row of the view.
func TestCaption(t *testing.T) {
	s := faulty(t, 1)
	m := New(s, Config{Captions: true})
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 20})
	rows := m.rows()
	s.Notice("the user presses Esc")
	m.Update(m.askStore()())
	lines := strings.Split(ansi.Strip(m.View()), "\n")
	if len(lines) != 20 || lines[18] != " the user presses Esc" || m.rows() > rows {
		t.Errorf("%d rows, formerly %d:\n%s", m.rows(), rows, strings.Join(lines, "\n"))
	}
}

// The first line shortens the name of a session only as a last resort.
func TestTitleKeepsName(t *testing.T) {
	m := New(store.New(store.Options{}), Config{})
	defer m.store.Close()
	for _, n := range []int{10, 40, 60, 66} {
		m.config.Name = strings.Repeat("n", n)
		m.page.overview = store.Overview{Protocols: []string{"mcp/line 2025-11-25", "http/http"}, Frames: 9, Ended: true}
		title := ansi.Strip(m.title())
		if !strings.Contains(title, m.config.Name) || !strings.Contains(title, "ended") || ansi.StringWidth(title) > m.width {
			t.Errorf("a name of %d cells: %q", n, title)
		}
		if want := n <= 30; strings.Contains(title, "http/http") != want {
			t.Errorf("a name of %d cells: %q, want the protocols: %t", n, title, want)
		}
	}
}

// PickView draws the list of sessions.
func PickView(choices []store.Choice, width, height int) string {
	p := &picker{choices: choices, theme: newTheme("dark", true), width: width, height: height}
	return p.View()
}

// The list of sessions cuts no name, and no row is wider than the screen.
func TestPickIsWhole(t *testing.T) {
	name := strings.Repeat("long-", 8) + "name"
	p := &picker{choices: []store.Choice{{Name: "short", About: strings.Repeat("mcp ", 60)}, {Name: name, About: "mcp, 6s"}}, theme: newTheme("dark", true)}
	for _, p.width = range []int{80, 120, 200} {
		p.height = 24
		view := ansi.Strip(p.View())
		if !strings.Contains(view, name+" mcp, 6s") || strings.Contains(view, "\r") {
			t.Errorf("cut at %d:\n%s", p.width, view)
		}
		for row := range strings.Lines(view) {
			if n := ansi.StringWidth(strings.TrimSuffix(row, "\n")); n > p.width {
				t.Errorf("%d cells of %d: %q", n, p.width, row)
			}
		}
	}
}

// Once a session has ended and is shown, nothing ticks until a key is pressed: neither the monitor nor the
// clock of Bubble Tea, which is found where this version keeps it.
func TestEndedMonitorSleeps(t *testing.T) {
	m := New(faulty(t, 3), Config{})
	var asleep []bool
	m.config.sleep = func(now bool) { asleep = append(asleep, now) }
	m.Update(m.askStore()())
	ticks := 0
	for cmd := m.tick(); cmd != nil && ticks < 10; ticks++ {
		_, cmd = m.Update(tickMsg{})
		m.Update(m.askStore()())
		m.version = m.store.Version()
	}
	m.Update(tickMsg{})
	m.Update(tickMsg{})
	if _, cmd := m.Update(tickMsg{}); cmd != nil || !m.asleep {
		t.Error("it still ticks")
	}
	if _, cmd := m.Update(tea.KeyMsg{Type: tea.KeyDown}); cmd == nil || m.asleep {
		t.Error("a key does not wake it")
	}
	if n := len(asleep); n < 2 || !asleep[n-2] || asleep[n-1] {
		t.Errorf("the clock was stopped and started: %v", asleep)
	}
	m.config.Next = true
	for range 5 {
		m.Update(m.askStore()())
		if _, cmd := m.Update(tickMsg{}); cmd == nil {
			t.Error("another session may begin, and nobody looks")
		}
	}
	probe := &clockProbe{}
	probe.program = tea.NewProgram(probe, tea.WithInput(nil), tea.WithOutput(io.Discard))
	if _, err := probe.program.Run(); err != nil || !probe.found {
		t.Errorf("the clock of Bubble Tea is not found, %v", err)
	}
}

// A clockProbe is a program that looks for its own clock.
type clockProbe struct {
	program *tea.Program
	found   bool
}

func (p *clockProbe) Init() tea.Cmd { return func() tea.Msg { return tickMsg{} } }
func (p *clockProbe) Update(tea.Msg) (tea.Model, tea.Cmd) {
	p.found = clockOf(p.program) != nil
	return p, tea.Quit
}
func (p *clockProbe) View() string { return "" }

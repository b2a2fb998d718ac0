package tui

import (
	"fmt"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/wirectl/wirectl/decode"
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

// The store is asked for what was on the screen then, whatever is typed until it
// answers.
func TestQuestionKeepsItsPlace(t *testing.T) {
	m := New(faulty(t, 50), Config{})
	m.view = viewFindings
	ask := m.ask()
	m.findings.move(20, 50, 3)
	if p := ask().(page); p.findings.From != 0 {
		t.Errorf("findings from %d on, though those from the first on were asked for", p.findings.From)
	}
}

// The finding that is selected is on the screen, wherever in the list it is, and a
// click selects what is under it where the last one is seen in part.
func TestFindingsScroll(t *testing.T) {
	m := New(faulty(t, 12), Config{})
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 23})
	m.view = viewFindings
	m.Update(m.ask()())
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

// A page that takes longer than a tick is shown, though more has come since, and
// what came is asked for then.
func TestSlowPageIsShown(t *testing.T) {
	s := faulty(t, 1)
	m := New(s, Config{})
	slow := m.ask()
	p := slow()
	s.Notice("more has come")
	m.Update(tickMsg{})
	m.Update(p)
	if m.page.asked == 0 {
		t.Fatal("the page is thrown away")
	}
	before := m.asked
	if m.Update(tickMsg{}); m.asked == before {
		t.Error("what came since is not asked for")
	}
}

// Of more choices than the terminal has rows, the one that is selected is seen.
func TestPickScrolls(t *testing.T) {
	p := &picker{keys: newKeyMap(), theme: newTheme("dark", false), chosen: -1}
	for i := range 10 {
		p.choices = append(p.choices, Choice{Name: fmt.Sprintf("tap-%d", i)})
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

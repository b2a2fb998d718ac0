package tui_test

import (
	"strings"
	"testing"

	"github.com/wirectl/wirectl/tui"
)

// New users see which keys to begin with, until they press one, on a line that fits every
// terminal.
func TestWelcome(t *testing.T) {
	for _, width := range []int{60, 80, 200} {
		sc := newScreen(t, kept(t, "mcp-cancel"), tui.Config{Welcome: true}, width, 24)
		if text := strings.Join(strings.Fields(sc.text()), " "); !strings.Contains(text, "Welcome: j/k select, enter opens, tab changes the view, ? lists keys, q quits.") {
			t.Errorf("no welcome:\n%s", sc.text())
		}
		fits(t, sc.model.View(), width, 24)
		sc.press("j")
		sc.lacks("Welcome")
	}
}

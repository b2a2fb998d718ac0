// Command screenshot draws the picture of the monitor that the documentation
// shows: go run ./tui/screenshot docs/monitor.svg. It needs no terminal, and
// draws the same picture every time.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

// The size of the terminal that is drawn.
const (
	columns = 124
	rows    = 30
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: screenshot FILE.svg")
	}
	screen, err := draw(context.Background())
	if err == nil {
		err = os.WriteFile(os.Args[1], svg(screen, columns, rows), 0o666)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// draw returns what the monitor shows of a session that goes on.
func draw(ctx context.Context) (string, error) {
	s := store.New(store.Options{})
	defer s.Close()
	in := decode.Input{Capture: play()}
	s.Begin(in)
	cfg := decode.Config{Workers: 1}
	if err := s.Read(ctx, in, cfg); err != nil {
		return "", fmt.Errorf("the session: %w", err)
	}
	var m tea.Model = tui.New(s, tui.Config{Name: "tap:research-agent", Theme: "dark", Color: true})
	send := func(msg tea.Msg) {
		var cmd tea.Cmd
		if m, cmd = m.Update(msg); cmd != nil {
			m, _ = m.Update(cmd())
		}
	}
	send(tea.WindowSizeMsg{Width: columns, Height: rows})
	for _, r := range strings.Repeat("j", selected) {
		send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
	}
	return m.View(), nil
}

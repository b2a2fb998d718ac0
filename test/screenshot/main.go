// Command screenshot draws the two pictures of the monitor that the documentation
// shows, one still and one that moves. It needs no terminal, and draws the same
// pictures every time.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/tui"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: screenshot STILL.svg MOVING.svg")
	}
	if err := write(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func write(ctx context.Context, still, moving string) error {
	size := tea.WindowSizeMsg{Width: 124, Height: 30}
	screen, err := draw(ctx, play(), size, strings.Repeat("j", selected))
	if err != nil {
		return err
	}
	if err := os.WriteFile(still, picture(screen, size), 0o666); err != nil {
		return err
	}
	film, err := movie(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(moving, film, 0o666)
}

// draw returns the screen of the monitor for a session that goes on, after those keys.
func draw(ctx context.Context, session *script, size tea.WindowSizeMsg, keys string) (string, error) {
	s := store.New(store.Options{})
	defer s.Close()
	in := decode.Input{Capture: session, Joins: session.joins}
	s.Begin(in)
	for _, r := range session.list {
		if r.Kind == capture.Note && r.Conn == 0 {
			s.Notice(string(r.Text))
		}
	}
	if err := s.Read(ctx, in, decode.Config{Workers: 1}); err != nil {
		return "", fmt.Errorf("the session: %w", err)
	}
	name := "tap:" + session.session.Unit
	if session.joins {
		name = session.session.Unit
	}
	var m tea.Model = tui.New(s, tui.Config{Name: name, Captions: true, Theme: "dark", Color: true})
	send := func(msg tea.Msg) {
		var cmd tea.Cmd
		for m, cmd = m.Update(msg); cmd != nil; {
			m, cmd = m.Update(cmd())
		}
	}
	send(size)
	for _, r := range keys {
		send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
	}
	return m.View(), nil
}

//go:build unix

package tui_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/wirectl/wirectl/tui"
)

// The terminal is asked for its background, and the answer decides the theme. Other input
// around it is keys. Before the answer, or without one, the theme is a guess.
func TestBackgroundOfATerminal(t *testing.T) {
	s := kept(t, "latis-cancel")
	for _, answer := range []string{"", "\x1b]11;rgb:fafa/fafa/fafa\x1b\\"} {
		master, tty, err := pty.Open()
		if errors.Is(err, pty.ErrUnsupported) {
			t.Skip(err)
		}
		check(t, err)
		check(t, pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}))
		done := make(chan error, 1)
		go func() {
			err := tui.Run(t.Context(), s, tui.Config{Theme: "dark", Color: true, Ask: true, Input: tty, Output: tty})
			tty.Close()
			done <- err
		}()
		var seen strings.Builder
		buf := make([]byte, 4096)
		sees := func(text string) {
			for !strings.Contains(seen.String(), text) {
				n, err := master.Read(buf)
				seen.Write(buf[:n])
				if err != nil {
					t.Fatalf("answer %q: no %q in %q, %v", answer, text, seen.String(), err)
				}
			}
		}
		sees("\x1b]11;?")
		_, err = io.WriteString(master, "4"+answer+"2")
		check(t, err)
		sees("WHAT IT SAYS")
		if answer != "" {
			sees("\x1b[1;38;5;24m") // the title, in the light theme
		}
		_, err = io.WriteString(master, "q")
		check(t, err)
		_, _ = io.Copy(io.Discard, master) // to the end
		check(t, <-done)
		if answer == "" && strings.Contains(seen.String(), "\x1b[1;38;5;24m") {
			t.Error("the theme is light, and nothing said so")
		}
		master.Close()
	}
}

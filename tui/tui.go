// Package tui is the monitor: it draws on a terminal what package session knows
// of a session, while the session goes on.
//
// It opens nothing. A session comes in through a [store.Store], which whoever
// runs the monitor feeds; what is done to the wire goes out through [Wire].
package tui

import (
	"context"
	"io"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/tui/quiet"
	"github.com/wirectl/wirectl/tui/store"
)

func init() { quiet.Restore() }

// Config is what the monitor needs of the world outside.
type Config struct {
	// Name is what the session is called.
	Name string
	// Theme is one of [Themes], and Color says whether there is to be colour.
	Theme string
	Color bool
	// Filter is set from the beginning.
	Filter string
	// Input is where keys come from, Output the terminal.
	Input  io.Reader
	Output io.Writer
	// Clipboard takes what is copied, as the terminal wants it; nil is nothing.
	Clipboard io.Writer
	// Write writes records to a file whose name tells the format.
	Write func(name string, r Records) error
	// Wire changes what is on the wire; nil if that cannot be done.
	Wire Wire
}

// Records are frames to be written to a file.
type Records interface {
	capture.Reader
	Len() int
}

// A Wire is what a session passes and can be changed on. Frames are named by
// their numbers.
type Wire interface {
	// Cancel asks that the exchange which that frame opened be ended.
	Cancel(seq int64) error
	// Resend sends that frame again.
	Resend(seq int64) error
}

// Run draws what s keeps until the user quits or ctx ends.
func Run(ctx context.Context, s *store.Store, c Config) error {
	p := tea.NewProgram(New(s, c),
		tea.WithContext(ctx), tea.WithInput(c.Input), tea.WithOutput(c.Output),
		tea.WithAltScreen(), tea.WithMouseCellMotion(), tea.WithoutSignalHandler())
	if _, err := p.Run(); ctx.Err() == nil {
		return err
	}
	return nil // ctx ended it
}

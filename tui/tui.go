// Package tui is the monitor: it draws a session on a terminal while the session goes
// on.
//
// It opens nothing. A session comes in through a [store.Store], which the caller feeds;
// commands to the wire go out through [Wire].
package tui

import (
	"context"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/capture"
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
	Write func(name string, r Records) error
	// Wire changes the wire; nil if that cannot be done.
	Wire Wire

	ask tea.Cmd // or nil
}

// Records are frames to be written to a file.
type Records interface {
	capture.Reader
	Len() int
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
	p := tea.NewProgram(model(c), options...)
	if q != nil {
		q.program, q.asked = p, time.Now()
	}
	if _, err := p.Run(); ctx.Err() == nil {
		return err
	}
	return nil // ctx ended it
}

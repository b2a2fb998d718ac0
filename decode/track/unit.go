package track

import (
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// A unit holds what records other than frames say about a connection's unit.
type unit struct {
	stderr []byte // the end of its standard error
	exit   string // how its process ended; "" if unknown
	told   bool   // it was asked to end
}

const (
	maxUnits    = 1 << 12 // remembered units
	maxStderr   = 4 << 10 // kept bytes of standard error
	stderrLines = 5       // shown lines
	maxLine     = 200     // columns of a shown line
)

// Event notes a record that is not a frame; see [decode.Config].
func (f *Follower) Event(rec *capture.Record) {
	switch rec.Kind {
	case capture.Note:
		if n, ok := tap.ParseNote(rec); ok && n.Tap == tap.Lost {
			f.Lose()
		}
	case capture.HalfClosed:
		f.ended(rec.Conn, rec.Dir, rec.Time)
	case capture.Stderr:
		if u := f.unit(rec.Conn); u != nil {
			u.stderr = append(u.stderr, rec.Text...)
			if n := len(u.stderr); n > maxStderr {
				u.stderr = append(u.stderr[:0], u.stderr[n-maxStderr:]...)
			}
		}
	case capture.Lingering:
		if w, message := f.wires[rec.Conn+f.base], string(rec.Text); w != nil {
			f.hand(w, &heldFrame{then: func(t *session.Tracker) { t.Linger(w.conn, message) }}, nil)
		}
	case capture.Exited:
		if len(rec.Text) > 0 {
			f.trackers.of(f.protocol, false).Unstarted(rec.Conn+f.base, string(rec.Text), rec.Time)
			f.conns[rec.Conn+f.base] = true
			return
		}
		f.exited(rec, fmt.Sprintf("ended with status %d", rec.Status))
	case capture.Signalled:
		f.exited(rec, fmt.Sprintf("was ended by signal %d (%s)", rec.Status, rec.Text))
	}
}

func (f *Follower) exited(rec *capture.Record, how string) {
	if u := f.unit(rec.Conn); u != nil {
		u.exit, u.told = how, rec.Dir == frame.C2U
	}
}

// unit returns the unit of a connection, or nil if there are too many.
func (f *Follower) unit(conn int) *unit {
	u := f.units[conn]
	if u == nil && len(f.units) < maxUnits {
		u = &unit{}
		f.units[conn] = u
	}
	return u
}

// ending returns how a connection ended whose direction first ended before the other one. u
// may be nil.
func (u *unit) ending(first frame.Dir) session.Ending {
	how := session.Ending{First: first, Died: first == frame.U2C}
	switch {
	case u == nil:
	case u.told:
		how.First, how.Died = frame.C2U, false
	default:
		how.How, how.Stderr = u.exit, u.lastLines()
	}
	return how
}

// lastLines returns the last lines of standard error, without blank lines.
func (u *unit) lastLines() (lines []string) {
	text := strings.ToValidUTF8(string(u.stderr), "\uFFFD")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		lines = append(lines, render.Shorten(line, maxLine))
	}
	return lines[max(0, len(lines)-stderrLines):]
}

package commands

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A meter is a reader that shows on a terminal how much of a file has been
// read, once that has taken a second. It draws when it is read from.
type meter struct {
	io.Reader
	terminal           io.Writer
	size, done         int64
	started, refreshed time.Time
}

const (
	patience = time.Second
	refresh  = 100 * time.Millisecond
	barWidth = 30
)

// meter makes the reads of src draw a progress bar, if it is a file and the
// bar can stand undisturbed on the terminal of standard error.
func (inv *invocation) meter(src *source) {
	f, ok := src.Reader.(*os.File)
	if !ok || !inv.IsTerminal(inv.Stderr) || !inv.reportsAtEnd && inv.IsTerminal(inv.Stdout) {
		return
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || at >= info.Size() {
		return
	}
	m := newMeter(f, info.Size()-at, inv.Stderr)
	closeFile := src.close
	src.Reader, src.close = m, func() { m.clear(); closeFile() }
}

func newMeter(r io.Reader, size int64, terminal io.Writer) *meter {
	return &meter{Reader: r, terminal: terminal, size: size, started: time.Now()}
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.done += int64(n)
	if now := time.Now(); now.Sub(m.started) >= patience && now.Sub(m.refreshed) >= refresh {
		m.refreshed = now
		m.draw(now.Sub(m.started))
	}
	return n, err
}

// draw draws the bar over the one before. A file that grows is not read by
// more than all.
func (m *meter) draw(elapsed time.Duration) {
	share := min(float64(m.done)/float64(m.size), 1)
	full := int(share * barWidth)
	rate := float64(m.done) / elapsed.Seconds() / 1e6
	fmt.Fprintf(m.terminal, "\r%s%s %3.0f%%  %.1f MB/s\x1b[K",
		strings.Repeat("█", full), strings.Repeat("░", barWidth-full), 100*share, rate)
}

// clear takes the bar away, if there is one.
func (m *meter) clear() {
	if !m.refreshed.IsZero() {
		fmt.Fprint(m.terminal, "\r\x1b[K")
	}
}

package source

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// A meter is a reader that shows on a terminal how much of a file has been read, after a
// second. It draws when it is read from.
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

// Meter draws a progress bar on a terminal while src is read, if the terminal is not nil
// and src is a file.
func (s *Source) Meter(terminal io.Writer) {
	if s.file == nil || terminal == nil {
		return
	}
	info, err := s.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	at, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil || at >= info.Size() {
		return
	}
	m := newMeter(s.Reader, info.Size()-at, terminal)
	closeFile := s.close
	s.Reader, s.close = m, func() { m.clear(); closeFile() }
}

// meterFolder makes the reads of all files of a folder draw one progress bar,
// which clear takes away.
func meterFolder(folder fs.FS, terminal io.Writer) (_ fs.FS, clear func()) {
	if terminal == nil {
		return folder, func() {}
	}
	m := newMeter(nil, 0, terminal)
	walk := func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				m.size += info.Size()
			}
		}
		return nil // the reader reports files that cannot be read
	}
	if err := fs.WalkDir(folder, ".", walk); err != nil || m.size == 0 {
		return folder, func() {}
	}
	return meteredFS{folder, m}, m.clear
}

// A meteredFS counts the bytes read from its files.
type meteredFS struct {
	fs.FS
	meter *meter
}

func (f meteredFS) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return file, nil //nolint:nilerr // it is read as it is
	}
	return meteredFile{file, f.meter}, nil
}

type meteredFile struct {
	fs.File
	meter *meter
}

func (f meteredFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.meter.count(n)
	return n, err
}

func newMeter(r io.Reader, size int64, terminal io.Writer) *meter {
	return &meter{Reader: r, terminal: terminal, size: size, started: time.Now()}
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.count(n)
	return n, err
}

// count counts bytes that were read.
func (m *meter) count(n int) {
	m.done += int64(n)
	if now := time.Now(); now.Sub(m.started) >= patience && now.Sub(m.refreshed) >= refresh {
		m.refreshed = now
		m.draw(now.Sub(m.started))
	}
}

// draw draws the bar over the previous one. A file that grows shows no more than 100%.
func (m *meter) draw(elapsed time.Duration) {
	share := min(float64(m.done)/float64(m.size), 1)
	full := int(share * barWidth)
	rate := float64(m.done) / elapsed.Seconds() / 1e6
	fmt.Fprintf(m.terminal, "\r%s%s %3.0f%%  %.1f MB/s\x1b[K",
		strings.Repeat("█", full), strings.Repeat("░", barWidth-full), 100*share, rate)
}

// clear removes the bar, if there is one.
func (m *meter) clear() {
	if !m.refreshed.IsZero() {
		fmt.Fprint(m.terminal, "\r\x1b[K")
	}
}

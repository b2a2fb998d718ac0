package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// A monitor runs in a terminal. Its text is the output since the screen was last searched.
type monitor struct {
	cmd      *exec.Cmd
	terminal *os.File
	begun    time.Time
	mu       sync.Mutex
	text     []byte
	err      error
	news     chan struct{} // there is new text
	slowest  time.Duration // the slowest answer to a key
}

// lookOn runs wirectl monitor, and returns once it shows calls.
func lookOn(source string) (*monitor, error) {
	m := &monitor{cmd: exec.Command("wirectl", "monitor", source), news: make(chan struct{}, 1)}
	m.cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	m.begun = time.Now()
	var err error
	if m.terminal, err = pty.StartWithSize(m.cmd, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		return nil, err
	}
	go m.read()
	_, err = m.await(calls)
	return m, err
}

func (m *monitor) read() {
	b := make([]byte, 64<<10)
	for {
		n, err := m.terminal.Read(b)
		m.mu.Lock()
		m.text, m.err = append(m.text, b[:n]...), err
		m.mu.Unlock()
		select {
		case m.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// await waits until the screen shows a match. It works only when something new is drawn, so that
// the monitor has the processors to itself.
func (m *monitor) await(what *regexp.Regexp) ([]string, error) {
	for late := time.After(time.Minute); ; {
		found, err := m.look(what)
		if found != nil || err != nil {
			return found, err
		}
		select {
		case <-m.news:
		case <-late:
			return nil, fmt.Errorf("the screen never shows %v", what)
		}
	}
}

// oneLine is more than the length of a line of the screen, with its colours.
const oneLine = 4 << 10

// look returns a match on the screen. Without a match, it discards all text except the last
// line, which may be incomplete.
func (m *monitor) look(what *regexp.Regexp) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := what.FindStringSubmatch(strings.ReplaceAll(ansi.Strip(string(m.text)), ",", "")); found != nil {
		return found, nil
	}
	m.text = m.text[max(0, len(m.text)-oneLine):]
	return nil, m.err
}

// press presses a key, and measures how long the screen takes to answer.
func (m *monitor) press(key string, answer *regexp.Regexp) error {
	m.mu.Lock()
	m.text = nil
	m.mu.Unlock()
	begun := time.Now()
	if _, err := m.terminal.WriteString(key); err != nil {
		return err
	}
	_, err := m.await(answer)
	m.slowest = max(m.slowest, time.Since(begun))
	return err
}

// turn switches between two views that many times.
func (m *monitor) turn(times int) error {
	for range times {
		if err := m.press("2", list); err != nil {
			return err
		}
		if err := m.press("1", ids); err != nil {
			return err
		}
	}
	return nil
}

// quit ends the monitor, and returns its processor time.
func (m *monitor) quit() (time.Duration, error) {
	if _, err := m.terminal.WriteString("q"); err != nil {
		return 0, err
	}
	err := m.cmd.Wait()
	_ = m.terminal.Close()
	return m.cmd.ProcessState.UserTime() + m.cmd.ProcessState.SystemTime(), err
}

// Texts that only one view shows, without the commas that [monitor.look] leaves out.
var (
	ids   = regexp.MustCompile("OUTCOME")
	list  = regexp.MustCompile("WHAT IT SAYS")
	calls = regexp.MustCompile("tools/call")
	ended = regexp.MustCompile("■ ended|○ ended waiting")
)

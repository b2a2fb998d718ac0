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

// A monitor is one that runs in a terminal, and what that has been sent since it
// was last wiped or looked at.
type monitor struct {
	cmd      *exec.Cmd
	terminal *os.File
	begun    time.Time
	mu       sync.Mutex
	text     []byte
	err      error
	news     chan struct{} // there is more to look at
	slowest  time.Duration // answer to a key
}

// lookOn runs wirectl monitor, and returns when it shows calls.
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

// await waits until the screen has what matches. It works only when something is
// drawn, and only on that, so that the monitor has the processors to itself.
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

// oneLine is more than a line of the screen takes, colours and all.
const oneLine = 4 << 10

// look returns what matches on the screen. Where nothing does, what was looked at
// is dropped but for its last line, which may go on.
func (m *monitor) look(what *regexp.Regexp) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := what.FindStringSubmatch(strings.ReplaceAll(ansi.Strip(string(m.text)), ",", "")); found != nil {
		return found, nil
	}
	m.text = m.text[max(0, len(m.text)-oneLine):]
	return nil, m.err
}

// press types a key, and notes how long it takes until the screen answers.
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

// turn goes from view to view and back for so many times.
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

// quit ends it, and returns how long it has kept a processor busy.
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
	ended = regexp.MustCompile(`(?:■ ended|○ ended waiting) +([0-9]+) frames`)
)

package tui

import (
	"bytes"
	"image/color"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
)

// A question asks a terminal, once, for the colour of its background. Nobody waits for the
// answer, which may never come: it is removed from the keys when it does.
type question struct {
	keyboard
	terminal io.Writer
	program  *tea.Program
	asked    time.Time
	answered bool
	leaving  bool
	opened   *os.File // or nil
}

// patience is how long after the question an answer may still come, which the shell
// would take for keys if the monitor had ended by then.
const patience = 200 * time.Millisecond

// A background is the answer; the colour is nil if it cannot be read.
type background struct{ color color.Color }

// theme returns the theme for a background, or otherwise if the background is unknown.
func (b background) theme(otherwise string) string {
	if b.color == nil {
		return otherwise
	}
	if red, green, blue, _ := b.color.RGBA(); 299*red+587*green+114*blue > 500*0xffff {
		return "light"
	}
	return "dark"
}

// newQuestion returns nil if nothing can be asked: keys come from no terminal.
func newQuestion(c Config) *question {
	q := &question{terminal: c.Output}
	switch in := c.Input.(type) {
	case file:
		q.keyboard.file = in
	case nil:
		tty, err := os.Open("/dev/tty")
		if err != nil {
			return nil
		}
		q.keyboard.file, q.opened = tty, tty
	default:
		return nil
	}
	q.heard = func(c color.Color) { q.program.Send(background{c}) }
	return q
}

// ask asks. It must be called when the terminal no longer echoes.
func (q *question) ask() tea.Msg {
	_, _ = io.WriteString(q.terminal, ansi.RequestBackgroundColor)
	return nil
}

// filter keeps the program from ending while the answer is under way.
func (q *question) filter(_ tea.Model, msg tea.Msg) tea.Msg {
	switch msg.(type) {
	case background:
		q.answered = true
		if q.leaving {
			return tea.Quit()
		}
	case tea.QuitMsg:
		if rest := patience - time.Since(q.asked); rest > 0 && !q.answered && !q.leaving {
			q.leaving = true
			time.AfterFunc(rest, q.program.Quit)
			return nil
		}
	}
	return msg
}

func (q *question) closeOpened() {
	if q.opened != nil {
		q.opened.Close()
	}
}

// A file is an input that Bubble Tea can stop reading.
type file interface {
	io.ReadWriteCloser
	Fd() uintptr
	Name() string
}

// A keyboard is the keys of a terminal, without the answer among them.
type keyboard struct {
	file
	heard func(color.Color) // is called once; nil afterwards
	held  []byte            // possibly the beginning of the answer
}

// How an answer begins, and how long it can be.
var answerBegins = []byte("\x1b]11;")

const maxAnswer = 64

// Read reads keys: none, if all that came is of the answer.
func (k *keyboard) Read(p []byte) (int, error) {
	held := copy(p, k.held)
	if k.held = k.held[held:]; held == len(p) {
		return held, nil
	}
	n, err := k.file.Read(p[held:])
	if n += held; k.heard == nil || err != nil {
		return n, err
	}
	return len(k.listen(p[:n], n == len(p))), nil
}

// listen returns the bytes that were read without the answer; more may follow at once.
func (k *keyboard) listen(b []byte, more bool) []byte {
	at := bytes.Index(b, answerBegins)
	if at < 0 {
		at = len(b) - beginning(b, more)
		return k.hold(b, at)
	}
	text := b[at+len(answerBegins):]
	end := bytes.IndexAny(text, "\a\x1b")
	switch {
	case end < 0 && len(text) < maxAnswer, end >= 0 && text[end] == '\x1b' && end+1 == len(text):
		return k.hold(b, at)
	case end < 0: // not the answer
		k.heard = nil
		return b
	}
	k.heard(ansi.XParseColor(string(text[:end])))
	k.heard = nil
	if text[end] == '\x1b' {
		end++ // with a backslash
	}
	return append(b[:at], text[end+1:]...)
}

// hold keeps back bytes that may begin the answer.
func (k *keyboard) hold(b []byte, at int) []byte {
	k.held = bytes.Clone(b[at:])
	return b[:at]
}

// beginning returns how many bytes at the end of b may begin an answer. An ESC alone is the
// key, unless more follows.
func beginning(b []byte, more bool) int {
	least := 2
	if more {
		least = 1
	}
	for n := len(answerBegins) - 1; n >= least; n-- {
		if bytes.HasSuffix(b, answerBegins[:n]) {
			return n
		}
	}
	return 0
}

// Background returns the theme for the terminal, as far as its environment tells, and
// whether the terminal may be asked for its background. Old consoles would print the
// question, and screen has no background of its own.
func Background(getenv func(string) string) (theme string, ask bool) {
	name := getenv("TERM")
	silent := name == "" || name == "linux" || strings.HasPrefix(name, "screen") && getenv("TMUX") == ""
	theme = "dark"
	// "15;0": the number of the foreground's colour and of the background's.
	colors := strings.Split(getenv("COLORFGBG"), ";")
	switch colors[len(colors)-1] {
	case "7", "15":
		theme = "light"
	}
	return theme, !silent && runtime.GOOS != "windows"
}

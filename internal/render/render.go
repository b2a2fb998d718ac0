// Package render makes bytes from the wire safe to show on a terminal.
//
// Whatever a peer sends, the output has no control characters except the line feeds and
// colours of this package, and no characters that are invisible or reorder their neighbours:
// those are shown as escapes.
package render

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fatih/color"
)

// A Style is a palette. The zero Style paints nothing.
type Style struct {
	Key, String, Number, Literal, Punct Paint // JSON
	Offset, Dim                         Paint // positions, and less important bytes
	Kind, ID, Error                     Paint // columns of a record
}

// A Paint is a colour: the sequences that turn it on and off.
type Paint struct{ On, Off string }

// Append appends text between p.On and p.Off. Text must be safe already.
func (p Paint) Append(dst []byte, text string) []byte {
	dst = append(dst, p.On...)
	dst = append(dst, text...)
	return append(dst, p.Off...)
}

// Text is Append for strings.
func (p Paint) Text(text string) string { return p.On + text + p.Off }

// Colorful decides whether output has colour, by the value of --color, the environment
// and whether the output goes to a terminal. It is the only place that does.
func Colorful(mode string, getenv func(string) string, isTerminal bool) (bool, error) {
	switch mode {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
	default:
		return false, fmt.Errorf("invalid --color %q: want auto, always or never", mode)
	}
	if getenv("NO_COLOR") != "" {
		return false, nil
	}
	if force := getenv("FORCE_COLOR"); force != "" && force != "0" {
		return true, nil
	}
	return isTerminal && getenv("TERM") != "dumb", nil
}

// Palette returns the colours of decoded output; no colours if colorful is false.
func Palette(colorful bool) *Style {
	if !colorful {
		return &Style{}
	}
	return &Style{
		Key:     paint(color.FgBlue),
		String:  paint(color.FgGreen),
		Number:  paint(color.FgCyan),
		Literal: paint(color.FgMagenta),
		Punct:   paint(color.Faint),
		Dim:     paint(color.Faint),
		Error:   paint(color.FgRed),
		Kind:    paint(color.Bold),
		ID:      paint(color.FgYellow),
		Offset:  paint(color.Faint),
	}
}

// paint returns the sequences that fatih/color puts around text.
func paint(attributes ...color.Attribute) Paint {
	c := color.New(attributes...)
	c.EnableColor()
	on, off, _ := strings.Cut(c.Sprint("\x00"), "\x00")
	return Paint{On: on, Off: off}
}

// Safe is [AppendSafe] for strings.
func Safe(text string) string { return string(AppendSafe(nil, []byte(text))) }

// Count returns a number of things: "1 frame", "2 frames".
func Count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Range writes a number that is only known to be in a range, such as "400-600".
func Range(least, most int64) string {
	if most <= least {
		return strconv.FormatInt(least, 10)
	}
	return fmt.Sprintf("%d-%d", least, most)
}

// Dollars writes an amount in millionths of a dollar: "$0.0123".
func Dollars(micros int64) string {
	if micros < 100 {
		return fmt.Sprintf("$%.6f", float64(micros)/1e6)
	}
	return fmt.Sprintf("$%.4f", float64(micros)/1e6)
}

// Clip returns the beginning of text, at most n bytes, cut between runes.
func Clip[T string | []byte](text T, n int) T {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// First returns the first n characters of text, and how many follow.
func First(text string, n int) (first string, omitted int) {
	if len(text) <= n {
		return text, 0
	}
	for i := range text {
		if n == 0 {
			return text[:i], utf8.RuneCountInString(text[i:])
		}
		n--
	}
	return text, 0
}

// CutRune returns how many bytes at the end of text are an incomplete character.
func CutRune(text []byte) int {
	for n := 1; n <= min(len(text), utf8.UTFMax-1); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Shorten is Clip, with "…" at the end if text is cut.
func Shorten[T string | []byte](text T, n int) string {
	short := string(Clip(text, n))
	if len(short) < len(text) {
		short += "…"
	}
	return short
}

// Records returns a writer of NDJSON to a terminal: characters that are not safe to show
// become JSON escapes, so that each line is still the same JSON value. Each Write must have
// complete lines.
func Records(w io.Writer) io.Writer { return &lines{w: w, escape: escapeJSON} }

// Bytes returns a writer of any bytes to a terminal: they are shown as by [AppendSafe],
// except tabs and the ends of lines. A character must be in one Write.
func Bytes(w io.Writer) io.Writer { return &lines{w: w, escape: escapeText} }

type lines struct {
	w      io.Writer
	escape escaper // of all but tabs and the ends of lines
	buf    []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.buf = l.buf[:0]
	for line := range bytes.Lines(p) {
		text, ended := bytes.CutSuffix(line, []byte("\n"))
		l.buf, _ = appendSafe(l.buf, text, noBond, l.escapeButTab)
		if ended {
			l.buf = append(l.buf, '\n')
		}
	}
	if _, err := l.w.Write(l.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (l *lines) escapeButTab(dst []byte, r rune) []byte {
	if r == '\t' {
		return append(dst, '\t')
	}
	return l.escape(dst, r)
}

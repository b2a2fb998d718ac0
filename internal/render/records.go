package render

import (
	"bytes"
	"io"
)

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

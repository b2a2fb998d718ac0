package frame

import (
	"bytes"
	"errors"
	"fmt"
)

// Line frames are lines that end in LF. Blank lines are no frames: they belong
// to the wrapper of the frame that follows.
var Line Framing = line{}

type line struct{}

var (
	errCRLF        = errors.New("the line ends in CRLF, and the framing wants LF alone: was it written in text mode?")
	errLFInPayload = errors.New("line: the payload holds a line feed, which would end the frame")
)

func (line) Name() string  { return "line" }
func (line) About() string { return "one payload a line, ended by LF" }

// Next keeps in e.Start where the line at hand begins, and in e.seen how far
// it has been searched. What stands before it is blank: as much as fits a gap is
// one, and less belongs to the wrapper of the frame.
func (line) Next(data []byte, limit int, atEOF bool, e *Extent) *Error {
	for e.Start < gapSize {
		i := bytes.IndexByte(data[e.seen:], '\n')
		if i < 0 {
			return unterminated(data, limit, atEOF, e)
		}
		lf := e.seen + i
		e.seen = lf + 1
		text := data[e.Start:lf]
		payload := bytes.TrimSuffix(text, []byte("\r"))
		if len(payload) > limit {
			return tooLong(limit)
		}
		if !blank(payload) {
			e.Raw, e.End, e.Need = lf+1, e.Start+len(payload), 0
			if len(payload) < len(text) {
				e.Flaw = errCRLF
			}
			return nil
		}
		e.Start = lf + 1
	}
	return e.gap(e.Start)
}

// unterminated describes a line whose end has not been seen. A CR that it ends in may
// belong to that end, as long as there may be one.
func unterminated(data []byte, limit int, atEOF bool, e *Extent) *Error {
	e.seen = len(data)
	rest := data[e.Start:]
	payload := rest
	if !atEOF {
		payload = bytes.TrimSuffix(rest, []byte("\r"))
	}
	switch {
	case len(payload) > limit:
		return tooLong(limit)
	case !atEOF:
		e.End = len(data)
		return e.need(len(data)+1, "a line")
	case blank(rest):
		return e.gap(len(data))
	default:
		e.Raw, e.End, e.Open = len(data), len(data), true
		return e.need(0, "a line")
	}
}

// tooLong does not say how long a line is: that is not known before its end.
func tooLong(limit int) *Error {
	return &Error{Err: ErrTooLarge, Detail: fmt.Sprintf("a line is over the limit of %d", limit)}
}

// gap describes a gap in the first n bytes, which are blank. What it cannot hold is
// left in e.seen, so that a long line is not searched again for every gap of it.
func (e *Extent) gap(n int) *Error {
	raw := min(n, gapSize)
	*e = Extent{Raw: raw, Gap: true, seen: n - raw}
	return nil
}

// blank reports whether a line has nothing but white space.
func blank(text []byte) bool {
	for _, c := range text {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

func (line) Sync(data []byte, _ int) int {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1
	}
	return len(data)
}

func (line) header(dst []byte, _ int) []byte { return dst }

func (line) trailer() string { return "\n" }

func (line) admits(payload []byte) error {
	if bytes.IndexByte(payload, '\n') >= 0 {
		return errLFInPayload
	}
	return nil
}

func (line) exact(f *Frame) bool { return f.Start == 0 && f.End == len(f.Raw)-1 }

package frame

import (
	"bytes"
	"errors"
	"fmt"
)

// Line frames are lines that end in LF. Blank lines are not frames: they belong to the
// wrapper of the frame that follows.
var Line Framing = &line{delimited{"\n", errors.New("line: the payload holds a line feed, which would end the frame")}}

type line struct{ delimited }

// bom is the byte order mark of UTF-8. It is read past: the payload begins after it.
const bom = "\xef\xbb\xbf"

var errBOM = errors.New("the line begins with a byte order mark (U+FEFF): write UTF-8 without one, since strict readers refuse the line")

var errCRLF = errors.New("the line ends in CRLF; want LF alone: was it written in text mode?")

func (*line) Name() string  { return "line" }
func (*line) About() string { return "one payload a line, ended by LF" }

// Next keeps in e.Start where the current line begins, and in e.seen how far it has been
// searched. The bytes before it are blank: as much as fits into a gap becomes one, and less
// belongs to the wrapper of the frame.
func (*line) Next(data []byte, limit int, atEOF bool, e *Extent) *Error {
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
			e.skipBOM(data, errBOM)
			return nil
		}
		e.Start = lf + 1
	}
	return e.gap(e.Start)
}

// unterminated describes a line whose end has not been seen. A CR at its end may belong to
// the line end, unless the stream has ended.
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
		e.skipBOM(data, errBOM)
		return e.need(0, "a line")
	}
}

// skipBOM begins the payload of a whole frame after its byte order mark, if it has one and
// more, and sets the flaw.
func (e *Extent) skipBOM(data []byte, flaw error) {
	if payload := data[e.Start:e.End]; len(payload) > len(bom) && bytes.HasPrefix(payload, []byte(bom)) {
		e.Start += len(bom)
		e.Flaw = flaw
	}
}

// tooLong does not state the length of a line, which is not known before its end.
func tooLong(limit int) *Error {
	return &Error{Err: ErrTooLarge, Detail: fmt.Sprintf("a line is over the limit of %d", limit)}
}

// gap describes a gap in the first n bytes, which are blank. e.seen keeps how many do not
// fit, so that a long line is not searched again for each of its gaps.
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

func (*line) exact(f *Frame) bool { return f.Start == 0 && f.End == len(f.Raw)-1 }

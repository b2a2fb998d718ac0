package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

const (
	// maxDepth is how deep lists and objects may be nested: the stack of Python's reader has
	// a limit.
	maxDepth = 900
	// maxScalar is the length of the longest number, in bytes.
	maxScalar = 4096
)

// A value is a JSON value that was read. Lengths are in characters.
type value struct {
	kind    jsonscan.Kind
	raw     int64 // as it is written, without the space between tokens
	text    int64 // of a string without quotes and escapes
	content int64 // of the member content of an object, if that is a string; or -1
}

// length returns the length of a string, or of the JSON of another value.
func (v value) length() int64 {
	if v.kind == jsonscan.String {
		return v.text
	}
	return v.raw
}

// asItem returns the length of an item of a list; for a message, that of its content.
func (v value) asItem() int64 {
	if v.kind == jsonscan.Object && v.content >= 0 {
		return v.content
	}
	return v.length()
}

// A scanner checks and measures JSON while it reads it.
type scanner struct {
	r    *bufio.Reader
	at   int64
	line int64     // counts from 1, of values in lines; else 0
	from int64     // the line on which the current value begins
	copy io.Writer // gets everything that is read; may be nil
	err  error
}

func newScanner(r io.Reader) *scanner { return &scanner{r: bufio.NewReaderSize(r, pieceSize)} }

// document reads the only value, and its shape.
func (s *scanner) document(shape *Shape) error {
	v := s.scanValue(0, shape)
	if c := s.peek(); s.err == nil && c != 0 {
		s.fault("expected the end, found %q", c)
	}
	switch v.kind {
	case jsonscan.Object:
		shape.Type = "dict"
	case jsonscan.Array:
		shape.Type = "list"
	case jsonscan.String:
		shape.Type = "str"
	default:
		shape.Type = "scalar"
	}
	if v.kind != jsonscan.Object && v.kind != jsonscan.Array {
		shape.add(v.length())
	}
	return s.ended()
}

// lines reads values, one on each line as interpreters read them, and calls each for each.
func (s *scanner) lines(each func(value)) error {
	s.line, s.from = 1, 1
	last := int64(0)
	for s.peek() != 0 {
		if last == s.line {
			s.fault("a second value on the line")
			break
		}
		s.from, last = s.line, s.line
		v := s.scanValue(0, nil)
		if s.line != s.from {
			s.fault("the value goes on after the end of the line")
		}
		if s.ended() != nil {
			break
		}
		each(v)
	}
	return s.ended()
}

// ended returns the error that was found, if any.
func (s *scanner) ended() error {
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

func (s *scanner) fault(format string, args ...any) {
	if s.err == nil || errors.Is(s.err, io.EOF) {
		place := fmt.Sprintf("byte %d", s.at)
		if s.line > 0 { // a value that is not complete is found out on a later line
			place = fmt.Sprintf("line %d: %s", s.from, place)
		}
		s.err = fmt.Errorf("%s: invalid JSON: %s", place, fmt.Sprintf(format, args...))
	}
}

// take skips n buffered bytes.
func (s *scanner) take(n int) {
	b, _ := s.r.Peek(n)
	if s.line > 0 {
		s.line += int64(bytes.Count(b, []byte("\n")))
	}
	if s.copy != nil && s.err == nil {
		if _, err := s.copy.Write(b); err != nil {
			s.err = err
		}
	}
	_, _ = s.r.Discard(n) // they are buffered
	s.at += int64(n)
}

// buffered returns the next bytes, at least one unless there is an error.
func (s *scanner) buffered() []byte {
	if s.err != nil {
		return nil
	}
	if _, err := s.r.Peek(1); err != nil {
		s.err = err
		return nil
	}
	b, _ := s.r.Peek(s.r.Buffered())
	return b
}

// peek skips white space, and returns the next byte; 0 at the end.
func (s *scanner) peek() byte {
	for {
		b := s.buffered()
		rest := bytes.TrimLeft(b, " \t\r\n")
		s.take(len(b) - len(rest))
		switch {
		case len(rest) > 0 && rest[0] == 0:
			s.fault("found a NUL")
			return 0
		case len(rest) > 0:
			return rest[0]
		case s.err != nil:
			return 0
		}
	}
}

// scanValue reads a value, and adds its members or items to shape unless that is nil.
func (s *scanner) scanValue(depth int, shape *Shape) value {
	switch c := s.peek(); {
	case depth > maxDepth:
		s.fault("lists and objects are nested more than %d deep", maxDepth)
	case c == '{':
		return s.object(depth, shape)
	case c == '[':
		return s.array(depth, shape)
	case c == '"':
		raw, text, _ := s.str(nil)
		return value{kind: jsonscan.String, raw: raw, text: text}
	case c == 0:
		s.fault("it ends too early")
	default:
		return s.scalar()
	}
	return value{}
}

func (s *scanner) object(depth int, shape *Shape) value {
	v := value{kind: jsonscan.Object, raw: 2, content: -1}
	s.take(1)
	for n := 0; s.next(n, '}'); n++ {
		if s.peek() != '"' {
			s.fault("expected a key")
			break
		}
		var key [16]byte
		raw, _, name := s.str(key[:0])
		if s.peek() != ':' {
			s.fault("expected a colon after the key")
			break
		}
		s.take(1)
		member := s.scanValue(depth+1, nil)
		if string(name) == "content" && member.kind == jsonscan.String {
			v.content = member.text
		}
		v.raw += raw + 1 + member.raw + int64(min(n, 1))
		if shape != nil {
			shape.add(member.length())
		}
	}
	return v
}

func (s *scanner) array(depth int, shape *Shape) value {
	v := value{kind: jsonscan.Array, raw: 2}
	s.take(1)
	for n := 0; s.next(n, ']'); n++ {
		item := s.scanValue(depth+1, nil)
		v.raw += item.raw + int64(min(n, 1))
		if shape != nil {
			shape.add(item.asItem())
		}
	}
	return v
}

// next skips the text before item n, and reports whether there is one.
func (s *scanner) next(n int, end byte) bool {
	c := s.peek()
	switch {
	case s.err != nil || c == 0:
		s.fault("it ends too early")
		return false
	case c == end:
		s.take(1)
		return false
	case n == 0:
		return true
	case c != ',':
		s.fault("expected a comma or %q, found %q", end, c)
		return false
	}
	s.take(1)
	return true
}

// scalar reads a number, true, false or null.
func (s *scanner) scalar() value {
	var token []byte
	for s.err == nil {
		b := s.buffered()
		n := bytes.IndexAny(b, " \t\r\n,]}:\"[{")
		if n < 0 {
			n = len(b)
		}
		if len(token)+n > maxScalar {
			s.fault("a number is longer than %d digits", maxScalar)
			return value{}
		}
		token = append(token, b[:n]...)
		s.take(n)
		if n < len(b) || n == 0 {
			break
		}
	}
	if jsonscan.Valid(token) != nil {
		s.fault("found %.20q", token)
	}
	return value{kind: jsonscan.KindOf(token), raw: int64(len(token))}
}

// str reads a string. It appends its text to keep, as far as there is room.
func (s *scanner) str(keep []byte) (raw, text int64, kept []byte) {
	s.take(1)
	raw = 2
	for s.err == nil {
		b := s.buffered()
		n := bytes.IndexAny(b, "\"\\")
		run := b
		if n >= 0 {
			run = b[:n]
		} else if cut := render.CutRune(b); cut < len(b) {
			run = b[:len(b)-cut]
		} else if b, _ = s.r.Peek(utf8.UTFMax); len(b) > 0 { // a character in two pieces
			_, size := utf8.DecodeRune(b)
			run = b[:size]
		}
		if !jsonscan.ValidUTF8(run) || hasControl(run) {
			s.fault("a string is not UTF-8, or has control characters")
			return raw, text, keep
		}
		keep = append(keep, run[:min(len(run), cap(keep)-len(keep))]...)
		chars := countChars(run)
		raw, text = raw+chars, text+chars
		s.take(len(run))
		switch {
		case n < 0:
		case b[n] == '"':
			s.take(1)
			return raw, text, keep
		default:
			size, chars := s.escape()
			raw, text = raw+size, text+chars
		}
	}
	s.fault("it ends inside a string")
	return raw, text, keep
}

func hasControl(b []byte) bool {
	for _, c := range b {
		if c < ' ' {
			return true
		}
	}
	return false
}

// escape reads an escape, or two that are one character.
func (s *scanner) escape() (raw, text int64) {
	b, _ := s.r.Peek(12)
	for n := 2; n <= len(b); n++ {
		if token := quoted(b[:n]); jsonscan.Valid(token) == nil {
			if n == 6 && len(b) == 12 && isHigh(b) && isLow(b[6:]) {
				n = 12
			}
			s.take(n)
			return int64(n), 1
		}
	}
	s.fault("found the escape %.6q", b)
	return 0, 0
}

// isHigh reports whether an escape is the first half of a character, and isLow whether six
// bytes are an escape that is the second.
func isHigh(b []byte) bool { return isHalf(b, "89abAB") }
func isLow(b []byte) bool  { return isHalf(b, "cdefCDEF") && jsonscan.Valid(quoted(b)) == nil }

func isHalf(b []byte, third string) bool {
	return b[0] == '\\' && b[1] == 'u' && b[2]|0x20 == 'd' && strings.IndexByte(third, b[3]) >= 0
}

func quoted(inner []byte) []byte { return append(append([]byte{'"'}, inner...), '"') }

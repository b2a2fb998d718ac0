package jsonscan

import (
	"fmt"
	"unicode/utf8"
)

// SyntaxError describes why and where a text is not JSON.
type SyntaxError struct {
	Offset int    // of the first invalid byte
	Msg    string // without the offset
	// Truncated means that the text is valid so far but ends too early: with more bytes it
	// could be valid.
	Truncated bool
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Msg)
}

// fail records the first error, ends the walk and returns -1.
func (s *Scanner) fail(e SyntaxError) int {
	s.err = &e
	s.ready = false
	s.top = 0
	return -1
}

// failAt records an unexpected character, or the unexpected end of the text, at i.
func (s *Scanner) failAt(i int, where string) int {
	if i >= len(s.data) {
		return s.fail(SyntaxError{Offset: i, Msg: "unexpected end " + where, Truncated: true})
	}
	return s.fail(SyntaxError{Offset: i, Msg: "invalid character " + quoteChar(s.data[i:]) + " " + where})
}

// failAfterItem records that the character at i follows an item of a container
// of the given kind without a comma.
func (s *Scanner) failAfterItem(i int, kind Kind) int {
	if kind == Object {
		return s.failAt(i, "looking for ',' or '}' after a member")
	}
	return s.failAt(i, "looking for ',' or ']' after an element")
}

func (s *Scanner) failDepth(i int) int {
	return s.fail(SyntaxError{Offset: i, Msg: fmt.Sprintf("nesting deeper than %d", s.maxDepth)})
}

// failString records why the string is malformed at i.
func (s *Scanner) failString(i int) int {
	rest := s.data[i:]
	switch {
	case len(rest) == 0 || rest[0] < ' ':
		return s.failAt(i, "in a string")
	case rest[0] == '\\':
		return s.failEscape(i)
	case !utf8.FullRune(rest):
		return s.failAt(len(s.data), "in a string")
	}
	return s.fail(SyntaxError{Offset: i, Msg: "invalid UTF-8"})
}

// failEscape records what is wrong with the escape at i.
func (s *Scanner) failEscape(i int) int {
	rest := s.data[i:]
	if isEscapePrefix(rest) {
		return s.failAt(len(s.data), "in a string")
	}
	return s.fail(SyntaxError{Offset: i, Msg: fmt.Sprintf("invalid escape %s in string", escapeText(rest))})
}

// isEscapePrefix reports whether more bytes could make b a valid escape.
func isEscapePrefix(b []byte) bool {
	const longest = `\ud800\udc00`
	if len(b) == 1 {
		return true
	}
	padded := append(b[:len(b):len(b)], longest[min(len(b), len(longest)):]...)
	return len(b) < len(longest) && escapeLen(padded) > len(b)
}

// escapeText returns the escape at the start of b, quoted, as far as it may be shown.
func escapeText(b []byte) string {
	n := 2
	if b[1] == 'u' {
		n = min(6, len(b))
	}
	return fmt.Sprintf("%q", b[:n])
}

// quoteChar returns the first character of b in quotes.
func quoteChar(b []byte) string {
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 {
		return fmt.Sprintf(`'\x%02x'`, b[0])
	}
	return fmt.Sprintf("%q", r)
}

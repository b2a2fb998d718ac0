package render

import (
	"unicode/utf16"
	"unicode/utf8"
)

// AppendSafe appends text as one line that is safe to show on a terminal. Characters that are
// not safe become escapes: \n, \r and \t; \x1b for other ASCII controls and for bytes that
// are not UTF-8; \u202e and \U000e0041 for characters beyond ASCII that are invisible or
// affect their neighbours. A backslash in the text is not escaped, so the result is for
// people, not for parsing.
func AppendSafe(dst, text []byte) []byte {
	dst, _ = appendSafe(dst, text, noBond, escapeText)
	return dst
}

// An escaper appends the escape of a character.
type escaper func(dst []byte, r rune) []byte

// appendSafe appends text, which follows a character with the bond prev, with unsafe
// characters escaped. It returns the bond of the last character.
func appendSafe(dst, text []byte, prev bond, escape escaper) ([]byte, bond) {
	for len(text) > 0 {
		if n := printable(text); n > 0 {
			dst = append(dst, text[:n]...)
			text, prev = text[n:], noBond
			continue
		}
		if text[0] < utf8.RuneSelf {
			dst = escape(dst, rune(text[0]))
			text, prev = text[1:], noBond
			continue
		}
		r, n := utf8.DecodeRune(text)
		if n == 1 {
			dst = appendByteEscape(dst, text[0])
			text, prev = text[1:], noBond
			continue
		}
		var shown bool
		if shown, prev = prev.showAfter(r); shown {
			dst = append(dst, text[:n]...)
		} else {
			dst = escape(dst, r)
		}
		text = text[n:]
	}
	return dst, prev
}

// printable returns how many printable ASCII characters text begins with.
func printable(text []byte) int {
	for i, c := range text {
		if !isPrintable(c) {
			return i
		}
	}
	return len(text)
}

func isPrintable(c byte) bool { return c >= ' ' && c <= '~' }

const hexDigits = "0123456789abcdef"

// escapeText is the escaper of plain text.
func escapeText(dst []byte, r rune) []byte {
	switch {
	case r == '\n':
		return append(dst, `\n`...)
	case r == '\r':
		return append(dst, `\r`...)
	case r == '\t':
		return append(dst, `\t`...)
	case r < utf8.RuneSelf:
		return appendByteEscape(dst, byte(r))
	case r > 0xFFFF:
		return appendHexDigits(append(dst, `\U`...), r, 8)
	}
	return appendHexDigits(append(dst, `\u`...), r, 4)
}

// escapeJSON is the escaper of JSON strings, where the escape is the same character.
func escapeJSON(dst []byte, r rune) []byte {
	if r > 0xFFFF {
		high, low := utf16.EncodeRune(r)
		return escapeJSON(escapeJSON(dst, high), low)
	}
	return appendHexDigits(append(dst, `\u`...), r, 4)
}

func appendByteEscape(dst []byte, c byte) []byte {
	return appendHexDigits(append(dst, `\x`...), rune(c), 2)
}

// appendHexDigits appends the last n hexadecimal digits of r.
func appendHexDigits(dst []byte, r rune, n int) []byte {
	for shift := 4 * (n - 1); shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[r>>shift&0xF])
	}
	return dst
}

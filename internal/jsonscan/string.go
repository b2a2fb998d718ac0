package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// stringEnd returns the offset after the string whose opening quote is at data[i]. If the
// string is malformed, it returns the complement of the offset of the first wrong byte, escape
// or character.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); {
		if i+8 <= len(data) {
			m := special(binary.LittleEndian.Uint64(data[i:]))
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		}
		n := 1
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			n = escapeLen(data[i:])
		case c >= utf8.RuneSelf:
			n = runeLen(data[i:])
		case c < ' ':
			n = 0
		}
		if n == 0 {
			return ^i
		}
		i += n
	}
	return ^i
}

// passSurrogates goes on from the end that stringEnd has returned, if that is the escape of a
// surrogate without its pair.
func passSurrogates(data []byte, end int) int {
	for end < 0 && isSurrogate(data[^end:]) {
		end = stringEnd(data, ^end+5)
	}
	return end
}

// isSurrogate reports whether b begins with the escape of a surrogate, unless b ends where
// that of its pair may follow.
func isSurrogate(b []byte) bool { return unicodeEscape(b)&^0x7FF == 0xD800 && !isEscapePrefix(b) }

// plainEnd returns the offset of the first byte from i that may not be plain: a quote, a
// backslash, a control character or a byte beyond ASCII. It returns len(data) if there is none.
func plainEnd(data []byte, i int) int {
	for i+8 <= len(data) {
		if m := special(binary.LittleEndian.Uint64(data[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(data) && isPlain(data[i]) {
		i++
	}
	return i
}

func isPlain(c byte) bool { return c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf }

// ones times a byte is a word of eight such bytes; tops has the top bit of each byte set.
const (
	ones = 0x0101010101010101
	tops = 0x80 * ones
)

// special checks eight bytes of a string at once. The lowest bit set in the result is the top
// bit of the first byte that is not plain. Higher bits mean nothing, because the subtractions
// borrow.
func special(w uint64) uint64 {
	return (w | (w - ' '*ones) | ((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones)) & tops
}

// escapeLen returns the length of the escape at the start of b, or 0 if it is invalid. A pair
// of surrogates is one escape.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if simpleEscapes[b[1]] != 0 {
		return 2
	}
	r := unicodeEscape(b)
	switch {
	case r < 0 || isLowSurrogate(r):
		return 0
	case !isHighSurrogate(r):
		return 6
	case isLowSurrogate(unicodeEscape(b[6:])):
		return 12
	}
	return 0
}

// simpleEscapes maps the letter after a backslash to the character that it stands for.
var simpleEscapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// unicodeEscape returns the UTF-16 unit of the escape at the start of b, such as \u00e9, or -1
// if there is none.
func unicodeEscape(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	r := rune(hexDigits[b[2]])<<12 | rune(hexDigits[b[3]])<<8 | rune(hexDigits[b[4]])<<4 | rune(hexDigits[b[5]])
	return max(r, -1)
}

// hexDigits maps a hexadecimal digit to its value, and any other byte to -1.
var hexDigits = func() (table [256]int8) {
	for c := range table {
		table[c] = int8(strings.IndexByte("0123456789abcdef", byte(c)))
	}
	copy(table['A':], table['a':'g'])
	return table
}()

func isHighSurrogate(r rune) bool { return r&^0x3FF == 0xD800 }
func isLowSurrogate(r rune) bool  { return r&^0x3FF == 0xDC00 }

// runeLen returns the length of the non-ASCII character at the start of b, or 0 if it is not
// valid UTF-8. The masks are those of table 3-7 of the Unicode standard, read as one
// little-endian word.
func runeLen(b []byte) int {
	if len(b) < 4 {
		return runeLenSlow(b)
	}
	switch w := binary.LittleEndian.Uint32(b); {
	case w&0xC0E0 == 0x80C0:
		if w&0x1E != 0 { // otherwise overlong
			return 2
		}
	case w&0xC0C0F0 == 0x8080E0:
		if top := w & 0x200F; top != 0 && top != 0x200D { // otherwise overlong or a surrogate
			return 3
		}
	case w&0xC0C0C0F8 == 0x808080F0:
		if top := bits.ReverseBytes16(uint16(w & 0x3007)); top >= 0x010 && top <= 0x400 { // otherwise overlong or beyond U+10FFFF
			return 4
		}
	}
	return 0
}

func runeLenSlow(b []byte) int {
	if _, n := utf8.DecodeRune(b); n > 1 {
		return n
	}
	return 0
}

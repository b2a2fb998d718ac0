package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf16"
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

// Unquote returns the text of a string token. It borrows from raw unless raw has escapes, and
// returns false unless raw is exactly one valid string. If only the pairs of surrogates are
// missing, it returns false and the text with U+FFFD in their places.
func Unquote(raw []byte) (text []byte, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return nil, false
	}
	end := tokenEnd(raw)
	if passSurrogates(raw, end) != len(raw) {
		return nil, false
	}
	return unquoteValid(raw), end > 0
}

// tokenEnd is stringEnd for the string at the start of data.
func tokenEnd(data []byte) int {
	if len(data) >= blockLen && ValidUTF8(data) {
		return validStringEnd(data, 0)
	}
	return stringEnd(data, 0)
}

// unquoteValid is Unquote of a string token that is known to be valid.
func unquoteValid(raw []byte) []byte { return unescape(raw[1 : len(raw)-1 : len(raw)-1]) }

// unescape resolves the escapes in inner, the valid inside of a string token. It borrows from
// inner if there are none.
func unescape(inner []byte) []byte {
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return appendUnescaped(make([]byte, 0, len(inner)), inner)
}

// appendUnescaped appends text with its escapes, which are valid, resolved. A surrogate without
// its pair becomes U+FFFD.
func appendUnescaped(dst, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		text = text[i:]
		n := escapeLen(text)
		switch r := unicodeEscape(text); n {
		case 0:
			dst = utf8.AppendRune(dst, utf8.RuneError)
			n = 6
		case 2:
			dst = append(dst, simpleEscapes[text[1]])
		case 6:
			dst = utf8.AppendRune(dst, r)
		case 12:
			dst = utf8.AppendRune(dst, utf16.DecodeRune(r, unicodeEscape(text[6:])))
		}
		text = text[n:]
	}
}

// AppendQuote appends text as a JSON string. It escapes only what JSON requires; invalid UTF-8
// becomes U+FFFD. It may overwrite the full capacity of dst.
func AppendQuote(dst, text []byte) []byte {
	if quoted, ok := AppendQuoteUTF8(dst, text); ok {
		return quoted
	}
	return appendQuoteWords(append(dst, '"'), text)
}

// AppendQuoteUTF8 is AppendQuote for text that must be UTF-8. If it is not, AppendQuoteUTF8
// returns dst unchanged, and false.
func AppendQuoteUTF8(dst, text []byte) (_ []byte, ok bool) {
	if !ValidUTF8(text) {
		return dst, false
	}
	dst = append(dst, '"')
	switch {
	case wide:
		return appendQuoteHalves(dst, text), true
	case vectors && len(text) >= blockLen:
		return appendQuoteBlocks(dst, text), true
	}
	return appendQuoteWords(dst, text), true
}

// quotedAtOnce bounds the text for which appendQuoteHalves reserves space in advance: twice the
// length of the text.
const quotedAtOnce = 4 << 10

// appendQuoteHalves is appendQuoteWords for text that is valid UTF-8, in halves of
// blocks.
func appendQuoteHalves(dst, text []byte) []byte {
	for len(text) > 0 {
		piece := text[:min(len(text), quotedAtOnce)]
		dst = slices.Grow(dst, 2*len(piece)+blockLen)
		written, read := quoteBlocks512(dst[len(dst):cap(dst)], piece)
		dst = dst[:len(dst)+written]
		if read < len(piece) {
			dst = appendEscape(dst, piece[read])
			read++
		}
		text = text[read:]
	}
	return append(dst, '"')
}

// appendQuoteBlocks is appendQuoteWords for text of at least blockLen bytes that
// is valid UTF-8.
//
// Each round appends the plain bytes at the start of a block and the byte after them, escaped
// if necessary, without a branch on any byte.
func appendQuoteBlocks(dst, text []byte) []byte {
	last := (*[blockLen]byte)(text[len(text)-blockLen:])
	for len(text) >= blockLen {
		dst = slices.Grow(dst, blockLen+len(spelling{}.bytes))
		room := dst[len(dst):cap(dst)]
		block := (*[blockLen]byte)(text)
		n := min(bits.TrailingZeros64(escapedBytes(block)), blockLen-1)
		*(*[blockLen]byte)(room) = *block
		s := &spellings[block[n]]
		*(*[len(s.bytes)]byte)(room[n:]) = s.bytes
		dst = dst[:len(dst)+n+int(s.n)]
		text = text[n+1:]
	}
	for mask := escapedBytes(last) >> (blockLen - len(text)); mask != 0; {
		n := bits.TrailingZeros64(mask)
		dst = appendEscape(append(dst, text[:n]...), text[n])
		text = text[n+1:]
		mask >>= n + 1
	}
	return append(append(dst, text...), '"')
}

// A spelling is how a byte is written inside a JSON string.
type spelling struct {
	bytes [7]byte
	n     uint8
}

var spellings = func() (table [256]spelling) {
	for c := range table {
		text := []byte{byte(c)}
		if c < ' ' || c == '"' || c == '\\' {
			text = appendEscape(nil, byte(c))
		}
		table[c].n = uint8(copy(table[c].bytes[:], text))
	}
	return table
}()

// appendQuoteWords is AppendQuote without the opening quote.
func appendQuoteWords(dst, text []byte) []byte {
	for len(text) > 0 {
		n := plainEnd(text, 0)
		dst = append(dst, text[:n]...)
		text = text[n:]
		if len(text) == 0 {
			break
		}
		if c := text[0]; c < utf8.RuneSelf {
			dst = appendEscape(dst, c)
			text = text[1:]
			continue
		}
		r, n := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, r)
		text = text[n:]
	}
	return append(dst, '"')
}

// appendEscape appends the shortest escape of c.
func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	if letter := escapeLetters[c]; letter != 0 {
		return append(dst, '\\', letter)
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
}

// escapeLetters maps a character to the letter of its simple escape.
var escapeLetters = [utf8.RuneSelf]byte{
	'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't',
}

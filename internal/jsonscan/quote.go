package jsonscan

import (
	"bytes"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

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

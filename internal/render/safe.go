package render

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/mattn/go-runewidth"
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

// AppendFit is AppendSafe, cut to at most width cells of a terminal. If text is cut, it ends
// in "…". Characters that belong together, such as a letter and its accents, and escapes are
// not split. Characters of ambiguous width count as one cell. AppendFit reads no more of text
// than fits.
func AppendFit(dst, text []byte, width int) []byte {
	if width <= 0 {
		return dst
	}
	if n := printable(text[:min(len(text), width+1)]); n == len(text) && n <= width {
		return append(dst, text...)
	} else if n > width {
		return appendEllipsis(append(dst, text[:width-1]...))
	}
	return appendClusters(dst, text, width)
}

func appendEllipsis(dst []byte) []byte { return append(dst, "…"...) }

// cells measures the width of characters. The package's default depends on the environment.
var cells = &runewidth.Condition{StrictEmojiNeutral: true}

// appendClusters is AppendFit for text that is not plain ASCII.
func appendClusters(dst, text []byte, width int) []byte {
	head := clip(text, maxBytes(width))
	used, fits := 0, len(dst) // fits is where dst must end for "…" to have a cell
	bond := noBond
	for it := graphemes.FromBytes(head); it.Next(); {
		start := len(dst)
		dst, bond = appendSafe(dst, it.Value(), bond, escapeText)
		used += Cells(dst[start:])
		if used > width {
			return appendEllipsis(dst[:fits])
		}
		if used < width {
			fits = len(dst)
		}
	}
	if len(head) < len(text) {
		return appendEllipsis(dst[:fits])
	}
	return dst
}

// Cells returns the width of safe text, in cells. It allocates only for several characters.
func Cells(safe []byte) int {
	if printable(safe) == len(safe) {
		return len(safe)
	}
	if r, n := utf8.DecodeRune(safe); n == len(safe) {
		return cells.RuneWidth(r)
	}
	return cells.StringWidth(string(safe))
}

// maxBytes bounds the text that is read for width cells. The longest emoji have about 16
// bytes per cell; text with more characters without width is cut.
func maxBytes(width int) int { return 64 + 16*min(width, 1<<24) }

// clip returns at most the first n bytes of text, cut between characters.
func clip(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	for back := range utf8.UTFMax {
		if utf8.RuneStart(text[n-back]) {
			return text[:n-back]
		}
	}
	return text[:n]
}

// AppendFitPath is AppendFit, but if text ends in the path of a call, such as
// "/acme.v1.Jobs/Start", it keeps the end of the path instead of its beginning.
func AppendFitPath(dst, text []byte, width int) []byte {
	at := bytes.IndexByte(text, '/')
	const least = 8 // cells of a path that are useful
	switch {
	case len(text) <= width, at < 0, at > 0 && text[at-1] != ' ', width-at-1 < least,
		bytes.Count(text[at:], []byte("/")) < 2, printable(text) < len(text), bytes.IndexByte(text[at:], ' ') >= 0:
		return AppendFit(dst, text, width)
	}
	dst = appendEllipsis(append(dst, text[:at]...))
	return append(dst, text[len(text)-(width-at-1):]...)
}

// bytesPerLine is the number of bytes in a line, in two groups.
const bytesPerLine = 16

// A Hex is a view of the bytes of a frame, as hexdump -C shows them.
type Hex struct {
	// Base is the offset that is shown for the first byte.
	Base int64
	// Start and End bound the payload. The wrapper around it is painted [Style.Dim].
	Start, End int
	// Prefix begins every line.
	Prefix string
}

// Append appends data as lines with an offset, sixteen bytes and their ASCII characters, or
// dots for other bytes. A nil Style paints nothing.
func (h Hex) Append(dst, data []byte, st *Style) []byte {
	if st == nil {
		st = &Style{}
	}
	for at := 0; at < len(data); at += bytesPerLine {
		dst = h.line(dst, data, at, st)
	}
	return dst
}

// line appends the line that begins with data[at].
func (h Hex) line(dst, data []byte, at int, st *Style) []byte {
	dst = append(dst, h.Prefix...)
	dst = append(dst, st.Offset.On...)
	dst = fmt.Appendf(dst, "%08x", h.Base+int64(at))
	dst = append(dst, st.Offset.Off...)

	b := brush{Hex: h, paint: st.Dim}
	end := min(at+bytesPerLine, len(data))
	for i := at; i < end; i++ {
		dst = append(dst, gap(i-at)...)
		dst = b.move(dst, i)
		dst = append(dst, hexDigits[data[i]>>4], hexDigits[data[i]&0xF])
	}
	dst = b.lift(dst)
	for column := end - at; column < bytesPerLine; column++ {
		dst = append(dst, gap(column)...)
		dst = append(dst, "  "...)
	}

	dst = append(dst, "  |"...)
	for i := at; i < end; i++ {
		dst = b.move(dst, i)
		dst = append(dst, visible(data[i]))
	}
	dst = b.lift(dst)
	return append(dst, "|\n"...)
}

// gap returns the space before the byte in the given column.
func gap(column int) string {
	if column%(bytesPerLine/2) == 0 {
		return "  "
	}
	return " "
}

func visible(c byte) byte {
	if isPrintable(c) {
		return c
	}
	return '.'
}

// A brush paints the bytes of the wrapper, but not of the payload.
type brush struct {
	Hex
	paint Paint
	down  bool
}

// move puts the brush down or lifts it for the byte at i.
func (b *brush) move(dst []byte, i int) []byte {
	if i >= b.Start && i < b.End {
		return b.lift(dst)
	}
	if !b.down {
		b.down = true
		dst = append(dst, b.paint.On...)
	}
	return dst
}

func (b *brush) lift(dst []byte) []byte {
	if b.down {
		b.down = false
		dst = append(dst, b.paint.Off...)
	}
	return dst
}

// hidden has the characters beyond ASCII that are never shown as they are.
//
// They are the control characters (Cc), the line and paragraph separators, the
// interlinear annotations, the controls of Egyptian hieroglyphs, and all of
// Unicode's derived property Default_Ignorable_Code_Point: zero-width and
// bidirectional controls, fillers, variation selectors, and the tags, in which
// a whole text can travel unseen.
var hidden = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0080, Hi: 0x009F, Stride: 1}, // C1 controls
		{Lo: 0x00AD, Hi: 0x00AD, Stride: 1}, // soft hyphen
		{Lo: 0x034F, Hi: 0x034F, Stride: 1}, // combining grapheme joiner
		{Lo: 0x061C, Hi: 0x061C, Stride: 1}, // Arabic letter mark
		{Lo: 0x115F, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17B4, Hi: 0x17B5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180B, Hi: 0x180F, Stride: 1}, // Mongolian selectors and separator
		{Lo: 0x200B, Hi: 0x200F, Stride: 1}, // zero-width characters, direction marks
		{Lo: 0x2028, Hi: 0x202E, Stride: 1}, // separators, embeddings and overrides
		{Lo: 0x2060, Hi: 0x206F, Stride: 1}, // word joiner, invisible operators, isolates
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xFE00, Hi: 0xFE0F, Stride: 1}, // variation selectors
		{Lo: 0xFEFF, Hi: 0xFEFF, Stride: 1}, // byte order mark
		{Lo: 0xFFA0, Hi: 0xFFA0, Stride: 1}, // halfwidth Hangul filler
		{Lo: 0xFFF0, Hi: 0xFFFB, Stride: 1}, // reserved, interlinear annotations
	},
	R32: []unicode.Range32{
		{Lo: 0x13430, Hi: 0x1343F, Stride: 1}, // hieroglyph controls
		{Lo: 0x1BCA0, Hi: 0x1BCA3, Stride: 1}, // shorthand controls
		{Lo: 0x1D173, Hi: 0x1D17A, Stride: 1}, // musical controls
		{Lo: 0xE0000, Hi: 0xE0FFF, Stride: 1}, // tags, supplementary variation selectors
	},
	LatinOffset: 2,
}

// A bond says whether an invisible character may follow and shape a character. Emoji and
// several scripts use joiners and variation selectors, which are kept there; elsewhere, such
// as in an identifier, they would only hide a difference.
type bond uint8

const (
	noBond  bond = iota // nothing to shape
	glyph               // a visible character of a script that joins
	variant             // a glyph with its variation selector
)

// joining is the first character of the scripts that use joiners.
const joining = 0x0600

// showAfter reports whether r, which is not ASCII, may be shown after a character with the
// bond b, and returns the bond of r.
func (b bond) showAfter(r rune) (shown bool, after bond) {
	switch {
	case r >= 0xFE00 && r <= 0xFE0F && b == glyph:
		return true, variant
	case (r == 0x200C || r == 0x200D) && b != noBond:
		return true, noBond
	case unicode.Is(hidden, r):
		return false, noBond
	case r < joining:
		return true, noBond
	}
	return true, glyph
}

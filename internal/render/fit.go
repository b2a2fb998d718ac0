package render

import (
	"bytes"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/mattn/go-runewidth"
)

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

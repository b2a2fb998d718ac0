package render

import "unicode"

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

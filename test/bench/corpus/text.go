package corpus

import "math/rand/v2"

// markEvery is the average number of bytes between the starts of two marks. Plain ASCII
// would flatter every JSON scanner that skips it in words.
const markEvery = 36

// A spelling is how text is written: plain, or inside a JSON string.
type spelling int

const (
	plain spelling = iota
	quoted
)

// marks are the characters outside plain ASCII, and those that JSON escapes.
var marks = [...][2]string{
	{plain: "é", quoted: "é"},
	{plain: "\n", quoted: `\n`},
	{plain: "→", quoted: "→"},
	{plain: `"`, quoted: `\"`},
	{plain: "日本", quoted: "日本"},
	{plain: `\`, quoted: `\\`},
	{plain: "🙂", quoted: "🙂"},
	{plain: "\t", quoted: `\t`},
	{plain: "ü", quoted: `\u00fc`},
}

var words = [...]string{
	"the ", "unit ", "streams ", "each ", "answer ", "in ", "parts, ", "so ", "a ",
	"controller ", "may ", "ask ", "for ", "its ", "state ", "while ", "it ", "works; ",
	"func ", "return ", "x := 1; ", "if err ", "(see 3.2) ", "cancelled ", "{ok} ",
}

// A texter writes text, and counts it.
type texter struct {
	rnd          *rand.Rand
	toMark       int
	bytes, marks int64
}

// appendText appends text that takes n bytes in the given spelling.
func (t *texter) appendText(dst []byte, n int, s spelling) []byte {
	t.bytes += int64(max(n, 0))
	for n > 0 {
		piece := t.next(s)
		if len(piece) > n {
			piece = "................"[:n]
		}
		dst = append(dst, piece...)
		t.toMark -= len(piece)
		n -= len(piece)
	}
	return dst
}

// next returns a mark if one is due, else a word.
func (t *texter) next(s spelling) string {
	if t.toMark > 0 {
		return words[t.rnd.IntN(len(words))]
	}
	t.marks++
	t.toMark += markEvery/2 + t.rnd.IntN(markEvery+1)
	return marks[t.rnd.IntN(len(marks))][s]
}

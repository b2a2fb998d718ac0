package jsonscan

import (
	"bytes"
	"errors"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// inWords calls f with the vector instructions disabled.
func inWords(f func()) {
	defer func(v, w bool) { vectors, wide = v, w }(vectors, wide)
	vectors, wide = false, false
	f()
}

// inShortVectors calls f without AVX-512.
func inShortVectors(f func()) {
	defer func(w bool) { wide = w }(wide)
	wide = false
	f()
}

// needVectors skips a test if the processor lacks the instructions it tests.
func needVectors(t testing.TB) {
	if !vectors {
		t.Skip("the processor lacks AVX2 or BMI2")
	}
}

// outcome holds the results for a text of all functions that have two implementations.
type outcome struct {
	utf8     bool
	err      SyntaxError
	key      string
	offset   int
	newline  bool
	quoted   string
	unquoted string
	compact  string // of a valid text
}

func outcomeOf(text []byte) (o outcome) {
	var s Scanner
	s.Init(text)
	var syntax *SyntaxError
	if errors.As(s.End(), &syntax) {
		o.err = *syntax
	}
	key, offset, _ := s.Duplicate()
	unquoted, _ := Unquote(text)
	o.utf8 = ValidUTF8(text)
	o.key, o.offset, o.newline = string(key), offset, s.Newline()
	o.quoted, o.unquoted = string(AppendQuote(nil, text)), string(unquoted)
	if syntax == nil {
		o.compact = string(AppendCompact(nil, text))
	}
	return o
}

func checkBothWays(t *testing.T, text []byte) {
	t.Helper()
	got := outcomeOf(text)
	var short, want outcome
	inShortVectors(func() { short = outcomeOf(text) })
	inWords(func() { want = outcomeOf(text) })
	if got != want || short != want {
		t.Fatalf("%q\nin vectors %+v\nin AVX2    %+v\n  in words %+v", text, got, short, want)
	}
	if got.utf8 != utf8.Valid(text) {
		t.Fatalf("%q: ValidUTF8 = %v", text, got.utf8)
	}
}

// FuzzVectors compares the results in vectors with those in words, wherever the text lies in
// the blocks.
func FuzzVectors(f *testing.F) {
	needVectors(f)
	for i, s := range seeds {
		f.Add([]byte(s), uint8(i))
	}
	f.Fuzz(func(t *testing.T, text []byte, before uint8) {
		pad := strings.Repeat("x", int(before)%(2*blockLen))
		rest := strings.Repeat("z", blockLen)
		for _, around := range []string{
			"@", `"` + pad + `@"`, `"` + pad + `@` + rest + `"`, `["` + pad + `",@]`, `{"` + pad + `":"@","` + rest + `":[@]}`,
		} {
			checkBothWays(t, bytes.ReplaceAll([]byte(around), []byte("@"), text))
		}
	})
}

// The tests, which mostly read short texts, also pass with words alone.
func TestVerdictsInWords(t *testing.T) {
	inWords(func() {
		for _, test := range []func(*testing.T){TestUTF8, TestStringBytes, TestErrors, TestNoAllocations} {
			test(t)
		}
	})
}

// Byte sequences at the limits of UTF-8 are judged correctly wherever they lie, in particular
// across block boundaries and at the end, and whatever surrounds them.
func TestValidBlocks(t *testing.T) {
	needVectors(t)
	const edges = "\x00\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff"
	rng := rand.New(rand.NewPCG(3, 4))
	valid := 0
	for range 300_000 {
		base := []string{"a", "é", "日", "🙂", "aé日🙂"}[rng.IntN(5)]
		text := []byte(strings.Repeat(base, 128/len(base)+rng.IntN(20)))
		at := rng.IntN(len(text))
		for i := range min(1+rng.IntN(4), len(text)-at) {
			text[at+i] = edges[rng.IntN(len(edges))]
		}
		got := validBlocks(text)
		if got != utf8.Valid(text) || got != validBlocks256(text) {
			t.Fatalf("validBlocks(%q) = %v, and %v in AVX2", text, got, validBlocks256(text))
		}
		if got {
			valid++
		}
	}
	if valid < 1000 {
		t.Errorf("only %d texts were valid", valid)
	}
}

// Each Unicode character, and each invalid code point, is tried alone.
func TestValidBlocksOfEveryCharacter(t *testing.T) {
	needVectors(t)
	for code := range 0x120000 {
		text := bytes.Repeat([]byte("x"), 2*blockLen)
		at := 28 + code%8
		if code%3 == 0 {
			at = len(text) - len(encode(code))
		}
		copy(text[at:], encode(code))
		if want := utf8.Valid(text); validBlocks(text) != want || validBlocks256(text) != want {
			t.Fatalf("%x at %d: validBlocks = %v", text[at:at+4], at, validBlocks(text))
		}
	}
}

// encode encodes a code point as UTF-8, even an invalid one.
func encode(code int) []byte {
	tail := func(shift int) byte { return 0x80 | byte(code>>shift)&0x3F }
	switch {
	case code < 0x80:
		return []byte{byte(code)}
	case code < 0x800:
		return []byte{0xC0 | byte(code>>6), tail(0)}
	case code < 0x10000:
		return []byte{0xE0 | byte(code>>12), tail(6), tail(0)}
	}
	return []byte{0xF0 | byte(code>>18), tail(12), tail(6), tail(0)}
}

// stringStop agrees with a loop over the bytes on strings full of backslashes, with runs of
// them across block boundaries.
func TestStringStop(t *testing.T) {
	needVectors(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, alphabet := range []string{"a\\", "aaaaaaaaaaaaaaaa\\n", `"\/bfnrt`, "\\\\\\\\\\\\\"", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\\\n\x00\x1f\x80\"u", `aaaaaaaa\u00000cCdD9F`} {
		for range 30_000 {
			text := make([]byte, blockLen+rng.IntN(3*blockLen))
			for i := range text {
				text[i] = alphabet[rng.IntN(len(alphabet))]
			}
			i := rng.IntN(len(text) + 1)
			want := stringStopByBytes(text, i)
			if got, short := stringStop(text, i), stringStop256(text, i); got != want || short != want {
				t.Fatalf("stringStop(%q, %d) = %d, in AVX2 %d, want %d", text, i, got, short, want)
			}
		}
	}
}

func stringStopByBytes(text []byte, i int) int {
	for escape := -1; i < len(text); i++ {
		switch c := text[i]; {
		case c < ' ', escape < 0 && c == '"', escape >= 0 && !isPassed(text[escape:]):
			return i
		case escape < 0 && c == '\\':
			escape = i
		default:
			escape = -1
		}
	}
	return len(text)
}

// isPassed reports whether stringStop passes over the escape at the start of text.
func isPassed(text []byte) bool {
	r := unicodeEscape(text)
	return simpleEscapes[text[1]] != 0 || r >= 0 && r>>12 != 0xD
}

// Every byte that must stop a string does so at every position.
func TestStringStopAtEveryByte(t *testing.T) {
	needVectors(t)
	for c := range 0x100 {
		for at := range 2 * blockLen {
			for _, before := range []byte{'x', '\\'} {
				text := bytes.Repeat([]byte("xxxx"), blockLen)
				text[at], text[at+1] = before, byte(c)
				text = text[:at+2+c%blockLen+blockLen/2]
				if len(text) < blockLen {
					continue
				}
				want := stringStopByBytes(text, 0)
				if got, short := stringStop(text, 0), stringStop256(text, 0); got != want || short != want {
					t.Fatalf("stringStop(%q) = %d, in AVX2 %d, want %d", text, got, short, want)
				}
			}
		}
	}
}

func TestEscapedBytes(t *testing.T) {
	needVectors(t)
	for c := range 0x100 {
		for at := range blockLen {
			block := [blockLen]byte([]byte(strings.Repeat("x", blockLen)))
			block[at] = byte(c)
			want := uint64(0)
			if spellings[c].n > 1 {
				want = 1 << at
			}
			if got := escapedBytes(&block); got != want {
				t.Fatalf("%#x at %d: mask has bit %d", c, at, bits.TrailingZeros64(got))
			}
		}
	}
}

// Every ASCII byte, in texts that end anywhere in a block, is written as it is with words.
func TestAppendQuoteAtEveryByte(t *testing.T) {
	for c := range byte(utf8.RuneSelf) {
		for n := 1; n < 2*blockLen; n++ {
			text := []byte(strings.Repeat(`x\"y`, blockLen))[:n]
			text[int(c)%n] = c
			got := AppendQuote(nil, text)
			var want []byte
			inWords(func() { want = AppendQuote(nil, text) })
			if !bytes.Equal(got, want) {
				t.Fatalf("AppendQuote(%q) = %s, in words %s", text, got, want)
			}
		}
	}
}

// A long text of escapes only fills exactly the space that it is documented to need.
func TestQuoteBlocksStayInTheirRoom(t *testing.T) {
	if !wide {
		t.Skip("the processor lacks AVX-512")
	}
	text := []byte(strings.Repeat(`"`, 3*blockLen+1))
	room := 2*len(text) + blockLen
	dst := bytes.Repeat([]byte("~"), room+blockLen)
	written, read := quoteBlocks512(dst[:room], text)
	if written != 2*len(text) || read != len(text) {
		t.Errorf("wrote %d and read %d of %d", written, read, len(text))
	}
	if string(dst[:written]) != strings.Repeat(`\"`, len(text)) {
		t.Errorf("wrote %q", dst[:written])
	}
	if string(dst[room:]) != strings.Repeat("~", blockLen) {
		t.Errorf("wrote beyond its room: %q", dst[room:])
	}
}

package jsonscan

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// checkVerdict compares the result for a text, alone and as part of a text that is read in
// blocks, with that of jsontext.
func checkVerdict(t *testing.T, text []byte) {
	t.Helper()
	checkOneVerdict(t, text)
	checkOneVerdict(t, slices.Concat([]byte("["), text, []byte(`,"`+longText+`"]`)))
}

var longText = strings.Repeat("x", blockLen)

func checkOneVerdict(t *testing.T, text []byte) {
	t.Helper()
	if err, want := Valid(text), jsontext.Value(text).IsValid(lenient...); (err == nil) != want {
		t.Fatalf("Valid(%q) = %v, jsontext says valid = %v", text, err, want)
	}
}

// Every pair of bytes that can begin a character is tried with continuations at the limits of
// their range. It is tried in the middle of a text, where a character is checked as one word,
// and at its end, where it is not.
func TestUTF8(t *testing.T) {
	edges := []byte{'"', 0x7F, 0x80, 0xBF, 0xC0}
	for first := 0x80; first <= 0xFF; first++ {
		for second := range 0x100 {
			for _, third := range edges {
				text := []byte{'"', byte(first), byte(second), third, 0xBF, '"'}
				checkVerdict(t, text)
				checkVerdict(t, append(text, `plain text"`...))
				checkVerdict(t, []byte{'"', byte(first), byte(second), third, '"'})
				checkVerdict(t, []byte{'"', byte(first), byte(second), '"'})
			}
		}
	}
}

// Every byte is tried at every position of the words in which a string is read.
func TestStringBytes(t *testing.T) {
	for c := range 0x100 {
		for i := 1; i <= 24; i++ {
			text := []byte(`"abcdefghijklmnopqrstuvwx"`)
			text[i] = byte(c)
			checkVerdict(t, text)
		}
	}
}

// Every UTF-16 unit is tried alone and before others.
func TestUnicodeEscapes(t *testing.T) {
	for unit := range 0x10000 {
		escape := []byte(`"\u0000`)
		for i := range 4 {
			escape[6-i] = "0123456789abcDEF"[unit>>(4*i)&0xF]
		}
		for _, after := range []string{`"`, `x"`, `\n"`, `\udc00"`, `\uDFFF"`, `\ue000"`, `\ud800"`} {
			checkVerdict(t, append(escape[:len(escape):len(escape)], after...))
		}
	}
}

package jsonscan

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The tables of vector_amd64.s, with their names.
var (
	firstHigh  = [16]byte{2, 2, 2, 2, 2, 2, 2, 2, 0x80, 0x80, 0x80, 0x80, 0x21, 0x01, 0x15, 0x49}
	firstLow   = [16]byte{0xe7, 0xa3, 0x83, 0x83, 0x8b, 0xcb, 0xcb, 0xcb, 0xcb, 0xcb, 0xcb, 0xcb, 0xcb, 0xdb, 0xcb, 0xcb}
	secondHigh = [16]byte{1, 1, 1, 1, 1, 1, 1, 1, 0xe6, 0xae, 0xba, 0xba, 1, 1, 1, 1}
)

// modelValid is validBlocks256 and validBlocks512 byte by byte. The assembly does the same to
// 32 or 64 bytes at once.
func modelValid(data []byte) bool {
	var before1, before2, before3 byte // 1, 2 and 3 bytes before
	var faults byte
	step := func(b byte) {
		pair := pairFaults(before1, b)
		// Two continuations in a row are a fault (80), unless the lead byte of a three-
		// or four-byte character is two bytes before, or that of a four-byte character
		// three bytes before.
		expected := (belowBy(before2, 0x60) | belowBy(before3, 0x70)) & 0x80
		faults |= pair ^ expected
		before1, before2, before3 = b, before1, before2
	}
	for _, b := range data {
		step(b)
	}
	for range 3 { // a truncated character
		step(0)
	}
	return faults == 0
}

// pairFaults returns the possible faults of two adjacent bytes: VPSHUFB looks up the halves of
// a byte, VPAND combines the results.
func pairFaults(first, second byte) byte {
	return firstHigh[first>>4] & firstLow[first&15] & secondHigh[second>>4]
}

// belowBy is VPSUBUSB: b minus n, but at least 0.
func belowBy(b, n byte) byte { return b - min(b, n) }

// The tables find the faults of each pair of bytes. The model agrees with utf8.Valid and, if
// the processor supports it, with the assembly.
func TestModel(t *testing.T) {
	for first := range 256 {
		for second := range 256 {
			text := []byte{byte(first), byte(second)}
			if got, want := modelValid(text), utf8.Valid(text); got != want {
				t.Errorf("% x: %t", text, got)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.StringN(30, 200, -1).Draw(t, "text"))
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			if len(text) > 0 {
				text[rapid.IntRange(0, len(text)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			}
		}
		if got, want := modelValid(text), utf8.Valid(text); got != want {
			t.Fatalf("% x: %t", text, got)
		}
		if got, want := ValidUTF8(text), utf8.Valid(text); got != want {
			t.Fatalf("% x: by the assembly %t", text, got)
		}
	})
}

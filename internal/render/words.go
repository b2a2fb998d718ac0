package render

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Safe is [AppendSafe] for strings.
func Safe(text string) string { return string(AppendSafe(nil, []byte(text))) }

// Count returns a number of things: "1 frame", "2 frames".
func Count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Range writes a number that is only known to be in a range, such as "400-600".
func Range(least, most int64) string {
	if most <= least {
		return strconv.FormatInt(least, 10)
	}
	return fmt.Sprintf("%d-%d", least, most)
}

// Dollars writes an amount in millionths of a dollar: "$0.0123".
func Dollars(micros int64) string {
	if micros < 100 {
		return fmt.Sprintf("$%.6f", float64(micros)/1e6)
	}
	return fmt.Sprintf("$%.4f", float64(micros)/1e6)
}

// Clip returns the beginning of text, at most n bytes, cut between runes.
func Clip[T string | []byte](text T, n int) T {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// First returns the first n characters of text, and how many follow.
func First(text string, n int) (first string, omitted int) {
	if len(text) <= n {
		return text, 0
	}
	for i := range text {
		if n == 0 {
			return text[:i], utf8.RuneCountInString(text[i:])
		}
		n--
	}
	return text, 0
}

// CutRune returns how many bytes at the end of text are an incomplete character.
func CutRune(text []byte) int {
	for n := 1; n <= min(len(text), utf8.UTFMax-1); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Shorten is Clip, with "…" at the end if text is cut.
func Shorten[T string | []byte](text T, n int) string {
	short := string(Clip(text, n))
	if len(short) < len(text) {
		short += "…"
	}
	return short
}

package index

import (
	"bytes"
	"iter"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWord is how many bytes of a word are kept.
const maxWord = 64

// A passage is a part of a session, as the set of its words.
type passage struct {
	words map[string]struct{}
	size  int // bytes of the words
	read  int // bytes of text that they are from
	seq   uint64
	plain []byte // scratch
}

// passageSize is how much text a passage has before the next one begins.
const passageSize = 64 << 10

// addText adds the words of a text.
func (p *passage) addText(text []byte) {
	if p.words == nil {
		p.words = map[string]struct{}{}
	}
	p.read += len(text)
	for word := range words(text) {
		if _, there := p.words[string(word)]; !there {
			p.words[string(word)] = struct{}{}
			p.size += len(word) + 1
		}
	}
}

// addJSON adds the words of a JSON text, which it does not change.
func (p *passage) addJSON(text []byte) {
	if bytes.IndexByte(text, '\\') >= 0 {
		p.plain = unescaped(p.plain[:0], text)
		text = p.plain
	}
	p.addText(text)
}

// String returns the words with spaces between them.
func (p *passage) String() string {
	var b strings.Builder
	b.Grow(p.size)
	for word := range p.words {
		b.WriteString(word)
		b.WriteByte(' ')
	}
	return b.String()
}

// words yields the words of a text in lower case. Each is valid until the next.
func words(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var room [maxWord + utf8.UTFMax]byte
		word := room[:0]
		for i := 0; i < len(text); {
			if c := lower[text[i]]; c != 0 && len(word) < maxWord {
				word = append(word, c)
				i++
				continue
			}
			r, n := utf8.DecodeRune(text[i:])
			i += n
			part, whole := classOf(r)
			if (!part || whole) && len(word) > 0 {
				if !yield(word) {
					return
				}
				word = word[:0]
			}
			switch {
			case whole:
				if !yield(utf8.AppendRune(room[:0], r)) {
					return
				}
			case part && len(word) < maxWord:
				word = utf8.AppendRune(word, unicode.ToLower(r))
			}
		}
		if len(word) > 0 {
			yield(word)
		}
	}
}

// lower has the characters of words that are ASCII, in lower case; 0 for others.
var lower = func() (table [256]byte) {
	for c := range utf8.RuneSelf {
		if part, _ := classOf(rune(c)); part {
			table[c] = byte(unicode.ToLower(rune(c)))
		}
	}
	return table
}()

// classOf reports whether a character is part of a word, and whether it is a whole word,
// because its script has no spaces.
func classOf(r rune) (part, whole bool) {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
		return true, false
	case r < utf8.RuneSelf, r == utf8.RuneError:
		return false, false
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return true, true
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.M), false
}

// unescaped appends JSON without the escapes in its strings to dst.
func unescaped(dst, text []byte) []byte {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			dst = append(dst, c)
			continue
		}
		i++
		if text[i] != 'u' {
			dst = append(dst, ' ') // such as a quote or a line break, which ends a word
			continue
		}
		if len(text) > i+4 {
			if r, err := strconv.ParseUint(string(text[i+1:i+5]), 16, 32); err == nil {
				dst = utf8.AppendRune(dst, rune(r)) // half of a pair is not part of a word
				i += 4
			}
		}
	}
	return dst
}

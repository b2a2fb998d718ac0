package server

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// maxWord is how many bytes of a word are kept.
const maxWord = 64

// passageSize is how much text a passage has before the next one begins.
const passageSize = 64 << 10

// phrases are searched in the frames of a session. A phrase is words that one passage must
// have.
type phrases struct {
	list  []phrase
	size  int    // of the passage so far, in bytes
	plain []byte // scratch
}

type phrase struct {
	words  []string
	prefix bool // the words may be beginnings of words
	absent bool // the session must not have it
	found  bool
	seen   []bool // which words the passage has
}

// decided reports whether the rest of the session makes no difference.
func (p *phrases) decided() bool {
	undecided := false
	for i := range p.list {
		switch one := &p.list[i]; {
		case one.absent && one.found:
			return true
		case one.absent || !one.found:
			undecided = true
		}
	}
	return !undecided
}

// met reports whether the session is as wanted.
func (p *phrases) met() bool {
	return !slices.ContainsFunc(p.list, func(one phrase) bool { return one.found == one.absent })
}

// json adds a frame of JSON, which it does not change.
func (p *phrases) json(text []byte) {
	if bytes.IndexByte(text, '\\') >= 0 {
		p.plain = unescaped(p.plain[:0], text)
		text = p.plain
	}
	p.read(text)
}

// read adds a frame.
func (p *phrases) read(texts ...[]byte) {
	for _, text := range texts {
		p.size += len(text)
		for word := range words(text) {
			for i := range p.list {
				p.list[i].see(word)
			}
		}
	}
	if p.size >= passageSize {
		p.size = 0
		for i := range p.list {
			clear(p.list[i].seen)
		}
	}
}

// see notes a word of the passage.
func (p *phrase) see(word []byte) {
	for i, want := range p.words {
		if string(word) == want || p.prefix && len(word) > len(want) && string(word[:len(want)]) == want {
			p.seen[i] = true
			p.found = p.found || !slices.Contains(p.seen, false)
		}
	}
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

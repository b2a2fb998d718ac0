package capture

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A prefilter rules out texts that no pattern can match. Every match contains one of the
// words, so a text without any word has no match. Regular expressions are far slower, and
// secrets are rare.
type prefilter struct {
	blind bool           // some pattern can match without any word
	words []string       // in lower case, each at least two bytes long
	pairs [256][4]uint64 // a bit for each word's first two bytes
	fold  [256]byte      // the byte in lower case; 0 if it may stand between the letters of a word
}

func newFilter(gaps string) *prefilter {
	p := new(prefilter)
	for c := range p.fold {
		p.fold[c] = byte(c)
		if 'A' <= c && c <= 'Z' {
			p.fold[c] += 'a' - 'A'
		}
	}
	for _, c := range []byte(gaps) {
		p.fold[c] = 0
	}
	return p
}

func (p *prefilter) addWord(w string) {
	p.words = append(p.words, w)
	p.pairs[w[0]][w[1]>>6] |= 1 << (w[1] & 63)
}

// newPrefilter returns the prefilter of patterns. It only knows the words of the patterns in
// forms.
func newPrefilter(patterns []*regexp.Regexp) *prefilter {
	p := newFilter("")
	for _, re := range patterns {
		words := forms()[re]
		p.blind = p.blind || words == nil
		for _, w := range words {
			p.addWord(w)
		}
	}
	return p
}

// newKeyFilter returns the prefilter of plain keys, in all spellings. It adds the letters that
// are not ASCII but become s, k or i when case is ignored.
func newKeyFilter(keys map[string]bool) *prefilter {
	p := newFilter("-_")
	p.addWord("\u017f")
	p.addWord("\u212a")
	p.addWord("\u0130")
	for k := range keys {
		if len(k) < 2 || strings.ContainsFunc(k, func(r rune) bool { return r >= utf8.RuneSelf }) {
			p.blind = true
			continue
		}
		p.addWord(k)
	}
	return p
}

// mayMatch reports whether some pattern could match.
func (p *prefilter) mayMatch(text []byte) bool {
	if p.blind {
		return true
	}
	before, at := byte(0), 0
	for i, c := range text {
		if c = p.fold[c]; c == 0 {
			continue
		}
		if p.pairs[before][c>>6]>>(c&63)&1 != 0 && p.hasWord(text[at:]) {
			return true
		}
		before, at = c, i
	}
	return false
}

// hasWord reports whether a text begins with a word.
func (p *prefilter) hasWord(text []byte) bool {
	return slices.ContainsFunc(p.words, func(w string) bool {
		for _, c := range text {
			if c = p.fold[c]; c == 0 {
				continue
			}
			if c != w[0] {
				return false
			}
			if w = w[1:]; w == "" {
				return true
			}
		}
		return false
	})
}

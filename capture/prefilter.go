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
	blind bool       // some pattern can match without any word
	words []string   // in lower case, each at least two bytes long
	fold  [256]byte  // the byte in lower case; 0 if it may stand between the letters of a word
	pairs [256]pairs // the beginnings of words, by the bytes in them
	count int        // of words
	also  *prefilter // whose words are in pairs, too; or nil
}

// pairs has a bit for the first two bytes of each word, so that a scan finds them without
// branches. With more than 64 words, some share a bit.
type pairs struct {
	first, second uint64 // the words that have the byte there
	gap           uint64 // all, if the byte may stand between the letters of a word
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
		p.pairs[c].gap = ^uint64(0)
	}
	return p
}

func (p *prefilter) addWord(w string) {
	p.words = append(p.words, w)
	p.addPair(w)
}

func (p *prefilter) addPair(w string) {
	bit := uint64(1) << (p.count & 63)
	p.count++
	for c, folded := range p.fold {
		if folded == w[0] {
			p.pairs[c].first |= bit
		}
		if folded == w[1] {
			p.pairs[c].second |= bit
		}
	}
}

// or returns a filter of what p or q may match, for one scan. No word of q may begin with a
// byte, or have one as its second, that may stand between the letters of a word of p.
func (p *prefilter) or(q *prefilter) *prefilter {
	both := *p
	both.blind, both.also = p.blind || q.blind, q
	for _, w := range q.words {
		both.addPair(w)
	}
	return &both
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
	before := uint64(0)
	for i, c := range text {
		at := &p.pairs[c]
		if before&at.second != 0 && p.hasWordTo(text, i) {
			return true
		}
		before = at.first | before&at.gap
	}
	return false
}

// hasWordTo reports whether a text has a word whose second byte is at i.
func (p *prefilter) hasWordTo(text []byte, i int) bool {
	for i--; p.fold[text[i]] == 0; i-- { //nolint:revive // the first byte is before the gaps
	}
	return p.hasWord(text[i:]) || p.also != nil && p.also.hasWord(text[i:])
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

package capture

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// A prefilter decides in one pass over a text that no pattern can match: every match
// contains one of the words, and the text contains none. Regular expressions are far
// slower, and secrets are rare.
type prefilter struct {
	blind bool // some pattern needs no word
	gaps  bool // there may be a '-' or '_' between the letters of a word
	first pairs
	words [256][]string // in lower case, by their first byte
}

// pairs is a set of two bytes.
type pairs [1 << 16 / 64]uint64

func (p *pairs) addPair(a, b byte) {
	n := uint16(a)<<8 | uint16(b)
	p[n>>6] |= 1 << (n & 63)
}

// newPrefilter returns the prefilter of patterns.
func newPrefilter(patterns []*regexp.Regexp) *prefilter {
	p := new(prefilter)
	for _, re := range patterns {
		tree, err := syntax.Parse(re.String(), syntax.Perl)
		if err != nil {
			p.blind = true
			continue
		}
		words := wordsOf(tree.Simplify()).best()
		p.blind = p.blind || words == nil
		for _, w := range words {
			p.addWord(w, cases(w[0]))
		}
	}
	return p
}

// newKeyFilter returns the prefilter of plain keys, in all ways to write them that begin
// with one of heads.
func newKeyFilter(keys map[string]bool, heads func(byte) []byte) *prefilter {
	p := &prefilter{gaps: true}
	for k := range keys {
		p.blind = p.blind || len(k) < minWord || lowered(k) != k || strings.ContainsFunc(k, func(r rune) bool { return r >= utf8.RuneSelf })
		if !p.blind {
			p.addWord(k, heads(k[0]))
		}
	}
	// An expression without regard to case takes these for an s and a k.
	for _, other := range []string{"\u017f", "\u212a"} {
		p.first.addPair(other[0], other[1])
	}
	return p
}

// addWord adds a word that begins with one of heads.
func (p *prefilter) addWord(word string, heads []byte) {
	p.words[word[0]] = append(p.words[word[0]], word)
	for _, a := range heads {
		for _, b := range cases(word[1]) {
			p.first.addPair(a, b)
		}
		if p.gaps {
			p.first.addPair(a, '-')
			p.first.addPair(a, '_')
		}
	}
}

// cases returns a byte in both cases.
func cases(c byte) []byte {
	if 'a' <= c && c <= 'z' {
		return []byte{c, c - 'a' + 'A'}
	}
	return []byte{c}
}

// capital returns the capital of a letter; nothing if it is none.
func capital(c byte) []byte { return cases(c)[1:] }

// mayMatch reports whether some pattern could match.
func (p *prefilter) mayMatch(text []byte) bool {
	if p.blind {
		return true
	}
	for i := 1; i < len(text); i++ {
		n := uint16(text[i-1])<<8 | uint16(text[i])
		if p.first[n>>6]>>(n&63)&1 != 0 && p.wordAt(text[i-1:]) {
			return true
		}
	}
	return false
}

func (p *prefilter) wordAt(text []byte) bool {
	if p.gaps && text[0] >= utf8.RuneSelf {
		return true
	}
	for _, w := range p.words[lower(text[0])] {
		if p.beginsWith(text, w) {
			return true
		}
	}
	return false
}

// beginsWith reports whether text begins with a word, which is in lower case.
func (p *prefilter) beginsWith(text []byte, word string) bool {
	at := 0
	for i := range len(word) {
		if p.gaps && i > 0 && at < len(text) && (text[at] == '-' || text[at] == '_') {
			at++
		}
		if at == len(text) || lower(text[at]) != word[i] {
			return false
		}
		at++
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// known describes the matches of an expression, in lower case: they are exactly these
// texts, or every match contains one of these words. Both are nil if nothing is known.
type known struct{ exact, words []string }

const (
	maxExact = 32 // texts
	maxClass = 8  // characters of a class
	minWord  = 2  // bytes
)

// best returns words such that every match contains one; nil if there are no good ones.
func (k known) best() []string {
	words := k.words
	if k.exact != nil {
		words = k.exact
	}
	if shortest(words) < minWord {
		return nil
	}
	return words
}

func shortest(words []string) int {
	n := 0
	for i, w := range words {
		if i == 0 || len(w) < n {
			n = len(w)
		}
	}
	return n
}

func wordsOf(re *syntax.Regexp) known {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return known{exact: []string{""}}
	case syntax.OpLiteral:
		return literal(re)
	case syntax.OpCharClass:
		return class(re)
	case syntax.OpCapture:
		return wordsOf(re.Sub[0])
	case syntax.OpPlus:
		return known{words: wordsOf(re.Sub[0]).best()}
	case syntax.OpQuest:
		if k := wordsOf(re.Sub[0]); k.exact != nil {
			return known{exact: append(slices.Clone(k.exact), "")}
		}
	case syntax.OpConcat:
		return concat(re.Sub)
	case syntax.OpAlternate:
		return alternate(re.Sub)
	}
	return known{}
}

// literal returns the text of a literal. Without regard to case some letters are
// also written by characters beyond ASCII, and bytes that are not UTF-8 are
// U+FFFD to an expression: of those nothing is known.
func literal(re *syntax.Regexp) known {
	fold := re.Flags&syntax.FoldCase != 0
	for _, r := range re.Rune {
		if r == utf8.RuneError || fold && (r >= utf8.RuneSelf || strings.ContainsRune("kKsS", r)) {
			return known{}
		}
	}
	return known{exact: []string{lowered(string(re.Rune))}}
}

func class(re *syntax.Regexp) known {
	var exact []string
	for i := 0; i < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			if r == utf8.RuneError || len(exact) == maxClass {
				return known{}
			}
			exact = append(exact, lowered(string(r)))
		}
	}
	return known{exact: exact}
}

// lowered changes nothing but the letters of ASCII, which lower does too.
func lowered(text string) string {
	b := []byte(text)
	for i, c := range b {
		b[i] = lower(c)
	}
	return string(b)
}

// concat describes a concatenation: it joins the texts of neighbours and keeps the
// longest result.
func concat(subs []*syntax.Regexp) known {
	exact := []string{""}
	var best []string
	whole := true
	for _, sub := range subs {
		k := wordsOf(sub)
		if joined := join(exact, k.exact); joined != nil {
			exact = joined
			continue
		}
		whole = false
		best = better(better(best, exact), k.words)
		if exact = k.exact; exact == nil {
			exact = []string{""}
		}
	}
	if whole {
		return known{exact: exact}
	}
	return known{words: better(best, exact)}
}

// join returns each text of one followed by each of the other; nil if they are
// too many.
func join(a, b []string) []string {
	if len(a)*len(b) > maxExact {
		return nil
	}
	var all []string
	for _, x := range a {
		for _, y := range b {
			all = append(all, x+y)
		}
	}
	return all
}

// better returns the list whose shortest word is longer.
func better(a, b []string) []string {
	if shortest(b) > shortest(a) {
		return b
	}
	return a
}

// alternate describes an alternation.
func alternate(subs []*syntax.Regexp) known {
	var exact, words []string
	isExact, hasWords := true, true
	for _, sub := range subs {
		k := wordsOf(sub)
		best := k.best()
		isExact, hasWords = isExact && k.exact != nil, hasWords && best != nil
		exact, words = append(exact, k.exact...), append(words, best...)
	}
	switch {
	case isExact && len(exact) <= maxExact:
		return known{exact: exact}
	case hasWords:
		return known{words: words}
	}
	return known{}
}

package capture

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A prefilter decides that no pattern can match a text: every match contains one of the
// words, and the text contains none. Regular expressions are far slower, and secrets are
// rare.
type prefilter struct {
	blind bool     // some pattern needs no word
	gaps  bool     // there may be a '-' or '_' between the letters of a word
	words [][]byte // in lower case
	text  []byte   // scratch: a text in lower case, without gaps
}

// newPrefilter returns the prefilter of patterns. Of one that is not a form it knows nothing.
func newPrefilter(patterns []*regexp.Regexp) *prefilter {
	p := new(prefilter)
	for _, re := range patterns {
		words := forms()[re]
		p.blind = p.blind || words == nil
		for _, w := range words {
			p.words = append(p.words, []byte(w))
		}
	}
	return p
}

// newKeyFilter returns the prefilter of plain keys, in all ways to write them. An
// expression without regard to case takes two characters beyond ASCII for an s and a k.
func newKeyFilter(keys map[string]bool) *prefilter {
	p := &prefilter{gaps: true, words: [][]byte{[]byte("\u017f"), []byte("\u212a")}}
	for k := range keys {
		p.blind = p.blind || strings.ContainsFunc(k, func(r rune) bool { return r >= utf8.RuneSelf })
		p.words = append(p.words, []byte(k))
	}
	return p
}

// mayMatch reports whether some pattern could match.
func (p *prefilter) mayMatch(text []byte) bool {
	if p.blind {
		return true
	}
	p.text = p.text[:0]
	for _, c := range text {
		if !p.gaps || c != '-' && c != '_' {
			p.text = append(p.text, lower(c))
		}
	}
	return slices.ContainsFunc(p.words, func(w []byte) bool { return bytes.Contains(p.text, w) })
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

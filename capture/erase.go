package capture

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// A policy says what becomes of the values in a payload: each stays, is hidden, keeps only its
// outline, or gets another name.
type policy interface {
	protobuf.Editor
	// appendName appends the name of a member of JSON. It returns what the name is in paths, and
	// whether all of its value is hidden.
	appendName(dst, token []byte) (_ []byte, name string, hidden bool)
	// appendValue appends a string or a number of JSON, which is at an offset of the payload. The
	// path has the names around it; "" for a list.
	appendValue(dst, token []byte, at int, path []string, hidden bool) []byte
}

// appendJSON appends a well-formed JSON text as a policy wants it.
func appendJSON(dst, text []byte, p policy) []byte {
	var path []string
	secret := 0     // the depth of the container that is hidden as a whole; 0 if none
	marked := false // the next value is hidden
	copied := 0     // of text
	for t := range jsonscan.Tokens(text) {
		token, c := text[t.Start:t.End], text[t.Start]
		if t.Key || c == '"' || jsonscan.KindOf(token) == jsonscan.Number {
			dst = append(dst, text[copied:t.Start]...)
			copied = t.End
		}
		switch {
		case t.Key:
			dst, path[len(path)-1], marked = p.appendName(dst, token)
			continue
		case copied == t.End:
			dst = p.appendValue(dst, token, t.Start, path, marked || secret != 0)
		case c == '{', c == '[':
			path = append(path, "")
			if marked && secret == 0 {
				secret = len(path)
			}
		case c == '}', c == ']':
			if secret == len(path) {
				secret = 0
			}
			path = path[:len(path)-1]
		}
		marked = false
	}
	return append(dst, text[copied:]...)
}

// An eraser is the policy that hides secrets.
type eraser struct {
	keys     map[string]bool // plain
	verdicts map[string]bool // whether a name is secret
	values   []finder
	assigned []finder // of secret keys in text, with their values
	name     func(secret []byte) string
	keepsOwn bool
	own      *outliner // knows what belongs to the protocol; nil if that does not matter
	harmless string    // a key that looks secret but is not
	blind    bool      // some bytes could not be searched for keys

	mayMatch *prefilter // of values
	mayName  *prefilter // of assigned
	mayHold  *prefilter // of both
}

// A finder finds secrets: groups of the matches of an expression.
type finder struct {
	*regexp.Regexp
	groups []int
	filter *prefilter // of values
}

// appendSpans appends what the finder finds in a text. Every match has a word of the filter, where accept, if not
// nil, reports true. The expression is slow, and only tried from there on.
func (f *finder) appendSpans(spans []span, text []byte, filter *prefilter, accept func(text []byte, start, end int) bool) []span {
	add := func(m []int, from int) {
		for _, group := range f.groups {
			if s := (span{from + m[2*group], from + m[2*group+1]}); m[2*group] < m[2*group+1] {
				spans = append(spans, s)
			}
		}
	}
	if filter.blind {
		for _, m := range f.FindAllSubmatchIndex(text, -1) {
			add(m, 0)
		}
		return spans
	}
	for from := 0; ; {
		at := filter.next(text, from, accept)
		if at < 0 {
			return spans
		}
		from = max(from, wordBefore(text, at)-1) // a match may begin before its word: with other flags, and the sign before it
		m := f.FindSubmatchIndex(text[from:])
		if m == nil {
			return spans
		}
		add(m, from)
		from += m[1]
	}
}

// maxWord bounds the words before a key that are looked at.
const maxWord = 1 << 10

// wordBefore returns where the word begins that is before, or around, a place in a text.
func wordBefore(text []byte, at int) int {
	start := at
	for ; start > 0 && at-start < maxWord; start-- {
		if c := text[start-1]; c != '-' && c != '_' && !('0' <= c && c <= '9') && !('a' <= lower(c) && lower(c) <= 'z') {
			break
		}
	}
	return start
}

// isAssigned reports whether something may be assigned to a key, or follow it as a flag.
func isAssigned(text []byte, start, end int) bool {
	if text[end-1] >= utf8.RuneSelf { // a letter of a key, and maybe not the last one
		return true
	}
	rest := text[end:]
	if len(rest) > 0 && (rest[0] == '"' || rest[0] == '\'') {
		rest = rest[1:]
	}
	after := bytes.TrimLeft(rest, " \t\n\f\r")
	if len(after) > 0 && (after[0] == ':' || after[0] == '=') {
		return true
	}
	begin := wordBefore(text, start)
	return len(after) < len(rest) && (start-begin >= maxWord || bytes.Contains(text[begin:start], []byte("--")))
}

func newEraser(x Redaction) *eraser {
	e := &eraser{keys: map[string]bool{}, verdicts: map[string]bool{}, name: x.Name, keepsOwn: x.KeepsOwn}
	var names, words []string // of the prefilters
	for _, re := range x.Values {
		own := forms()[re]
		if own == nil {
			own = []string{""}
			if literal, isAll := re.LiteralPrefix(); isAll && re.String() == regexp.QuoteMeta(literal) {
				own[0] = string(lowered([]byte(literal)))
			}
		}
		e.values = append(e.values, finder{re, []int{max(0, re.SubexpIndex(secretGroup))}, newPrefilter(own)})
		words = append(words, own...)
	}
	var patterns, humps, lines, cookies []string
	for _, key := range x.Keys {
		k := plain(key)
		if k == "" || e.keys[k] {
			continue
		}
		e.keys[k] = true
		if names = append(names, k); strings.ContainsFunc(k, func(r rune) bool { return r >= utf8.RuneSelf }) {
			names = append(names, "")
		}
		patterns = append(patterns, pattern(k))
		if 'a' <= k[0] && k[0] <= 'z' && k != humpless {
			humps = append(humps, `(?-i:`+strings.ToUpper(k[:1])+`)[-_]?`+pattern(k[1:]))
		}
		switch k {
		case "cookie", "setcookie": // pairs separated by semicolons
			cookies = append(cookies, pattern(k))
			fallthrough
		case "authorization": // with spaces, commas and semicolons in a header
			lines = append(lines, pattern(k))
		}
	}
	if patterns != nil {
		// Letters that are not ASCII but become s, k or i when case is ignored.
		names = append(names, "\u017f", "\u212a", "\u0130")
		e.assign(wholeLine(lines) + pairsOf(cookies) + assignment(patterns))
	}
	if humps != nil {
		e.assign(`(?-i:[a-z0-9])` + anyOf(humps) + assigned + assignee)
	}
	e.mayMatch, e.mayName, e.mayHold = newPrefilter(words), newPrefilter(names), newPrefilter(append(names, words...))
	return e
}

// assign adds an expression whose groups match the values of secret keys.
func (e *eraser) assign(expr string) {
	f := finder{Regexp: regexp.MustCompile(`(?i)` + expr)}
	for group := range f.NumSubexp() {
		f.groups = append(f.groups, group+1)
	}
	e.assigned = append(e.assigned, f)
}

// wholeLine matches a header to the end of its line or, inside quotes, to the closing quote.
// It ends in '|', so that other alternatives can follow.
func wholeLine(keys []string) string {
	if keys == nil {
		return ""
	}
	key := anyOf(keys) + `[ \t]*:[ \t]*`
	return `"` + key + `([^"\x00-\x20][^"\x00-\x08\x0a-\x1f]*)|` +
		`'` + key + `([^'\x00-\x20][^'\x00-\x08\x0a-\x1f]*)|` +
		`(?:^|[^a-z0-9])` + key + `([^"'\x00-\x20](?:[^\x00-\x08\x0a-\x1f]*[^\x00-\x20])?)|`
}

// pairsOf matches keys with all the pairs assigned to them. Like wholeLine, it ends in '|'.
func pairsOf(keys []string) string {
	if keys == nil {
		return ""
	}
	const pair = `[^\s"',;&=]+=[^\s"',;&=][^\s"',;&]*`
	return `(?:^|[^a-z0-9])` + anyOf(keys) + `\s*=\s*(` + pair + `(?:;[ \t]*` + pair + `)*)|`
}

// assignment matches keys with the values assigned to them, or with the arguments after them
// if they are flags.
func assignment(keys []string) string {
	key := anyOf(keys)
	return `(?:(?:^|[^a-z0-9])` + key + assigned + `|--(?:[a-z0-9]+[-_])*` + key + `\s+)` + assignee
}

// assigned matches the assignment after a key; assignee matches the value after that, which
// is quoted or one word.
const (
	assigned = `["']?\s*[:=]\s*`
	assignee = `(?:"((?:[^"\\]|\\.)+)"|'((?:[^'\\]|\\.)+)'|` +
		`["']?((?:(?:bearer|basic|token|apikey|digest)\s+)?[^\s"',;&]+))`
)

func anyOf(patterns []string) string { return `(?:` + strings.Join(patterns, "|") + `)` }

// plain returns a key in lower case, without '-' and '_'.
func plain(key string) string { return withoutGaps.Replace(strings.ToLower(key)) }

var withoutGaps = strings.NewReplacer("-", "", "_", "")

// pattern matches all spellings of a plain key.
func pattern(plain string) string {
	var letters []string
	for _, c := range plain {
		letters = append(letters, regexp.QuoteMeta(string(c)))
	}
	return strings.Join(letters, "[-_]?")
}

// humpless is the key that must not begin inside a camel-case word: progressToken is not a
// secret.
const humpless = "token"

// isSecret reports whether a key is a secret key or ends in one.
func (e *eraser) isSecret(name []byte) bool {
	if len(e.keys) == 0 || string(name) == e.harmless {
		return false
	}
	secret, ok := e.verdicts[string(name)]
	if !ok {
		secret = e.endsInKey(string(name))
		if len(e.verdicts) == maxJudged {
			clear(e.verdicts)
		}
		if len(name) <= maxJudgedName {
			e.verdicts[string(name)] = secret
		}
	}
	return secret
}

// maxJudged bounds the number of names in eraser.verdicts, and maxJudgedName the length of each
// in bytes.
const (
	maxJudged     = 1024
	maxJudgedName = 64
)

func (e *eraser) endsInKey(key string) bool {
	for i := range len(key) {
		part := i == 0 || key[i-1] == '-' || key[i-1] == '_'
		if !part && !isHump(key[i-1], key[i]) {
			continue
		}
		if tail := plain(key[i:]); e.keys[tail] && (part || tail != humpless) {
			return true
		}
	}
	return false
}

// isHump reports whether a camel-case word begins at c.
func isHump(before, c byte) bool {
	return ('a' <= before && before <= 'z' || '0' <= before && before <= '9') && 'A' <= c && c <= 'Z'
}

// hidden returns what takes the place of a secret.
func (e *eraser) hidden(secret []byte) []byte {
	if e.name != nil {
		if name := e.name(secret); name != "" {
			return []byte(name)
		}
	}
	return []byte(Redacted)
}

// json appends well-formed JSON without its secrets.
func (e *eraser) json(dst, text []byte) []byte {
	// Most JSON is sure to have none, which takes a fraction of the time of looking for them.
	if bytes.IndexByte(text, '\\') < 0 && !e.mayHold.mayMatch(text) {
		return append(dst, text...)
	}
	return appendJSON(dst, text, e)
}

func (e *eraser) appendName(dst, token []byte) (_ []byte, name string, hidden bool) {
	key, _ := jsonscan.Unquote(token)
	if e.own != nil {
		name = string(key)
	}
	return append(dst, token...), name, e.isSecret(key)
}

func (e *eraser) appendValue(dst, token []byte, _ int, path []string, hidden bool) []byte {
	if !hidden && e.isOwn(path, token) {
		return append(dst, token...)
	}
	text := token
	if isString := token[0] == '"'; isString {
		text, _ = jsonscan.Unquote(token)
	} else if !hidden {
		return append(dst, token...)
	}
	clean := e.inside(text, hidden)
	if !hidden && bytes.Equal(clean, text) {
		return append(dst, token...)
	}
	return jsonscan.AppendQuote(dst, clean)
}

// inside returns the text of a string without its secrets, or what takes its place.
func (e *eraser) inside(text []byte, hidden bool) []byte {
	switch {
	case hidden:
		return e.hidden(text)
	case len(text) > 1 && (text[0] == '{' || text[0] == '[') && jsonscan.WellFormed(text) == nil:
		own := e.own
		e.own = nil
		clean := e.json(nil, text)
		e.own = own
		return clean
	case e.keepsOwn && len(text) >= leastEncoded:
		encoded := text[bytes.LastIndexByte(text, ',')+1:] // in a data: URL, too
		if plain, err := base64.StdEncoding.AppendDecode(nil, encoded); err == nil && isText(plain) {
			if clean := e.text(plain); !bytes.Equal(clean, plain) {
				return base64.StdEncoding.AppendEncode(slices.Clone(text[:len(text)-len(encoded)]), clean)
			}
		}
	}
	return e.text(text)
}

// leastEncoded is the length of a text in base64 that may have the name of a user.
const leastEncoded = 16

// Hides reports whether a protobuf name denotes a secret.
func (e *eraser) Hides(name string) bool { return e.isSecret([]byte(name)) }

// Text returns the redacted form of a protobuf string.
func (e *eraser) Text(text []byte, hidden bool) []byte {
	if !hidden && !utf8.Valid(text) {
		return e.mask(text)
	}
	return e.inside(text, hidden)
}

// Unknown returns the redacted form of protobuf bytes that no schema describes.
func (e *eraser) Unknown(value []byte, hidden bool) []byte {
	if hidden {
		return e.hidden(value)
	}
	e.blind = e.blind || len(e.keys) > 0 && len(value) > 0
	return e.mask(value)
}

type span struct{ start, end int }

// find returns where the secrets in a text are, in order and without overlaps.
func (e *eraser) find(text []byte) (spans []span) {
	for _, f := range e.values {
		spans = f.appendSpans(spans, text, f.filter, nil)
	}
	for _, f := range e.assigned {
		spans = f.appendSpans(spans, text, e.mayName, isAssigned)
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
	joined := spans[:0]
	for _, s := range spans {
		if n := len(joined); n > 0 && s.start <= joined[n-1].end {
			joined[n-1].end = max(joined[n-1].end, s.end)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

// text returns human-readable text without its secrets: text itself if there are none.
func (e *eraser) text(text []byte) []byte {
	spans := e.find(text)
	if spans == nil {
		return text
	}
	var clean []byte
	from := 0
	for _, s := range spans {
		clean = append(append(clean, text[from:s.start]...), e.hidden(text[s.start:s.end])...)
		from = s.end
	}
	return append(clean, text[from:]...)
}

// mask returns data that is not JSON, with its secrets replaced by asterisks.
func (e *eraser) mask(data []byte) []byte {
	clean := bytes.Clone(data)
	for _, s := range append(e.find(data), e.entries(data)...) {
		copy(clean[s.start:s.end], stars(data[s.start:s.end]))
	}
	return clean
}

// entries returns the values of secret keys in the maps of protobuf messages. A map entry is
// a message with the key as field 1 and the value as field 2.
func (e *eraser) entries(data []byte) (spans []span) {
	const key, value = 1<<3 | 2, 2<<3 | 2
	for i := 0; i+2 < len(data); i++ {
		end := i + 2 + int(data[i+1])
		if data[i] != key || end+1 >= len(data) || data[end] != value || !e.isSecret(data[i+2:end]) {
			continue
		}
		if n, size := binary.Uvarint(data[end+1:]); size > 0 {
			start := end + 1 + size
			spans = append(spans, span{start, start + int(min(n, uint64(len(data)-start)))})
		}
	}
	return spans
}

// A prefilter rules out texts without any of some words, of which every match of a pattern has one.
// Regular expressions are far slower, and secrets are rare.
type prefilter struct {
	blind   bool          // any text may match
	words   [256][]string // in lower case, by their first bytes
	seconds [256]uint64   // the second bytes of words, modulo 64, by the first
}

// newPrefilter returns the prefilter of words. Hyphens and underscores may stand between their
// letters. A word that is shorter than two bytes may be anything.
func newPrefilter(words []string) *prefilter {
	p := new(prefilter)
	for _, w := range words {
		if len(w) < 2 {
			p.blind = true
			return p
		}
		p.words[w[0]] = append(p.words[w[0]], w)
		for _, first := range []byte{w[0], upper(w[0])} {
			for _, second := range []byte{w[1], upper(w[1]), '-', '_'} {
				p.seconds[first] |= 1 << (second & 63)
			}
		}
	}
	return p
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func lowered(word []byte) []byte {
	for i, c := range word {
		word[i] = lower(c)
	}
	return word
}

// mayMatch reports whether some pattern could match.
func (p *prefilter) mayMatch(text []byte) bool { return p.next(text, 0, nil) >= 0 }

// next returns where the next word begins that accept, if not nil, accepts; -1 if there is none.
func (p *prefilter) next(text []byte, from int, accept func(text []byte, start, end int) bool) int {
	if p.blind {
		return 0
	}
	for i := from + 1; i < len(text); i++ {
		if p.seconds[text[i-1]]>>(text[i]&63)&1 != 0 && p.begins(text, i-1, accept) {
			return i - 1
		}
	}
	return -1
}

// begins reports whether a word begins at a place in a text, and is accepted.
func (p *prefilter) begins(text []byte, start int, accept func(text []byte, start, end int) bool) bool {
	return slices.ContainsFunc(p.words[lower(text[start])], func(w string) bool {
		for i := start; i < len(text); i++ {
			switch c := lower(text[i]); {
			case c == w[0]:
				if w = w[1:]; w == "" {
					return accept == nil || accept(text, start, i+1)
				}
			case c != '-' && c != '_':
				return false
			}
		}
		return false
	})
}

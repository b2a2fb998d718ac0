package capture

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// An eraser finds secrets in bytes and replaces them.
type eraser struct {
	keys   map[string]bool // plain
	judged map[string]bool // whether a name is secret
	values []*regexp.Regexp
	named  *regexp.Regexp // a secret key in text, with its value
	humped *regexp.Regexp // a secret key inside a word, at a change of case
	spoken string         // a key that looks secret but is not
	blind  bool           // some bytes could not be searched for keys

	mayMatch *prefilter // of values
	mayName  *prefilter // of named and humped
	mayHold  *prefilter // of both
}

func newEraser(x Redaction) *eraser {
	e := &eraser{keys: map[string]bool{}, judged: map[string]bool{}, values: x.Values}
	var patterns, humps, lines, cookies []string
	for _, key := range x.Keys {
		if k := plain(key); k != "" && !e.keys[k] {
			e.keys[k] = true
			patterns = append(patterns, pattern(k))
			if 'a' <= k[0] && k[0] <= 'z' && k != humpless {
				humps = append(humps, `(?-i:`+strings.ToUpper(k[:1])+`)[-_]?`+pattern(k[1:]))
			}
			if takesLine[k] {
				lines = append(lines, pattern(k))
			}
			if takesPairs[k] {
				cookies = append(cookies, pattern(k))
			}
		}
	}
	e.mayMatch, e.mayName = newPrefilter(e.values), newKeyFilter(e.keys)
	e.mayHold = e.mayName.or(e.mayMatch)
	if patterns != nil {
		e.named = regexp.MustCompile(`(?i)` + wholeLine(lines) + pairsOf(cookies) + assignment(patterns))
	}
	if humps != nil {
		e.humped = regexp.MustCompile(`(?i)(?-i:[a-z0-9])` + anyOf(humps) + assigned + assignee)
	}
	return e
}

// takesLine lists the plain keys of headers whose values contain spaces, commas and
// semicolons.
var takesLine = map[string]bool{"authorization": true, "cookie": true, "setcookie": true}

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

// takesPairs lists the plain keys whose values are pairs separated by semicolons.
var takesPairs = map[string]bool{"cookie": true, "setcookie": true}

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
	if len(e.keys) == 0 || string(name) == e.spoken {
		return false
	}
	secret, ok := e.judged[string(name)]
	if !ok {
		secret = e.endsInKey(string(name))
		if len(e.judged) == maxJudged {
			clear(e.judged)
		}
		if len(name) <= maxJudgedName {
			e.judged[string(name)] = secret
		}
	}
	return secret
}

// maxJudged bounds the number of names in eraser.judged, and maxJudgedName the length of each
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

var redactedToken = []byte(`"` + Redacted + `"`)

// json appends text, which must be valid JSON, without its secrets.
func (e *eraser) json(dst, text []byte) []byte {
	if e.rulesOut(text) {
		return append(dst, text...)
	}
	depth := 0
	secret := 0     // the depth of the container that is secret as a whole; 0 if none
	marked := false // the next value is secret
	kept := 0       // how much of text has been appended
	put := func(start, end int, token []byte) {
		dst = append(append(dst, text[kept:start]...), token...)
		kept = end
	}
	for i := 0; i < len(text); {
		start := i
		i = tokenEnd(text, i)
		switch jsonscan.KindOf(text[start:]) {
		case jsonscan.Object, jsonscan.Array:
			if depth++; marked && secret == 0 {
				secret = depth
			}
			marked = false
		case jsonscan.String:
			if isKey(text[i:]) {
				key, _ := jsonscan.Unquote(text[start:i])
				marked = e.isSecret(key)
				break
			}
			if clean := e.cleanValue(text[start:i], marked || secret != 0); clean != nil {
				put(start, i, clean)
			}
			marked = false
		case jsonscan.Number:
			if marked || secret != 0 {
				put(start, i, redactedToken)
			}
		default:
			switch text[start] {
			case '}', ']':
				if secret == depth {
					secret = 0
				}
				depth--
			case ',':
				marked = false
			}
		}
	}
	return append(dst, text[kept:]...)
}

// rulesOut reports whether JSON is sure to have no secrets, which takes a fraction of the time
// of looking for them.
func (e *eraser) rulesOut(text []byte) bool {
	return bytes.IndexByte(text, '\\') < 0 && !e.mayHold.mayMatch(text)
}

// cleanValue returns the redacted form of a string that is not a key; nil if it does not change.
func (e *eraser) cleanValue(token []byte, secret bool) []byte {
	if secret {
		return redactedToken
	}
	text := token[1 : len(token)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text, _ = jsonscan.Unquote(token)
	}
	clean := e.inside(text)
	if bytes.Equal(clean, text) {
		return nil
	}
	return jsonscan.AppendQuote(nil, clean)
}

// inside returns the text of a string without its secrets.
func (e *eraser) inside(text []byte) []byte {
	if isJSON(text) {
		return e.json(nil, text)
	}
	return e.text(text)
}

// isJSON reports whether a text is a JSON object or array.
func isJSON(text []byte) bool {
	return len(text) > 1 && (text[0] == '{' || text[0] == '[') && jsonscan.WellFormed(text) == nil
}

// Hides reports whether a protobuf name denotes a secret.
func (e *eraser) Hides(name string) bool { return e.isSecret([]byte(name)) }

// Text returns the redacted form of a protobuf string.
func (e *eraser) Text(text []byte, hidden bool) []byte {
	switch {
	case hidden:
		return []byte(Redacted)
	case !utf8.Valid(text):
		return e.mask(text)
	}
	return e.inside(text)
}

// Unknown returns the redacted form of protobuf bytes that no schema describes.
func (e *eraser) Unknown(value []byte, hidden bool) []byte {
	if hidden {
		return []byte(Redacted)
	}
	e.blind = e.blind || len(e.keys) > 0 && len(value) > 0
	return e.mask(value)
}

// tokenEnd returns the offset after the string or number that begins at i, and i+1 for any
// other byte. The text must be valid JSON.
func tokenEnd(text []byte, i int) int {
	switch jsonscan.KindOf(text[i:]) {
	case jsonscan.String:
		for i++; ; i++ {
			i += bytes.IndexByte(text[i:], '"')
			if !escaped(text, i) {
				break
			}
		}
	case jsonscan.Number:
		for i+1 < len(text) && isNumber(text[i+1]) {
			i++
		}
	}
	return i + 1
}

// escaped reports whether an odd number of backslashes precedes i.
func escaped(text []byte, i int) bool {
	n := 0
	for text[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// isKey reports whether a string is a key, given the text after it.
func isKey(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c == ':'
	}
	return false
}

func isNumber(c byte) bool {
	switch c {
	case '+', '-', '.', 'e', 'E':
		return true
	}
	return '0' <= c && c <= '9'
}

// text returns human-readable text without its secrets.
func (e *eraser) text(text []byte) []byte {
	return replace(text, apart(append(e.matches(text), e.assigned(text)...)))
}

// mask returns data that is not JSON, with its secrets replaced by asterisks.
func (e *eraser) mask(data []byte) []byte {
	spans := append(e.matches(data), e.assigned(data)...)
	spans = append(spans, e.entries(data)...)
	data = bytes.Clone(data)
	for _, s := range spans {
		for i := s.start; i < s.end; i++ {
			data[i] = '*'
		}
	}
	return data
}

type span struct{ start, end int }

// matches returns where the patterns match, in order and without overlaps.
func (e *eraser) matches(text []byte) (spans []span) {
	if !e.mayMatch.mayMatch(text) {
		return nil
	}
	for _, re := range e.values {
		group := 2 * max(0, re.SubexpIndex(secretGroup))
		for _, m := range re.FindAllSubmatchIndex(text, -1) {
			if m[group] >= 0 {
				spans = append(spans, span{m[group], m[group+1]})
			}
		}
	}
	return apart(spans)
}

// assigned returns where text assigns values to secret keys.
func (e *eraser) assigned(text []byte) (spans []span) {
	if e.named == nil || !e.mayName.mayMatch(text) {
		return nil
	}
	spans = groups(spans, e.named, text)
	if e.humped != nil {
		spans = groups(spans, e.humped, text)
	}
	return spans
}

// groups appends the positions of an expression's groups.
func groups(spans []span, re *regexp.Regexp, text []byte) []span {
	for _, m := range re.FindAllSubmatchIndex(text, -1) {
		for group := 2; group < len(m); group += 2 {
			if m[group] >= 0 {
				spans = append(spans, span{m[group], m[group+1]})
			}
		}
	}
	return spans
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

// apart sorts spans, joins overlapping ones and drops empty ones.
func apart(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
	joined := spans[:0]
	for _, s := range spans {
		switch n := len(joined); {
		case s.start == s.end:
		case n > 0 && s.start <= joined[n-1].end:
			joined[n-1].end = max(joined[n-1].end, s.end)
		default:
			joined = append(joined, s)
		}
	}
	return joined
}

// replace returns text with each span replaced by Redacted; text itself if there are no
// spans.
func replace(text []byte, spans []span) []byte {
	if len(spans) == 0 {
		return text
	}
	var clean []byte
	from := 0
	for _, s := range spans {
		clean = append(clean, text[from:s.start]...)
		clean = append(clean, Redacted...)
		from = s.end
	}
	return append(clean, text[from:]...)
}

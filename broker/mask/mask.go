// Package mask removes known secrets from the traffic of a broker, in any JSON escaping, even if a
// secret is spread over several parts of an answer. It does not interpret answers.
package mask

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// Secrets are the known secrets of a broker; nil has none. It is safe for any number of goroutines.
type Secrets struct{ known atomic.Pointer[set] }

// shortestSecret is the least length of a secret. Shorter ones may be ordinary words, such as the
// dummy keys of backends without keys.
const shortestSecret = 8

// Add adds secrets. Earlier ones remain, since calls that use them may still run. Only one
// goroutine may call Add.
func (s *Secrets) Add(secrets ...string) {
	k := &set{}
	if old := s.set(); old != nil {
		k.secrets = slices.Clone(old.secrets)
	}
	for _, secret := range secrets {
		// The part of an Authorization after the scheme is a secret itself.
		if scheme, rest, ok := strings.Cut(secret, " "); ok && slices.Contains(schemes, strings.ToLower(scheme)) {
			secrets = append(secrets, rest)
		}
	}
	for _, secret := range secrets {
		if len(secret) >= shortestSecret && !slices.Contains(k.secrets, secret) {
			k.secrets = append(k.secrets, secret)
		}
	}
	if len(k.secrets) == 0 {
		return
	}
	// The longest secret is tried first at each place.
	slices.SortFunc(k.secrets, func(a, b string) int { return len(b) - len(a) })
	k.first['\\'] = true
	for _, secret := range k.secrets {
		k.first[secret[0]] = true
	}
	s.known.Store(k)
}

var schemes = []string{"basic", "bearer", "token"}

func (s *Secrets) set() *set {
	if s == nil {
		return nil
	}
	return s.known.Load()
}

// Hide returns b with secrets replaced by asterisks, or b itself if it has none. The length stays
// the same, and JSON stays valid.
func (s *Secrets) Hide(b []byte) []byte {
	k := s.set()
	if k == nil {
		return b
	}
	e := &event{data: b}
	w := walk{set: k}
	w.event(e)
	return e.data
}

// Writer returns a writer to w that masks secrets. Each Write is masked separately.
func (s *Secrets) Writer(w io.Writer) io.Writer { return hider{s, w} }

type hider struct {
	*Secrets
	w io.Writer
}

func (h hider) Write(p []byte) (int, error) {
	if _, err := h.w.Write(h.Hide(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// A set is an immutable set of secrets.
type set struct {
	secrets []string
	first   [256]bool // the possible first bytes of a secret
}

// maxDepth is how often JSON strings may be nested: the arguments of a tool call are JSON in a
// string, and may contain further JSON in strings.
const maxDepth = 3

// scan calls found for each secret that begins in b[start:stop]. The text is inside a JSON string,
// or plain if depth is 0. scan returns the place after the last secret, or stop, and the first
// place where a secret may begin that continues after b, len(b) if there is none.
func (k *set) scan(b []byte, start, stop, depth int, found func(start, end int)) (next, open int) {
	open = len(b)
	i := start
	for i < stop {
		if !k.first[b[i]] {
			i++
			continue
		}
		end, partial := k.match(b, i, depth)
		if end > 0 {
			found(i, end)
			i = end
			continue
		}
		if partial {
			open = min(open, i)
		}
		_, after := char(b, i, depth)
		i = max(after, i+1)
	}
	return i, open
}

// match returns the end of the secret that begins at b[i], or 0. It is partial if b ends inside a
// possible secret.
func (k *set) match(b []byte, i, depth int) (end int, partial bool) {
	for _, secret := range k.secrets {
		for d := depth; d <= maxDepth; d++ {
			end, ended := is(secret, b, i, d)
			if end > 0 {
				return end, false
			}
			partial = partial || ended
		}
	}
	return 0, partial
}

// is returns the end of a secret at b[i], or 0, and whether b ends inside it.
func is(secret string, b []byte, i, depth int) (end int, ended bool) {
	for _, want := range secret {
		c, next := char(b, i, depth)
		if next == 0 {
			return 0, true
		}
		if c != want {
			return 0, false
		}
		i = next
	}
	return i, false
}

// char returns the character at b[i] after undoing JSON's escapes depth times, and the place of the
// next one: 0 if b ends inside it.
func char(b []byte, i, depth int) (c rune, next int) {
	switch {
	case i >= len(b):
		return 0, 0
	case depth == 0 && b[i] < utf8.RuneSelf:
		return rune(b[i]), i + 1
	case depth == 0:
		c, size := utf8.DecodeRune(b[i:])
		return c, i + size
	}
	c, next = char(b, i, depth-1)
	if c != '\\' || next == 0 {
		return c, next
	}
	c, next = char(b, next, depth-1)
	switch {
	case next == 0:
		return 0, 0
	case c == 'u':
		return unit(b, next, depth-1)
	}
	if at := bytes.IndexRune([]byte("bfnrt"), c); at >= 0 {
		return rune("\b\f\n\r\t"[at]), next
	}
	return c, next
}

// unit reads the four hex digits of an escape.
func unit(b []byte, i, depth int) (c rune, next int) {
	for range 4 {
		var digit rune
		if digit, i = char(b, i, depth); i == 0 {
			return 0, 0
		}
		switch {
		case '0' <= digit && digit <= '9':
			digit -= '0'
		case 'a' <= digit|0x20 && digit|0x20 <= 'f':
			digit = digit | 0x20 - 'a' + 10
		default:
			return utf8.RuneError, i
		}
		c = c<<4 | digit
	}
	return c, i
}

// An event is one text in which secrets are masked.
type event struct {
	data  []byte
	owned bool // data may be changed
	gone  bool // nobody reads it any more
}

func (e *event) own() {
	if !e.owned {
		e.data, e.owned = bytes.Clone(e.data), true
	}
}

func (e *event) fill(start, end int) {
	if e.gone {
		return
	}
	e.own()
	for i := start; i < end; i++ {
		e.data[i] = '*'
	}
}

// A lane is a text that arrives in parts: the strings at one path in the events of an answer. It
// keeps only the suffix that may begin a secret.
type lane struct {
	open    []byte
	parts   []part // the places of the suffix
	touched bool   // the latest event had a part
	holding bool   // see Stream
}

type part struct {
	of         *event
	start, end int
}

// addEvent masks the secrets in data[start:end] of an event, and those that began in
// earlier parts.
func (l *lane) addEvent(k *set, e *event, data []byte, start, end int) {
	old, from := len(l.open), start
	if old > 0 {
		// A secret that began earlier cannot be longer than this.
		more := min(end-start, len(k.secrets[0])*longestEscape)
		joined := append(l.open, data[start:start+more]...)
		next, open := k.scan(joined, 0, old, 1, func(a, b int) { l.fill(e, start, a, b) })
		if open < len(joined) && more == end-start {
			k.scan(data[:end], start, end, 1, e.fill)
			l.keep(joined, open)
			l.parts = append(l.parts, part{e, start, end})
			return
		}
		from = start + next - old
	}
	_, open := k.scan(data[:end], from, end, 1, e.fill)
	l.open, l.parts = append(l.open[:0], data[open:end]...), l.parts[:0]
	if open < end {
		l.parts = append(l.parts, part{e, open, end})
	}
}

// longestEscape is the longest form of a character that is escaped maxDepth times, in bytes.
const longestEscape = 6 * 6 * 6

// fill masks bytes a to b of the open suffix followed by the text in e.
func (l *lane) fill(e *event, start, a, b int) {
	at := 0
	for _, p := range append(l.parts[:len(l.parts):len(l.parts)], part{e, start, start + b}) {
		size := p.end - p.start
		if from, to := max(a-at, 0), min(b-at, size); from < to {
			p.of.fill(p.start+from, p.start+to)
		}
		at += size
	}
}

// keep drops what is before open in the joined text.
func (l *lane) keep(joined []byte, open int) {
	l.open = append(l.open[:0], joined[open:]...)
	for open > 0 {
		p := &l.parts[0]
		size := min(open, p.end-p.start)
		open -= size
		if p.start += size; p.start == p.end {
			l.parts = slices.Delete(l.parts, 0, 1)
		}
	}
}

// single are members whose strings are complete: those of several events are not joined.
var single = []string{"type", "role", "object", "model", "finish_reason", "finishReason", "stop_reason"}

// pieces are members whose strings are joined over several events.
var pieces = []string{"text", "content", "refusal", "reasoning", "reasoning_content", "thinking", "arguments", "partial_json"}

// A walk goes through the strings of events.
type walk struct {
	*set
	lanes map[string]*lane // those that are open

	path, indexed []byte // of the current value, without and with the values of members index
	stack         []nesting
	texts         int  // non-empty strings of the latest event that may be parts
	delta         bool // the latest of them is only a piece of text, and may be split
	last          bool // the latest event has a finish reason
}

// A nesting is an object or an array that is open.
type nesting struct {
	object, wantsKey bool
	path, indexed    int // the lengths of these without its members
	outside          int // the length of indexed without the nesting itself
	key              []byte
	thought          bool // it is a part of Gemini with a thought
	said             span // the text of a part of Gemini
}

// A span is data[start:end] of an event.
type span struct{ start, end int }

// maxPath bounds paths: an answer may be nested to any depth.
const maxPath = 256

// event masks the secrets in an event.
func (w *walk) event(e *event) {
	w.texts, w.delta, w.last = 0, false, false
	for _, l := range w.lanes {
		l.touched = false
	}
	data := e.data
	if jsonscan.Valid(data) != nil {
		w.scan(data, 0, len(data), 0, e.fill)
		return
	}
	w.path, w.indexed, w.stack = w.path[:0], w.indexed[:0], w.stack[:0]
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '{', '[':
			w.stack = append(w.stack, nesting{object: c == '{', wantsKey: c == '{', path: len(w.path), indexed: len(w.indexed), outside: len(w.indexed)})
		case '}', ']':
			w.endPart(e, data)
			top := w.top()
			w.path, w.indexed = w.path[:top.path], w.indexed[:top.outside]
			w.stack = w.stack[:len(w.stack)-1]
		case ',':
			w.top().wantsKey = w.top().object
		case '"':
			end := closing(data, i+1)
			w.text(e, data, i+1, end)
			i = end
		case 't', 'f': // of true and false
			if len(w.stack) > 0 && string(w.top().key) == "thought" {
				w.top().thought = c == 't'
			}
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			w.number(c)
		}
	}
}

func (w *walk) top() *nesting { return &w.stack[len(w.stack)-1] }

// closing returns the end of the string that begins at i.
func closing(data []byte, i int) int {
	for data[i] != '"' {
		if data[i] == '\\' {
			i++
		}
		i++
	}
	return i
}

// number reads a digit of a number.
func (w *walk) number(digit byte) {
	if len(w.stack) == 0 {
		return
	}
	// The index of an element precedes its parts.
	if top := w.top(); string(top.key) == "index" && len(w.indexed) < maxPath {
		w.indexed = append(w.indexed[:top.indexed], digit, '#')
		top.indexed = len(w.indexed)
	}
}

// text masks a string, data[start:end] without its quotes.
func (w *walk) text(e *event, data []byte, start, end int) {
	var top nesting
	if len(w.stack) > 0 {
		top = *w.top()
	}
	if top.wantsKey {
		w.key(data[start:end])
		w.scan(data[:end], start, end, 1, e.fill)
		return
	}
	if len(w.stack) < 2 || slices.Contains(single, string(top.key)) {
		w.last = w.last || bytes.HasSuffix(bytes.ToLower(top.key), []byte("reason"))
		w.scan(data[:end], start, end, 1, e.fill)
		return
	}
	if start < end {
		w.texts++
		w.delta = slices.Contains(pieces, string(top.key)) && (bytes.Contains(w.path, []byte("delta/")) || bytes.HasPrefix(w.path, []byte("candidates/")))
		w.part(w.path, e, data, start, end)
		if !bytes.Equal(w.path, w.indexed) {
			w.part(w.indexed, e, data, start, end)
		}
		if string(w.path) == geminiText {
			w.top().said = span{start, end}
		}
	}
}

// geminiText is the path of Gemini's texts. Thoughts have the same path, and differ only by another
// member.
const geminiText = "candidates/content/parts/text/"

// endPart masks the text of a part of Gemini once it is known whether it is a thought: thoughts and
// other texts are joined separately.
func (w *walk) endPart(e *event, data []byte) {
	top := w.top()
	if top.said == (span{}) {
		return
	}
	name := geminiText + "said"
	if top.thought {
		name = geminiText + "thought"
	}
	w.part([]byte(name), e, data, top.said.start, top.said.end)
}

// key notes the key of the next member.
func (w *walk) key(key []byte) {
	top := w.top()
	top.wantsKey, top.key = false, key
	if string(key) == "refusal" { // a part of the text like any other
		key = []byte("content")
	}
	w.path, w.indexed = w.path[:top.path], w.indexed[:top.indexed]
	if len(w.path)+len(key) < maxPath {
		w.path = append(append(w.path, key...), '/')
		w.indexed = append(append(w.indexed, key...), '/')
	}
}

// part masks a part of a lane.
func (w *walk) part(name []byte, e *event, data []byte, start, end int) {
	l := w.lanes[string(name)]
	if l == nil {
		if _, open := w.scan(data[:end], start, end, 1, e.fill); open == end {
			return
		}
		l = &lane{}
		if w.lanes == nil {
			w.lanes = map[string]*lane{}
		}
		w.lanes[string(name)] = l
	}
	l.addEvent(w.set, e, data, start, end)
	if l.touched = true; len(l.open) == 0 {
		delete(w.lanes, string(name))
	}
}

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

// scan calls found for each secret that begins in b from start on. The text is inside a JSON string,
// or plain if depth is 0. scan returns the first place where a secret may begin that continues after
// b, len(b) if there is none.
func (k *set) scan(b []byte, start, depth int, found func(start, end int)) (open int) {
	open = len(b)
	i := start
	for i < len(b) {
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
	return open
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

// addText masks the secrets in a text of an event, and those that began in earlier parts.
func (l *lane) addText(k *set, e *event, text []byte, start int) {
	l.open, l.parts = append(l.open, text...), append(l.parts, part{e, start, start + len(text)})
	done := k.scan(l.open, 0, 1, func(from, to int) {
		for _, p := range l.parts {
			size := p.end - p.start
			if first, last := max(from, 0), min(to, size); first < last {
				p.of.fill(p.start+first, p.start+last)
			}
			from, to = from-size, to-size
		}
	})
	l.open = append(l.open[:0], l.open[done:]...)
	for done > 0 {
		p := &l.parts[0]
		size := min(done, p.end-p.start)
		done -= size
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
	path, indexed int // the lengths of these without its members
	outside       int // the length of indexed without the nesting itself
	key           []byte
	isThought     bool // it is a part of Gemini with a thought
	text          part // the text of a part of Gemini
}

// maxPath bounds paths: an answer may be nested to any depth.
const maxPath = 256

// geminiText is the path of Gemini's texts. Thoughts have the same path, and differ only by another
// member.
const geminiText = "candidates/content/parts/text/"

// event masks the secrets in an event.
func (w *walk) event(e *event) {
	w.texts, w.delta, w.last = 0, false, false
	for _, l := range w.lanes {
		l.touched = false
	}
	data := e.data
	if jsonscan.Valid(data) != nil {
		w.scan(data, 0, 0, e.fill)
		return
	}
	w.path, w.indexed, w.stack = w.path[:0], w.indexed[:0], append(w.stack[:0], nesting{})
	for t := range jsonscan.Tokens(data) {
		top := &w.stack[len(w.stack)-1]
		switch c := data[t.Start]; c {
		case '{', '[':
			w.stack = append(w.stack, nesting{path: len(w.path), indexed: len(w.indexed), outside: len(w.indexed)})
		case '}', ']':
			// Only now it is known whether it is a thought. These are joined separately from other texts.
			if p := top.text; top.isThought && p.of != nil {
				w.part([]byte(geminiText+"thought"), e, data[p.start:p.end], p.start)
			} else if p.of != nil {
				w.part([]byte(geminiText+"said"), e, data[p.start:p.end], p.start)
			}
			w.path, w.indexed = w.path[:top.path], w.indexed[:top.outside]
			w.stack = w.stack[:len(w.stack)-1]
		case '"':
			if t.Key {
				w.key(top, data[t.Start+1:t.End-1])
			}
			if t.Key || len(w.stack) < 3 || slices.Contains(single, string(top.key)) {
				w.last = w.last || !t.Key && bytes.HasSuffix(bytes.ToLower(top.key), []byte("reason"))
				w.scan(data[:t.End-1], t.Start+1, 1, e.fill)
			} else if t.Start+2 < t.End {
				w.text(e, top, data, t.Start+1, t.End-1)
			}
		case 't', 'f':
			if string(top.key) == "thought" {
				top.isThought = c == 't'
			}
		case 'n':
		default:
			// The index of an element precedes its parts.
			if string(top.key) == "index" && len(w.indexed) < maxPath {
				w.indexed = append(append(w.indexed[:top.indexed], data[t.Start:t.End]...), '#')
				top.indexed = len(w.indexed)
			}
		}
	}
}

// text masks a string that may be a part: data[start:end], which is not empty.
func (w *walk) text(e *event, top *nesting, data []byte, start, end int) {
	w.texts++
	w.delta = slices.Contains(pieces, string(top.key)) && (bytes.Contains(w.path, []byte("delta/")) || bytes.HasPrefix(w.path, []byte("candidates/")))
	w.part(w.path, e, data[start:end], start)
	if !bytes.Equal(w.path, w.indexed) {
		w.part(w.indexed, e, data[start:end], start)
	}
	if string(w.path) == geminiText {
		top.text = part{e, start, end}
	}
}

// key notes the key of the next member.
func (w *walk) key(top *nesting, key []byte) {
	top.key = key
	if string(key) == "refusal" { // a part of the text like any other
		key = []byte("content")
	}
	w.path, w.indexed = w.path[:top.path], w.indexed[:top.indexed]
	if len(w.path)+len(key) < maxPath {
		w.path = append(append(w.path, key...), '/')
		w.indexed = append(append(w.indexed, key...), '/')
	}
}

// part masks a part of a lane, which begins at an offset of the event.
func (w *walk) part(name []byte, e *event, text []byte, start int) {
	l := w.lanes[string(name)]
	if l == nil {
		l = &lane{}
		if open := w.scan(text, 0, 1, func(from, to int) { e.fill(start+from, start+to) }); open == len(text) {
			return
		}
		if w.lanes == nil {
			w.lanes = map[string]*lane{}
		}
		w.lanes[string(name)] = l
	}
	l.addText(w.set, e, text, start)
	if l.touched = true; len(l.open) == 0 {
		delete(w.lanes, string(name))
	}
}

// A Stream masks secrets in the events of one answer. If the text of an event ends with the possible
// beginning of a secret, that end is held back until the next event.
type Stream struct {
	secrets *Secrets
	walk    walk
	held    []*event
}

// Stream returns a Stream.
func (s *Secrets) Stream() *Stream { return &Stream{secrets: s} }

// telling is the length from which the beginning of a secret is held for more than one event: a
// shorter one is probably something else.
const telling = 4

// maxLanes bounds the open texts that an event does not continue: a backend could begin a new one
// with each event.
const maxLanes = 100

// Add adds the data of an event, and calls f with the events that can be passed on, which are valid
// until f returns. It returns as soon as f is done or fails.
func (s *Stream) Add(data []byte, f func(data []byte) (done bool, err error)) (done bool, err error) {
	w := &s.walk
	if w.set = s.secrets.set(); w.set == nil {
		return f(data)
	}
	e := &event{data: data}
	w.event(e)
	s.held = append(s.held, e)
	s.split(e)
	for name, l := range w.lanes {
		switch {
		case !l.touched && len(w.lanes) > maxLanes:
			delete(w.lanes, name)
		case l.touched:
			l.holding = true
		case w.texts == 0 || len(l.open) < telling: // an event without text may be the last
			l.holding = false
		}
	}
	return s.release(slices.IndexFunc(s.held, s.isOpen), f)
}

// End calls f with the events that are held. There are no more events.
func (s *Stream) End(f func(data []byte) (done bool, err error)) (done bool, err error) {
	return s.release(-1, f)
}

// release passes on the first n events, or all if n is -1.
func (s *Stream) release(n int, f func([]byte) (bool, error)) (done bool, err error) {
	if n < 0 {
		n = len(s.held)
	}
	for _, e := range s.held[:n] {
		if !done && err == nil {
			done, err = f(e.data)
		}
		e.gone = true
	}
	s.held = slices.Delete(s.held, 0, n)
	for _, e := range s.held {
		e.own()
	}
	return done, err
}

// isOpen reports whether an event has a part of a possible secret.
func (s *Stream) isOpen(e *event) bool {
	for _, l := range s.walk.lanes {
		if l.holding && slices.ContainsFunc(l.parts, func(p part) bool { return p.of == e }) {
			return true
		}
	}
	return false
}

// split splits the latest event if only the end of its only text is open, so that the rest need not
// wait.
func (s *Stream) split(e *event) {
	var at *part
	for _, l := range s.walk.lanes {
		if !l.touched {
			continue
		}
		p := &l.parts[0]
		if p.of != e || at != nil && *at != *p {
			return
		}
		at = p
	}
	if at == nil || s.walk.texts != 1 || !s.walk.delta || s.walk.last {
		return
	}
	start, end := at.start, at.end
	begin := 0 // of the string
	for t := range jsonscan.Tokens(e.data) {
		if begin = t.Start + 1; start < t.End {
			break
		}
	}
	if begin == start {
		return
	}
	rest := &event{data: slices.Concat(e.data[:begin], e.data[start:]), owned: true}
	e.data, e.owned = slices.Concat(e.data[:start], e.data[end:]), true
	s.held = append(s.held, rest)
	for _, l := range s.walk.lanes {
		if l.touched {
			l.parts[0] = part{rest, begin, begin + end - start}
		}
	}
}

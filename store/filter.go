package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/session/query"
)

// FieldNames returns the fields of conditions.
func FieldNames() []string { return append(slices.Clone(decode.Fields.Names), "name") }

// Words are the words of a filter besides the conditions of package query and name==NAME,
// the name that the exchange of a frame asks for.
var Words = []string{"findings", "late", "cancelled", "failed", "slow", "model", "tool", "open", "crossed", "ignored", "silent", "bookmarks"}

// Chips are the words that views offer to turn on and off.
var Chips = []string{"failed", "slow", "cancelled", "model", "tool"}

// Has reports whether a filter has a word among its terms.
func Has(filter, word string) bool {
	return !strings.HasPrefix(strings.TrimSpace(filter), "~") && slices.Contains(terms(filter), word)
}

// Turn adds a word to a filter, or removes it. A call is of a model or of a tool, not of both.
func Turn(filter, word string) string {
	filter = strings.TrimSpace(filter)
	if filter == "" || strings.HasPrefix(filter, "~") {
		return word
	}
	has, list := Has(filter, word), terms(filter)
	list = slices.DeleteFunc(list, func(t string) bool {
		return t == word || word == "tool" && t == "model" || word == "model" && t == "tool"
	})
	if !has {
		list = append(list, word)
	}
	return strings.Join(list, " and ")
}

// A call is slow that took longer than slowCall, or than slowModel if a model answered.
const slowCall, slowModel = int64(time.Second), int64(10 * time.Second)

// isSlow reports whether an exchange is slow, so far.
func (s *Store) isSlow(r *row) bool {
	limit, end := slowCall, r.over()
	switch s.roleOf(r) {
	case join.Model:
		limit = slowModel
	case join.User, join.Agent:
		return false
	}
	if end == 0 {
		end = s.last
	}
	return s.timed && end-r.opened > limit
}

// roleOf returns what works in an exchange.
func (s *Store) roleOf(r *row) join.Role {
	if role := s.runs.joins[r.mark].role; role != join.NoRole {
		return role
	}
	return join.RoleOf(s.callOf(r))
}

// A Filter chooses frames.
type Filter struct {
	text  string
	where *query.Where
	words []string
	text1 []byte // the text that the frame must contain, if the filter is only that
}

// ParseFilter reads a filter: conditions and words, joined by "and"; or "~" and a text that the
// frame contains. It returns nil for an empty one.
func ParseFilter(text string) (*Filter, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	f := &Filter{text: text}
	if plain, ok := strings.CutPrefix(text, "~"); ok {
		f.text1 = []byte(strings.TrimSpace(plain))
		return f, nil
	}
	var conditions []string
	for _, term := range terms(text) {
		word, err := named(term)
		switch {
		case err != nil:
			return nil, err
		case word != "" || slices.Contains(Words, term):
			f.words = append(f.words, cmp.Or(word, term))
		default:
			conditions = append(conditions, term)
		}
	}
	if len(conditions) == 0 {
		return f, nil
	}
	var err error
	f.where, err = query.Parse(strings.Join(conditions, " and "), decode.Fields)
	switch {
	case err == nil:
		return f, nil
	case isWord(text):
		err = fmt.Errorf("unknown filter %q: want a condition such as kind==result, or one of %s", text, strings.Join(Words, ", "))
	}
	return nil, err
}

// name begins a condition on the name of what an exchange asks for.
const name = "name=="

// named returns a condition on a name, with the name unquoted; "" for any other term.
func named(term string) (string, error) {
	value, ok := strings.CutPrefix(term, name)
	switch {
	case !ok:
		return "", nil
	case !strings.HasPrefix(value, `"`):
		return term, nil
	}
	var text string
	if err := json.Unmarshal([]byte(value), &text); err != nil {
		return "", fmt.Errorf("name %s: want text in quotes", value)
	}
	return name + text, nil
}

// isWord reports whether text is letters and hyphens.
func isWord(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz-") == ""
}

// terms splits a filter at each "and" outside quotes.
func terms(text string) (list []string) {
	start := 0
	for i := range query.Unquoted(text) {
		if i >= start && strings.HasPrefix(text[i:], " and ") {
			list = append(list, strings.TrimSpace(text[start:i]))
			start = i + len(" and ")
		}
	}
	return append(list, strings.TrimSpace(text[start:]))
}

// match reports whether a frame meets the filter.
func (f *Filter) match(s *Store, it *decode.Item, e *entry) bool {
	if !s.wordsMatch(e, it.Seq) {
		return false
	}
	if f.text1 != nil {
		return bytes.Contains(it.Payload, f.text1) || bytes.Contains(it.Frame.Raw, f.text1)
	}
	return f.where == nil || f.where.Match(it)
}

// is reports whether a word applies to a frame, or to its exchange.
func (s *Store) is(word string, e *entry, seq int64) bool {
	r := s.rows.of(e.of)
	switch word {
	case "findings":
		return e.flags&finding != 0
	case "bookmarks":
		return e.flags&bookmark != 0
	}
	if r == nil {
		return false
	}
	if want, ok := strings.CutPrefix(word, name); ok {
		return s.rows.optional(r.name) == want
	}
	switch word {
	case "late":
		return r.asked != 0 && seq > r.cancel
	case "cancelled":
		return r.class != 0 || session.Outcome(r.outcome).Stopped()
	case "failed":
		return session.Outcome(r.outcome).Failed()
	case "slow":
		return s.isSlow(r)
	case "model":
		return s.roleOf(r) == join.Model
	case "tool":
		return s.roleOf(r) == join.Tool && r.name != 0
	case "open":
		return r.outcome == uint8(session.Open)
	case "crossed":
		return r.class == uint8(session.Crossed)+1
	case "ignored":
		return r.class == uint8(session.Ignored)+1
	case "silent":
		return r.class == uint8(session.Silent)+1
	}
	return false
}

// hits are the frames that match the filter, of those that were checked.
type hits struct {
	seqs    []int64
	next    int64 // the next frame to check
	dropped int64 // hits
}

// offer checks a new frame, if all earlier frames were checked and the filter does not depend on
// later frames.
func (h *hits) offer(s *Store, it *decode.Item, e *entry) {
	if h.next != it.Seq || len(s.filter.words) > 0 {
		return
	}
	h.next++
	if s.filter.match(s, it, e) {
		h.addHit(s, it.Seq)
	}
}

func (h *hits) addHit(s *Store, seq int64) {
	h.seqs = append(h.seqs, seq)
	if r := s.rows.of(s.frames.at(seq).of); r != nil {
		s.rows.matched(r)
	}
	for r := range s.rows.openedBy(seq) {
		s.rows.matched(r)
	}
}

func (h *hits) has(seq int64) bool {
	_, found := slices.BinarySearch(h.seqs, seq)
	return found
}

func (h *hits) searched(s *Store) int64 { return min(h.next-s.frames.first, s.frames.n) }

// SetFilter makes f the filter; nil means none. [Store.Search] checks the frames.
func (s *Store) SetFilter(f *Filter) {
	defer s.lockToChange()()
	s.filter, s.hits, s.rows.hits = f, hits{next: s.frames.first}, 0
	for _, c := range s.rows.chunks {
		for i := range c {
			c[i].hit, c[i].hitBelow = false, false
		}
	}
}

// Search checks frames against the filter for that long, and reports whether there are more to
// check.
func (s *Store) Search(limit time.Duration) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filter == nil {
		return false
	}
	h := &s.hits
	h.next = max(h.next, s.frames.first)
	if i, _ := slices.BinarySearch(h.seqs, s.frames.first); i > 0 {
		h.seqs, h.dropped = h.seqs[i:], h.dropped+int64(i)
	}
	deadline := time.Now().Add(limit)
	for n := 0; h.next < s.frames.nextSeq(); n++ {
		if n%64 == 63 && time.Now().After(deadline) {
			return true
		}
		e := s.frames.at(h.next)
		if s.wordsMatch(e, h.next) && s.load(h.next, e) == nil && s.filter.match(s, s.item, e) {
			h.addHit(s, h.next)
			s.version.Add(1)
		}
		h.next++
	}
	return false
}

// wordsMatch reports whether the filter's words apply to a frame. They do not need its bytes.
func (s *Store) wordsMatch(e *entry, seq int64) bool {
	return !slices.ContainsFunc(s.filter.words, func(w string) bool { return !s.is(w, e, seq) })
}

// Find searches the list for a frame that contains text, after that index, or before it if
// back is set. After the limit it returns the index that it reached and false. If there is no
// such frame the index is -1.
func (s *Store) Find(text []byte, index int64, back bool, limit time.Duration) (at int64, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := int64(1)
	if back {
		step = -1
	}
	deadline := time.Now().Add(limit)
	first, total := s.listed()
	for i := max(first-1, min(index, total)) + step; i >= first && i < total; i += step {
		seq := s.listedAt(i)
		e := s.frames.at(seq)
		if e != nil && s.load(seq, e) == nil && (bytes.Contains(s.item.Payload, text) || bytes.Contains(s.item.Message.Kind, text)) {
			return i, true
		}
		if time.Now().After(deadline) {
			return i, false
		}
	}
	return -1, true
}

// Containing returns the numbers of the frames, starting at from, whose payload or kind
// contains text in any case. It stops after the limit. The next search starts at next.
func (s *Store) Containing(text string, from int64, limit time.Duration) (found []int64, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := bytes.ToLower([]byte(text))
	deadline := time.Now().Add(limit)
	for next = max(from, s.frames.first); next < s.frames.nextSeq() && time.Now().Before(deadline); next++ {
		e := s.frames.at(next)
		if s.load(next, e) != nil {
			continue
		}
		it := s.item
		if bytes.Contains(bytes.ToLower(it.Payload), want) || bytes.Contains(bytes.ToLower(it.Message.Kind), want) {
			found = append(found, next)
		}
	}
	return found, next
}

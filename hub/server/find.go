package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/session/query"
)

// A search is a request for sessions, and the state of its answer.
type search struct {
	hub.Query
	index *index
	to    *nats.Msg

	values  []query.Term // all but those of text
	phrases []phrase

	searched, all atomic.Int64
	page          []hub.Info
	next          *hub.Cursor
	partly        []string
}

const (
	// pageSize is how many sessions fit into a message of an answer.
	pageSize = 100
	// stepTime is how long sessions are read for an answer. The user then asks again, so that
	// other users have their turns, and a user who has gone costs nothing.
	stepTime = 5 * time.Second
	// wholeTime is how long for users of versions that do not ask again.
	wholeTime = 20 * time.Second
	// aliveTime is how often a user is told that the search goes on.
	aliveTime = time.Second
)

// answerFinds answers searches.
func (x *index) answerFinds(requests <-chan *nats.Msg) {
	for {
		select {
		case m := <-requests:
			x.answerFind(m)
		case <-x.ctx.Done():
			return
		}
	}
}

func (x *index) answerFind(m *nats.Msg) {
	s := &search{index: x, to: m}
	behind, err := s.run()
	if err == nil {
		err = s.send()
	}
	last := nats.NewMsg(m.Reply)
	set := func(name, text string) {
		if text != "" {
			last.Header.Set(name, strings.ReplaceAll(text, "\n", " "))
		}
	}
	set(hub.HeaderBehind, strconv.FormatUint(behind, 10))
	set(hub.HeaderProgress, s.progress())
	set(hub.HeaderPartly, strings.Join(s.partly, " "))
	if s.next != nil && err == nil {
		var text []byte
		text, err = json.Marshal(s.next)
		set(hub.HeaderNext, string(text))
	}
	if err != nil {
		set(hub.HeaderError, err.Error())
	}
	_ = m.RespondMsg(last) // it fails if the user has gone
}

// send sends the page.
func (s *search) send() error {
	text, err := json.Marshal(s.page)
	if err != nil || len(s.page) == 0 {
		return err
	}
	s.page = s.page[:0]
	return s.to.Respond(text)
}

func (s *search) progress() string { return fmt.Sprintf("%d/%d", s.searched.Load(), s.all.Load()) }

// run finds a part of the sessions, and returns how many messages the index lacks.
func (s *search) run() (behind uint64, err error) {
	if err := json.Unmarshal(s.to.Data, &s.Query); err != nil {
		return 0, fmt.Errorf("invalid query: want an object: %w", err)
	}
	if err := s.parse(); err != nil {
		return 0, err
	}
	if behind, err = s.index.catchUp(); err != nil {
		return 0, err
	}
	list, known, err := s.candidates()
	if err != nil {
		return 0, err
	}
	s.all.Store(int64(len(list)))
	done, most := 0, wholeTime
	if s.Steps {
		most = s.index.stepTime
	}
	if s.After != nil {
		if done = slices.IndexFunc(list, func(i hub.Info) bool { return i.Cursor().Compare(s.After) > 0 }); done < 0 {
			done = len(list)
		}
	}
	if len(s.phrases) > 0 || slices.ContainsFunc(list, func(i hub.Info) bool { return s.unsure(known[i.Key()]) }) {
		defer s.stayAlive()()
		select { // one search at a time reads sessions
		case s.index.texts <- struct{}{}:
			defer func() { <-s.index.texts }()
		case <-s.index.ctx.Done():
			return behind, context.Cause(s.index.ctx)
		}
	}
	read := 0
	for began := time.Now(); done < len(list); done++ {
		s.searched.Store(int64(done))
		i := &list[done]
		f := known[i.Key()]
		found := true
		if len(s.phrases) > 0 || s.unsure(f) {
			if read++; read > 1 && time.Since(began) > most {
				if !s.Steps {
					return behind, fmt.Errorf("the search takes longer than %v: narrow it with --since, or install the hub's version of wirectl", most)
				}
				break
			}
			if found, err = s.read(i, f); err != nil {
				return behind, err
			}
		}
		if s.next = i.Cursor(); !found {
			continue
		}
		if s.page = append(s.page, *i); len(s.page) == pageSize {
			if err := s.send(); err != nil {
				return behind, err
			}
		}
	}
	if s.searched.Store(int64(done)); done == len(list) {
		s.next = nil
	}
	return behind, nil
}

// stayAlive reports progress until stop is called.
func (s *search) stayAlive() (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticks := time.Tick(aliveTime)
		for {
			select {
			case <-done:
				return
			case <-ticks:
				m := nats.NewMsg(s.to.Reply)
				m.Data = []byte("[]")
				m.Header.Set(hub.HeaderProgress, s.progress())
				_ = s.to.RespondMsg(m) // it fails if the user has gone
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
	}
}

// candidates returns the sessions that the query may match as far as can be told without
// reading them, newest first, and the facts about all sessions.
func (s *search) candidates() ([]hub.Info, map[string]*facts, error) {
	x := s.index
	org := strings.TrimPrefix(s.to.Subject, hub.Find)
	known := map[string]*facts{}
	err := x.conn.Entries(x.ctx, hub.Facts, org+".>", func(key string, m *nats.Msg) error {
		f := new(facts)
		if json.Unmarshal(m.Data, f) == nil { // another program wrote it
			known[key] = f
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	list, err := x.conn.SessionsOf(x.ctx, org)
	if err != nil {
		return nil, nil, err
	}
	list = slices.DeleteFunc(list, func(i hub.Info) bool {
		active := (s.Since.IsZero() || i.Ended.IsZero() || !i.Ended.Before(s.Since)) && (s.Until.IsZero() || !i.Started.After(s.Until))
		return !active || !i.Has(s.Words)
	})
	for n := range list {
		i := &list[n]
		f := known[i.Key()]
		if f == nil {
			f = new(facts)
			known[i.Key()] = f
		}
		i.Frames = max(i.Frames, f.Frames) // up to now, unlike the summary's
		i.Calls, i.Failures, i.Findings = &f.Calls, &f.Failures, &f.Findings
	}
	list = slices.DeleteFunc(list, func(i hub.Info) bool {
		f := known[i.Key()]
		return slices.ContainsFunc(s.values, func(t query.Term) bool { return !has(t, &i, f) && !(f.More && isValue(t)) })
	})
	slices.SortFunc(list, hub.NewestFirst)
	return list, known, nil
}

// unsure reports whether a session has to be read because it has more values than are kept.
func (s *search) unsure(f *facts) bool { return f.More && slices.ContainsFunc(s.values, isValue) }

var (
	errDecided = errors.New("the rest makes no difference")
	errTooLong = errors.New("the session is too large")
)

// read reads a session, and reports whether the query matches it.
func (s *search) read(i *hub.Info, f *facts) (bool, error) {
	x := s.index
	r := newReading(watch{}, i.Key(), func(error) {}) // it was said before
	defer r.close()
	r.most = math.MaxInt
	if len(s.phrases) > 0 {
		r.phrases = &phrases{}
		for _, one := range s.phrases {
			one.seen = make([]bool, len(one.words))
			r.phrases.list = append(r.phrases.list, one)
		}
	}
	size := int64(0)
	err := x.again(x.ctx, i.Key(), math.MaxUint64, func(seq uint64, m *nats.Msg) error {
		if r.take(seq, m); r.phrases != nil && r.phrases.decided() && !s.unsure(f) {
			return errDecided
		}
		if size += int64(len(m.Data)); size > x.maxBytes {
			return errTooLong
		}
		return nil
	})
	if err != nil && !errors.Is(err, errDecided) && !errors.Is(err, errTooLong) {
		return false, err
	}
	met := (r.phrases == nil || r.phrases.met()) && (!s.unsure(f) || !slices.ContainsFunc(s.values, func(t query.Term) bool {
		return isValue(t) && !has(t, i, &r.facts)
	}))
	if errors.Is(err, errTooLong) { // nor does it say what the rest does not have
		s.partly = append(s.partly, i.Host+"/"+i.ID)
	}
	return met, nil
}

// parse reads the condition.
func (s *search) parse() error {
	if s.Where == "" {
		return nil
	}
	where, err := query.Parse(s.Where, hub.Fields)
	if err != nil {
		return err
	}
	for _, t := range where.Terms() {
		_, numeric := counts(&hub.Info{}, &facts{})[t.Field]
		switch {
		case t.Field == "text":
			one := phrase{prefix: t.Op == "~", absent: t.Op == "!="}
			for word := range words([]byte(t.Value)) {
				one.words = append(one.words, string(word))
			}
			switch {
			case len(one.words) == 0:
				return fmt.Errorf("no word in %q: want text~WORD", t.Value)
			case t.Op != "==" && t.Op != "~" && t.Op != "!=":
				return errors.New("the field text takes ==, != or ~")
			}
			s.phrases = append(s.phrases, one)
			continue
		case numeric:
			if _, err := strconv.ParseFloat(t.Value, 64); err != nil || t.Op == "~" {
				return fmt.Errorf("%s is a number: want a comparison such as %[1]s>0", t.Field)
			}
		case t.Op != "==" && t.Op != "!=" && t.Op != "~":
			return fmt.Errorf("%s is text: use ==, != or ~ with it", t.Field)
		}
		s.values = append(s.values, t)
	}
	return nil
}

// isValue reports whether a term is about [facts.Values].
func isValue(t query.Term) bool {
	return slices.Contains([]string{protocolField, requestField, toolField, modelField, outcomeField, findingField}, t.Field)
}

// counts returns the counts of a session, by their fields.
func counts(i *hub.Info, f *facts) map[string]int64 {
	return map[string]int64{"frames": max(i.Frames, f.Frames), "bytes": i.Bytes, "lost": i.Lost, "calls": f.Calls, "failures": f.Failures, "findings": f.Findings}
}

// has reports whether a session is as a term says. With != none of its values may be equal.
func has(t query.Term, i *hub.Info, f *facts) bool {
	if count, numeric := counts(i, f)[t.Field]; numeric {
		want, _ := strconv.ParseFloat(t.Value, 64) // parse has checked it
		n := float64(count)
		return map[string]bool{"==": n == want, "!=": n != want, "<": n < want, "<=": n <= want, ">": n > want, ">=": n >= want}[t.Op]
	}
	list := f.Values[t.Field]
	if !isValue(t) {
		list = []string{map[string]string{
			"id": i.ID, "host": i.Host, "kind": i.Kind, "name": i.Name, "controller": i.Controller, "unit": i.Unit,
			"level": string(i.Level), "policy": string(i.Policy),
		}[t.Field]}
	} else if t.Field == protocolField && i.Protocol != "" {
		list = append(slices.Clone(list), i.Protocol)
	}
	found := slices.ContainsFunc(list, func(value string) bool {
		return value == t.Value || t.Op == "~" && strings.Contains(value, t.Value)
	})
	return found == (t.Op != "!=")
}

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

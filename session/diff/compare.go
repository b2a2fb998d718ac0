package diff

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// Compare compares two sessions created with the same options.
func Compare(a, b *Session) (*Report, error) {
	c := comparison{options: a.options, a: a, b: b, names: newNames(), report: &Report{
		Frames:    [2]int64{a.frames, b.frames},
		Exchanges: [2]int64{a.asked, b.asked},
	}}
	if a.account.isTold() != b.account.isTold() {
		if err := c.accounts(); err != nil {
			return nil, err
		}
		return c.report, errors.Join(a.spill.err, b.spill.err)
	}
	c.versions()
	var operation *exchange // the latest one of a
	for _, m := range operations(a, b) {
		p := pair{a: a.load(m.a), b: b.load(m.b)}
		if m.of == nil {
			operation = p.a
		} else {
			p.of = &Operation{Kind: operation.kind, ID: operation.id, A: a.kept(m.of.a).first, B: b.kept(m.of.b).first}
		}
		c.pair(p)
		if err := errors.Join(a.spill.err, b.spill.err); err != nil {
			return nil, fmt.Errorf("read back a session: %w", err)
		}
	}
	for len(c.listings) > 0 {
		c.endLater(c.listings[0])
	}
	return c.report, nil
}

type comparison struct {
	options  Options
	a, b     *Session
	names    *names
	listings []*listing // not read to the end yet
	// differing is the first frame in a of the operation that was counted last.
	differing int64
	report    *Report
}

// pair compares two exchanges, unless one is missing.
func (c *comparison) pair(p pair) {
	switch {
	case p.b == nil:
		c.report.addDifference(Difference{What: Exchange, Kind: p.a.kind, Of: p.of, A: p.a.side()})
		if p.of != nil {
			c.differs(p)
		} else {
			c.report.OnlyA++
		}
		c.extraPage(0, p.a)
		return
	case p.a == nil:
		c.report.addDifference(Difference{What: Exchange, Kind: p.b.kind, Of: p.of, B: p.b.side()})
		if p.of != nil {
			c.differs(p)
		} else {
			c.report.OnlyB++
		}
		c.extraPage(1, p.b)
		return
	}
	c.endEarlier(p)
	before := c.report.Total
	c.messages(p)
	if a, b := p.a.outcome, p.b.outcome; a != b {
		c.addDifference(p, Outcome, p.a.endMessage(), p.b.endMessage(), "", a.String(), b.String())
	}
	if a, b := p.a.latency(), p.b.latency(); c.late(a, b) || c.late(b, a) {
		c.addDifference(p, Latency, p.a.endMessage(), p.b.endMessage(), "", a.Round(time.Microsecond).String(), b.Round(time.Microsecond).String())
	}
	c.models(p)
	if c.report.Total > before {
		c.differs(p)
		c.countListing(p)
	}
}

// differs counts an exchange that differs. All exchanges of an operation count once.
func (c *comparison) differs(p pair) {
	var operation int64
	if p.of != nil {
		operation = p.of.A
	} else {
		operation = p.a.first()
	}
	if operation != c.differing || operation == 0 {
		c.report.Differ++
	}
	c.differing = operation
}

// late reports whether a is much longer than b. An unknown time is never late.
func (c *comparison) late(a, b time.Duration) bool {
	return c.options.Latency > 0 && b > 0 && float64(a) > c.options.Latency*float64(b)
}

// messages compares the messages of two exchanges in order.
func (c *comparison) messages(p pair) {
	a, b := runs(p.a.messages), runs(p.b.messages)
	kind := func(i, j int) bool { return a[i][0].like(&b[j][0]) }
	label := func(i, j int) bool { return kind(i, j) && a[i][0].label == b[j][0].label }
	align(len(a), len(b), func(a0, a1, b0, b1 int) {
		a, b := a[a0:a1], b[b0:b1]
		if len(a) == 1 && len(b) == 1 && a[0][0].like(&b[0][0]) {
			c.runs(p, a[0], b[0])
			return
		}
		c.only(p, slices.Concat(a...), slices.Concat(b...))
	}, label, kind)
}

// only reports messages that only one of two exchanges has. If the outcomes differ, their
// last messages are not reported as well.
func (c *comparison) only(p pair, a, b run) {
	differ := p.a.outcome != p.b.outcome
	for i := range a {
		if !differ || !a[i].phase.Ends() {
			c.addDifference(p, Message, &a[i], nil, "", "", "")
		}
	}
	for i := range b {
		if !differ || !b[i].phase.Ends() {
			c.addDifference(p, Message, nil, &b[i], "", "", "")
		}
	}
}

// runs compares messages of one kind. Parts with the same total content that were split
// differently are one difference.
func (c *comparison) runs(p pair, a, b run) {
	if len(a) == 1 && len(b) == 1 {
		c.payloads(p, &a[0], &b[0])
		return
	}
	if (len(a) != len(b) || !c.alike(p, a, b)) && c.cutElsewhere(p, a, b) {
		c.chunks(p, a, b)
		return
	}
	same := func(i, j int) bool { return a[i].digest == b[j].digest }
	Alignments(len(a), len(b), same, func(a0, a1, b0, b1 int) {
		n := min(a1-a0, b1-b0)
		for i := range n {
			c.payloads(p, &a[a0+i], &b[b0+i])
		}
		c.only(p, a[a0+n:a1], b[b0+n:b1])
	})
}

// alike reports whether messages are equal one by one.
func (c *comparison) alike(p pair, a, b run) bool {
	alike := true
	for i := range a {
		c.differences(p, &a[i], &b[i], func([]string, []byte, []byte) { alike = false })
	}
	return alike
}

// chunks reports parts that are split differently.
func (c *comparison) chunks(p pair, a, b run) {
	if c.options.IgnoreChunks {
		return
	}
	d := c.difference(p, Chunks, &a[0], &b[0], "")
	d.A.Frames, d.A.Value = a.frames(), render.Count(int64(len(a)), "part")
	d.B.Frames, d.B.Value = b.frames(), render.Count(int64(len(b)), "part")
	c.report.addDifference(d)
}

// payloads compares the payloads of two messages. Definitions in a list are compared by
// name, in any order.
func (c *comparison) payloads(p pair, a, b *message) {
	c.pages(p, a, b)
	c.differences(p, a, b, func(keys []string, va, vb []byte) {
		c.addDifference(p, Payload, a, b, jsondiff.Join(keys), render.Shorten(va, maxValue), render.Shorten(vb, maxValue))
	})
}

// differences calls yield for each member that differs.
func (c *comparison) differences(p pair, a, b *message, yield func(keys []string, a, b []byte)) {
	inA, inB := a.payload(), b.payload()
	if jsonscan.WellFormed(inA) != nil || jsonscan.WellFormed(inB) != nil {
		if !bytes.Equal(inA, inB) {
			yield(nil, inA, inB)
		}
		return
	}
	w := jsondiff.Walk{Ignore: c.options.Ignore, Reordered: yield, Leaf: func(keys []string, va, vb []byte) {
		if !c.same(p, a, b, keys, va, vb) {
			yield(keys, va, vb)
		}
	}}
	// The ids of messages differ in each session, so they do not name items.
	w.Named = func(_ string, value []byte) bool { return !c.a.knows(value) && !c.b.knows(value) }
	if list := contract.ListOf(p.a.kind); list != nil && listed(list, inA) && listed(list, inB) {
		w.Ignore = append(slices.Clone(w.Ignore), list.Path())
	}
	w.Values(inA, inB)
}

// same reports whether two members are equal. Ids are equal if they correspond.
func (c *comparison) same(p pair, a, b *message, keys []string, va, vb []byte) bool {
	if len(keys) == 0 || va == nil || vb == nil || !jsondiff.HoldsID(keys[len(keys)-1]) || !c.a.knows(va) || !c.b.knows(vb) {
		return jsondiff.Same(va, vb)
	}
	side := p.a.opener
	if keys[len(keys)-1] == "seq" {
		side = a.dir // each side numbers all its messages, answers included
	}
	if c.a.blind || c.b.blind {
		side = frame.DirUnknown
	}
	opens := a.seq == p.a.first() && b.seq == p.b.first()
	if opens && jsondiff.IsToken(va, a.id) && jsondiff.IsToken(vb, b.id) {
		c.names.rename(p.a.lane, side, string(va), string(vb))
		return true
	}
	return c.names.same(p.a.lane, side, string(va), string(vb))
}

func (c *comparison) addDifference(p pair, what What, a, b *message, path, va, vb string) {
	d := c.difference(p, what, a, b, path)
	d.A.Value, d.B.Value = va, vb
	c.report.addDifference(d)
}

// difference returns a difference between two messages. Either may be nil.
func (c *comparison) difference(p pair, what What, a, b *message, path string) Difference {
	d := Difference{What: what, Kind: p.a.kind, Of: p.of, Path: path, A: p.a.sideOf(a), B: p.b.sideOf(b)}
	switch {
	case what == Outcome || what == Latency || what == Model:
	case a != nil:
		d.Message = a.kind
	default:
		d.Message = b.kind
	}
	return d
}

// A speech is the joined content of parts: the values at each path, by the hash of the path.
// It refers to the memory of the parts.
type speech map[uint64]*said

// said is the content of parts at one path.
type said struct {
	keys   []string // the path
	first  []byte   // the value of the first part
	varies bool
	isText bool
	text   []byte // joined, if all are strings
	ends   []int  // of each part in text
}

// speechOf joins parts; it returns nil if one of them is not JSON.
func (c *comparison) speechOf(parts run) speech {
	s := make(speech)
	for _, m := range parts {
		payload := m.payload()
		if jsonscan.WellFormed(payload) != nil {
			return nil
		}
		w := jsondiff.Walk{Ignore: c.options.Ignore}
		w.Leaf = func(keys []string, value, _ []byte) { s.hear(w.Place(), keys, value) }
		w.Values(payload, payload)
	}
	return s
}

func (s speech) hear(path uint64, keys []string, value []byte) {
	p := s[path]
	if p == nil {
		p = &said{keys: slices.Clone(keys), first: value, isText: true}
		s[path] = p
	}
	p.varies = p.varies || !jsondiff.Same(p.first, value)
	text, ok := jsonscan.Unquote(value)
	if p.isText = p.isText && ok; p.isText {
		p.text = append(p.text, text...)
		p.ends = append(p.ends, len(p.text))
	}
}

// cutElsewhere reports whether parts have the same texts in total, split at different places.
// Numbers may differ, because they may count the parts.
func (c *comparison) cutElsewhere(p pair, a, b run) bool {
	here, there := c.speechOf(a), c.speechOf(b)
	if here == nil || there == nil {
		return false
	}
	moved := false
	for path, va := range here {
		vb := there[path]
		switch {
		case !va.isText && (vb == nil || !vb.isText):
			if !va.counts(vb) {
				return false
			}
		case vb == nil || !vb.isText || !va.isText:
			return false
		case bytes.Equal(va.text, vb.text) && (va.varies || vb.varies || len(a) != len(b) && !va.holdsID()):
			moved = moved || !slices.Equal(va.ends, vb.ends)
		case va.varies || vb.varies || !c.same(p, &a[0], &b[0], va.keys, va.first, vb.first):
			return false
		}
	}
	for path, vb := range there {
		if here[path] == nil && (vb.isText || !vb.counts(nil)) {
			return false
		}
	}
	return moved
}

func (s *said) holdsID() bool { return len(s.keys) > 0 && jsondiff.HoldsID(s.keys[len(s.keys)-1]) }

// counts reports whether two values are the same, or numbers that may count parts.
func (s *said) counts(there *said) bool {
	if there != nil && !s.varies && !there.varies {
		return jsondiff.Same(s.first, there.first)
	}
	return jsonscan.KindOf(s.first) == jsonscan.Number
}

// names maps the ids of one session to those of the other. An id corresponds to the first one
// found in its place, and to no other. Only hashes are kept.
type names struct {
	there, back map[uint64]uint64
}

// A scoped id is an id that a side uses in a lane.
type scoped struct {
	lane int
	side frame.Dir
	text string
}

func newNames() *names { return &names{make(map[uint64]uint64), make(map[uint64]uint64)} }

// rename makes b correspond to a, whatever they corresponded to before: ids may be reused.
func (n *names) rename(lane int, side frame.Dir, a, b string) {
	n.set(hash(scoped{lane, side, a}), hash(scoped{lane, side, b}))
}

func (n *names) set(a, b uint64) {
	delete(n.back, n.there[a])
	delete(n.there, n.back[b])
	n.there[a], n.back[b] = b, a
}

// same reports whether b corresponds to a. If neither has a counterpart yet, they correspond
// from now on.
func (n *names) same(lane int, side frame.Dir, a, b string) bool {
	in, out := hash(scoped{lane, side, a}), hash(scoped{lane, side, b})
	there, known := n.there[in]
	_, taken := n.back[out]
	if !known && !taken {
		n.set(in, out)
		return true
	}
	return known && there == out
}

var seed = maphash.MakeSeed()

// hash represents a value where many are kept. Two values collide with a probability of 2⁻⁶⁴.
// The seed is secret, so nobody can search for collisions.
func hash[T comparable](v T) uint64 { return maphash.Comparable(seed, v) }

// knows reports whether a JSON value is an id of the session.
func (s *Session) knows(value []byte) bool {
	if s.tokens[hash(string(value))] {
		return true
	}
	unquoted, ok := jsonscan.Unquote(value)
	return ok && s.tokens[hash(string(unquoted))]
}

// An answer is how a model answered.
type answer struct {
	model, stopReason, tools string
	used                     protocol.Usage
	firstPart                time.Duration
	perSecond                float64
}

// Watcher returns the watcher of the session's calls. With it, model calls are also compared by
// model, tokens, cost and speed, and calls over HTTP by how their responses ended.
func (s *Session) Watcher() session.Watcher { return models{Session: s} }

type models struct {
	session.Bystander
	*Session
}

// Changed implements [session.Watcher].
func (m models) Changed(e *session.Exchange, _ int64) {
	if n := m.at(e.First); n != none && m.kept(n).asks && m.kept(n).http && e.Outcome != session.Open {
		m.kept(n).outcome = e.Outcome
	}
	if e.Model == "" {
		m.account.learn(e, answer{})
		return
	}
	m.answers[e.First] = answer{
		model: m.shared(e.Model), stopReason: m.shared(e.StopReason), tools: m.shared(strings.Join(e.ToolCalls, " ")),
		used: e.Usage, firstPart: e.TimeToFirstPart(), perSecond: e.TokensPerSecond(),
	}
	m.account.learn(e, m.answers[e.First])
}

// shared returns the single copy of a text.
func (m models) shared(text string) string {
	if known, ok := m.texts[text]; ok {
		return known
	}
	m.texts[text] = text
	return text
}

// models compares how models answered, using the field names of calls. Speed is compared by the
// same factor as latency.
func (c *comparison) models(p pair) {
	a, inA := c.a.answers[p.a.first()]
	b, inB := c.b.answers[p.b.first()]
	if !inA || !inB {
		return
	}
	field := func(name, a, b string) {
		if a != b && !jsondiff.Ignored(c.options.Ignore, []string{name}) {
			c.addDifference(p, Model, p.a.endMessage(), p.b.endMessage(), name, a, b)
		}
	}
	field("model", a.model, b.model)
	field("stop_reason", a.stopReason, b.stopReason)
	field("tool_calls", a.tools, b.tools)
	field("input_tokens", number(a.used.Input), number(b.used.Input))
	field("cached_tokens", number(a.used.Cached), number(b.used.Cached))
	field("output_tokens", number(a.used.Output), number(b.used.Output))
	field("cost_usd", dollars(a.used.Cost-a.used.Listed), dollars(b.used.Cost-b.used.Listed)) // a list price tells no more than the tokens
	if c.late(a.firstPart, b.firstPart) || c.late(b.firstPart, a.firstPart) {
		field("first_part_ms", millis(a.firstPart), millis(b.firstPart))
	}
	if f := c.options.Latency; f > 0 && a.perSecond > 0 && b.perSecond > 0 && (a.perSecond > f*b.perSecond || b.perSecond > f*a.perSecond) {
		field("tokens_per_second", rate(a.perSecond), rate(b.perSecond))
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// dollars formats a cost in millionths of a dollar; "" for zero.
func dollars(micros int64) string {
	if micros == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64)
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1e3, 'f', -1, 64)
}

func rate(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

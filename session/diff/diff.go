// Package diff compares two sessions: which exchanges only one of them has, and where the
// common ones differ.
//
// It compares the content of messages, not their bytes on the wire. Ids may differ, JSON is
// compared as values, and messages of the two sides may cross in any order. A [Session] is fed
// messages; [Compare] returns a [Report] on two sessions.
package diff

import (
	"fmt"
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
	"github.com/wirectl/wirectl/table"
)

// Options define what counts as a difference.
type Options struct {
	// Ignore lists members of payloads that are not compared, including everything inside
	// them.
	Ignore []jsondiff.Path
	// IgnoreKinds lists kinds of messages that are not compared. For a request, this includes
	// its answers.
	IgnoreKinds []string
	// IgnoreChunks ignores how an answer is split into parts.
	IgnoreChunks bool
	// Latency, if positive, is the factor by which an exchange must take longer in one session
	// than in the other to be reported.
	Latency float64
}

// An exchange is a request with its answers, or a single message that belongs to no request.
// It is in memory only while it is compared.
type exchange struct {
	lane     int
	opener   frame.Dir
	kind, id string
	outcome  session.Outcome
	messages []message
	ending   int // the number of the last message that ended it, from 1
}

// A message is one frame. A batch is one message.
type message struct {
	seq         int64
	dir         frame.Dir
	kind, label string
	phase       protocol.Phase
	time        time.Time
	id          string
	digest      [jsondiff.DigestSize]byte

	spill *spill // has the payload
	at    int64
	size  int
}

// payload returns the JSON form, or the bytes if the payload has no JSON form.
func (m *message) payload() []byte { return m.spill.readAt(m.at, m.size) }

func (e *exchange) first() int64 { return e.messages[0].seq }

// endMessage returns the message that ended the exchange, or nil if it is open.
func (e *exchange) endMessage() *message {
	if e.ending == 0 {
		return nil
	}
	return &e.messages[e.ending-1]
}

// latency returns the time from the request to the end; 0 if that is unknown.
func (e *exchange) latency() time.Duration {
	end := e.endMessage()
	if end == nil || end.time.IsZero() || e.messages[0].time.IsZero() {
		return 0
	}
	return max(0, end.time.Sub(e.messages[0].time))
}

// Write writes a report: NDJSON, or text with each exchange that differs, followed by a line for
// each difference.
func (r *Report) Write(out table.Output) error {
	if out.Form == table.AsNDJSON {
		return table.Write(out, nil, r.Differences)
	}
	style := out.Style
	var b []byte
	var last *Difference
	for i := range r.Differences {
		d := &r.Differences[i]
		if d.What == Version {
			b = fmt.Appendf(b, "%s: %s %s\n", style.Kind.Text(render.Safe(d.Kind)), style.Key.Text(string(Version)), style.String.Text(either(shown(d.A.Value), shown(d.B.Value))))
			continue
		}
		if last == nil || !d.continues(last) {
			b = appendHeading(b, d, style)
		}
		if d.What != Exchange {
			b = appendDifference(b, d, style)
		}
		last = d
	}
	_, err := out.To.Write(b)
	return err
}

// continues reports whether d is about the same exchange as the one before it.
func (d *Difference) continues(before *Difference) bool {
	return before.What != Exchange && d.What != Exchange &&
		d.A.Opened == before.A.Opened && d.B.Opened == before.B.Opened && d.Kind == before.Kind && d.A.ID == before.A.ID
}

// appendHeading names an exchange: "PROMPT_SEND 1 → 7, frame 3 → 9".
func appendHeading(b []byte, d *Difference, style *render.Style) []byte {
	named := func(kind, id string) {
		b = style.Kind.Append(b, render.Safe(kind))
		if id != "" {
			b = style.ID.Append(append(b, ' '), render.Safe(id))
		}
	}
	named(d.Kind, either(idOf(d.A), idOf(d.B)))
	if d.Of != nil {
		b = append(b, " of "...)
		named(d.Of.Kind, d.Of.ID)
	}
	switch {
	case d.B == nil:
		b = fmt.Appendf(b, ": %s%s%s", frames(d.A), style.Error.Text(", only in A"), valueOf(d.A))
	case d.A == nil:
		b = fmt.Appendf(b, ": %s%s%s", frames(d.B), style.Error.Text(", only in B"), valueOf(d.B))
	}
	return append(b, '\n')
}

// valueOf returns how an exchange ended that only one session has, if that is told.
func valueOf(s *Side) string {
	if s.Value == "" {
		return ""
	}
	return " (" + render.Safe(s.Value) + ")"
}

func idOf(s *Side) string {
	if s == nil {
		return ""
	}
	return s.ID
}

// either returns the value of both sides, the only value, or "a → b".
func either(a, b string) string {
	switch {
	case a == b || b == "":
		return a
	case a == "":
		return b
	}
	return a + " → " + b
}

// appendDifference appends the line of a difference:
// "  frame 5 → 7: RESPONSE_CHUNK responseChunk.content: "a" → "b"".
func appendDifference(b []byte, d *Difference, style *render.Style) []byte {
	b = fmt.Appendf(b, "  %s: ", place(d))
	if d.Change != nil {
		paint := style.Dim
		if d.Change.Class == contract.Breaking {
			paint = style.Error
		}
		return fmt.Appendf(b, "%s %s\n", render.Safe(d.Change.Text), paint.Text("("+string(d.Change.Class)+")"))
	}
	if d.Message != "" {
		b = append(append(b, render.Safe(d.Message)...), ' ')
	}
	label := string(d.What)
	switch d.What {
	case Message:
		if d.B.Frames == nil {
			return append(style.Error.Append(b, "only in A"), '\n')
		}
		return append(style.Error.Append(b, "only in B"), '\n')
	case Payload, Model:
		label = d.Path
	}
	if label != "" {
		b = append(style.Key.Append(b, render.Safe(label)), ": "...)
	}
	return fmt.Appendf(b, "%s → %s\n", style.String.Text(shown(d.A.Value)), style.String.Text(shown(d.B.Value)))
}

// place names the frames of a difference: "frame 5", "frame 5 → 7".
func place(d *Difference) string {
	a, b := frames(d.A), frames(d.B)
	switch {
	case a == b || len(d.B.Frames) == 0:
		return a
	case len(d.A.Frames) == 0:
		return b
	}
	return a + " → " + b[len(word(d.B)):]
}

// frames lists the frames of a side, or the frame that opened its exchange if there are none.
func frames(s *Side) string {
	list := s.Frames
	if len(list) == 0 {
		list = []int64{s.Opened}
	}
	text := word(s)
	for i, n := range list {
		if i > 0 {
			text += ", "
		}
		text += strconv.FormatInt(n, 10)
	}
	return text
}

// word returns the first word of a list of frames.
func word(s *Side) string {
	if len(s.Frames) > 1 {
		return "frames "
	}
	return "frame "
}

// shown returns a value for people; an absent one is a dash.
func shown(value string) string {
	if value == "" {
		return "–"
	}
	return render.Safe(value)
}

// A listing is a list of definitions that both sessions have read. It may have several pages,
// split differently in each session.
type listing struct {
	pair    pair // of the first page
	list    *contract.List
	items   [2][]contract.Item
	more    [2]bool
	frames  [2][]int64 // of the answers
	size    int
	counted bool // in Report.Differ
}

// maxListing bounds, in bytes, the pages kept for comparison.
const maxListing = 32 << 20

// listed reports whether a payload is a page of a list that can be compared as a list.
func listed(list *contract.List, payload []byte) bool {
	_, _, ok := list.Items(payload)
	return ok
}

// pages compares two answers if they are pages of a list.
func (c *comparison) pages(p pair, a, b *message) {
	list := contract.ListOf(p.a.kind)
	if list == nil || !p.a.ends(a) || !p.b.ends(b) {
		return
	}
	inA, inB := a.payload(), b.payload()
	if jsonscan.WellFormed(inA) != nil || jsonscan.WellFormed(inB) != nil || !listed(list, inA) || !listed(list, inB) {
		return
	}
	l := c.listingOf(p.a)
	if l == nil {
		l = &listing{pair: p, list: list}
		c.listings = append(c.listings, l)
	}
	l.addPage(0, a, inA)
	l.addPage(1, b, inB)
	if l.isWhole() {
		c.endListing(l)
	}
}

// endEarlier ends an unfinished listing when another begins.
func (c *comparison) endEarlier(p pair) {
	if l := c.listingOf(p.a); l != nil && (!p.a.continues() || !p.b.continues()) {
		c.endLater(l)
	}
}

// endLater ends a listing after its last pair of pages.
func (c *comparison) endLater(l *listing) {
	before := c.report.Total
	c.endListing(l)
	if c.report.Total > before && !l.counted {
		c.report.Differ++
	}
}

// extraPage adds a page that only one session has, because it has more items or smaller
// pages. A list that only one session has read is not compared.
func (c *comparison) extraPage(side int, e *exchange) {
	m, l := e.endMessage(), c.listingOf(e)
	if m == nil || l == nil || !e.continues() {
		return
	}
	if payload := m.payload(); jsonscan.WellFormed(payload) == nil && listed(l.list, payload) {
		l.addPage(side, m, payload)
		if l.isWhole() {
			c.endLater(l)
		}
	}
}

// listingOf returns the listing that an exchange may continue, or nil.
func (c *comparison) listingOf(e *exchange) *listing {
	for _, l := range c.listings {
		if l.pair.a.lane == e.lane && l.pair.a.kind == e.kind {
			return l
		}
	}
	return nil
}

// countListing records that a pair of pages was counted as different.
func (c *comparison) countListing(p pair) {
	if l := c.listingOf(p.a); l != nil {
		l.counted = true
	}
}

func (l *listing) addPage(side int, m *message, payload []byte) {
	items, more, _ := l.list.Items(payload)
	l.items[side] = append(l.items[side], items...)
	l.more[side] = more
	l.size += len(payload)
	if len(l.frames[side]) < maxFrames {
		l.frames[side] = append(l.frames[side], m.seq)
	}
}

// isWhole reports whether both sessions have read the last page.
func (l *listing) isWhole() bool { return l.more == [2]bool{} || l.size > maxListing }

// endListing reports how the definitions differ.
func (c *comparison) endListing(l *listing) {
	c.listings = slices.DeleteFunc(c.listings, func(other *listing) bool { return other == l })
	changes := l.list.Compare(l.items[0], l.items[1], c.options.Ignore)
	for i := range changes {
		change := &changes[i]
		path := slices.Concat(l.list.Path(), []string{change.Item}, change.Path)
		d := Difference{
			What: Definition, Kind: l.pair.a.kind, Path: jsondiff.Join(path), Change: change,
			A: l.pair.a.side(), B: l.pair.b.side(),
		}
		d.A.Frames, d.A.Value = l.frames[0], render.Shorten(change.A, maxValue)
		d.B.Frames, d.B.Value = l.frames[1], render.Shorten(change.B, maxValue)
		change.A, change.B = nil, nil
		c.report.addDifference(d)
	}
}

// ends reports whether a message ended the exchange.
func (e *exchange) ends(m *message) bool {
	end := e.endMessage()
	return end != nil && end.seq == m.seq
}

// continues reports whether an exchange asks for a page after the first.
func (e *exchange) continues() bool {
	request := e.messages[0].payload()
	if jsonscan.WellFormed(request) != nil {
		return false
	}
	cursor, ok := jsonscan.Get(request, "params", "cursor")
	return ok && jsonscan.KindOf(cursor) == jsonscan.String
}

// What names a kind of difference.
type What string

// The kinds of differences.
const (
	Exchange What = "exchange" // an exchange that only one session has
	Message  What = "message"  // a message that only one of two exchanges has
	Payload  What = "payload"  // a member of a payload
	Chunks   What = "chunks"   // an answer with the same content, split differently
	Outcome  What = "outcome"
	Latency  What = "latency"
	Model    What = "model" // how a model answered: the path is a field of a call
	// Definition is a tool, prompt or resource of an MCP server.
	Definition What = "definition"
	// Version is the version of a protocol; Kind is the protocol.
	Version What = "version"
)

// A Difference is one difference between two sessions. It is a line of NDJSON.
type Difference struct {
	What What `json:"difference"`
	// Kind is the kind of the exchange, and Message that of the message; "" if the difference
	// is about the exchange.
	Kind string `json:"kind"`
	// Of is the operation to which the exchange belongs; nil if it is one itself.
	Of      *Operation `json:"operation,omitempty"`
	Message string     `json:"message,omitempty"`
	// Path leads to the member of the payload; "" is the payload itself.
	Path string `json:"path,omitempty"`
	// Change is how a definition differs; nil for other differences.
	*contract.Change
	// A and B are the two sides. A side is nil if its session has no such exchange.
	A *Side `json:"a,omitempty"`
	B *Side `json:"b,omitempty"`
}

// An Operation is an operation in both sessions. A and B are its first frames.
type Operation struct {
	Kind string `json:"-"` // in A
	ID   string `json:"-"`
	A    int64  `json:"a"`
	B    int64  `json:"b"`
}

// A Side is one session's side of a difference.
type Side struct {
	// ID is the id of the exchange as written, or "".
	ID string `json:"id,omitempty"`
	// Opened is the frame that opened the exchange. Frames are the frames concerned, none
	// if this side lacks the message.
	Opened int64   `json:"opened,omitempty"`
	Frames []int64 `json:"frames,omitempty"`
	// Value is the beginning of a JSON value as written, or words; "" if there is none.
	Value string `json:"value,omitempty"`
}

// maxDifferences bounds how many differences a report keeps.
const maxDifferences = 10_000

// A Report lists the differences of two sessions.
type Report struct {
	// Differences are in the order of the first session. At most maxDifferences are kept; Total
	// counts all.
	Differences []Difference
	Total       int64
	// Frames and Exchanges are counts for each session. A message that belongs to no request is
	// compared as an exchange, but not counted.
	Frames, Exchanges [2]int64
	// Breaking counts the changes of definitions that break clients.
	Breaking int64
	// Differ counts exchanges that differ, and OnlyA and OnlyB those that only one session has.
	Differ, OnlyA, OnlyB int64
	// Note says what was compared of a wire and of what an agent tells; "" for other sessions.
	Note string
}

func (r *Report) addDifference(d Difference) {
	r.Total++
	if d.Change != nil && d.Change.Class == contract.Breaking {
		r.Breaking++
	}
	if len(r.Differences) < maxDifferences {
		r.Differences = append(r.Differences, d)
	}
}

// Alike reports whether nothing differs.
func (r *Report) Alike() bool { return r.Total == 0 }

// Summary summarizes the differences in words.
func (r *Report) Summary() string {
	if r.Alike() {
		return "no differences in " + r.size(0)
	}
	var parts []string
	if r.Differ > 0 {
		parts = append(parts, render.Count(r.Differ, "exchange")+" changed")
	}
	if r.OnlyA > 0 {
		parts = append(parts, fmt.Sprintf("%d only in A", r.OnlyA))
	}
	if r.OnlyB > 0 {
		parts = append(parts, fmt.Sprintf("%d only in B", r.OnlyB))
	}
	total := render.Count(r.Total, "difference")
	if r.Breaking > 0 {
		total += fmt.Sprintf(" (%d breaking)", r.Breaking)
	}
	text := fmt.Sprintf("%s: %s; A has %s, B %s", total, strings.Join(parts, ", "), r.size(0), r.size(1))
	if n := r.Total - int64(len(r.Differences)); n > 0 {
		text += fmt.Sprintf("; the last %s not shown", render.Count(n, "one"))
	}
	return text
}

// size describes the size of a session.
func (r *Report) size(session int) string {
	return render.Count(r.Frames[session], "frame") + " and " + render.Count(r.Exchanges[session], "exchange")
}

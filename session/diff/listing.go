package diff

import (
	"slices"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/session/jsondiff"
)

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

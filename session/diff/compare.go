package diff

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// Compare compares two sessions created with the same options.
func Compare(a, b *Session) (*Report, error) {
	c := comparison{options: a.options, a: a, b: b, names: newNames(), report: &Report{
		Frames:    [2]int64{a.frames, b.frames},
		Exchanges: [2]int64{a.asked, b.asked},
	}}
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

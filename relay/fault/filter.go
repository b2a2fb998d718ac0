package fault

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A Step is an instruction to the caller.
type Step struct {
	// Wait is how long to wait first.
	Wait time.Duration
	// Bytes are to be sent. They may be those of the frame.
	Bytes []byte
	// Cancel, if not nil, is the id of the exchange to cancel, on behalf of the
	// receiver of the frame.
	Cancel []byte
	// Close ends the connection.
	Close bool
}

// pause is the time between the pieces of a frame, so that they are read separately.
const pause = 2 * time.Millisecond

// A Filter applies a plan to one direction of one connection.
type Filter struct {
	rules []counted
	rand  *rand.Rand
	late  []Step // of a frame that follows the next one
}

// counted is a rule with its counts.
type counted struct {
	*Rule
	matched, applied int64
	parts            map[string]int // by exchange
}

// Filter returns the filter of a direction of a connection.
func (p *Plan) Filter(conn int, dir frame.Dir) *Filter {
	f := &Filter{rand: rand.New(rand.NewPCG(p.Seed, uint64(conn)<<2|uint64(dir)))} //nolint:gosec // it is to be repeatable
	for i := range p.Rules {
		f.rules = append(f.rules, counted{Rule: &p.Rules[i]})
	}
	return f
}

// Apply returns the steps for a frame, and the applied actions. Without actions, the only
// step sends the frame. The steps are valid as long as the frame is.
func (f *Filter) Apply(it *Item) (steps []Step, done []Action) {
	steps = []Step{{Bytes: it.Frame.Raw}}
	late := f.late
	f.late = nil
	for i := range f.rules {
		r := &f.rules[i]
		if !f.chosen(r, it) {
			continue
		}
		done = append(done, r.Action)
		steps = f.change(steps, r.Rule, it)
	}
	return append(steps, late...), done
}

// End returns the remaining steps at the end of the stream.
func (f *Filter) End() []Step {
	late := f.late
	f.late = nil
	return late
}

// chosen reports whether a rule is to be applied to a frame.
func (f *Filter) chosen(r *counted, it *Item) bool {
	if it.Frame.Gap || !r.When.Match(it) || r.Action == Cancel && !r.due(&it.Message) {
		return false
	}
	r.matched++
	chosen := (r.Nth == 0 || r.matched == r.Nth) &&
		(r.Every == 0 || r.matched%r.Every == 0) &&
		(r.Limit == 0 || r.applied < r.Limit) &&
		(r.Chance == 0 || f.rand.Float64() < r.Chance)
	if chosen {
		r.applied++
	}
	return chosen
}

// maxCounted bounds the exchanges whose parts are counted.
const maxCounted = 1 << 16

// due counts the parts of exchanges, and reports whether a cancel is due after one.
func (r *counted) due(m *protocol.Message) bool {
	id := m.ID.Text
	if m.ID.IsZero() {
		id = m.Ref.Text // as of progress
	}
	switch {
	case m.Phase.Ends():
		delete(r.parts, string(id))
		return false
	case m.Phase != protocol.Part || len(id) == 0:
		return false
	case r.parts == nil:
		r.parts = make(map[string]int)
	case len(r.parts) > maxCounted:
		clear(r.parts)
	}
	r.parts[string(id)]++
	return r.parts[string(id)] == r.N
}

// change applies a rule.
func (f *Filter) change(steps []Step, r *Rule, it *Item) []Step {
	switch r.Action {
	case Delay:
		if len(steps) > 0 {
			steps[0].Wait += r.For
		}
	case Drop:
		return nil
	case Duplicate:
		return append(steps, steps...)
	case Reorder:
		for _, s := range steps {
			s.Bytes = bytes.Clone(s.Bytes)
			f.late = append(f.late, s)
		}
		return nil
	case Cut:
		n := min(r.N, len(it.Frame.Raw)-1)
		return []Step{{Bytes: it.Frame.Raw[:n], Close: true}}
	case Split:
		return split(steps, r.N)
	case Corrupt:
		f.corrupt(steps, r.N, it.Frame)
	case Cancel:
		id := it.Message.ID.Text
		if it.Message.ID.IsZero() {
			id = it.Message.Ref.Text
		}
		return append(steps, Step{Cancel: bytes.Clone(id)})
	case Close:
		return append(steps, Step{Close: true})
	}
	return steps
}

// maxPieces bounds the pieces of a frame; the rest is the last piece.
const maxPieces = 1000

// split cuts what is sent into pieces.
func split(steps []Step, n int) (pieces []Step) {
	for _, s := range steps {
		for len(s.Bytes) > n && len(pieces) < maxPieces {
			pieces = append(pieces, Step{Wait: s.Wait, Bytes: s.Bytes[:n]})
			s.Wait, s.Bytes = pause, s.Bytes[n:]
		}
		pieces = append(pieces, s)
	}
	return pieces
}

// corrupt flips a bit of the payload in the first step that sends it all.
func (f *Filter) corrupt(steps []Step, at int, fr *frame.Frame) {
	n := fr.End - fr.Start
	if at < 0 && n > 0 {
		at = f.rand.IntN(n)
	}
	if at < 0 || at >= n {
		return
	}
	for i := range steps {
		if len(steps[i].Bytes) == len(fr.Raw) {
			steps[i].Bytes = bytes.Clone(steps[i].Bytes)
			steps[i].Bytes[fr.Start+at] ^= 1 << f.rand.IntN(8)
			return
		}
	}
}

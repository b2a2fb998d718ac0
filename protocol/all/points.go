package all

import (
	"cmp"
	"slices"

	"github.com/wirectl/wirectl/frame"
)

// A point is the end of a frame in the framing of a sample, where a stream may show more of
// itself than before.
type point struct {
	sample
	nth  int // frame of the sample's, from 1
	seen []byte
}

// maxPoints bounds how many frames of a framing are waited for.
const maxPoints = 4

// points returns the ends of the first frames of each sample, in the order of the stream;
// those of lines after others.
func (g *Guess) points(samples []sample, head []byte) (all []point) {
	for _, s := range samples {
		end := min(s.end, len(head))
		for nth := 1; s.whole && nth <= maxPoints; nth++ {
			all = append(all, point{s, nth, head[:end]})
			var e frame.Extent
			if s.framing.Next(head[end:], g.limit(), false, &e) != nil || e.Raw == 0 || e.Start == e.End {
				break
			}
			end += e.Raw
		}
	}
	slices.SortStableFunc(all, func(a, b point) int {
		return cmp.Or(cmp.Compare(len(a.seen), len(b.seen)), cmp.Compare(a.isLine(), b.isLine()))
	})
	return all
}

// remains reports whether the framing of p is that of the stream, although no protocol
// knows its first payload: because the bytes so far allow no other, or form too many of its
// frames by chance.
func (g *Guess) remains(p point) bool {
	switch {
	case len(p.payload) == 0, isBlank(p.seen), p.framing == frame.Varint && beginsJSON(p.seen):
		return false
	case p.framing == frame.Header, p.holdsJSON(p.seen):
		return true
	case p.nth > 1 && p.framing == frame.Line:
		return isText(p.seen) && !isHeader(p.payload) && (len(p.payload) > 1 || isContainer(p.payload))
	case p.nth > 1 && p.framing != frame.Varint:
		return true
	}
	others, _ := g.samples(p.seen, false)
	return !slices.ContainsFunc(others, func(s sample) bool { return g.rivals(s, p) })
}

// rivals reports whether s, of another framing, may be right instead of p.
func (g *Guess) rivals(s sample, p point) bool {
	switch {
	case s.framing == p.framing:
		return false
	case s.whole: // a length of four bytes can also be that of gRPC, and a byte
		return p.framing == frame.GRPC && s.framing == frame.Len32 && s.divides(p.seen, g.limit(), false)
	case s.framing == frame.Line, s.framing == frame.Header, s.compressed, len(s.payload) == 0, s.holdsJSON(p.seen):
		return true
	}
	return g.begun(s) != nil
}

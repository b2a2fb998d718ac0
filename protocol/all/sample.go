package all

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// A sample is the first payload of a stream in one framing. Empty ones are skipped if
// others follow.
type sample struct {
	framing    frame.Framing
	why        string
	payload    []byte // cut short unless whole
	size       int    // of the payload, as far as known
	compressed bool
	begun      bool // the beginning of the payload is known
	whole      bool
	end        int // of the frame in the stream, as far as known
}

// samples returns a sample of each possible framing, those whose frame ends sooner first,
// and lines after others, because lengths may be printable. It returns false if more of the
// stream cannot bring any.
func (g *Guess) samples(head []byte, atEOF bool) ([]sample, bool) {
	if g.Framing != nil {
		s := sample{framing: g.Framing}
		if !s.firstFrame(head, g.limit(), atEOF, false) {
			return nil, false
		}
		return []sample{s}, true
	}
	var all []sample
	for _, c := range frame.Candidates(head, atEOF, max(g.limit(), maxBinary)) {
		size := c.Need - c.Frame.Start
		if size > g.limit() && !beginsJSON(c.Frame.Payload()) {
			continue
		}
		s := sample{framing: c.Framing, why: c.Why}
		if s.firstFrame(head, max(g.limit(), size), atEOF, s.passes()) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.isLine(), b.isLine()))
	})
	return all, true
}

// maxBinary is more than any length of a real frame, and less than four letters as a
// length. A first frame over the limit may be up to this long if JSON begins after the
// length: so the error can name the limit.
const maxBinary = 512 << 20

// firstFrame moves to the first frame, or past empty frames if passes is set. It returns
// false if the head does not begin with a frame.
func (s *sample) firstFrame(head []byte, limit int, atEOF, passes bool) bool {
	for found := false; ; found = true {
		var e frame.Extent
		rest := head[s.end:]
		if s.framing.Next(rest, limit, atEOF, &e) != nil || e.Gap {
			return found
		}
		s.whole, s.compressed, s.begun = e.Raw != 0, e.Compressed, e.Start > 0
		s.payload = rest[min(e.Start, len(rest)):min(e.End, len(rest))]
		s.size = e.End - e.Start
		s.end += max(e.Raw, e.Need)
		if !s.whole || len(s.payload) > 0 || !passes || s.end >= len(head) {
			return true
		}
	}
}

// isLine returns 1 if the sample is a line, else 0.
func (s *sample) isLine() int {
	if s.framing == frame.Line {
		return 1
	}
	return 0
}

// passes reports whether an empty frame of the framing is skipped. Streams of gRPC may
// begin with messages that have only default values. For varint the zeros of every other
// length are empty frames: it would find payloads anywhere.
func (s *sample) passes() bool { return s.framing == frame.Len32 || s.framing == frame.GRPC }

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

// settle takes the most likely sample when no protocol recognizes a first frame and no more
// bytes come. A framing that is given stays, whatever it carries.
//
// A frame that is cut by the end of the stream is evidence against its framing, so a
// framing that fits the whole stream comes first. The head of a longer stream is cut
// anywhere, so there the fit tells less.
func (g *Guess) settle(head []byte, atEOF bool, samples []sample) {
	divide := func(s sample) bool { return s.divides(head, g.limit(), atEOF) && g.takeUnclear(s) }
	switch byFraming := ordered(samples); {
	case g.Framing == nil && isBlank(head):
		g.takeUnclear(sample{framing: frame.Line, why: "there is only white space"})
	case slices.ContainsFunc(samples, g.takesGzip):
	case atEOF && slices.ContainsFunc(byFraming, func(s sample) bool { return s.isSure(head) && divide(s) }):
	case slices.ContainsFunc(samples, func(s sample) bool { return s.whole && s.holdsJSON(head) && g.takeUnclear(s) }):
	case slices.ContainsFunc(samples, g.takesCut):
	case slices.ContainsFunc(samples, func(s sample) bool { return s.holdsJSON(head) && g.takeUnclear(s) }):
	case slices.ContainsFunc(byFraming, func(s sample) bool { return s.isLong(atEOF) && g.takeUnclear(s) }):
	case slices.ContainsFunc(byFraming, func(s sample) bool { return !isZero(head) && divide(s) }):
	case g.Framing != nil:
		g.takeUnclear(sample{framing: g.Framing})
	}
}

// ordered returns the samples in the order in which to try them.
func ordered(samples []sample) (all []sample) {
	for _, f := range []frame.Framing{frame.Header, frame.Line, frame.Nul, frame.Len32, frame.GRPC, frame.Varint} {
		for _, s := range samples {
			if s.framing == f {
				all = append(all, s)
			}
		}
	}
	return all
}

// takesGzip takes a message of gRPC that is flagged as compressed and begins like gzip,
// even if it is incomplete.
func (g *Guess) takesGzip(s sample) bool {
	if !s.compressed || frame.Recognize(s.payload) != frame.Gzip {
		return false
	}
	g.open = true
	return g.decide(s, protobuf.Schemaless{}, "the first message is compressed")
}

// takesCut takes an incomplete sample that begins like a payload of the given protocol, or
// of another one.
func (g *Guess) takesCut(s sample) bool {
	p := g.begun(s)
	switch p {
	case nil:
		return false
	case opaque.JSON:
		p = protocolOfObject(s.payload, s.framing)
	}
	g.open = true
	return g.decide(s, p, "the first payload begins that way")
}

// begun returns the given protocol, or another one, if an incomplete sample begins like one
// of its payloads.
func (g *Guess) begun(s sample) protocol.Protocol {
	fits := func(p protocol.Protocol) bool { return !s.whole && s.tells(p) && s.begins(p) }
	switch {
	case g.isNamed() && fits(g.Protocol):
		return g.Protocol
	case g.isNamed():
		return nil
	case fits(opaque.JSON):
		return opaque.JSON
	}
	for _, spec := range list {
		if spec.Encoding() == protocol.Protobuf && fits(spec.Protocol) {
			return spec.Protocol
		}
	}
	return nil
}

// begins reports whether the payload, which is cut, may be one of p's.
func (s sample) begins(p protocol.Protocol) bool {
	if p.Encoding() == protocol.Protobuf {
		return isNoText(s.payload) && !beginsJSON(s.payload) && beginsFields(p, s.payload, s.size)
	}
	return Plausible(p)(s.payload, false)
}

// isSure reports whether it is no accident that the whole stream falls into frames. Any
// text falls into lines, any zeros into empty frames, and text into frames whose lengths
// are its letters.
func (s sample) isSure(stream []byte) bool {
	switch s.framing {
	case frame.Line:
		return isText(stream) && (isStrayText(s.payload) || isJSON(s.payload, true) || isContainer(s.payload))
	case frame.Varint:
		return len(s.payload) > 0 && !isText(s.payload)
	default:
		return true
	}
}

// holdsJSON reports whether the payload begins like JSON, and the stream does not.
func (s sample) holdsJSON(stream []byte) bool {
	return s.framing != frame.Line && beginsJSON(s.payload) && !beginsJSON(stream)
}

func beginsJSON(text []byte) bool { return frame.Recognize(text) == frame.JSONText }

// isLong reports whether the first frame may well be longer than the part of the stream
// that was seen: after a complete header, or as a line of text.
func (s sample) isLong(atEOF bool) bool {
	switch s.framing {
	case frame.Header:
		return s.begun
	case frame.Line:
		return true
	case frame.Varint:
		return false
	}
	return !s.whole && !atEOF
}

// isBlank reports whether a stream is blank lines.
func isBlank(stream []byte) bool { return len(bytes.Trim(stream, " \t\r\n")) == 0 }

// isZero reports whether a stream is only zeros, too few for a length of four bytes.
func isZero(stream []byte) bool {
	return len(stream) < 4 && len(bytes.Trim(stream, "\x00")) == 0
}

// divides reports whether the sample is complete and the whole head falls into frames.
func (s sample) divides(head []byte, limit int, atEOF bool) bool {
	for s.whole && len(head) > 0 {
		var e frame.Extent
		if s.framing.Next(head, limit, atEOF, &e) != nil {
			return false
		}
		if e.Raw == 0 {
			return !atEOF
		}
		head = head[e.Raw:]
	}
	return s.whole
}

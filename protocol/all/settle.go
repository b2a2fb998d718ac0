package all

import (
	"bytes"
	"slices"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

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

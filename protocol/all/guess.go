package all

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/protocol/protobuf"
)

// A Guess is the framing and protocol that a stream seems to have. Those that are set
// before [Guess.Detect] are given.
type Guess struct {
	Framing  frame.Framing // nil if no framing fits
	Protocol protocol.Protocol
	// Limit is the largest payload that is expected, in bytes, if that is more than
	// [frame.DefaultLimit].
	Limit int

	reasons []string
	open    bool // the first payload did not tell the protocol
	guessed bool // the protocol is not given
}

// String says what the stream seems to be, and why.
func (g *Guess) String() string { return strings.Join(g.reasons, ", ") }

// Clear reports whether a payload told what the stream is.
func (g *Guess) Clear() bool { return g.Framing != nil && !g.open }

// Detect settles the guess from the head of a stream. It returns false when it
// needs more of the head, which it never does of a stream's first
// frame.DetectSize bytes.
//
// Of the framings whose first payload some protocol claims, or beside which no
// other is possible any more, the one wins whose frame ends first. So the verdict
// does not depend on the pieces in which the head grew.
func (g *Guess) Detect(head []byte, atEOF bool) bool {
	final := atEOF || len(head) >= frame.DetectSize
	if len(head) >= frame.DetectSize {
		head, atEOF = head[:frame.DetectSize], false
	}
	if len(head) == 0 {
		return final
	}
	samples, ok := g.samples(head, atEOF)
	if g.isBrokenHeader(head, samples) {
		return g.takeUnclear(sample{framing: frame.Header, why: "it begins like a header"})
	}
	for _, p := range g.points(samples, head) {
		if g.possible(p.seen) && (p.nth == 1 && g.claims(p.sample) || g.remains(p) && g.takeUnclear(p.sample)) {
			return true
		}
	}
	switch {
	case !g.possible(head):
		return true
	case !final && ok:
		return false
	}
	g.settle(head, atEOF, samples)
	return true
}

// possible reports whether the stream may be frames at all. Input that begins like
// something well known may not, unless its framing is given.
func (g *Guess) possible(head []byte) bool {
	if g.Framing != nil {
		return true
	}
	switch frame.Recognize(head) {
	case frame.HTTPResponse, frame.HTTPRequest, frame.HTTP2, frame.SSHBanner, frame.HTML,
		frame.UTF16, frame.Gzip, frame.Zstd, frame.Zip, frame.Pcap, frame.SQLite, frame.TLS, frame.DecimalLength, frame.GRPCWebTrailers:
		return false
	}
	return true
}

// isBrokenHeader reports whether a stream begins like a frame's header that is invalid.
// That is a fault of the header, and its first letter is not a length.
func (g *Guess) isBrokenHeader(head []byte, samples []sample) bool {
	return g.Framing == nil && isHeader(head) &&
		!slices.ContainsFunc(samples, func(s sample) bool { return s.framing == frame.Header })
}

// limit is the largest payload that is possible.
func (g *Guess) limit() int { return max(g.Limit, frame.DefaultLimit) }

// claims takes a sample whose payload, all of it, a protocol recognizes.
func (g *Guess) claims(s sample) bool {
	switch {
	case len(s.payload) == 0:
		return s.framing == g.Framing && g.takeUnclear(s)
	case g.isNamed():
		return Plausible(g.Protocol)(s.payload, true) && g.decide(s, g.Protocol, "")
	case s.compressed: // gzip is not text, but the bytes after a length of 16 MiB may look like it
		return (s.framing == g.Framing || !isText(s.payload)) && g.takeCompressed(s)
	}
	p, why := recognizeFirst(s.payload)
	if p == opaque.JSON {
		if p = marked(s.payload, s.framing, true); p != opaque.JSON {
			why = "the first message has its members"
		}
	}
	switch {
	case s.tells(p):
		return g.decide(s, p, why)
	case s.framing == g.Framing, s.framing == frame.Line && isStrayText(s.payload):
		return g.takeUnclear(s)
	}
	return false
}

// recognizeFirst is Recognize, and tells the dialect if the message does.
func recognizeFirst(payload []byte) (p protocol.Protocol, why string) {
	p, why = Recognize(payload)
	if p == protocol.Protocol(jsonrpc.Plain) {
		if d, method := only(payload); d != nil {
			return d, "the first message is " + strconv.Quote(method)
		}
	}
	return p, why
}

// takeCompressed decides on a compressed message of gRPC, by its content if the first
// bytes tell how it is compressed.
func (g *Guess) takeCompressed(s sample) bool {
	if p, why := recognizeFirst(unpacked(s.payload)); p != opaque.Bytes {
		return g.decide(s, p, why+", compressed")
	}
	g.open = true
	return g.decide(s, protobuf.Schemaless{}, "the first message is compressed")
}

// maxUnpacked bounds how much of a compressed message is examined, in bytes.
const maxUnpacked = 1 << 20

// unpacked decompresses a payload that begins as gzip or zstd do. It returns nil if that
// fails.
func unpacked(payload []byte) []byte {
	name, ok := map[frame.Accident]string{frame.Gzip: "gzip", frame.Zstd: "zstd"}[frame.Recognize(payload)]
	if !ok {
		return nil
	}
	r, err := inflate.Open(name, bytes.NewReader(payload))
	if err != nil {
		return nil
	}
	defer r.Close()
	plain, err := io.ReadAll(io.LimitReader(r, maxUnpacked))
	if err != nil {
		return nil
	}
	return plain
}

// isNamed reports whether the protocol is given, and can judge payloads.
func (g *Guess) isNamed() bool {
	return g.Protocol != nil && g.Protocol.Encoding() != protocol.Opaque
}

// isStrayText reports whether a line is text, and not the first header of a
// frame.
func isStrayText(line []byte) bool {
	return len(line) >= minText && !isHeader(line)
}

func isHeader(line []byte) bool { return frame.Recognize(line) == frame.HeaderFrame }

// minText is how long a line must be, in bytes, to be taken for text. Lengths
// in binary framings can make shorter ones.
const minText = 4

// takeUnclear takes a sample whose payload belongs to no protocol. On lines that is mostly
// a stray line of text, so JSON is expected, as it is after headers and where an object
// begins; empty payloads are messages of gRPC.
func (g *Guess) takeUnclear(s sample) bool {
	g.open = true
	switch {
	case bytes.HasPrefix(s.payload, []byte("{")):
		return g.decide(s, protocolOfObject(s.payload, s.framing), "the first payload begins as an object, and is not JSON")
	case s.framing == frame.Line || s.framing == frame.Header:
		return g.decide(s, opaque.JSON, "the usual case, as the first payload does not tell")
	case s.framing == frame.GRPC && !s.begun: // there is no frame
		return g.decide(s, protobuf.Schemaless{}, "the usual case, as the first message does not tell")
	case s.framing == frame.GRPC && len(s.payload) == 0:
		return g.decide(s, protobuf.Schemaless{}, "the first message is empty")
	default:
		return g.decide(s, opaque.Bytes, "the first payload does not tell")
	}
}

// decide sets the framing and the protocol that were not given, with the reasons. It
// returns true.
func (g *Guess) decide(s sample, p protocol.Protocol, why string) bool {
	if g.Framing == nil {
		g.Framing = s.framing
		g.reasons = append(g.reasons, fmt.Sprintf("%s framing (%s)", s.framing.Name(), s.why))
	}
	if g.Protocol == nil {
		g.Protocol, g.guessed = p, true
		g.reasons = append(g.reasons, fmt.Sprintf("%s protocol (%s)", p.Name(), why))
	}
	return true
}

// tells reports whether it is more than chance that p recognizes the payload of s. Short
// lines, and short payloads after a length of one byte, may be digits between other bytes.
// Text may look like protobuf if its first letter is taken for a length.
func (s sample) tells(p protocol.Protocol) bool {
	switch {
	case p == opaque.Bytes || len(s.payload) == 0:
		return false
	case s.framing != frame.Line && s.framing != frame.Varint:
		return true
	case p.Encoding() == protocol.JSON:
		return isContainer(s.payload) || len(s.payload) >= minText
	default:
		return s.framing == frame.Varint && isNoText(s.payload)
	}
}

// isNoText reports whether a payload is more than text, as protobuf mostly is. The tag of
// its first field looks like the end of a line if that is a string.
func isNoText(payload []byte) bool {
	return len(payload) > 0 && (payload[0] == '\n' || !isText(payload))
}

// isText reports whether b is UTF-8 without control characters other than
// white space.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return utf8.Valid(b)
}

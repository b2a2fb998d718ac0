package all

import (
	"cmp"
	"slices"

	"github.com/wirectl/wirectl/frame"
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

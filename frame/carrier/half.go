package carrier

import (
	"bytes"
	"fmt"

	"github.com/wirectl/wirectl/frame"
)

// A parser parses one direction of a connection.
type parser interface {
	// parseNext consumes bytes of h from h.pos on. It returns false when it needs
	// more bytes, or when h is lost.
	parseNext(h *half) bool
	// endInput is called when no more bytes will come, and reports whether that is
	// a clean end. If it is not, inside names what was cut short.
	endInput(h *half) (clean bool, inside string)
}

// A half is one direction of a connection.
type half struct {
	c      *Carrier
	dir    frame.Dir
	parser parser

	buf   []byte
	raw   int   // the beginning of the next frame's Raw
	pos   int   // the end of the parsed bytes
	base  int64 // the position of buf[0] in the direction
	count int64 // frames emitted
	eof   bool
	waits bool         // for the other direction, or until there is room
	ends  bool         // once it no longer waits
	skip  *frame.Error // why the current bytes are not a frame
	lost  *frame.Error // why the rest cannot be parsed
}

// gapSize is the size of the largest gap, in bytes.
const gapSize = 64 << 10

// appendBytes appends bytes to those that are not parsed yet.
func (h *half) appendBytes(data []byte) {
	if h.raw > 0 {
		h.base += int64(h.raw)
		h.buf = h.buf[:copy(h.buf, h.buf[h.raw:])]
		h.pos -= h.raw
		h.raw = 0
		if len(h.buf) < maxKept/4 && cap(h.buf) > 4*maxKept {
			h.buf = bytes.Clone(h.buf)
		}
	}
	h.buf = append(h.buf, data...)
}

// rest returns the bytes that have not been parsed yet.
func (h *half) rest() []byte { return h.buf[h.pos:] }

// at is the position of the parsed bytes in the direction.
func (h *half) at() int64 { return h.base + int64(h.pos) }

// parseAll parses the bytes that have arrived.
func (h *half) parseAll() {
	h.waits = false
	if h.parser == nil {
		return
	}
	for h.lost == nil && h.parser.parseNext(h) {
		if h.c.isFull() {
			h.waits = true
			return
		}
	}
	if h.lost != nil {
		h.pos = len(h.buf)
		if h.c.patient {
			h.pos -= (h.pos - h.raw) % gapSize
		}
		h.gap(h.lost)
	}
}

// endDirection ends the direction. Bytes that make no frame become a gap.
func (h *half) endDirection() {
	if h.lost == nil && h.parser != nil {
		switch clean, inside := h.parser.endInput(h); {
		case clean || h.lost != nil:
		case h.skip != nil:
			h.lost = h.skip
		default:
			h.loseRest(frame.ErrTruncated, "the stream ended inside %s", inside)
		}
	}
	h.pos = len(h.buf)
	h.gap(h.lost)
}

// advance consumes n bytes that belong to no expected frame. If they are too many to
// keep until a frame follows, they become gaps.
func (h *half) advance(n int) {
	most := h.c.limit + 2*MaxHead
	for n > 0 {
		step := min(n, most-(h.pos-h.raw))
		if step > 0 {
			h.pos += step
			n -= step
		}
		if h.pos-h.raw >= most {
			h.gap(h.skip)
		}
	}
}

// gap emits the bytes consumed since the last frame as a gap. Without a flaw they belong to
// the carrier itself.
func (h *half) gap(flaw *frame.Error) {
	for h.raw < h.pos {
		end := min(h.raw+gapSize, h.pos)
		f := frame.Frame{Raw: h.buf[h.raw:end:end], Offset: h.base + int64(h.raw), Dir: h.dir, Gap: true}
		f.Meta = h.c.meta(frame.Meta{Signal: frame.Wrapping})
		if flaw != nil {
			f.Flaw = flaw
		}
		h.c.frames = append(h.c.frames, f)
		h.raw = end
	}
}

// loseRest gives up the direction: nothing after this point can be parsed.
func (h *half) loseRest(err error, format string, args ...any) bool {
	h.lost = h.fault(err, format, args...)
	return false
}

// fault is an error where the next frame would be.
func (h *half) fault(err error, format string, args ...any) *frame.Error {
	head := h.buf[h.raw:]
	return &frame.Error{
		Err: err, Frame: h.count + 1, Offset: h.base + int64(h.raw),
		Detail: fmt.Sprintf(format, args...), Head: bytes.Clone(head[:min(len(head), 256)]),
	}
}

// tooLarge is the fault of a payload of n bytes, or of more than the limit if n
// is 0.
func (h *half) tooLarge(n uint64) *frame.Error {
	if n == 0 {
		return h.fault(frame.ErrTooLarge, "a payload is over the limit of %d", h.c.limit)
	}
	return h.fault(frame.ErrTooLarge, "length %d is over the limit of %d", n, h.c.limit)
}

// give emits the frame that ends at h.pos, without a payload. The caller completes it.
func (h *half) give(stream int64, m frame.Meta) *frame.Frame {
	n := h.pos - h.raw
	h.count++
	h.c.frames = append(h.c.frames, frame.Frame{
		Raw: h.buf[h.raw:h.pos:h.pos], Start: n, End: n,
		Offset: h.base + int64(h.raw), Dir: h.dir, Stream: stream, Meta: h.c.meta(m),
	})
	h.raw = h.pos
	return &h.c.frames[len(h.c.frames)-1]
}

// apart gives a frame a payload that is not part of its Raw. The bytes must be
// valid as long as the frame.
func apart(f *frame.Frame, payload []byte) {
	f.Meta.Apart, f.Meta.Data = true, payload
}

// A span collects a payload, which may come in pieces.
type span struct {
	begin, end int64 // where its first byte is in the direction, and its last ends
	data       []byte
}

func (s *span) reset() {
	s.data = s.data[:0]
	if cap(s.data) > maxKept {
		s.data = nil
	}
}

// extend adds the next n bytes of h to the span without consuming them.
func (s *span) extend(h *half, n int) {
	if n == 0 {
		return
	}
	if len(s.data) == 0 {
		s.begin = h.at()
	}
	s.data = append(s.data, h.buf[h.pos:h.pos+n]...)
	s.end = h.at() + int64(n)
}

// whole reports whether the span is contiguous and begins at or after the position.
func (s *span) whole(from int64) bool {
	return s.begin >= from && s.end-s.begin == int64(len(s.data))
}

// payload makes the span, without its first bytes, the payload of a frame.
func (s *span) payload(h *half, f *frame.Frame, skip int) {
	switch {
	case len(s.data) <= skip:
	case s.whole(f.Offset):
		f.Start = int(s.begin-f.Offset) + skip
		f.End = int(s.end - f.Offset)
	default:
		apart(f, h.c.keepBytes(s.data[skip:]))
	}
	s.reset()
}

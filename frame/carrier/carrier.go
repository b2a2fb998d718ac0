// Package carrier extracts frames from the protocols that carry them: plain streams,
// WebSocket, HTTP/1.1 with server-sent events, and HTTP/2 with gRPC.
//
// A [Carrier] gets the bytes of both directions of one connection, as they were read,
// and emits each frame as soon as it is complete. The frames do not depend on how the
// bytes were cut into reads; if the Carrier is patient, neither do the gaps after a
// fault. It finds payloads and their wrappers, and does not interpret payloads.
//
// No byte is lost: in each direction the Raws of the frames, joined, are the input. So
// the Raw of a frame begins where the previous one ended, and bytes of the carrier
// between two frames, such as the settings of HTTP/2, belong to the second. Bytes without
// a frame after them are a gap.
package carrier

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/nearest"
)

// A Kind is a carrier protocol.
type Kind uint8

const (
	// Auto detects the carrier by the first bytes of either direction.
	Auto Kind = iota
	// Plain streams have frames from their first byte on.
	Plain
	// WS is WebSocket, with its HTTP upgrade or from the middle on.
	WS
	// HTTP1 is HTTP/1.1, which may be upgraded to WebSocket or HTTP/2.
	HTTP1
	// H2 is HTTP/2.
	H2
)

var kinds = [...]struct{ name, about string }{
	Auto:  {"auto", "detected by the first bytes"},
	Plain: {"plain", "frames from the first byte on"},
	WS:    {"ws", "WebSocket messages, with the HTTP upgrade or without"},
	HTTP1: {"http1", "HTTP/1.1 bodies and server-sent events, and upgrades to WebSocket or HTTP/2"},
	H2:    {"h2", "HTTP/2 bodies and gRPC messages"},
}

// Kinds lists the carriers that can be chosen.
func Kinds() []Kind { return []Kind{Plain, WS, HTTP1, H2} }

// String returns the carrier's name, as flags spell it.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k].name
	}
	return fmt.Sprintf("carrier(%d)", uint8(k))
}

// About describes the carrier in a few words.
func (k Kind) About() string {
	if int(k) < len(kinds) {
		return kinds[k].about
	}
	return ""
}

// Named returns the carrier of that name.
func Named(name string) (Kind, error) {
	return nearest.Named("carrier", name, append([]Kind{Auto}, Kinds()...), Kind.String)
}

// Options configure a Carrier.
type Options struct {
	// Kind is the carrier; Auto detects it.
	Kind Kind
	// Framing delimits the frames in WebSocket messages. Without it each message is
	// one frame, or several if it consists of len32 frames. On a plain stream each
	// read is one frame; use a [frame.Scanner] instead.
	Framing frame.Framing
	// Limit is the largest payload, in bytes; 0 is [frame.DefaultLimit]. It is
	// checked before memory is allocated.
	Limit int
	// Patient keeps invalid bytes until they fill a gap, or until the end, so that the
	// gaps do not depend on how the bytes were cut into reads.
	Patient bool
}

// A Carrier reads one connection. It is not safe for concurrent use. Its memory is bounded
// by a few times the limit.
type Carrier struct {
	framing frame.Framing
	limit   int
	patient bool
	named   Kind      // Auto to detect it
	kind    Kind      // Auto until it is detected
	unknown frame.Dir // the actual direction of bytes of unknown direction
	halves  [3]half   // by direction

	pendingMethods []string // methods of the requests whose response has not begun
	upgraded       Kind     // the carrier after an upgrade; Auto without one
	tunnel         bool     // the upgrade is to an unknown protocol
	streams        map[uint32]*stream
	held           int // bytes of incomplete messages, over all streams
	inflated       int // compressed event streams
	unpacked       int // bytes that were decompressed for the current frames

	frames []frame.Frame
	metas  []frame.Meta
	arena  []byte
}

// New returns a Carrier for a new connection.
func New(o Options) *Carrier {
	o.Limit = cmp.Or(max(o.Limit, 0), frame.DefaultLimit)
	c := &Carrier{framing: o.Framing, limit: o.Limit, patient: o.Patient, named: o.Kind}
	for d := range c.halves {
		c.halves[d].c, c.halves[d].dir = c, frame.Dir(d)
	}
	return c
}

// Feed accepts bytes of one direction and returns the first frames that they complete, in
// order; [Carrier.More] returns the others. The frames are valid until the next call of
// Feed, More or End. The direction may be unknown if all bytes have the same one.
func (c *Carrier) Feed(dir frame.Dir, data []byte) []frame.Frame {
	c.reset()
	h := c.half(dir)
	h.appendBytes(data)
	switch {
	case c.kind != Auto:
		h.parseAll()
	case !c.detect(false):
		return nil
	}
	c.resume()
	return c.frames
}

// End ends a direction, and returns its remaining frames as Feed does.
func (c *Carrier) End(dir frame.Dir) []frame.Frame {
	c.reset()
	h := c.half(dir)
	h.eof = true
	if c.kind == Auto && !c.detect(true) {
		return nil
	}
	h = c.half(dir)
	h.waits, h.ends = true, true
	c.resume()
	return c.frames
}

// More returns further frames of the latest Feed or End; none at the end. Decompression may
// multiply the bytes, so the frames are returned in portions.
func (c *Carrier) More() []frame.Frame {
	c.reset()
	c.resume()
	return c.frames
}

func (c *Carrier) half(dir frame.Dir) *half {
	if dir == frame.DirUnknown || int(dir) >= len(c.halves) {
		dir = c.unknown
	}
	return &c.halves[dir]
}

func (c *Carrier) reset() {
	c.frames = c.frames[:0]
	if cap(c.frames) > maxWithin {
		c.frames = nil
	}
	c.arena = c.arena[:0]
	if cap(c.arena) > maxKept {
		c.arena = nil
	}
	c.unpacked = 0
}

// maxKept is how much memory for payloads is kept from one read to the next, in
// bytes.
const maxKept = 1 << 20

// maxWithin bounds the frames within one message: a frame takes a hundred times the memory
// of an empty one on the wire.
const maxWithin = 1 << 14

// maxUnpacked is how much is decompressed for one portion of frames, in bytes.
const maxUnpacked = 1 << 20

func (c *Carrier) isFull() bool { return c.unpacked >= maxUnpacked }

// resume parses the bytes that were kept back because the other direction may cause an
// upgrade, or because a portion was full.
func (c *Carrier) resume() {
	for h := c.waiting(); h != nil; h = c.waiting() {
		h.parseAll()
	}
	for d := range c.halves {
		if h := &c.halves[d]; h.ends && !h.waits {
			h.ends = false
			h.endDirection()
		}
	}
}

// waiting returns a half with bytes that were kept back and can be parsed now, or nil.
func (c *Carrier) waiting() *half {
	for d := range c.halves {
		if h := &c.halves[d]; h.waits && !c.isFull() {
			return h
		}
	}
	return nil
}

// detect detects the carrier. It returns false if it needs more bytes.
func (c *Carrier) detect(atEOF bool) bool {
	for d := range c.halves {
		h := &c.halves[d]
		if len(h.buf) == 0 {
			continue
		}
		g := c.guess(h.buf, atEOF && h.eof)
		if g.More {
			continue
		}
		c.setKind(g.Kind)
		if d == 0 && g.Dir != frame.DirUnknown {
			c.unknown = g.Dir
			c.halves[g.Dir].buf, h.buf = h.buf, nil
			c.halves[g.Dir].eof = h.eof
		}
		return true
	}
	return false
}

// guess detects the carrier, unless it is configured, and the direction of the bytes.
func (c *Carrier) guess(head []byte, atEOF bool) Guess {
	g := Detect(head, atEOF)
	if c.named == Auto || g.More {
		return g
	}
	if c.named == WS && g.Kind == Plain {
		switch {
		case len(head) < 2 && !atEOF:
			return Guess{More: true}
		case len(head) >= 2 && head[1]&0x80 != 0:
			g.Dir = frame.C2U
		default:
			g.Dir = frame.U2C
		}
	}
	g.Kind = c.named
	return g
}

func (c *Carrier) setKind(k Kind) {
	c.kind = k
	for d := range c.halves {
		h := &c.halves[d]
		switch k {
		case Plain:
			h.parser = plain{}
		case H2:
			h.parser = newH2()
		case WS:
			h.parser = &http1{bare: true}
		default:
			h.parser = &http1{}
		}
		h.waits = true
	}
}

// meta allocates the Meta of a frame.
func (c *Carrier) meta(m frame.Meta) *frame.Meta {
	if len(c.metas) == cap(c.metas) {
		c.metas = make([]frame.Meta, 0, 32)
	}
	c.metas = append(c.metas, m)
	return &c.metas[len(c.metas)-1]
}

// keepBytes copies data. The copy is valid as long as the current frames.
func (c *Carrier) keepBytes(data []byte) []byte {
	n := len(c.arena)
	c.arena = append(c.arena, data...)
	return c.arena[n:len(c.arena):len(c.arena)]
}

// plain streams have no carrier: each read is a frame.
type plain struct{}

func (plain) parseNext(h *half) bool {
	n := len(h.rest())
	if n == 0 {
		return false
	}
	h.pos += n
	h.count++
	h.c.frames = append(h.c.frames, frame.Frame{
		Raw: h.buf[h.raw:h.pos:h.pos], End: n, Offset: h.base + int64(h.raw), Dir: h.dir,
	})
	h.raw = h.pos
	return true
}

func (plain) endInput(*half) (bool, string) { return true, "" }

// A stream is the state of an HTTP/2 stream.
type stream struct {
	bodies [3]*body // by direction
	ended  [3]bool
	// bare means that a body may follow the head of the response, and none has begun.
	bare     bool
	headOnly bool // the request is a HEAD
}

// maxStreams bounds the streams that are open at once.
const maxStreams = 1 << 16

// stream returns the state of a stream, which may be new.
func (c *Carrier) stream(id uint32) *stream {
	s := c.streams[id]
	if s != nil {
		return s
	}
	if c.streams == nil {
		c.streams = map[uint32]*stream{}
	}
	if len(c.streams) >= maxStreams {
		c.forget()
	}
	s = &stream{}
	c.streams[id] = s
	return s
}

func (c *Carrier) bodyOf(id uint32, dir frame.Dir) *body {
	if s := c.streams[id]; s != nil {
		return s.bodies[dir]
	}
	return nil
}

// endStream ends a stream in the direction of h.
func (c *Carrier) endStream(h *half, id uint32) {
	s := c.streams[id]
	if s == nil {
		return
	}
	if b := s.bodies[h.dir]; b != nil {
		s.bare = s.bare && b.kind == wholeBody
		b.endBody(h)
		s.bodies[h.dir] = nil
	}
	if h.dir != frame.C2U && s.bare { // nothing else shows the end of the response
		s.bare = false
		h.give(int64(id), frame.Meta{Framing: frame.HTTP, Signal: frame.End})
	}
	s.ended[h.dir] = true
	if s.ended[frame.C2U] && s.ended[frame.U2C] {
		delete(c.streams, id)
	}
}

// closeStream ends a stream in both directions early. Its incomplete messages are not
// reported.
func (c *Carrier) closeStream(id uint32) {
	s := c.streams[id]
	if s == nil {
		return
	}
	for d, b := range s.bodies {
		if b == nil {
			continue
		}
		h := &c.halves[d]
		b.drop(h)
		if b.kind == skipBody {
			h.skip = nil
		}
	}
	delete(c.streams, id)
}

// forget makes room for streams: it removes those that have ended in one direction, because
// the other may be missing, or else all.
func (c *Carrier) forget() {
	for id, s := range c.streams {
		if s.ended[frame.C2U] || s.ended[frame.U2C] {
			c.closeStream(id)
		}
	}
	if len(c.streams) >= maxStreams {
		for id := range c.streams {
			c.closeStream(id)
		}
	}
}

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

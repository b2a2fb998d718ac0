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

	asked    []string // methods of the requests whose response has not begun
	upgraded Kind     // the carrier after an upgrade; Auto without one
	tunnel   bool     // the upgrade is to an unknown protocol
	streams  map[uint32]*stream
	held     int // bytes of incomplete messages, over all streams
	inflated int // compressed event streams
	unpacked int // bytes that were decompressed for the current frames

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

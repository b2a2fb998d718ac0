package decode

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// captured feeds the frames of a capture.
type captured struct {
	cfg    Config
	reader capture.Reader
	record capture.Record
	single [1]frame.Frame // the frame of the record
	split  bool           // the record holds several frames, or one in a message
	live   capture.Live   // the reader, if it can tell whether it would wait
	placed capture.Placed // the reader, if it can tell where records lie
	wires  wires
	last   wire     // on which a frame passed, and
	lastIs *reading // how that was read
	calls  calls
	lost   map[int]bool // connections whose last HTTP request was too large to read
	conn   int          // the first connection's number in the capture
	seq    int64
	failed error

	refined []protocol.Protocol // that were noticed in payloads and reported

	pending int64 // items in the batch that is being filled
	clock   clock
}

// batchSize is how many bytes of frames make a batch, and batchItems how many frames
// do, which may have no bytes.
const (
	batchSize  = 128 << 10
	batchItems = 8 << 10
)

func newCaptured(in Input, cfg Config) *captured {
	live, _ := in.Capture.(capture.Live)
	placed, _ := in.Capture.(capture.Placed)
	c := &captured{cfg: cfg, reader: in.Limited(cfg), live: live, placed: placed, calls: newCalls(&cfg), conn: unknownConn, seq: max(cfg.FirstSeq, 1)}
	c.calls.open.Lacking = c.lacks
	return c
}

func (c *captured) nextBatch(b *batch) bool {
	b.Frames, b.since, b.times, b.place, b.among = b.Frames[:0], b.since[:0], b.times[:0], b.place[:0], b.among[:0]
	b.fault = b.fault[:0]
	b.first, b.clock = c.seq, c.clock
	arena := b.arena[:0]
	apart := 0 // bytes that are no part of the arena
	for c.failed == nil && len(arena)+apart < batchSize && len(b.Frames)+len(b.among) < batchItems &&
		(len(b.Frames)+len(b.among) == 0 || c.buffered()) {
		if c.failed = c.reader.Next(&c.record); c.failed != nil {
			break
		}
		if c.record.IsRemark() && c.cfg.Note != nil {
			c.cfg.Note(c.seq+c.pending, &c.record)
		}
		if c.record.Kind != capture.Frame {
			if c.cfg.Event != nil {
				b.among = append(b.among, event{len(b.Frames), c.eventRecord()})
				apart += len(c.record.Text)
			}
			continue
		}
		for _, f := range c.within() {
			c.record.Frame = f
			arena = append(arena, f.Raw...)
			if f.Meta != nil {
				apart += len(f.Meta.Data)
			}
			if c.failed = c.appendFrame(b, arena[len(arena)-len(f.Raw):]); c.failed != nil {
				break
			}
		}
	}
	if b.arena = arena; cap(arena) > 4*batchSize {
		b.arena = nil // kept by nothing that one large frame has grown
	}
	c.seq, c.pending = c.seq+c.pending, 0
	return len(b.Frames)+len(b.among) > 0
}

// maxText is how much of the text of an event is kept.
const maxText = 4 << 10

// eventRecord returns the current record, which is not a frame, with a text of its own.
func (c *captured) eventRecord() capture.Record {
	r := c.record
	r.Conn = c.connNumber(r.Conn)
	r.Text = bytes.Clone(r.Text[max(0, len(r.Text)-maxText):])
	return r
}

// within returns the frames of the current record: one, unless an older relay recorded a
// message of a WebSocket whole that consists of frames.
func (c *captured) within() []frame.Frame {
	f := &c.record.Frame
	c.split = false
	if m := f.Meta; m != nil && m.Framing == frame.WS && m.Signal == frame.NoSignal && !m.Apart && f.Start == 0 && f.End == len(f.Raw) {
		if frames := carrier.Split(*f, c.cfg.Limit); frames[0].Meta.Framing != m.Framing {
			c.record.Framing, c.split = frames[0].Meta.Framing, true
			return frames
		}
	}
	c.single[0] = *f
	return c.single[:]
}

// buffered reports whether the next record is available.
func (c *captured) buffered() bool { return c.live == nil || c.live.Buffered() }

// appendFrame appends the frame of the current record, whose bytes are in raw.
func (c *captured) appendFrame(b *batch, raw []byte) error {
	b.Frames = append(b.Frames, c.record.Frame)
	f := &b.Frames[len(b.Frames)-1]
	f.Raw, f.Meta = raw, f.Meta.Clone()
	if f.Gap && f.Flaw != nil && (f.Flaw.Error() == blankLines || f.Flaw.Error() == wrapping) {
		f.Flaw = nil
	}
	reading, err := c.reading(f)
	if err != nil {
		b.Frames = b.Frames[:len(b.Frames)-1]
		return err
	}
	if reading.numberFault(f, c.seq+c.pending) {
		b.fault = append(b.fault, len(b.Frames)-1)
	}
	f.Conn = c.connNumber(f.Conn)
	session := c.reader.Session()
	how := since{len(b.Frames) - 1, reading.framing, reading.protocol, session.Redacted, session.Outlined, session.Altered}
	if p := carried.Of(f); p != nil {
		how.protocol = p
	}
	b.addSince(how)
	c.pending++
	b.times = append(b.times, times{c.record.Time, c.record.Written})
	c.clock.pass(c.record.Time)
	switch {
	case c.placed == nil:
	case c.split: // the place is that of the message
		b.place = append(b.place, -1)
	default:
		b.place = append(b.place, c.placed.Place())
	}
	return nil
}

const (
	unknownConn = -1
	connsApart  = 1_000_000 // between the numbers of one input and the next
)

// connNumber returns the number of a connection among those of all inputs. If there are
// several inputs, the first connection of each has the number of its input. Any other has
// its own number plus a million for each input.
func (c *captured) connNumber(conn int) int {
	if c.conn == unknownConn {
		c.conn = conn
	}
	switch {
	case c.cfg.Conn == 0:
		return conn
	case conn == c.conn:
		return c.cfg.Conn
	default:
		return c.cfg.Conn*connsApart + conn
	}
}

// reading returns how to read a frame. Where the capture does not say, it learns from the
// payload.
func (c *captured) reading(f *frame.Frame) (*reading, error) {
	c.lose(f)
	if r := c.readingOf(f); r != nil {
		return r, nil
	}
	at := wireOf(f)
	r := c.lastIs
	if r == nil || c.last != at {
		r = c.wires.readings[at]
	}
	if r == nil || !r.holdsFor(c.names(), f.Gap) {
		var err error
		if r, err = c.newReading(); err != nil {
			return nil, &capture.Error{
				Err: capture.ErrMalformed, Offset: f.Offset,
				Detail: fmt.Sprintf("frame %d: %v", c.seq+c.pending, err),
			}
		}
		c.wires.set(at, r)
	}
	c.last, c.lastIs = at, r
	switch {
	case f.Gap || carried.Of(f) != nil:
		return r, nil
	case at != wire{httpWire, 0}:
	case f.Dir == frame.U2C && c.lost[f.Conn]: // what it answers is unknown
		return r.json(), nil
	default:
		return c.beside(r, f.Payload()), nil
	}
	if r.fresh {
		r.expect(f)
	}
	if r.refiner != nil && !f.Compressed {
		c.refine(r, f.Payload())
	}
	return r, nil
}

// expect detects the protocol of the first frame of a wire without a name, as at the head
// of a stream: so a payload that does not parse counts as a fault, as it would in a stream.
func (r *reading) expect(f *frame.Frame) {
	r.fresh = false
	guess := all.Guess{Framing: r.framing}
	if f.Meta == nil && len(f.Raw) > 0 && r.framing.Name() != "" && guess.Detect(f.Raw, true) {
		r.protocol, r.refiner = guess.Protocol, guess.Refiner()
	}
}

// beside returns how to read a payload of HTTP. All HTTP of a session is one wire, and
// the first protocol of JSON-RPC on it is the protocol of the wire, whatever else
// passes before or after.
func (c *captured) beside(r *reading, payload []byte) *reading {
	switch p := all.Beside(r.protocol, payload); {
	case p == r.protocol:
	case p == opaque.JSON:
		return r.json()
	case r.guessed:
		r.protocol, r.refiner = opaque.Bytes, all.NewRefiner(true)
	}
	if r.refiner != nil {
		c.refine(r, payload)
	}
	return r
}

// lose notes whether a request of HTTP was too large to read.
func (c *captured) lose(f *frame.Frame) {
	switch {
	case f.Dir != frame.C2U:
	case f.Gap && errors.Is(f.Flaw, frame.ErrTooLarge):
		if c.lost == nil {
			c.lost = map[int]bool{}
		}
		c.lost[f.Conn] = true
	case !f.Gap && c.lost != nil:
		delete(c.lost, f.Conn)
	}
}

// refine detects a more specific protocol from a payload. It reports each protocol once,
// not once for each connection.
func (c *captured) refine(r *reading, payload []byte) {
	before := r.protocol
	p, why, done := r.refiner.Refine(payload)
	if r.protocol = p; done {
		r.refiner = nil
	}
	switch {
	case p == before || c.cfg.Notice == nil || slices.Contains(c.refined, p):
		return
	case before != opaque.Bytes:
		c.cfg.Notice(fmt.Sprintf("frame %d: %s: %s from here on", c.seq+c.pending, why, p.Name()))
	case c.record.Meta != nil:
		c.cfg.Notice(fmt.Sprintf("%s over %s: %s", p.Name(), over(c.record.Meta), why))
	default:
		return
	}
	c.refined = append(c.refined, p)
}

// over names the carrier of a frame.
func over(m *frame.Meta) string {
	if m.Framing == frame.HTTP && m.Event != "" {
		return "SSE"
	}
	return m.Framing
}

// names returns what the current record says about its wire.
func (c *captured) names() names { return names{c.record.Framing, c.record.Protocol} }

// newReading returns how to read a wire, according to the configuration, the current
// record or the capture.
func (c *captured) newReading() (*reading, error) {
	session := c.reader.Session()
	r := &reading{names: c.names(), framing: c.cfg.Framing, protocol: c.cfg.Protocol}
	var err error
	if name := cmp.Or(c.record.Framing, session.Framing); name != "" || r.framing == nil || c.record.Meta != nil {
		if r.framing, err = framingOf(name); err != nil {
			return nil, err
		}
	}
	if r.protocol != nil {
		return r, nil
	}
	r.protocol, r.refiner, r.guessed, r.fresh = opaque.Bytes, all.NewRefiner(c.record.Meta != nil && c.record.Meta.Framing == frame.HTTP), true, true
	if carried.Of(&c.record.Frame) != nil {
		return r, nil
	}
	if name := cmp.Or(c.record.Protocol, session.Protocol); name != "" {
		if r.protocol, err = all.Named(name); err != nil {
			return nil, err
		}
		r.refiner, r.guessed, r.fresh = (&all.Guess{Protocol: r.protocol}).Refiner(), false, false
	}
	return r, nil
}

func (c *captured) err() error {
	if c.failed == io.EOF {
		return nil
	}
	return numbered(c.failed, c.seq)
}

func (c *captured) state() (frame.Framing, int64) { return nil, c.seq }

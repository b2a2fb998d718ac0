package carrier

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/internal/sse"
)

// A body parses the body of a request or a response, and emits its frames.
type body struct {
	kind            bodyKind
	stream          int64
	meta            frame.Meta // of the frame that the body is as a whole
	headEnd         int64      // the position after its head
	what            frame.Signal
	span            span
	media, encoding string
	grpcEncoding    string
	event           event
	inflate         *inflate.Stream // of compressed events, or nil
	taken           int             // bytes that it has consumed
	flaw            error           // of HTTP/1.1: what a strict peer rejects
}

type bodyKind uint8

const (
	noBody bodyKind = iota
	wholeBody
	eventBody // server-sent events
	grpcBody
	skipBody // over the limit, or broken
)

// beginBody begins the body after a head. In HTTP/1.1 the head is part of the body's frame.
// If the body is a stream, the head is a frame before it.
func (b *body) beginBody(h *half, stream int64, what frame.Signal, head *frame.Head) {
	b.choose(stream, what, head)
	b.meta = frame.Meta{Framing: frame.HTTP, Head: head}
	b.headEnd = h.at()
	if b.kind == eventBody || b.kind == grpcBody {
		h.give(stream, frame.Meta{Framing: frame.HTTP, Signal: what, Head: head}).Flaw = b.flaw
	}
}

// choose determines the kind of the body after a head.
func (b *body) choose(stream int64, what frame.Signal, head *frame.Head) {
	b.span.reset()
	b.event.reset()
	b.stream, b.what, b.kind = stream, what, wholeBody
	b.meta = frame.Meta{Framing: frame.HTTP}
	b.media = MediaType(head)
	b.encoding = encodingOf(head)
	b.grpcEncoding, b.taken = "", 0
	switch {
	case HasEvents(head):
		b.kind, b.event.packed = eventBody, b.encoding != ""
	case IsGRPC(head):
		b.kind, b.grpcEncoding = grpcBody, head.Get("Grpc-Encoding")
	}
}

// Decodes reports whether the compression of the body after a head, if any, is known.
func Decodes(head *frame.Head) bool {
	encoding := encodingOf(head)
	return encoding == "" || inflate.Knows(encoding)
}

// HasEvents reports whether the body after such a head is emitted event by event. It is not
// if its compression is unknown.
func HasEvents(head *frame.Head) bool {
	return MediaType(head) == "text/event-stream" && Decodes(head)
}

// takeBytes reads the next n bytes of h as part of the body.
func (b *body) takeBytes(h *half, n int) {
	for n > 0 {
		step := n
		switch b.kind {
		case wholeBody:
			if step = min(n, h.c.limit-len(b.span.data)); step == 0 {
				b.tooLarge(h, 0)
				continue
			}
			if !b.grow(h, step) {
				continue
			}
		case eventBody:
			if b.event.packed {
				b.unpack(h, n)
				return
			}
			step = b.event.takeLine(b, h, h.rest()[:n])
			n -= step
			continue
		case grpcBody:
			step = b.grpc(h, n)
			n -= step
			continue
		}
		h.advance(step)
		n -= step
	}
}

// maxInflated bounds the number of compressed event streams open at once. Each one needs
// memory for its decompression window.
const maxInflated = 8

// unpack consumes the next n bytes of h, which are compressed events.
func (b *body) unpack(h *half, n int) {
	if b.inflate == nil {
		if h.c.inflated == maxInflated {
			h.advance(n)
			b.giveUp(h, h.fault(frame.ErrTooLarge, "more than %d streams of compressed events at once", maxInflated))
			return
		}
		h.c.inflated++
		b.inflate = inflate.Begin(b.encoding)
	}
	b.inflate.Add(h.rest()[:n])
	b.unpacked(h, n)
}

// unpacked parses the decompressed content of the next n bytes of h.
func (b *body) unpacked(h *half, n int) {
	for b.kind == eventBody {
		plain, err := b.inflate.Next()
		taken := n - b.inflate.Left()
		h.advance(taken)
		n -= taken
		b.taken += taken
		switch {
		case err == nil && len(plain) == 0:
			return
		case err != nil && err != io.EOF:
			b.giveUp(h, h.fault(frame.ErrMalformed, "the events are not %s: %v", b.encoding, err))
		case err != nil:
			b.inflate.Add(nil) // bytes after the end are consumed here
			h.advance(n)
			return
		}
		for len(plain) > 0 && b.kind == eventBody {
			plain = plain[b.event.takeLine(b, h, plain):]
		}
		if b.kind == eventBody && b.swells(h.c.limit) {
			b.giveUp(h, h.fault(frame.ErrTooLarge, "there are %d events of %d bytes in %d compressed bytes", b.event.given, b.event.size, b.taken))
		}
	}
	h.advance(n)
}

// maxRatio bounds the compression of a stream of events: what deflate can do, and more than
// real events need.
const maxRatio = 1032

// swells reports whether the events are more, or larger, than real ones in so many bytes.
// All events of one read are held in memory.
func (b *body) swells(limit int) bool {
	return b.event.given > b.taken+maxWithin || b.event.size > maxRatio*int64(b.taken)+int64(maxHeld(limit))
}

// grow adds the next n bytes to the span, unless all streams together hold too much.
func (b *body) grow(h *half, n int) bool {
	if h.c.held+n > maxHeld(h.c.limit) {
		b.tooLarge(h, 0)
		return false
	}
	h.c.held += n
	b.span.extend(h, n)
	return true
}

// maxHeld bounds incomplete messages over all streams.
func maxHeld(limit int) int { return 4*limit + 1<<20 }

// tooLarge gives up the body. A head that was to be part of its frame gets a frame of its own,
// with the same fault.
func (b *body) tooLarge(h *half, n uint64) {
	flaw := h.tooLarge(n)
	if end := int(b.headEnd - h.base); b.kind == wholeBody && b.meta.Head != nil && end > h.raw {
		pos := h.pos
		h.pos = end
		h.give(b.stream, frame.Meta{Framing: frame.HTTP, Signal: b.what, Head: b.meta.Head}).Flaw = flaw
		h.pos = pos
	}
	b.giveUp(h, flaw)
}

// giveUp turns the collected bytes, and those that follow, into a gap.
func (b *body) giveUp(h *half, flaw *frame.Error) {
	b.drop(h)
	h.gap(flaw)
	b.kind, h.skip = skipBody, flaw
}

// drop forgets what was collected.
func (b *body) drop(h *half) {
	h.c.held -= len(b.span.data)
	b.span.reset()
	b.event.reset()
	b.event.charge(h)
	if b.inflate != nil {
		b.inflate.Close()
		b.inflate = nil
		h.c.inflated--
	}
}

// inside reports whether the body ends inside a message.
func (b *body) inside(h *half) bool {
	switch b.kind {
	case eventBody:
		b.event.endLastLine(b, h)
		return !b.event.Idle()
	case skipBody:
		return true
	}
	return len(b.span.data) > 0
}

func (b *body) endBody(h *half) {
	if b.inflate != nil {
		b.inflate.EndInput()
		b.unpacked(h, 0)
	}
	switch b.kind {
	case wholeBody:
		b.whole(h)
	case skipBody:
		h.gap(h.skip)
		h.skip = nil
	case eventBody:
		b.event.endLastLine(b, h)
		if !b.event.Idle() && !b.event.packed { // readers discard it
			h.gap(h.fault(frame.ErrTruncated, "the event stream ended inside an event: a blank line has to follow it"))
		}
		b.event.reset()
		h.give(b.stream, frame.Meta{Framing: frame.HTTP, Signal: frame.End, Encoding: b.encoding})
	case grpcBody:
		if len(b.span.data) > 0 {
			h.gap(h.fault(frame.ErrTruncated, "the stream %d ended inside a gRPC message", b.stream))
		}
	}
	b.drop(h)
	b.kind = noBody
}

// whole emits the body as one frame. In HTTP/2 the head is a frame of its own, and an
// empty body makes no frame.
func (b *body) whole(h *half) {
	h.c.held -= len(b.span.data)
	if b.meta.Head == nil && len(b.span.data) == 0 {
		return
	}
	data := b.span.data
	f := h.give(b.stream, b.meta)
	f.Flaw = b.flaw
	if plain, encoding, err := b.decoded(h); err != nil {
		f.Flaw, f.Meta.Signal = err, frame.Damaged
		b.span.payload(h, f, 0)
		return
	} else if encoding != "" {
		f.Meta.Encoding = encoding
		data = plain
		h.c.unpacked += len(plain)
		apart(f, plain)
	}
	if b.encoding != f.Meta.Encoding || !b.carries(data) {
		f.Meta.Signal = b.what
	}
	if f.Meta.Encoding == "" {
		b.span.payload(h, f, 0)
	}
	b.span.reset()
}

// carries reports whether the body is a message, and not a page for people.
func (b *body) carries(data []byte) bool {
	switch {
	case len(data) == 0:
		return false
	case strings.HasSuffix(b.media, "ndjson"), strings.HasSuffix(b.media, "jsonl"): // one message only where it is one line
		return BeginsJSON(data) && !bytes.Contains(bytes.TrimSpace(data), []byte("\n"))
	}
	return strings.HasSuffix(b.media, "json") || strings.HasSuffix(b.media, "proto") || strings.HasSuffix(b.media, "protobuf") || BeginsJSON(data)
}

// BeginsJSON reports whether data begins like a JSON object or array.
func BeginsJSON(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 {
		return false
	}
	rest := bytes.TrimLeft(data[1:], " \t\r\n")
	switch data[0] {
	case '{':
		return len(rest) > 0 && (rest[0] == '"' || rest[0] == '}')
	case '[':
		return len(rest) > 0 && bytes.IndexByte([]byte(`[{"]-0123456789`), rest[0]) >= 0
	}
	return false
}

// decoded decodes the content encoding; encoding is "" if there is none, or an unknown one.
func (b *body) decoded(h *half) (data []byte, encoding string, err error) {
	if len(b.span.data) == 0 || !inflate.Knows(b.encoding) {
		return nil, "", nil
	}
	r, err := inflate.Open(b.encoding, bytes.NewReader(b.span.data))
	if err == nil {
		defer r.Close()
		data, err = readDecompressed(r, h.c.limit)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the body is not %s: %w", b.encoding, err)
	}
	return data, b.encoding, nil
}

// readDecompressed reads r to its end, at most most bytes.
func readDecompressed(r io.Reader, most int) ([]byte, error) {
	return inflate.ReadAll(r, int64(most), fmt.Errorf("%w of %d bytes once it is decompressed", frame.ErrTooLarge, most))
}

const grpcHeader = 5

// grpc consumes up to n bytes of messages after their headers, and returns how
// many it took.
func (b *body) grpc(h *half, n int) int {
	need := grpcHeader
	if have := b.span.data; len(have) >= grpcHeader {
		need += int(binary.BigEndian.Uint32(have[1:]))
	}
	n = min(n, need-len(b.span.data))
	if !b.grow(h, n) {
		h.advance(n)
		return n
	}
	have := b.span.data
	if len(have) == grpcHeader {
		size := binary.BigEndian.Uint32(have[1:])
		switch {
		case have[0] > 1:
			h.advance(n)
			b.giveUp(h, h.fault(frame.ErrMalformed, "stream %d: a gRPC message begins with 0x%02x", b.stream, have[0]))
			return n
		case uint64(size) > uint64(h.c.limit):
			h.advance(n)
			b.tooLarge(h, uint64(size))
			return n
		case size == 0:
			need = grpcHeader
		default:
			need = 0
		}
	}
	if len(have) != need {
		h.advance(n)
		return n
	}
	h.pos += n
	h.c.held -= len(have)
	compressed := have[0] == 1
	f := h.give(b.stream, frame.Meta{Framing: frame.GRPC.Name()})
	b.span.payload(h, f, grpcHeader)
	if f.Compressed = compressed; compressed {
		f.Meta.Encoding = b.grpcEncoding
	}
	return n
}

// An event is an incomplete server-sent event.
type event struct {
	sse.Parser
	given  int   // events
	size   int64 // of them, in bytes
	packed bool  // the stream is compressed: its lines are not bytes of the connection
	held   int   // bytes counted in Carrier.held
}

// reset begins a stream of events.
func (e *event) reset() {
	e.Reset()
	e.given, e.size = 0, 0
}

// charge updates Carrier.held.
func (e *event) charge(h *half) {
	n := e.Held()
	h.c.held += n - e.held
	e.held = n
}

// takeLine consumes data up to the end of a line, and returns how many bytes it took.
func (e *event) takeLine(b *body, h *half, data []byte) int {
	room := min(h.c.limit+maxLine-e.held, maxHeld(h.c.limit)-h.c.held)
	if room <= 0 {
		b.tooLarge(h, 0)
		return 0
	}
	n, ended := e.Next(data[:min(len(data), room)], h.at())
	e.charge(h)
	switch {
	case ended != nil:
		if !e.packed {
			h.pos += n
		}
		e.dispatch(b, h, ended)
	case !e.packed:
		h.advance(n)
	}
	return n
}

// endLastLine ends a last line whose CR is not followed by LF.
func (e *event) endLastLine(b *body, h *half) {
	if ended := e.Settle(); ended != nil {
		e.dispatch(b, h, ended)
	}
	e.charge(h)
}

// dispatch emits an event.
func (e *event) dispatch(b *body, h *half, ended *sse.Event) {
	if n := len(ended.Data); n > h.c.limit {
		b.tooLarge(h, uint64(n))
		return
	}
	m := frame.Meta{Framing: frame.HTTP, Encoding: b.encoding, Event: ended.Name, EventID: ended.ID}
	if !BeginsJSON(ended.Data) {
		m.Signal = frame.Event
	}
	e.given++
	e.size += int64(len(ended.Data))
	payload := span{ended.Begin, ended.End, ended.Data}
	if e.packed {
		h.c.unpacked += len(ended.Data)
		payload.end = -1 // nowhere
	}
	payload.payload(h, h.give(b.stream, m), 0)
}

package carrier

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http2/hpack"

	"github.com/wirectl/wirectl/frame"
)

// h2 is one direction of HTTP/2.
type h2 struct {
	prefaceDone bool // the preface, if any, was parsed
	header      *hpack.Decoder
	fields      []frame.Field
	size        int // of the fields

	block   []byte // an incomplete header block
	blockOf h2Frame

	data    h2Frame // the current DATA frame
	left    int     // bytes of it
	padding int     // bytes after them
}

// A frame of HTTP/2.
type h2Frame struct {
	size   int
	kind   byte
	flags  byte
	stream uint32
}

const (
	frameHeader = 9

	h2Data         = 0
	h2Headers      = 1
	h2Reset        = 3
	h2PushPromise  = 5
	h2GoAway       = 7
	h2Continuation = 9

	endStream  = 1
	endHeaders = 4
	padded     = 8
	priority   = 0x20
)

// maxBlock bounds a header block, and the fields in it, in bytes.
const maxBlock = 256 << 10

func newH2() *h2 {
	p := &h2{}
	p.header = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if p.size += len(f.Name) + len(f.Value) + 32; p.size <= maxBlock {
			p.fields = append(p.fields, frame.Field{Name: f.Name, Value: f.Value})
		}
	})
	// Encoders announce a larger table than the default. The limit is announced in the
	// other direction, which may be missing.
	p.header.SetAllowedMaxDynamicTableSize(1 << 20)
	p.header.SetMaxStringLength(maxBlock)
	return p
}

func (p *h2) parseNext(h *half) bool {
	data := h.rest()
	switch {
	case len(data) == 0:
		return false
	case !p.prefaceDone:
		return p.skipPreface(h, data)
	case p.left > 0 || p.padding > 0:
		return p.body(h, len(data))
	case len(data) < frameHeader:
		return false
	}
	f := h2Frame{
		size: int(data[0])<<16 | int(data[1])<<8 | int(data[2]), kind: data[3], flags: data[4],
		stream: binary.BigEndian.Uint32(data[5:]) & 0x7fffffff,
	}
	if p.block != nil && (f.kind != h2Continuation || f.stream != p.blockOf.stream) {
		return h.loseRest(frame.ErrMalformed, "an HTTP/2 header block is interrupted")
	}
	if f.kind == h2Data {
		return p.beginData(h, f, data)
	}
	return p.frame(h, f, data)
}

// skipPreface skips the preface of the client if there is one.
func (p *h2) skipPreface(h *half, data []byte) bool {
	n := min(len(data), len(preface))
	switch {
	case string(data[:n]) != preface[:n]:
	case n < len(preface):
		return false
	default:
		h.advance(n)
	}
	p.prefaceDone = true
	return true
}

func (p *h2) endInput(h *half) (bool, string) {
	open := p.endBodies(h)
	switch {
	case len(h.rest()) > 0 || p.left > 0 || p.padding > 0:
		return false, "a frame of HTTP/2"
	case p.block != nil:
		return false, "a header block of HTTP/2"
	}
	return !open, "a message of HTTP/2"
}

// endBodies ends the bodies of all streams where the connection does, and reports
// whether that is inside a message.
func (p *h2) endBodies(h *half) (open bool) {
	for _, id := range slices.Sorted(maps.Keys(h.c.streams)) {
		if b := h.c.bodyOf(id, h.dir); b != nil {
			open = b.inside(h) || open
			b.drop(h)
		}
	}
	return open
}

// beginData handles the header of a DATA frame.
func (p *h2) beginData(h *half, f h2Frame, data []byte) bool {
	n := frameHeader
	p.data, p.left, p.padding = f, f.size, 0
	if f.flags&padded != 0 {
		switch {
		case f.size > 0 && len(data) < frameHeader+1:
			p.left = 0
			return false
		case f.size == 0 || int(data[frameHeader]) >= f.size:
			p.left = 0
			return h.loseRest(frame.ErrMalformed, "the padding of an HTTP/2 DATA frame is longer than the frame")
		}
		n++
		p.padding = int(data[frameHeader])
		p.left -= 1 + p.padding
	}
	h.advance(n)
	if p.left == 0 && p.padding == 0 {
		p.endData(h)
	}
	return true
}

// body consumes up to n bytes of a DATA frame.
func (p *h2) body(h *half, n int) bool {
	if take := min(n, p.left); take > 0 {
		p.left -= take
		if b := h.c.bodyOf(p.data.stream, h.dir); b != nil {
			if h.dir != frame.C2U {
				h.c.streams[p.data.stream].bare = false
			}
			b.takeBytes(h, take)
		} else {
			h.advance(take)
		}
		n -= take
	}
	if skip := min(n, p.padding); skip > 0 && p.left == 0 {
		p.padding -= skip
		h.advance(skip)
	}
	if p.left == 0 && p.padding == 0 {
		p.endData(h)
	}
	return true
}

func (p *h2) endData(h *half) {
	if p.data.flags&endStream != 0 {
		h.c.endStream(h, p.data.stream)
	}
}

// frame handles any frame but DATA.
func (p *h2) frame(h *half, f h2Frame, data []byte) bool {
	end := frameHeader + f.size
	switch {
	case !wanted(f.kind): // skipped without buffering
		p.data, p.left, p.padding = h2Frame{}, 0, f.size
		h.advance(frameHeader)
		return true
	case f.size+len(p.block) > maxBlock:
		return h.loseRest(frame.ErrTooLarge, "an HTTP/2 header block of over %d bytes", maxBlock)
	}
	if len(data) < end {
		return false
	}
	payload := data[frameHeader:end]
	switch f.kind {
	case h2Headers, h2PushPromise:
		payload, ok := unpadded(f, payload)
		if !ok {
			return h.loseRest(frame.ErrMalformed, "an HTTP/2 header frame is too short")
		}
		p.blockOf = f
		p.block = append(p.block[:0], payload...)
		return p.headers(h, f, end)
	case h2Continuation:
		if p.block == nil {
			return h.loseRest(frame.ErrMalformed, "a CONTINUATION without a header block")
		}
		p.block = append(p.block, payload...)
		return p.headers(h, f, end)
	case h2Reset:
		return giveReset(h, f, payload)
	default: // GOAWAY, the last wanted kind
		return giveGoAway(h, payload)
	}
}

// giveReset emits the RST_STREAM that is next.
func giveReset(h *half, f h2Frame, payload []byte) bool {
	if len(payload) != 4 {
		return h.loseRest(frame.ErrMalformed, "a RST_STREAM of %d bytes", len(payload))
	}
	h.pos += frameHeader + len(payload)
	code := binary.BigEndian.Uint32(payload)
	h.give(int64(f.stream), frame.Meta{Framing: frame.HTTP, Signal: frame.Reset, Code: code, Text: codeName(code)})
	h.c.closeStream(f.stream)
	return true
}

// giveGoAway emits the GOAWAY that is next.
func giveGoAway(h *half, payload []byte) bool {
	if len(payload) < 8 {
		return h.loseRest(frame.ErrMalformed, "a GOAWAY of %d bytes", len(payload))
	}
	h.pos += frameHeader + len(payload)
	code := binary.BigEndian.Uint32(payload[4:])
	text := codeName(code)
	if debug := payload[8:]; len(debug) > 0 {
		text += ": " + string(debug[:min(len(debug), 256)])
	}
	h.give(0, frame.Meta{Framing: frame.HTTP, Signal: frame.GoAway, Code: code, Text: text})
	return true
}

func wanted(kind byte) bool {
	return kind == h2Headers || kind == h2PushPromise || kind == h2Continuation || kind == h2Reset || kind == h2GoAway
}

// unpadded returns the part of a header block that a frame holds.
func unpadded(f h2Frame, payload []byte) ([]byte, bool) {
	skip, pad := 0, 0
	if f.flags&padded != 0 {
		if len(payload) == 0 {
			return nil, false
		}
		skip, pad = 1, int(payload[0])
	}
	switch {
	case f.kind == h2PushPromise:
		skip += 4
	case f.flags&priority != 0:
		skip += 5
	}
	if skip+pad > len(payload) {
		return nil, false
	}
	return payload[skip : len(payload)-pad], true
}

// headers handles a header block once it is complete.
func (p *h2) headers(h *half, f h2Frame, n int) bool {
	if p.block == nil {
		p.block = []byte{}
	}
	if f.flags&endHeaders == 0 {
		h.advance(n)
		return true
	}
	p.fields, p.size = nil, 0
	_, err := p.header.Write(p.block)
	if err == nil {
		err = p.header.Close()
	}
	p.block = nil
	switch {
	case err != nil:
		return h.loseRest(frame.ErrMalformed, "an HTTP/2 header block that cannot be read: %v", err)
	case p.size > maxBlock:
		return h.loseRest(frame.ErrTooLarge, "the HTTP/2 header fields are over %d bytes", maxBlock)
	case p.blockOf.kind == h2PushPromise:
		h.advance(n)
		return true
	}
	p.head(h, n)
	return true
}

// head emits the head, or the trailers, of a stream, which end with the next
// n bytes.
func (p *h2) head(h *half, n int) {
	id := p.blockOf.stream
	s := h.c.stream(id)
	if b := s.bodies[h.dir]; b != nil { // a head after a body ends it
		b.endBody(h)
		s.bodies[h.dir] = nil
	}
	h.pos += n
	head, signal := headOf(p.fields)
	h.give(int64(id), frame.Meta{Framing: frame.HTTP, Signal: signal, Head: head})
	switch signal {
	case frame.Request:
		s.headOnly = head.Method() == "HEAD"
	case frame.Response:
		s.bare = LeavesBody(head) && !s.headOnly && !IsGRPC(head)
	default:
		s.bare = false
	}
	last := p.blockOf.flags&endStream != 0
	if signal != frame.Trailers && !strings.HasPrefix(head.Status(), "1") && !last {
		b := &body{}
		b.choose(int64(id), signal, head)
		s.bodies[h.dir] = b
	}
	if last {
		h.c.endStream(h, id)
	}
}

// headOf makes a head of fields. Pseudo-header fields become its first line.
func headOf(fields []frame.Field) (*frame.Head, frame.Signal) {
	pseudo := map[string]string{}
	head := &frame.Head{}
	for _, f := range fields {
		if name, ok := strings.CutPrefix(f.Name, ":"); ok {
			pseudo[name] = f.Value
			if name == "authority" {
				head.Fields = append(head.Fields, frame.Field{Name: "host", Value: f.Value})
			}
			continue
		}
		head.Fields = append(head.Fields, f)
	}
	switch {
	case pseudo["status"] != "":
		head.Start = "HTTP/2 " + pseudo["status"]
		return head, frame.Response
	case pseudo["method"] != "":
		path := pseudo["path"]
		if path == "" {
			path = pseudo["authority"]
		}
		head.Start = fmt.Sprintf("%s %s HTTP/2", pseudo["method"], path)
		return head, frame.Request
	}
	return head, frame.Trailers
}

// codes are the names of RFC 9113, 7.
var codes = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
	"FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
	"INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// Cancel is the code of a stream that its reader has cancelled.
const Cancel = 8

func codeName(code uint32) string {
	if int64(code) < int64(len(codes)) {
		return codes[code]
	}
	return fmt.Sprintf("code %d", code)
}

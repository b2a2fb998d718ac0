package carrier

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"io"
	"slices"

	"github.com/wirectl/wirectl/frame"
)

// ws is one direction of a WebSocket after its upgrade.
type ws struct {
	left     int64 // bytes to skip of a frame that is too large
	opcode   frame.Opcode
	deflated bool
	broken   bool // the current message has a part that is too large
	whole    span // the message, if it is fragmented
	inflate  inflater
}

// A frame of a WebSocket.
type wsFrame struct {
	fin, rsv1 bool
	opcode    byte
	start     int // where the payload begins
	size      uint64
	masked    bool
	key       [4]byte
}

const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10
)

// parse parses the header of a frame. It returns false if it is incomplete.
func (f *wsFrame) parse(data []byte) bool {
	if len(data) < 2 {
		return false
	}
	f.fin, f.rsv1 = data[0]&0x80 != 0, data[0]&0x40 != 0
	f.opcode, f.masked = data[0]&0x0f, data[1]&0x80 != 0
	f.start, f.size = 2, uint64(data[1]&0x7f)
	switch f.size {
	case 126:
		f.start = 4
	case 127:
		f.start = 10
	}
	head := f.start
	if f.masked {
		f.start += 4
	}
	if len(data) < f.start {
		return false
	}
	switch f.size {
	case 126:
		f.size = uint64(binary.BigEndian.Uint16(data[2:]))
	case 127:
		f.size = binary.BigEndian.Uint64(data[2:])
	}
	if f.masked {
		copy(f.key[:], data[head:])
	}
	return true
}

func (w *ws) parseNext(h *half) bool {
	data := h.rest()
	if w.left > 0 {
		n := int(min(w.left, int64(len(data))))
		h.advance(n)
		if w.left -= int64(n); w.left == 0 {
			h.gap(h.skip)
			h.skip = nil
		}
		return n > 0
	}
	var f wsFrame
	if len(data) >= 2 && data[0]&0x30 != 0 || len(data) >= 1 && !knownOpcode(data[0]&0x0f) {
		return h.loseRest(frame.ErrMalformed, "not a WebSocket frame: it begins with 0x%02x", data[0])
	}
	switch {
	case !f.parse(data):
		return false
	case f.opcode >= opClose && (f.size > 125 || !f.fin):
		return h.loseRest(frame.ErrMalformed, "a WebSocket control frame that is too long or fragmented")
	case f.size > 1<<62:
		return h.loseRest(frame.ErrMalformed, "a WebSocket frame of %d bytes", f.size)
	case f.size > uint64(h.c.limit) || f.opcode < opClose && uint64(len(w.whole.data))+f.size > uint64(h.c.limit):
		w.pass(h, &f)
		return true
	case uint64(len(data)-f.start) < f.size:
		return false
	}
	return w.frame(h, &f)
}

// pass starts skipping a frame that is too large, or whose message is.
func (w *ws) pass(h *half, f *wsFrame) {
	h.skip = h.tooLarge(uint64(len(w.whole.data)) + f.size)
	if f.rsv1 || f.opcode == opContinuation && w.deflated {
		w.inflate.lose()
	}
	w.whole.reset()
	w.broken, w.opcode = !f.fin, frame.NoOpcode
	if w.broken {
		w.opcode = frame.BinMsg
	}
	h.advance(f.start)
	w.left = int64(f.size)
}

func knownOpcode(op byte) bool { return op <= opBinary || opClose <= op && op <= opPong }

func (w *ws) endInput(h *half) (bool, string) {
	switch {
	case len(h.rest()) > 0 || w.left > 0:
		return false, "a WebSocket frame"
	case w.opcode != frame.NoOpcode:
		return false, "a WebSocket message"
	}
	return true, ""
}

// frame handles a complete frame.
func (w *ws) frame(h *half, f *wsFrame) bool {
	begin := h.pos + f.start
	end := begin + int(f.size)
	if f.opcode >= opClose {
		h.pos = end
		w.control(h, f, begin, end)
		return true
	}
	switch first := f.opcode != opContinuation; {
	case w.broken:
		h.advance(end - h.pos)
		w.broken = !f.fin
		if f.fin {
			w.opcode = frame.NoOpcode
		}
		return true
	case first && w.opcode != frame.NoOpcode:
		return h.loseRest(frame.ErrMalformed, "a WebSocket message begins inside another")
	case !first && w.opcode == frame.NoOpcode:
		return h.loseRest(frame.ErrMalformed, "a continuation without a WebSocket message")
	case first:
		w.opcode, w.deflated = frame.Opcode(f.opcode), f.rsv1
	}
	if f.fin && len(w.whole.data) == 0 {
		h.pos = end
		w.message(h, f, begin, end)
		w.opcode = frame.NoOpcode
		return true
	}
	w.whole.data = append(w.whole.data, h.buf[begin:end]...)
	unmask(w.whole.data[len(w.whole.data)-int(f.size):], f)
	if !f.fin {
		h.advance(end - h.pos)
		return true
	}
	h.pos = end
	out := h.give(0, frame.Meta{Framing: frame.WS, Opcode: w.opcode})
	w.set(h, out, h.c.keepBytes(w.whole.data))
	w.whole.reset()
	w.opcode = frame.NoOpcode
	return true
}

// message emits a message of one frame.
func (w *ws) message(h *half, f *wsFrame, begin, end int) {
	payload := h.buf[begin:end]
	out := h.give(0, frame.Meta{Framing: frame.WS, Opcode: w.opcode})
	if !f.masked && !w.deflated {
		out.Start, out.End = len(out.Raw)-(end-begin), len(out.Raw)
		h.inner(payload)
		return
	}
	if f.masked {
		payload = h.c.keepBytes(payload)
		unmask(payload, f)
	}
	w.set(h, out, payload)
}

// set makes data, after decompression, the payload of a message.
func (w *ws) set(h *half, out *frame.Frame, data []byte) {
	if w.deflated {
		plain, err := w.inflate.bytes(data, h.c.limit)
		if err != nil {
			out.Flaw = h.fault(frame.ErrMalformed, "the compressed WebSocket message is damaged: %v", err)
			out.Meta.Signal = frame.Damaged
			apart(out, data)
			return
		}
		data = h.c.keepBytes(plain)
		h.c.unpacked += len(plain)
		out.Meta.Encoding = "deflate"
	}
	apart(out, data)
	h.inner(data)
}

func (w *ws) control(h *half, f *wsFrame, begin, end int) {
	m := frame.Meta{Framing: frame.WS}
	payload := h.buf[begin:end]
	if f.masked {
		payload = h.c.keepBytes(payload)
		unmask(payload, f)
	}
	switch f.opcode {
	case opPing:
		m.Signal = frame.Ping
	case opPong:
		m.Signal = frame.Pong
	default:
		m.Signal = frame.Close
		if len(payload) >= 2 {
			m.Code, m.Text = uint32(binary.BigEndian.Uint16(payload)), string(payload[2:])
		}
	}
	out := h.give(0, m)
	if f.masked {
		apart(out, payload)
	} else {
		out.Start = len(out.Raw) - len(payload)
	}
}

// Refuses reports whether a frame of the unit closes a WebSocket because of an error of the
// controller.
func Refuses(f *frame.Frame) bool {
	if f.Meta == nil || f.Meta.Framing != frame.WS || f.Meta.Signal != frame.Close || f.Dir != frame.U2C {
		return false
	}
	return RefusesBy(int(f.Meta.Code))
}

// RefusesBy reports whether a WebSocket close code blames the other side: see RFC 6455,
// section 7.4.1.
func RefusesBy(code int) bool {
	return slices.Contains([]int{1002, 1003, 1007, 1008, 1009}, code)
}

// unmask undoes the mask of a payload.
func unmask(data []byte, f *wsFrame) {
	if f.masked {
		for i := range data {
			data[i] ^= f.key[i&3]
		}
	}
}

// Split returns the frames that a WebSocket message consists of, like a Carrier does, or the
// message itself. A limit of 0 is the default.
func Split(message frame.Frame, limit int) []frame.Frame {
	limit = cmp.Or(limit, frame.DefaultLimit)
	frames := []frame.Frame{message}
	if !consists(frame.Len32, message.Payload(), limit) {
		return frames
	}
	c := Carrier{limit: limit, frames: frames}
	h := half{c: &c}
	h.inner(message.Payload())
	return c.frames
}

// inner splits the message that was emitted last if it consists of frames. The first of
// them has the Raw of all.
func (h *half) inner(payload []byte) {
	framing := h.c.framing
	last := len(h.c.frames) - 1
	if framing == nil {
		if h.c.frames[last].Meta.Opcode == frame.TextMsg {
			return
		}
		framing = frame.Len32
	}
	if !consists(framing, payload, h.c.limit) {
		if h.c.framing != nil && h.c.frames[last].Flaw == nil {
			h.c.frames[last].Flaw = h.fault(frame.ErrMalformed, "a WebSocket message that does not consist of %s frames, %d at most", framing.Name(), maxWithin)
		}
		return
	}
	message := h.c.frames[last]
	h.c.frames = h.c.frames[:last]
	for n := 0; len(payload) > 0; n++ {
		var e frame.Extent
		_ = framing.Next(payload, h.c.limit, true, &e) // consists has checked it
		f := message
		m := *message.Meta
		m.Framing, m.Apart, m.Data = framing.Name(), true, payload[e.Start:e.End:e.End]
		f.Meta, f.Compressed, f.Flaw = h.c.meta(m), e.Compressed, e.Flaw
		if n > 0 {
			f.Offset += int64(len(f.Raw))
			f.Raw = f.Raw[len(f.Raw):]
		} else if !message.Meta.Apart && e.Raw == len(payload) {
			f.Meta.Apart, f.Meta.Data = false, nil
			f.Start, f.End = message.Start+e.Start, message.Start+e.End
		}
		if f.Meta.Apart {
			f.Start, f.End = len(f.Raw), len(f.Raw)
		}
		h.c.frames = append(h.c.frames, f)
		payload = payload[e.Raw:]
	}
}

// consists reports whether data consists of frames, and not too many.
func consists(framing frame.Framing, data []byte, limit int) bool {
	if len(data) == 0 {
		return false
	}
	for n := 0; len(data) > 0; n++ {
		var e frame.Extent
		if n == maxWithin {
			return false
		}
		if framing.Next(data, limit, true, &e) != nil || e.Raw == 0 || e.Gap {
			return false
		}
		data = data[e.Raw:]
	}
	return true
}

// An inflater decodes permessage-deflate. It always keeps the window; messages that were
// compressed without one do not use it. After a message that could not be read the window is
// empty, so that messages that refer to it are damaged, and not decoded wrongly.
type inflater struct {
	r      io.ReadCloser
	window []byte
}

const windowSize = 32 << 10

// tail ends a message like a block of deflate, and then the stream.
var tail = []byte("\x00\x00\xff\xff\x01\x00\x00\xff\xff")

func (f *inflater) bytes(data []byte, limit int) ([]byte, error) {
	in := io.MultiReader(bytes.NewReader(data), bytes.NewReader(tail))
	if f.r == nil {
		f.r = flate.NewReaderDict(in, f.window)
	} else if err := f.r.(flate.Resetter).Reset(in, f.window); err != nil {
		return nil, err
	}
	plain, err := readDecompressed(f.r, limit)
	if err != nil {
		f.lose()
		return nil, err
	}
	f.window = append(f.window, plain[max(0, len(plain)-windowSize):]...)
	if n := len(f.window) - windowSize; n > 0 {
		f.window = f.window[:copy(f.window, f.window[n:])]
	}
	return plain, nil
}

// lose records that a message could not be read.
func (f *inflater) lose() { f.window = f.window[:0] }

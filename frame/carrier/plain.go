package carrier

import "github.com/wirectl/wirectl/frame"

// plain streams have frames from their first byte on.
type plain struct{}

func (plain) next(h *half) bool {
	data := h.rest()
	if len(data) == 0 {
		return false
	}
	framing := h.c.framing
	if framing == nil {
		h.pos = len(h.buf)
		f := h.frame()
		f.Start, f.End = 0, len(f.Raw)
		return true
	}
	var e frame.Extent
	if err := framing.Next(data, h.c.limit, h.eof, &e); err != nil {
		return h.fail(err.Err, "%s", err.Detail)
	}
	if e.Raw == 0 {
		return false
	}
	h.pos += e.Raw
	if e.Gap {
		h.gap(nil)
		return true
	}
	f := h.frame()
	f.Start, f.End, f.Compressed, f.Flaw = e.Start, e.End, e.Compressed, e.Flaw
	return true
}

func (plain) end(h *half) (bool, string) { return len(h.rest()) == 0, "a frame" }

// frame gives out a frame of which the carrier has nothing to say.
func (h *half) frame() *frame.Frame {
	h.count++
	h.c.frames = append(h.c.frames, frame.Frame{
		Raw: h.buf[h.raw:h.pos:h.pos], Offset: h.base + int64(h.raw), Dir: h.dir,
	})
	h.raw = h.pos
	return &h.c.frames[len(h.c.frames)-1]
}

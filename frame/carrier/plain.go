package carrier

import "github.com/wirectl/wirectl/frame"

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

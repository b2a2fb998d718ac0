package recording

import (
	"fmt"
	"io"

	"github.com/wirectl/wirectl/capture"
)

// carried makes a record of the next frame that the carrier gives out, which is
// fed with what is known of the current stream and, once all of it is, with its
// end.
func (c *conn) carried(s *stream) (bool, error) {
	for len(c.frames) == 0 && !s.ended {
		n := s.known - s.pos
		if c.drain {
			n = maxText
		}
		if n <= 0 {
			return false, nil
		}
		if s.text == nil {
			s.text = make([]byte, maxText)
		}
		got, err := io.ReadFull(s.file, s.text[:min(n, maxText)])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return false, fmt.Errorf("%s: %w", c.name(streams[c.current].file), err)
		}
		s.pos += int64(got)
		if got > 0 {
			c.frames = c.carrier.Feed(c.current, s.text[:got])
			continue
		}
		s.ended = true
		c.frames = c.carrier.End(c.current)
	}
	if len(c.frames) == 0 {
		return false, nil
	}
	c.record(capture.Frame)
	number, dir := c.rec.Conn, c.rec.Dir
	c.rec.Frame = c.frames[0]
	c.rec.Conn, c.rec.Dir = number, dir
	if m := c.rec.Meta; m != nil {
		c.rec.Framing = m.Framing
	}
	c.frames = c.frames[1:]
	return true, nil
}

package recording

import "io"

// carried makes a record of the next frame that the carrier gives out, which is
// fed with what is known of the current stream and, once all of it is, with its
// end.
func (c *conn) carried(s *stream) (bool, error) {
	if len(c.frames) == 0 {
		c.frames = c.carrier.More()
	}
	for len(c.frames) == 0 && !s.ended {
		text, err := c.more(s)
		switch {
		case err == io.EOF:
			s.ended = true
			c.frames = c.carrier.End(c.current)
		case len(text) == 0 || err != nil:
			return false, err
		default:
			c.frames = c.carrier.Feed(c.current, text)
		}
	}
	if len(c.frames) == 0 {
		return false, nil
	}
	c.frame(&c.frames[0])
	if m := c.rec.Meta; m != nil {
		c.rec.Framing = m.Framing
	}
	c.frames = c.frames[1:]
	return true, nil
}

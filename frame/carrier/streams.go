package carrier

import "github.com/wirectl/wirectl/frame"

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

package door

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/frame"
)

// A Stream is a connection for a server of its own that reads and writes as it
// likes: it is told the end of the stream when the door is about to shut, so
// that it finishes what it has taken in.
type Stream struct {
	net.Conn
	stopping func() bool
	times    Times
	tap      *publish.Conn
	in, out  split
}

// Stream returns the connection as one. What passes is published as frames of
// length-prefixed messages; the tap may be nil.
func (c *Conn) Stream(tap *publish.Conn) *Stream {
	c.idle.Store(true) // to be interrupted
	return NewStream(c.Conn, c.server.Stopping, c.server.Times, tap)
}

// NewStream returns a connection as a stream. It has to be interrupted by a read
// deadline that has passed once stopping is true.
func NewStream(nc net.Conn, stopping func() bool, t Times, tap *publish.Conn) *Stream {
	t.defaults()
	s := &Stream{Conn: nc, stopping: stopping, times: t, tap: tap}
	s.in.dir, s.out.dir = frame.C2U, frame.U2C
	return s
}

func (s *Stream) Read(p []byte) (int, error) {
	_ = s.SetReadDeadline(time.Now().Add(s.times.Idle))
	if s.stopping() {
		return 0, io.EOF
	}
	n, err := s.Conn.Read(p)
	s.in.write(s.tap, p[:n])
	if n == 0 && s.stopping() && errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}

func (s *Stream) Write(p []byte) (int, error) {
	_ = s.SetWriteDeadline(time.Now().Add(s.times.Write))
	s.out.write(s.tap, p)
	return s.Conn.Write(p)
}

// CloseWrite ends what is written, where the transport can.
func (s *Stream) CloseWrite() error {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// A split finds the frames in what passes, for the tap.
type split struct {
	dir    frame.Dir
	rest   []byte
	broken bool
}

func (s *split) write(tap *publish.Conn, p []byte) {
	if tap == nil || s.broken {
		return
	}
	s.rest = append(s.rest, p...)
	for len(s.rest) > 0 {
		var e frame.Extent
		err := frame.Len32.Next(s.rest, frame.DefaultLimit, false, &e)
		if err != nil { // from here on there are no frames
			s.broken, s.rest = true, nil
			return
		}
		if e.Raw == 0 {
			return
		}
		tap.Frame(s.dir, s.rest[:e.Raw], e.Start)
		s.rest = append(s.rest[:0], s.rest[e.Raw:]...)
	}
}

package door

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/publish"
	"github.com/wirectl/wirectl/frame"
)

// A Stream is a connection for a server of its own that reads and writes as it
// likes: it is told the end of the stream when the door is about to shut, so
// that it finishes what it has taken in.
type Stream struct {
	net.Conn
	// Due, if not nil, reports whether an answer is due, so that one will be
	// written for sure. It is not called while Write runs.
	Due func() bool

	stopping func() bool
	times    Times
	tap      *publish.Conn
	in, out  split
	message  progress // in what is read

	raw     syscall.RawConn // nil where it cannot be watched
	ended   atomic.Bool     // the client has ended its stream
	writing sync.Mutex
	early   int // how many bytes of the next answer are written already
}

// Stream returns the connection as one. What passes is published as frames of
// length-prefixed messages; the tap may be nil.
func (c *Conn) Stream(tap *publish.Conn) *Stream {
	c.idle.Store(true) // to be interrupted
	s := NewStream(c.Conn, c.server.Stopping, c.server.Times, tap)
	s.raw = c.raw
	return s
}

// NewStream returns a connection as a stream of length-prefixed messages. It has
// to be interrupted by a read deadline that has passed once stopping is true.
func NewStream(nc net.Conn, stopping func() bool, t Times, tap *publish.Conn) *Stream {
	t.SetDefaults()
	s := &Stream{Conn: nc, stopping: stopping, times: t, tap: tap}
	s.in.dir, s.out.dir = frame.C2U, frame.U2C
	return s
}

// Read reads what the client says, and shows it to the tap. Once the door is
// stopping the stream has ended; a client that has gone is [broker.ErrGone].
func (s *Stream) Read(p []byte) (int, error) {
	_ = s.SetReadDeadline(s.message.deadline(&s.times))
	if s.stopping() {
		return 0, io.EOF
	}
	n, err := s.Conn.Read(p)
	s.message.add(p[:n])
	s.in.write(s.tap, p[:n])
	if n == 0 && s.stopping() && errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	} else if err == io.EOF && s.isGone() { //nolint:errorlint // a read's own
		err = broker.ErrGone
	}
	return n, err
}

// Write writes whole messages.
func (s *Stream) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.SetWriteDeadline(time.Now().Add(s.times.Write))
	s.out.write(s.tap, p)
	n, err := s.Conn.Write(p[s.early:])
	n, s.early = n+s.early, 0
	if s.ended.Load() && !s.Due() {
		_ = s.SetReadDeadline(longAgo) // nobody need wait for what the client does
	}
	return n, err
}

// isGone finds out whether a client that has ended its stream is gone, or goes
// while an answer is due: the first byte of that, which is 0, since no message is
// that large, is written ahead, and a client that is gone refuses it. It returns
// when nothing is due any more.
func (s *Stream) isGone() (gone bool) {
	if s.raw == nil || !canWatch || s.Due == nil {
		return false
	}
	s.ended.Store(true)
	if !s.writeEarly() {
		// What was read last may be on its way to those who answer.
		_ = s.SetReadDeadline(time.Now().Add(watchDelay))
		if s.breaks() || !s.writeEarly() {
			return false
		}
	}
	_ = s.SetReadDeadline(time.Time{})
	if s.stopping() || !s.Due() { // since before that, so that nobody would end the wait
		return false
	}
	return s.breaks()
}

// breaks waits until the connection is broken, or a deadline passes, and reports
// which.
func (s *Stream) breaks() (broken bool) {
	_ = s.raw.Read(func(fd uintptr) bool {
		_, broken = state(fd)
		return broken
	})
	return broken
}

// writeEarly reports whether a byte was written.
func (s *Stream) writeEarly() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.early > 0 || !s.Due() {
		return false
	}
	_ = s.SetWriteDeadline(time.Now().Add(s.times.Write))
	s.early, _ = s.Conn.Write([]byte{0})
	return true
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

// A progress is how far a peer has come with a message, so that one that never
// ends it is let go: a peer may be silent between two messages alone.
type progress struct {
	head  [4]byte
	have  int   // bytes of the head
	left  int64 // bytes of the message behind it
	size  int64
	begun time.Time
}

func (m *progress) deadline(t *Times) time.Time {
	if m.have == 0 && m.left == 0 {
		return time.Now().Add(t.Idle)
	}
	return m.begun.Add(scaled(t.Read, int(m.size)))
}

func (m *progress) add(p []byte) {
	for len(p) > 0 {
		if m.left > 0 {
			n := min(m.left, int64(len(p)))
			m.left, p = m.left-n, p[n:]
			continue
		}
		if m.have == 0 {
			m.begun, m.size = time.Now(), 0
		}
		n := copy(m.head[m.have:], p)
		m.have, p = m.have+n, p[n:]
		if m.have == len(m.head) {
			m.left, m.have = int64(binary.BigEndian.Uint32(m.head[:])), 0
			m.size = m.left
		}
	}
}

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
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/frame"
)

// A Stream is a connection for a server that reads and writes by itself. When the door is
// about to shut, the server reads the end of the stream, so that it finishes its work.
type Stream struct {
	net.Conn
	// Due, if not nil, reports whether an answer is certain to be written. It is not called
	// while Write runs.
	Due func() bool

	stopping func() bool
	times    Times
	tap      *observe.Conn
	in, out  split
	message  progress // of the message that is being read

	raw     syscall.RawConn // nil if the connection cannot be watched
	ended   atomic.Bool     // the client has closed its side
	writing sync.Mutex
	early   int // how many bytes of the next answer are written already
}

// Stream returns the connection as a stream. Its length-prefixed messages are published as
// frames; the tap may be nil.
func (c *Conn) Stream(tap *observe.Conn) *Stream {
	c.idle.Store(true) // to be interrupted
	s := NewStream(c.Conn, c.server.Stopping, c.server.Times, tap)
	s.raw = c.raw
	return s
}

// NewStream returns a connection as a stream of length-prefixed messages. Once stopping
// returns true, the caller must interrupt it by a read deadline in the past.
func NewStream(nc net.Conn, stopping func() bool, t Times, tap *observe.Conn) *Stream {
	t.SetDefaults()
	s := &Stream{Conn: nc, stopping: stopping, times: t, tap: tap}
	s.in.dir, s.out.dir = frame.C2U, frame.U2C
	return s
}

// Read reads from the client, and publishes it. Once the door is stopping it returns io.EOF;
// for a client that is gone it returns [broker.ErrGone].
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
		_ = s.SetReadDeadline(longAgo) // no need to watch the client any more
	}
	return n, err
}

// isGone reports whether a client that has closed its side is gone, or leaves while an
// answer is due. To find out it writes the first byte of the answer early: that is 0, since no
// message is so long, and the system of a client that is gone rejects it. It returns when no
// answer is due any more.
func (s *Stream) isGone() (gone bool) {
	if s.raw == nil || !canWatch || s.Due == nil {
		return false
	}
	s.ended.Store(true)
	if !s.writeEarly() {
		// The last message may not have reached the server yet.
		_ = s.SetReadDeadline(time.Now().Add(watchDelay))
		if s.breaks() || !s.writeEarly() {
			return false
		}
	}
	_ = s.SetReadDeadline(time.Time{})
	if s.stopping() || !s.Due() { // it changed before the deadline was removed: nothing would end the wait
		return false
	}
	return s.breaks()
}

// breaks waits until the connection is broken or a deadline passes, and reports whether it
// is broken.
func (s *Stream) breaks() (broken bool) {
	_ = s.raw.Read(func(fd uintptr) bool {
		_, broken = state(fd)
		return broken
	})
	return broken
}

// writeEarly writes the first byte of the next answer, and reports whether it did.
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

// CloseWrite closes the writing side, if the transport can.
func (s *Stream) CloseWrite() error {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Abort closes the connection as failed, if the transport can express that.
func (s *Stream) Abort(why error) error {
	if a, ok := s.Conn.(interface{ Abort(error) error }); ok {
		return a.Abort(why)
	}
	return s.Close()
}

// A split finds the frames in the bytes of one direction, for the tap.
type split struct {
	dir    frame.Dir
	rest   []byte
	broken bool
}

func (s *split) write(tap *observe.Conn, p []byte) {
	if tap == nil || s.broken {
		return
	}
	s.rest = append(s.rest, p...)
	for len(s.rest) > 0 {
		var e frame.Extent
		err := frame.Len32.Next(s.rest, frame.DefaultLimit, false, &e)
		if err != nil { // the rest cannot be split
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

// A progress tracks the message that a peer is sending. A peer may be silent only between
// messages: one that never completes a message is disconnected.
type progress struct {
	head      [4]byte
	have      int   // bytes of the head that were read
	left      int64 // bytes of the message that follow
	size      int64
	startedAt time.Time
}

func (m *progress) deadline(t *Times) time.Time {
	if m.have == 0 && m.left == 0 {
		return time.Now().Add(t.Idle)
	}
	return m.startedAt.Add(scaled(t.Read, int(m.size)))
}

func (m *progress) add(p []byte) {
	for len(p) > 0 {
		if m.left > 0 {
			n := min(m.left, int64(len(p)))
			m.left, p = m.left-n, p[n:]
			continue
		}
		if m.have == 0 {
			m.startedAt, m.size = time.Now(), 0
		}
		n := copy(m.head[m.have:], p)
		m.have, p = m.have+n, p[n:]
		if m.have == len(m.head) {
			m.left, m.have = int64(binary.BigEndian.Uint32(m.head[:])), 0
			m.size = m.left
		}
	}
}

package unit

import (
	"io"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/latis"
)

// A view records the frames of a unit.
type view struct {
	mu    sync.Mutex
	to    capture.Writer // or nil
	seq   int64
	conns int
}

// A seen records a connection. A nil one records nothing.
type seen struct {
	view    *view
	number  int
	offsets [3]int64
}

// open starts recording a connection.
func (v *view) open() *seen {
	if v.to == nil {
		return nil
	}
	v.mu.Lock()
	v.conns++
	s := &seen{view: v, number: v.conns}
	v.mu.Unlock()
	s.write(capture.Record{Kind: capture.Opened})
	return s
}

// frames records whole frames.
func (s *seen) frames(dir frame.Dir, raw []byte) {
	if s == nil {
		return
	}
	for len(raw) > 0 {
		n := latis.FrameSize(raw)
		f := frame.Frame{Raw: raw[:n], Start: min(4, n), End: n, Dir: dir}
		if n < 4 || int64(n) < 4+declared(raw) { // for a misbehaving unit
			f.Start, f.End, f.Gap, f.Flaw = 0, 0, true, frame.ErrTruncated
		}
		s.write(capture.Record{Kind: capture.Frame, Frame: f})
		raw = raw[n:]
	}
}

// close records the end of the connection, first in the direction of the side that ended it.
func (s *seen) close(first frame.Dir) {
	if s == nil {
		return
	}
	for _, dir := range []frame.Dir{first, first.Opposite()} {
		s.write(capture.Record{Kind: capture.HalfClosed, Frame: frame.Frame{Dir: dir}})
	}
}

func (s *seen) write(r capture.Record) {
	v := s.view
	v.mu.Lock()
	defer v.mu.Unlock()
	r.Time, r.Conn = time.Now(), s.number
	if r.Kind == capture.Frame {
		v.seq++
		r.Seq, r.Protocol, r.Framing = v.seq, latis.Protocol.Name(), frame.Len32.Name()
		r.Offset = s.offsets[r.Dir]
		s.offsets[r.Dir] += int64(len(r.Raw))
	}
	_ = v.to.Write(&r) // an observer must not disturb the unit
}

// A seenWriter records frames before it writes them, so that the answers come later.
type seenWriter struct {
	io.Writer
	seen *seen
}

func (w seenWriter) Write(p []byte) (int, error) {
	w.seen.frames(frame.U2C, p)
	return w.Writer.Write(p)
}

package store

import (
	"io"
	"time"

	"github.com/wirectl/wirectl/capture"
)

// Records reads some of the frames as a capture; see [capture.Reader].
type Records struct {
	session capture.Session
	list    []capture.Record
	next    int
}

// Records returns the frames of an exchange, or if it has none, the one of that
// number.
func (s *Store) Records(seq int64, mark uint32) *Records {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &Records{session: capture.Session{Created: time.Now()}}
	r := s.rows.of(mark)
	if r == nil {
		out.add(s, seq)
		return out
	}
	for n := max(r.first, s.frames.first); n <= r.last; n++ {
		if e := s.frames.at(n); e != nil && (e.of == mark || n == r.first || n == r.cancel) {
			out.add(s, n)
		}
	}
	return out
}

// add takes a frame that can be read again.
func (r *Records) add(s *Store, seq int64) {
	e := s.frames.at(seq)
	if e == nil {
		return
	}
	f, err := s.read(seq, e)
	if err != nil {
		return
	}
	w := s.wires[e.wire]
	rec := capture.Record{Kind: capture.Frame, Seq: seq, Time: s.since(e.time), Protocol: w.protocol.Name()}
	if w.framing != nil {
		rec.Framing = w.framing.Name()
	}
	rec.Frame = f.Clone()
	r.list = append(r.list, rec)
}

// Len is how many there are.
func (r *Records) Len() int { return len(r.list) }

// Session says nothing but when they were read.
func (r *Records) Session() *capture.Session { return &r.session }

// Next reads the next record.
func (r *Records) Next(rec *capture.Record) error {
	if r.next == len(r.list) {
		*rec = capture.Record{}
		return io.EOF
	}
	*rec = r.list[r.next]
	r.next++
	return nil
}

package store

import (
	"io"
	"time"

	"github.com/wirectl/wirectl/capture"
)

// Records reads some frames of the store as a capture; see [capture.Reader]. It reads each frame
// only when it is needed.
type Records struct {
	store   *Store
	session capture.Session
	seqs    []int64
	next    int
	gone    int
}

// RecordsOf returns the frames of an exchange and of its members, or only the frame of that
// number if there is no such exchange.
func (s *Store) RecordsOf(seq int64, mark uint32) *Records {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows.of(mark)
	if r == nil {
		return s.records([]int64{seq})
	}
	var seqs []int64
	for n := max(r.first, s.frames.first); n <= r.last; n++ {
		if e := s.frames.at(n); e != nil && (s.has(r, e) || n == r.first || n == r.cancel) {
			seqs = append(seqs, n)
		}
	}
	return s.records(seqs)
}

// Listed returns the frames of the list: those that match the filter, or all.
func (s *Store) Listed() *Records {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, total := s.listed()
	seqs := make([]int64, 0, total-first)
	for i := first; i < total; i++ {
		seqs = append(seqs, s.listedAt(i))
	}
	return s.records(seqs)
}

func (s *Store) records(seqs []int64) *Records {
	session := s.session
	session.Protocol, session.Framing = "", "" // each record has its own
	if session.Created.IsZero() {
		session.Created = time.Now()
	}
	return &Records{store: s, session: session, seqs: seqs}
}

// Len returns the number of frames.
func (r *Records) Len() int { return len(r.seqs) }

// Gone returns how many frames could not be read any more.
func (r *Records) Gone() int { return r.gone }

// Session returns the description of the capture.
func (r *Records) Session() *capture.Session { return &r.session }

// Next reads the next record whose bytes can still be read.
func (r *Records) Next(rec *capture.Record) error {
	for r.next < len(r.seqs) {
		seq := r.seqs[r.next]
		r.next++
		if r.store.record(seq, rec) {
			return nil
		}
		r.gone++
	}
	*rec = capture.Record{}
	return io.EOF
}

// record sets rec to the record of a frame, with its own copy of the bytes.
func (s *Store) record(seq int64, rec *capture.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.frames.at(seq)
	if e == nil {
		return false
	}
	f, err := s.readFrame(seq, e)
	if err != nil {
		return false
	}
	w := s.wires[e.wire]
	*rec = capture.Record{Kind: capture.Frame, Seq: seq, Time: s.since(e.time), Protocol: w.protocol.Name(), Frame: f.Clone()}
	rec.Written = e.written(rec.Time)
	if w.framing != nil {
		rec.Framing = w.framing.Name()
	}
	return true
}

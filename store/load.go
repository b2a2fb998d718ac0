package store

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/session"
)

// A Frame is a frame for the list.
type Frame struct {
	Seq            int64
	Time           int64 // stamp
	Conn           int
	Dir            frame.Dir
	Kind, ID, Ref  string
	Summary, Fault string
	Size           int64
	Mark           uint32 // of its exchange; 0 if it has none
	Bad, Gap       bool
	Finding        bool
	Bookmark       bool
}

// load reads a frame into the store's item, which is valid until the next frame is read.
func (s *Store) load(seq int64, e *entry) error {
	f, err := s.readFrame(seq, e)
	if err != nil {
		return err
	}
	w := s.wires[e.wire]
	it := s.item
	it.Seq, it.Framing = seq, w.framing
	it.Time, it.First, it.Previous, it.Written = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if s.timed {
		it.Time, it.First = time.Unix(0, e.time), time.Unix(0, s.first)
		it.Written = e.written(it.Time)
	}
	it.Read(f, w.protocol)
	return nil
}

// readFrame returns a frame with its original bytes. They are valid until the next call.
func (s *Store) readFrame(seq int64, e *entry) (*frame.Frame, error) {
	if e.flags&placed != 0 {
		return s.readAgain(e)
	}
	raw, err := s.bytes.readKept(s.raw[:0], e.at, int(e.raw))
	if err != nil {
		return nil, err
	}
	if s.raw = raw; cap(raw) > maxShown {
		s.raw = nil
	}
	f := &frame.Frame{
		Raw: raw, Start: int(e.start), End: int(e.end), Offset: e.offset, Conn: int(e.conn), Dir: e.dir(),
		Compressed: e.flags&compressed != 0, Gap: e.flags&gap != 0,
	}
	return f, s.metas.restore(f, seq, &s.bytes)
}

// readAgain reads a frame from the capture.
func (s *Store) readAgain(e *entry) (*frame.Frame, error) {
	var r capture.Record
	if w := s.wires[e.wire]; w.framing != nil {
		r.Framing = w.framing.Name()
	}
	if err := s.source.ReadAt(e.at, &r); err != nil {
		return nil, err
	}
	if len(r.Raw) != int(e.raw) || r.Offset != e.offset {
		return nil, errChanged
	}
	f := r.Frame
	f.Conn, f.Dir, f.Flaw = int(e.conn), e.dir(), nil
	return &f, nil
}

var errChanged = errors.New("the capture has changed since it was read")

// maxShown is the largest frame that is read again for one line of a list.
const maxShown = 1 << 20

// frame returns a frame for the list.
func (s *Store) frame(seq int64) *Frame {
	e := s.frames.at(seq)
	if e == nil {
		return nil
	}
	f := s.cache[seq]
	if f == nil {
		f = s.describe(seq, e)
		if len(s.cache) >= maxCached {
			clear(s.cache)
		}
		s.cache[seq] = f
	}
	c := *f // the cache lacks fields that may change
	c.Mark, c.Finding, c.Bookmark = e.of, e.flags&finding != 0, e.flags&bookmark != 0
	return &c
}

const maxCached = 2048

func (s *Store) describe(seq int64, e *entry) *Frame {
	f := &Frame{
		Seq: seq, Time: e.time, Conn: int(e.conn), Dir: e.dir(), Kind: s.kinds.list[e.kind],
		Size: int64(e.size), Bad: e.flags&bad != 0, Gap: e.flags&gap != 0,
	}
	if max(e.raw, e.size) > maxShown {
		f.Summary = "(too large for a line)"
		if r := s.rows.of(e.of); r != nil {
			f.ID = s.exchange(r).ID
		}
		return f
	}
	if err := s.load(seq, e); err != nil {
		f.Summary = "(" + err.Error() + ")"
		return f
	}
	m := &s.item.Message
	f.ID, f.Ref, f.Summary = string(m.ID.Text), string(m.Ref.Text), string(s.item.Summary())
	if s.item.Err != nil {
		f.Fault = s.item.Err.Error()
	}
	return f
}

// Frames are some frames of the list. A frame keeps its index when older ones are dropped.
type Frames struct {
	First int64 // index of the oldest frame in the list
	From  int64 // index of the first one of these
	Total int64 // index after the newest one
	List  []Frame
}

// Frames returns n frames of the list, starting at that index. With a filter the list has
// only frames that match.
func (s *Store) Frames(from int64, n int) Frames {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, total := s.listed()
	from = max(first, min(from, total-int64(n)))
	out := Frames{First: first, From: from, Total: total}
	for i := from; i < min(from+int64(n), total); i++ {
		if f := s.frame(s.listedAt(i)); f != nil {
			out.List = append(out.List, *f)
		}
	}
	return out
}

// listed returns the index of the oldest frame in the list, and that after the newest.
func (s *Store) listed() (first, total int64) {
	if s.filter != nil {
		return s.hits.dropped, s.hits.dropped + int64(len(s.hits.seqs))
	}
	return s.frames.dropped, s.frames.total
}

func (s *Store) listedAt(i int64) int64 {
	if s.filter != nil {
		return s.hits.seqs[i-s.hits.dropped]
	}
	return s.frames.first + i - s.frames.dropped
}

// A Detail is a frame with its bytes, its exchange and its findings.
type Detail struct {
	Frame
	Raw        []byte
	Start, End int
	Offset     int64
	Payload    []byte // without its compression
	JSON       []byte // its JSON form; nil if it has none
	Wire       string // framing and protocol
	Peer       string // the label of its connection
	Time       time.Time
	Written    time.Time
	Err        string // why the frame cannot be read again
	Exchange   *Exchange
	Ledger     []Event
	Findings   []Finding
}

// An Event is a frame of an exchange.
type Event struct {
	Frame
	Since int64 // the stamp of the exchange's first frame
	After bool  // it came after the cancel
}

const (
	// maxLedger bounds roughly how many frames of an exchange are listed, and maxAhead how far
	// after the selected one they are searched for.
	maxLedger = 500
	maxAhead  = 20_000
)

// Detail returns everything known about a frame, or nil if it is not in the index.
func (s *Store) Detail(seq int64) *Detail {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.outline(seq)
	if d == nil {
		return nil
	}
	e := s.frames.at(seq)
	if err := s.load(seq, e); err != nil {
		d.Err = err.Error()
		return d
	}
	it := s.item
	d.Raw, d.Payload, d.Written = bytes.Clone(it.Frame.Raw), bytes.Clone(it.Payload), it.Written
	d.ID, d.Ref = string(it.Message.ID.Text), string(it.Message.Ref.Text)
	if form, _, err := it.JSON(); err == nil {
		d.JSON = bytes.Clone(form)
	}
	if it.Err != nil {
		d.Fault = it.Err.Error()
	}
	return d
}

// Outline describes a frame without reading it again: it lacks the bytes and everything
// derived from them. It is nil if the frame is not in the index.
func (s *Store) Outline(seq int64) *Detail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outline(seq)
}

func (s *Store) outline(seq int64) *Detail {
	e := s.frames.at(seq)
	if e == nil {
		return nil
	}
	d := &Detail{Frame: *s.frame(seq), Start: int(e.start), End: int(e.end), Offset: e.offset}
	w := s.wires[e.wire]
	d.Wire = w.protocol.Name()
	if w.framing != nil {
		d.Wire += " over " + w.framing.Name()
	}
	d.Time = s.since(e.time)
	if p := s.peers[d.Conn]; p != nil {
		d.Peer = s.label(p)
	}
	if r := s.rows.of(e.of); r != nil {
		x := s.exchange(r)
		d.Exchange, d.Ledger = &x, s.ledger(r, seq)
	}
	d.Findings = s.findingsOf(seq, e.of)
	return d
}

// has reports whether a frame belongs to an exchange or to one of its members.
func (s *Store) has(r *row, e *entry) bool {
	if e.of == r.mark || r.joined == 0 {
		return e.of == r.mark
	}
	of := s.rows.of(e.of)
	return of != nil && of.of == r.mark
}

// ledger lists frames of an exchange and of its members that are in the index: the first, the
// last ones, and those around a frame and around the cancel. It does not walk through all
// frames, because there may be many.
func (s *Store) ledger(r *row, around int64) (list []Event) {
	seqs := []int64{r.first, r.cancel, r.last}
	for _, from := range []int64{r.last, around, r.cancel} {
		for seq, n := from, 0; n < maxLedger/3; n++ {
			e := s.frames.at(seq)
			if e == nil || seq < r.first || !s.has(s.rows.operation(r), e) {
				break
			}
			if s.has(r, e) {
				seqs = append(seqs, seq)
			}
			if e.before == 0 {
				break
			}
			seq -= int64(e.before)
		}
	}
	for _, from := range []int64{around, r.cancel} {
		for seq, n := max(from, r.first), 0; seq <= min(r.last, from+maxAhead) && n < maxLedger/3; seq++ {
			if e := s.frames.at(seq); e != nil && s.has(r, e) {
				seqs = append(seqs, seq)
				n++
			}
		}
	}
	slices.Sort(seqs)
	for _, seq := range slices.Compact(seqs) {
		if s.frames.at(seq) != nil {
			list = append(list, Event{Frame: *s.frame(seq), Since: r.opened, After: r.asked != 0 && seq > r.cancel})
		}
	}
	return list
}

// OutcomeName returns the outcome of an exchange in a word or two. A question mark follows an
// inferred one.
func (x *Exchange) OutcomeName() string {
	switch {
	case x.Outcome.Inferred(), x.Assumed:
		return x.Outcome.String() + "?"
	case x.Outcome == session.Died:
	case x.Outcome == session.Open && x.Cancelled:
		return "cancelling"
	case x.Outcome == session.Open:
		return "in flight"
	case !x.Cancelled || x.Class == session.Confirmed:
	case x.Class == session.LateResult:
		return "late result"
	case x.Class == session.Pending:
		return "cancelled"
	case x.Class == session.Silent && x.Outcome.Stopped():
		return x.Outcome.String() // no answer is allowed
	default:
		return x.Class.String()
	}
	return x.Outcome.String()
}

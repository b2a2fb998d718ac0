package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/join"
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
	raw, err := s.bytes.Read(s.raw[:0], e.at, int(e.raw))
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
	Joined     int  // how many events JSON was joined from; 0 if it is that of the frame
	Missing    bool // others of them are no longer kept
	Part       bool // the end of the answer is missing
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

// maxEvents bounds the frames of an exchange from which an answer is joined, and atOnce is how
// many of them are read while nothing else can be.
const maxEvents, atOnce = 1 << 17, 256

// AnswerUpTo returns the details of the answer that a frame ends. That of a model in events is joined
// from them, without known secrets. Otherwise it is the frame that ends it, or else its last part.
func (s *Store) AnswerUpTo(last int64) *Detail {
	seqs, missing := s.answering(last)
	var j carried.ModelJoiner
	full, whole, ended := last, false, false
	for at := 0; at < len(seqs); at += atOnce {
		s.mu.Lock()
		for _, seq := range seqs[at:min(at+atOnce, len(seqs))] {
			e := s.frames.at(seq)
			if e == nil || s.load(seq, e) != nil {
				missing = true
				continue
			}
			ends := s.item.Message.Phase.Ends()
			if ended = ended || ends; len(s.item.Payload) > 0 && (ends || !whole) {
				full, whole = seq, ends
			}
			if p, ok := s.item.Protocol.(carried.ModelJudge); ok {
				j.Read(p, s.item.Payload, &s.item.Message)
			}
		}
		s.mu.Unlock()
	}
	d := s.Detail(full)
	if d == nil {
		return nil
	}
	if d.Part = !ended && d.Exchange != nil && d.Exchange.Outcome != session.Done; j.Events < 2 {
		return d
	}
	if joined := j.JSON(); joined != nil {
		d.Part = !j.Ended()
		d.JSON, d.Joined, d.Missing = []byte(s.trackers.Hide(string(joined))), j.Events, missing
	}
	return d
}

// answering returns the frames that answer the exchange of a frame, up to that one, and whether there
// were others before them.
func (s *Store) answering(last int64) (seqs []int64, missing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.frames.at(last)
	if e == nil {
		return nil, false
	}
	r := s.rows.of(e.of)
	for r != nil && last >= r.first && s.has(s.rows.operation(r), e) {
		if e.of == r.mark && e.dir() != frame.Dir(r.opener) {
			seqs = append(seqs, last)
		}
		if e.before == 0 {
			break
		}
		last -= int64(e.before)
		if e = s.frames.at(last); e == nil || len(seqs) == maxEvents {
			missing = last > r.first
			break
		}
	}
	slices.Reverse(seqs)
	return seqs, missing
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

// A Source is a capture from which any frame can be read again.
type Source interface {
	// ReadAt reads the frame that begins at a place; see [capture.Placed]. Its bytes are valid
	// until the next call.
	ReadAt(place int64, r *capture.Record) error
}

// ReadAgain sets the source of frames, so that their bytes need not be kept. It must be called
// before Begin; the source is used until Close.
func (s *Store) ReadAgain(from Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = from
}

// Take reads a whole session. It returns the error that ended it early, if any.
func (s *Store) Take(ctx context.Context, in decode.Input, cfg decode.Config) error {
	s.Begin(in)
	err := s.Read(ctx, in, cfg)
	s.End(err, errors.Is(err, capture.ErrCut) || ctx.Err() != nil)
	return err
}

// Begin begins a session. Earlier sessions stay in the store; their connections have other
// numbers.
func (s *Store) Begin(in decode.Input) {
	defer s.lockToChange()()
	if in.Capture != nil {
		altered := s.session.Altered
		s.session = *in.Capture.Session()
		s.session.Altered = s.session.Altered || altered
	}
	s.ended, s.end = false, nil
	s.follower = track.NewFollower(&s.trackers, in, s.opts.Config)
}

// Read reads the frames of the session that has begun.
func (s *Store) Read(ctx context.Context, in decode.Input, cfg decode.Config) error {
	cfg.InOrder, cfg.Around, cfg.Event = true, s.batch, s.among
	cfg.FirstSeq = s.frames.nextSeq() // only this goroutine adds any
	_, err := decode.Run(ctx, in, io.Discard, cfg, func() decode.View { return s.view })
	return err
}

// batch passes the items of one read to the view.
func (s *Store) batch(show func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	show()
	s.version.Add(1)
}

// among handles an event in its place among the frames, with the lock held.
func (s *Store) among(r *capture.Record) {
	if place, ok := capture.ParsePlace(r); ok {
		s.belongs(s.peer(r.Conn), &place)
	} else if _, ok := capture.ParseBetween(r); ok { // a finding
	} else if _, ok := tap.ParseNote(r); !ok { // notes of taps are for [live.Wire]
		s.peer(r.Conn).addEvent(s, r)
	}
	s.follower.Event(r)
}

// view handles an item, with the lock held; see [decode.View].
func (s *Store) view(dst []byte, it *decode.Item) ([]byte, error) {
	s.indexFrame(it)
	if !it.Frame.Gap && (it.Err == nil || it.Err == it.Frame.Flaw) {
		s.offer.AddMessage(it.Seq, &it.Message, it.Payload)
	}
	s.asking = it.Message.Text
	dst, err := s.follower.View(dst, it)
	s.asking = nil
	s.traffic.flies(int64(len(s.rows.open)))
	return dst, err
}

// indexFrame adds a frame to the index.
func (s *Store) indexFrame(it *decode.Item) {
	f := it.Frame
	e := s.frames.addFrame(it.Seq)
	*e = entry{
		offset: f.Offset, conn: uint32(f.Conn), start: uint32(f.Start), end: uint32(f.End),
		wire: s.wireOf(it), flags: flags(f.Dir),
	}
	if f.Dir == frame.DirUnknown {
		e.flags = flags(it.Message.From)
	}
	e.raw, e.size = uint32(len(f.Raw)), uint32(f.Size())
	passed := int64(e.raw)
	if all.Rules(it.Protocol).NoWire {
		e.size, passed = 0, 0
	}
	if s.source != nil && it.Place >= 0 {
		e.at, e.flags = it.Place, e.flags|placed
	} else {
		e.at = s.bytes.Append(f.Raw)
		s.metas.keepMeta(it.Seq, f, &s.bytes)
	}
	s.when(e, it)
	switch {
	case f.Gap:
		e.flags |= gap | bad
		e.kind = s.kinds.of(kindGap)
	case it.Err != nil && it.Err != f.Flaw:
		e.flags |= bad
		e.kind = s.kinds.of(kindBad)
	default:
		e.kind = s.kinds.of(it.Message.Kind)
	}
	if f.Compressed {
		e.flags |= compressed
	}
	if len(s.bookmarks) > 0 && s.bookmarks[it.Seq] {
		e.flags |= bookmark
	}
	s.peer(f.Conn).frame(e)
	s.traffic.countFrame(e.time, e.dir(), passed)
	if s.filter != nil {
		s.hits.offer(s, it, e)
	}
}

var kindGap, kindBad = []byte("skipped"), []byte("malformed")

// when sets the time of a frame. If times are unknown, the number of the frame stands for it.
func (s *Store) when(e *entry, it *decode.Item) {
	e.time = it.Seq
	if !it.Time.IsZero() {
		s.timed = true
		e.time = it.Time.UnixNano()
		if !it.Written.IsZero() {
			e.wrote = uint32(min(max(it.Written.Sub(it.Time).Microseconds(), 0), 1<<32-2)) + 1
		}
	}
	if s.first == 0 {
		s.first = e.time
	}
	s.last = max(s.last, e.time)
}

// wireOf returns the number of an item's wire.
func (s *Store) wireOf(it *decode.Item) uint8 {
	w := wire{it.Framing, it.Protocol}
	if s.lastWire < len(s.wires) && s.wires[s.lastWire] == w {
		return uint8(s.lastWire)
	}
	if s.lastWire = slices.Index(s.wires, w); s.lastWire < 0 {
		if len(s.wires) < 255 {
			s.wires = append(s.wires, w)
		}
		s.lastWire = len(s.wires) - 1
	}
	return uint8(s.lastWire)
}

// Event handles a record that is not a frame.
func (s *Store) Event(r *capture.Record) {
	defer s.lockToChange()()
	s.peer(r.Conn).addEvent(s, r)
}

// Notice stores a message for the user.
func (s *Store) Notice(text string) {
	defer s.lockToChange()()
	s.notices = append(s.notices, text)
	if len(s.notices) > maxNotices {
		s.notices = s.notices[1:]
	}
}

const maxNotices = 100

// Lost sets how many frames the source has dropped so far.
func (s *Store) Lost(n int64) {
	defer s.lockToChange()()
	s.lost = n
}

// End ends the session. Open exchanges count as unanswered, unless the session was cut, as err
// says.
func (s *Store) End(err error, cut bool) {
	defer s.lockToChange()()
	s.ended, s.end, s.held = true, err, nil
	if s.follower == nil {
		return
	}
	if cut {
		s.follower.Release()
	} else {
		s.follower.End()
	}
	s.runs.joined = -1
	for _, f := range join.Findings(s.joinWires()) {
		s.findings.addFinding(s, f)
	}
}

// Package store keeps what the monitor can show of a session, in bounded
// memory, while it goes on: an index of its frames, a row for each exchange,
// and the bytes of the frames where they can be read again.
//
// What the frames mean together it hears from package session; it knows nothing
// of its own, and it draws nothing.
package store

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session"
)

// Options are how much a store keeps.
type Options struct {
	// Frames and Exchanges are how many are kept of each: beyond that the
	// oldest are dropped, and counted. 0 is 4,000,000 and 1,000,000.
	Frames, Exchanges int
	// Bytes is how many bytes of frames are kept in memory; 0 is 32 MiB. Spill
	// says that the ones before them go to a temporary file rather than away.
	Bytes int
	Spill bool
	// Config is how frames are read.
	Config decode.Config
}

func (o *Options) fill() {
	if o.Frames <= 0 {
		o.Frames = 4_000_000
	}
	if o.Exchanges <= 0 {
		o.Exchanges = 1_000_000
	}
	if o.Bytes <= 0 {
		o.Bytes = 32 << 20
	}
}

// A Store is fed by one goroutine and asked by others.
type Store struct {
	version atomic.Int64 // counts what changed

	mu       sync.Mutex // of everything below
	opts     Options
	frames   frames
	rows     rows
	bytes    keeper
	metas    metas
	kinds    names
	wires    []wire
	lastWire int
	trackers track.Trackers
	follower *track.Follower
	source   Source          // where frames can be read again; nil if nowhere
	session  capture.Session // what the capture said about itself at its beginning
	item     *decode.Item    // for frames that are read again
	raw      []byte          // their bytes
	cache    map[int64]*Frame

	first, last int64 // stamps of the first and the last frame
	timed       bool
	traffic     series
	findings    found
	peers       map[int]*Peer
	lastPeer    *Peer
	order       []int // connections, as they came
	log         []Line
	lost        int64 // frames that the source dropped
	held        []Held
	notices     []string
	filter      *Filter
	hits        hits
	marks       map[uint32]*mark
	bookmarks   map[int64]bool   // frames
	noted       map[int64]string // the texts of marks, by the first frame of the exchange
	sorted      sorted
	end         error
	ended       bool
}

// wire is how frames are read.
type wire struct {
	framing  frame.Framing
	protocol protocol.Protocol
}

// New returns an empty store.
func New(o Options) *Store {
	o.fill()
	s := &Store{
		opts: o, frames: frames{limit: o.Frames}, rows: rows{limit: o.Exchanges},
		bytes: keeper{size: o.Bytes, spill: o.Spill}, kinds: newNames(),
		item: decode.NewItem(o.Config), cache: map[int64]*Frame{},
		peers: map[int]*Peer{}, marks: map[uint32]*mark{}, bookmarks: map[int64]bool{}, noted: map[int64]string{}, findings: newFound(),
	}
	s.trackers.Watcher = watcher{s}
	return s
}

// Close removes what the store wrote to disk.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes.close()
}

// Version grows with everything that is taken in.
func (s *Store) Version() int64 { return s.version.Load() }

// A Source is the capture that a session is read from, where any frame of it
// can be read once more.
type Source interface {
	// ReadAt reads the frame that begins at a place; see [capture.Placed]. Its
	// bytes are valid until the next call.
	ReadAt(place int64, r *capture.Record) error
}

// ReadAgain says where frames are to be read again, so that their bytes need
// not be kept. It is called ahead of Begin; the source is used until Close.
func (s *Store) ReadAgain(from Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = from
}

// Take takes in a session from its beginning to its end. It returns what broke it
// off, if anything did.
func (s *Store) Take(ctx context.Context, in decode.Input, cfg decode.Config) error {
	s.Begin(in)
	err := s.Read(ctx, in, cfg)
	s.End(err, errors.Is(err, capture.ErrCut) || ctx.Err() != nil)
	return err
}

// Begin says where the session that follows is read from.
func (s *Store) Begin(in decode.Input) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.Capture != nil {
		s.session = *in.Capture.Session()
	}
	s.follower = track.NewFollower(&s.trackers, in, s.opts.Config)
}

// Read takes in frames of the session that has begun.
func (s *Store) Read(ctx context.Context, in decode.Input, cfg decode.Config) error {
	cfg.InOrder, cfg.Around = true, s.batch
	_, err := decode.Run(ctx, in, io.Discard, cfg, func() decode.View { return s.view })
	return err
}

// batch has the view see what was read at once.
func (s *Store) batch(show func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	show()
	s.version.Add(1)
}

// view takes in an item, with the lock held; see [decode.View].
func (s *Store) view(dst []byte, it *decode.Item) ([]byte, error) {
	s.take(it)
	dst, err := s.follower.View(dst, it)
	s.traffic.flies(int64(len(s.rows.open)))
	return dst, err
}

// take enters a frame into the index.
func (s *Store) take(it *decode.Item) {
	f := it.Frame
	e := s.frames.add(it.Seq)
	*e = entry{
		offset: f.Offset, conn: uint32(f.Conn), start: uint32(f.Start), end: uint32(f.End),
		wire: s.wireOf(it), flags: flags(f.Dir),
	}
	if f.Dir == frame.DirUnknown {
		e.flags = flags(it.Message.From)
	}
	e.raw, e.size = uint32(len(f.Raw)), uint32(f.Size())
	if s.source != nil && it.Place >= 0 {
		e.at, e.flags = it.Place, e.flags|placed
	} else {
		e.at = s.bytes.keep(f.Raw)
		s.metas.keep(it.Seq, f, &s.bytes)
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
		if m := &it.Message; m.Phase == protocol.Open && len(m.Label) > 0 {
			e.label = s.rows.text(m.Label) + 1
		}
	}
	if f.Compressed {
		e.flags |= compressed
	}
	if len(s.bookmarks) > 0 && s.bookmarks[it.Seq] {
		e.flags |= bookmark
	}
	s.peer(f.Conn).frame(e)
	s.traffic.add(e.time, e.dir(), int64(e.raw))
	if s.filter != nil {
		s.hits.offer(s, it, e)
	}
}

var kindGap, kindBad = []byte("skipped"), []byte("malformed")

// when notes the time of a frame. Where times are not known, the number of the
// frame stands for it.
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

// wireOf returns the number of how an item was read.
func (s *Store) wireOf(it *decode.Item) uint8 {
	w := wire{it.Framing, it.Protocol}
	if s.lastWire < len(s.wires) && s.wires[s.lastWire] == w {
		return uint8(s.lastWire)
	}
	for i, have := range s.wires {
		if have == w {
			s.lastWire = i
			return uint8(i)
		}
	}
	if len(s.wires) < 255 {
		s.wires = append(s.wires, w)
	}
	s.lastWire = len(s.wires) - 1
	return uint8(s.lastWire)
}

// Event takes in a record that is no frame.
func (s *Store) Event(r *capture.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version.Add(1)
	s.peer(r.Conn).event(s, r)
}

// Notice takes in what is to be said to the user.
func (s *Store) Notice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version.Add(1)
	s.notices = append(s.notices, text)
	if len(s.notices) > maxNotices {
		s.notices = s.notices[1:]
	}
}

const maxNotices = 100

// Lost says how many frames the source has dropped so far.
func (s *Store) Lost(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version.Add(1)
	s.lost = n
}

// End takes in the end of the session. What is open is unanswered then, unless
// the session is cut, which err says.
func (s *Store) End(err error, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version.Add(1)
	s.ended, s.end = true, err
	if s.follower == nil {
		return
	}
	if cut {
		s.follower.Release()
	} else {
		s.follower.End()
	}
}

// Overview is what the head of the screen says.
type Overview struct {
	Protocols         []string
	Kinds             []string // every one that was seen, in that order
	Frames, Bytes     int64
	Exchanges, Open   int64
	Findings          int64
	Errors            int64 // findings that are errors
	Conns             int
	Dropped           int64 // frames that are not in the index any more
	Gone              int64 // exchanges that have no row any more
	Lost              int64 // frames that the source dropped
	First, Last       int64 // stamps
	Timed             bool
	Ended             bool
	Altered           bool // by faults or edits
	Err               error
	Notice            string
	Held              []Held // frames that wait on the wire
	Cancels           [8]int64
	Filter            string
	Matches, Searched int64 // frames that the filter has matched, and looked at
}

// Overview returns what is known of the session as a whole.
func (s *Store) Overview() Overview {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := Overview{
		Kinds:  s.kinds.list[1:len(s.kinds.list):len(s.kinds.list)],
		Frames: s.frames.total, Bytes: s.traffic.bytes, Exchanges: s.rows.total, Open: int64(len(s.rows.open)),
		Findings: s.findings.total, Errors: s.findings.errors, Conns: len(s.order),
		Dropped: s.frames.dropped, Gone: s.rows.dropped, Lost: s.lost,
		First: s.first, Last: s.last, Timed: s.timed, Ended: s.ended, Altered: s.session.Altered, Err: s.end, Held: s.spelled(),
	}
	seen := map[string]bool{}
	for _, w := range s.wires {
		if s.superseded(w) {
			continue
		}
		name := w.protocol.Name()
		if w.framing != nil {
			name += "/" + w.framing.Name()
		}
		if !seen[name] {
			seen[name] = true
			o.Protocols = append(o.Protocols, name)
		}
	}
	if n := len(s.notices); n > 0 {
		o.Notice = s.notices[n-1]
	}
	for _, t := range s.trackers.List {
		for class, n := range t.Stats().Cancels {
			o.Cancels[class] += n
		}
	}
	if s.filter != nil {
		o.Filter, o.Matches, o.Searched = s.filter.text, int64(len(s.hits.seqs)), s.hits.searched(s)
	}
	return o
}

// superseded reports whether a wire was read so only until more was known of it.
func (s *Store) superseded(w wire) bool {
	last := s.wires[len(s.wires)-1]
	if w == last || w.framing != last.framing {
		return false
	}
	switch w.protocol {
	case protocol.Protocol(jsonrpc.Plain), protocol.Protocol(opaque.JSON), protocol.Protocol(opaque.Bytes):
		return true
	}
	return false
}

// watcher hears from the trackers, which are fed with the lock held.
type watcher struct{ *Store }

// Changed keeps the row of an exchange.
func (w watcher) Changed(e *session.Exchange, seq int64) {
	s := w.Store
	r := s.rows.of(e.Mark)
	if r == nil {
		if e.Mark != 0 {
			return // dropped
		}
		if r, e.Mark = s.rows.add(); r == nil {
			return
		}
		s.open(r, e)
	}
	at := s.last
	if f := s.frames.at(seq); f != nil {
		at = f.time
		f.of = e.Mark
		if back := seq - r.last; back > 0 && back < 1<<32 {
			f.before = uint32(back)
		}
		r.last = seq
		r.hit = r.hit || s.filter != nil && s.hits.has(seq)
	}
	s.progress(r, e, at)
}

// open makes r the row of an exchange that is new.
func (s *Store) open(r *row, e *session.Exchange) {
	r.conn, r.first, r.last = uint32(e.Conn), e.First, e.Last
	r.opener = uint8(e.Opener)
	r.kind = s.kinds.of([]byte(e.Kind))
	r.id = s.rows.text(e.ID.Text)
	r.opened = s.stamp(e.First)
	if f := s.frames.at(e.First); f != nil {
		r.label = f.label
	}
	if text := s.noted[r.first]; text != "" {
		s.note(r, text)
	}
}

// stamp returns when a frame was read.
func (s *Store) stamp(seq int64) int64 {
	if f := s.frames.at(seq); f != nil {
		return f.time
	}
	return s.last
}

// progress notes what has become of an exchange at a time.
func (s *Store) progress(r *row, e *session.Exchange, at int64) {
	if e.Parts > int64(r.parts) {
		if r.parts == 0 {
			r.firstPart = at
		}
		r.parts, r.lastPart = uint32(e.Parts), at
		s.rows.tick(r, at)
		if r.asked != 0 {
			r.after++
		}
	}
	if r.answered == 0 && e.BytesIn > 0 {
		r.answered = at
	}
	r.out, r.in = e.BytesOut, e.BytesIn
	r.heldBack = int64(e.HeldBack)
	if was := session.Outcome(r.outcome); was != e.Outcome {
		if was == session.Open {
			s.rows.close(r.mark)
		}
		r.outcome, r.closed = uint8(e.Outcome), at
	}
}

// Asked notes a cancel in the row of its target.
func (w watcher) Asked(c *session.Cancel) {
	s := w.Store
	f := s.frames.at(c.TargetSeq)
	if f == nil {
		return
	}
	r := s.rows.of(f.of)
	if r == nil {
		return
	}
	r.asked, r.cancel = s.stamp(c.Seq), c.Seq
	r.class = uint8(c.Class) + 1
	r.after = uint32(c.Parts)
	if c.Class == session.Confirmed {
		r.confirmed = s.last
	}
}

// Found keeps a finding.
func (w watcher) Found(f session.Finding) { w.findings.add(w.Store, f) }

// since returns a stamp as a time, or the zero time where times are not known.
func (s *Store) since(stamp int64) time.Time {
	if !s.timed || stamp == 0 {
		return time.Time{}
	}
	return time.Unix(0, stamp)
}

// Package store keeps a session for the monitor in bounded memory: an index of its frames,
// a row for each exchange, and the bytes of frames if they cannot be read again.
//
// Package session interprets the frames. The store neither interprets nor draws.
package store

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/fd"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/session/contract"
)

// Config is how the frames of a store are read.
type Config = decode.Config

// Usage counts tokens and their cost.
type Usage = protocol.Usage

// Options say how much a store keeps.
type Options struct {
	// Frames and Exchanges bound the numbers that are kept. Beyond them the oldest are
	// dropped, and counted. 0 means 4,000,000 and 1,000,000.
	Frames, Exchanges int
	// Bytes bounds the bytes of frames that are kept in memory; 0 means 32 MiB. With Spill,
	// older bytes go to a temporary file instead of being dropped.
	Bytes int
	Spill bool
	// Contexts keeps what models are given.
	Contexts bool
	// Config is how frames are read.
	Config decode.Config
}

// A Store is fed by one goroutine and asked by others.
type Store struct {
	version atomic.Int64 // counts what changed

	mu       sync.Mutex // guards everything below
	opts     Options
	frames   frames
	rows     rows
	bytes    fd.Tail // of frames
	metas    metas
	kinds    names
	versions names
	wires    []wire
	lastWire int
	trackers track.Trackers
	follower *track.Follower
	source   Source          // where frames can be read again; nil if nowhere
	session  capture.Session // the capture's description at its beginning
	item     *decode.Item    // for frames that are read again
	raw      []byte          // their bytes
	cache    map[int64]*Frame

	first, last int64 // stamps of the first and the last frame
	timed       bool
	traffic     series
	findings    found
	runs        runs
	asking      []byte // text of the current frame
	peers       map[int]*Peer
	named       map[string]int // how many connections have that short name
	lastPeer    *Peer
	order       []int // connections, in the order of appearance
	log         []Line
	lost        int64 // frames that the source dropped
	held        []Held
	notices     []string
	filter      *Filter
	hits        hits
	bookmarks   map[int64]bool   // frames
	chosen      string           // the order of calls, if the user has chosen one
	server      string           // that a request was sent to last
	notes       map[int64]string // by the first frame of the exchange
	sorted      sorted
	figures     figures
	offer       contract.Offer
	spoken      []protocol.Protocol // by exchanges
	end         error
	ended       bool
}

// A wire is a framing and a protocol by which frames are read.
type wire struct {
	framing  frame.Framing
	protocol protocol.Protocol
}

// New returns an empty store.
func New(o Options) *Store {
	o.Frames, o.Exchanges, o.Bytes = cmp.Or(o.Frames, 4_000_000), cmp.Or(o.Exchanges, 1_000_000), cmp.Or(o.Bytes, 32<<20)
	s := &Store{
		opts: o, offer: contract.Offer{SizesAlone: true}, frames: frames{limit: o.Frames}, rows: rows{limit: o.Exchanges, usage: map[uint32]protocol.Usage{}, models: map[uint32]*model{}, places: map[uint32]runPlace{}, links: map[uint32][]protocol.Link{}, why: map[uint32]session.Failure{}},
		bytes: fd.Tail{Size: o.Bytes, Spill: o.Spill}, kinds: newNames(), versions: newNames(),
		item: decode.NewItem(o.Config), cache: map[int64]*Frame{},
		peers: map[int]*Peer{}, named: map[string]int{}, bookmarks: map[int64]bool{}, notes: map[int64]string{}, findings: newFound(),
	}
	if o.Contexts {
		s.trackers.Contexts = &context.Log{Keep: true}
	}
	s.trackers.Watcher, s.trackers.Apart, s.trackers.Said = watcher{s}, true, true
	return s
}

// lockToChange locks the store for a change, and returns the function that unlocks it.
func (s *Store) lockToChange() (unlock func()) {
	s.mu.Lock()
	s.version.Add(1)
	return s.mu.Unlock
}

// Close removes the store's temporary file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes.Close()
}

// Contexts returns what models were given.
func (s *Store) Contexts() *context.View {
	o := s.Overview()
	log := s.trackers.Contexts
	if log == nil {
		log = &context.Log{}
	}
	return log.View(time.Unix(0, o.First))
}

// Version grows with each change.
func (s *Store) Version() int64 { return s.version.Load() }

// stamp returns when a frame was read.
func (s *Store) stamp(seq int64) int64 {
	if f := s.frames.at(seq); f != nil {
		return f.time
	}
	return s.last
}

// since returns a stamp as a time, or the zero time where times are not known.
func (s *Store) since(stamp int64) time.Time {
	if !s.timed || stamp == 0 {
		return time.Time{}
	}
	return time.Unix(0, stamp)
}

// A Cursor is a viewer's position in a session. The zero Cursor is at its beginning.
type Cursor struct {
	frame    int64  // the number of the next frame
	change   int64  // the last change of a row that was seen
	mark     uint32 // of the newest row that was seen
	finding  int64  // how many findings were seen
	unmarked []int64
}

// maxUnmarked bounds the frames without an exchange that are checked again: they may get one
// once the protocol is known.
const maxUnmarked = 4096

// Changes are the news for a viewer.
type Changes struct {
	Exchanges []Exchange // the oldest first
	Heads     []Head     // of the tree of a run
	Frames    []Frame
	Findings  []Finding
	Marks     map[int64]uint32 // exchanges of frames that had none before
	// Skipped frames and Missed exchanges were dropped before the viewer reached them.
	Skipped, Missed int64
	More            bool // there are more frames
}

// Empty reports whether there is nothing new.
func (c *Changes) Empty() bool {
	return len(c.Heads)+len(c.Exchanges)+len(c.Frames)+len(c.Findings)+len(c.Marks) == 0 && c.Skipped+c.Missed == 0
}

// Follow returns the changes since the last call with that cursor, with at most n frames.
func (s *Store) Follow(c *Cursor, n int) Changes {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Changes{Marks: map[int64]uint32{}}
	s.followRows(c, &out)
	s.followFrames(c, &out, int64(n))
	if fresh := int(min(s.findings.total-c.finding, int64(len(s.findings.list)))); fresh > 0 {
		out.Findings = slices.Clone(s.findings.list[len(s.findings.list)-fresh:])
		c.finding = s.findings.total
	}
	return out
}

func (s *Store) followRows(c *Cursor, out *Changes) {
	s.joinWires()
	if c.mark > 0 {
		out.Missed = max(s.rows.base-int64(c.mark), 0)
	}
	for i := int64(0); i < s.rows.n && c.change < s.rows.changes; i++ {
		if r := &s.rows.chunks[i/chunk][i%chunk]; r.changed > c.change {
			out.Exchanges = append(out.Exchanges, s.exchange(r))
		}
	}
	for i := range s.runs.heads {
		if s.runs.heads[i].changed > c.change {
			out.Heads = append(out.Heads, s.runs.heads[i])
		}
	}
	c.change, c.mark = s.rows.changes, uint32(s.rows.base+s.rows.n)
}

func (s *Store) followFrames(c *Cursor, out *Changes, n int64) {
	c.unmarked = slices.DeleteFunc(c.unmarked, func(seq int64) bool {
		e := s.frames.at(seq)
		if e == nil || e.of == 0 {
			return e == nil
		}
		out.Marks[seq] = e.of
		return true
	})
	if c.frame == 0 {
		c.frame = max(s.frames.first, 1) // also if there are no frames yet
	}
	if gone := s.frames.first - c.frame; gone > 0 {
		out.Skipped, c.frame = gone, s.frames.first
	}
	end := s.frames.nextSeq()
	for last := min(end, c.frame+n); c.frame < last; c.frame++ {
		f := s.frame(c.frame)
		if f.Mark == 0 && len(c.unmarked) < maxUnmarked {
			c.unmarked = append(c.unmarked, c.frame)
		}
		out.Frames = append(out.Frames, *f)
	}
	out.More = c.frame < end
}

// watcher is the [session.Watcher] of the trackers, which are fed with the lock held.
type watcher struct{ *Store }

// Changed keeps the row of an exchange.
func (w watcher) Changed(e *session.Exchange, seq int64) {
	s := w.Store
	r := s.rows.of(e.Mark)
	if r == nil {
		if e.Mark != 0 {
			return // dropped
		}
		if r, e.Mark = s.rows.addRow(); r == nil {
			return
		}
		s.openRow(r, e)
	}
	s.rows.touch(r)
	r.assumed, r.accepted = e.Assumed, !e.Accepted.IsZero()
	if e.Of != 0 && r.of == 0 {
		if op := s.rows.of(e.Operation().Mark); op != nil && op != r {
			s.rows.join(op, r)
		}
		r.guessed = e.Guessed
	} else if e.Of == 0 && r.of != 0 {
		if op := s.rows.of(r.of); op != nil {
			s.rows.leave(op, r)
		}
	}
	at := s.last
	if f := s.frames.at(seq); f != nil {
		at = f.time
		if r.outcome == uint8(session.Open) && e.Outcome.Stopped() {
			r.cut = s.timed && e.Closed.IsZero() || !s.timed && f.dir() == e.Opener
		}
		f.of = e.Mark
		op := s.rows.operation(r)
		if back := seq - op.last; back > 0 && back < 1<<32 {
			f.before = uint32(back)
		}
		r.last, op.last = seq, max(op.last, seq)
		if s.filter != nil && s.hits.has(seq) {
			s.rows.matched(r)
		}
	} else if s.timed && !e.Closed.IsZero() {
		at = e.Closed.UnixNano() // it ended with its connection
	}
	s.offer.Changed(e, seq)
	if len(e.Links) > 0 {
		s.rows.links[r.mark] = e.Links
	}
	s.progress(r, e, at)
	// An exchange that ends by a cancel has no time, and one that ends with its connection has
	// no frame.
	r.ended = r.ended || !e.Closed.IsZero() && (seq != 0 || e.Outcome == session.Failed) && e.Outcome != session.Abandoned
	if e.Usage != (protocol.Usage{}) {
		s.rows.use(r.mark, e.Usage)
	}
	if e.Model != "" {
		s.rows.setAnswer(r.mark, e)
		s.rows.longest = max(s.rows.longest, utf8.RuneCountInString(e.Name)+spoken)
	}
}

// spoken is how many characters of a model's answer should fit.
const spoken = 28

// openRow fills r with a new exchange.
func (s *Store) openRow(r *row, e *session.Exchange) {
	r.conn, r.stream, r.first, r.last = uint32(e.Conn), int32(min(e.Stream, 0)), e.First, e.Last
	if r.on = r.conn; r.on == 0 {
		if f := s.frames.at(e.First); f != nil {
			r.on = f.conn
		}
	}
	r.opener = uint8(e.Opener)
	r.kind = s.kinds.of([]byte(e.Kind))
	r.id = s.rows.keepText(e.ID.Text)
	r.opened = s.stamp(e.First)
	r.spoken = s.spokenOf(e.Protocol)
	r.version = s.versions.of([]byte(e.Version))
	s.placeRow(r, e)
	s.rows.longest = max(s.rows.longest, utf8.RuneCountInString(cmp.Or(e.Name, e.Kind)))
}

// spokenOf returns the number of a protocol.
func (s *Store) spokenOf(p protocol.Protocol) uint8 {
	i := slices.Index(s.spoken, p)
	if i < 0 {
		i = len(s.spoken)
		s.spoken = append(s.spoken, p)
	}
	return uint8(i)
}

// failures returns 1 for the outcome of a failed exchange, and else 0.
func failures(o session.Outcome) int64 {
	if o.Failed() {
		return 1
	}
	return 0
}

// progress updates the row of an exchange that changed at a time.
func (s *Store) progress(r *row, e *session.Exchange, at int64) {
	if e.Parts > int64(r.parts) {
		x := r.own()
		if x.parts == 0 {
			x.firstPart = at
		}
		x.parts, x.lastPart = uint32(e.Parts), at
		r.tick(at)
		if x.asked != 0 {
			x.after++
		}
	}
	if e.Reason != "" && r.reason == 0 {
		r.own().reason = s.rows.keepText([]byte(e.Reason)) + 1
	}
	if e.Outcome.Failed() && e.Failure != (session.Failure{}) && len(s.rows.why) < maxWhy {
		s.rows.why[r.mark] = e.Failure
	}
	switch was := session.Outcome(r.outcome); {
	case was != e.Outcome:
		if was == session.Open {
			s.rows.closeRow(r.mark)
		}
		if s.rows.operation(r) == r {
			s.rows.failed += failures(e.Outcome) - failures(was)
		}
		r.outcome, r.closed = uint8(e.Outcome), at
	case was != session.Open && e.BytesIn > r.in && (!s.timed || e.Closed.UnixNano() >= at): // an answer that did not have to come
		r.closed = at
	}
	if r.name == 0 && e.Name != "" {
		r.name = s.rows.keepText([]byte(e.Name)) + 1
	}
	r.out, r.in = e.BytesOut, e.BytesIn
}

// Asked notes a cancel in the row of its target.
func (w watcher) Asked(c *session.Cancel) {
	s := w.Store
	f := s.frames.at(c.TargetSeq)
	if f == nil {
		return
	}
	r := s.rows.of(f.of)
	if r == nil || r.class == uint8(session.Confirmed)+1 {
		return // it was cancelled before: another cancel changes nothing
	}
	s.rows.touch(r)
	x := r.own()
	x.asked, x.cancel = s.stamp(c.Seq), c.Seq
	r.class = uint8(c.Class) + 1
	x.after = uint32(c.Parts)
	if c.Reason != "" && x.reason == 0 {
		x.reason = s.rows.keepText([]byte(c.Reason)) + 1
	}
	if c.Class == session.Confirmed {
		x.confirmed = s.last
	}
}

// Found keeps a finding.
func (w watcher) Found(f session.Finding) { w.findings.addFinding(w.Store, f) }

// Package store keeps what the monitor shows of a session, in bounded memory: an index
// of its frames, a row for each exchange, and the bytes of frames where they can be read
// again.
//
// Package session says what the frames mean. The store neither interprets nor draws.
package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session/contract"
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
	versions names
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
	runs        runs
	asking      []byte // text of the frame at hand
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
	figures     figures
	offer       contract.Offer
	spoken      []protocol.Protocol // by exchanges
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
		opts: o, offer: contract.Offer{SizesAlone: true}, frames: frames{limit: o.Frames}, rows: rows{limit: o.Exchanges, usage: map[uint32]protocol.Usage{}, models: map[uint32]*model{}, places: map[uint32]runPlace{}},
		bytes: keeper{size: o.Bytes, spill: o.Spill}, kinds: newNames(), versions: newNames(),
		item: decode.NewItem(o.Config), cache: map[int64]*Frame{},
		peers: map[int]*Peer{}, marks: map[uint32]*mark{}, bookmarks: map[int64]bool{}, noted: map[int64]string{}, findings: newFound(),
	}
	s.trackers.Watcher, s.trackers.Apart, s.trackers.Said = watcher{s}, true, true
	return s
}

// Close removes what the store wrote to disk.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes.removeFile()
}

// Version grows with everything that is added.
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

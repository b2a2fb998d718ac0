// Package store keeps a session for the monitor in bounded memory: an index of its frames,
// a row for each exchange, and the bytes of frames if they cannot be read again.
//
// Package session interprets the frames. The store neither interprets nor draws.
package store

import (
	"cmp"
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

// Options say how much a store keeps.
type Options struct {
	// Frames and Exchanges bound the numbers that are kept. Beyond them the oldest are
	// dropped, and counted. 0 means 4,000,000 and 1,000,000.
	Frames, Exchanges int
	// Bytes bounds the bytes of frames that are kept in memory; 0 means 32 MiB. With Spill,
	// older bytes go to a temporary file instead of being dropped.
	Bytes int
	Spill bool
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
	bytes    keeper
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
		opts: o, offer: contract.Offer{SizesAlone: true}, frames: frames{limit: o.Frames}, rows: rows{limit: o.Exchanges, usage: map[uint32]protocol.Usage{}, models: map[uint32]*model{}, places: map[uint32]runPlace{}},
		bytes: keeper{size: o.Bytes, spill: o.Spill}, kinds: newNames(), versions: newNames(),
		item: decode.NewItem(o.Config), cache: map[int64]*Frame{},
		peers: map[int]*Peer{}, named: map[string]int{}, bookmarks: map[int64]bool{}, notes: map[int64]string{}, findings: newFound(),
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
	return s.bytes.removeFile()
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

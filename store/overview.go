package store

import (
	"slices"
	"strings"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// Overview is what the head of the screen says.
type Overview struct {
	Protocols         []string
	Kinds             []string // every one that was seen, in that order
	Frames, Bytes     int64
	Exchanges, Open   int64
	Failed            int64 // operations
	Joined            int64 // exchanges that belong to others
	Named             int   // the longest name of an exchange, or kind of one without, in characters
	Longest           int   // the same, with room for what a model says
	PeerNamed         int   // the longest name of a connection, if all have one; else 0
	Findings          int64
	Errors            int64 // findings that are errors
	Conns             int
	Run               bool  // it is that of a run of wirectl rlm
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
		Frames: s.frames.total, Bytes: s.traffic.bytes, Exchanges: s.rows.total, Open: int64(len(s.rows.open)), Failed: s.rows.failed, Joined: s.rows.joined, Named: s.rows.named, Longest: s.rows.longest, PeerNamed: s.peerNamed(),
		Findings: s.findings.total, Errors: s.findings.errors, Conns: len(s.order),
		Dropped: s.frames.dropped, Gone: s.rows.dropped, Lost: s.lost,
		First: s.first, Last: s.last, Timed: s.timed, Ended: s.ended, Altered: s.session.Altered, Err: s.end, Held: s.spelled(),
		Protocols: s.protocols(), Run: s.session.Unit == "wirectl rlm" && len(s.runs.names) > 0,
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

// protocols names what is spoken, in which framing and which versions, as in mcp/line
// 2025-06-18.
func (s *Store) protocols() (names []string) {
	for place, w := range s.wires {
		if s.superseded(place) {
			continue
		}
		name := w.protocol.Name()
		if w.framing != nil {
			if w.framing.Name() == "" {
				continue // bytes of a carrier itself, which no frame follows
			}
			name += "/" + w.framing.Name()
		}
		name = strings.Join(append([]string{name}, s.versionsOf(w.protocol)...), " ")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// versionsOf returns the versions of a protocol that were stated.
func (s *Store) versionsOf(p protocol.Protocol) (versions []string) {
	for _, t := range s.trackers.List {
		if t.Protocol == p {
			versions = append(versions, t.Versions()...)
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

// superseded reports whether the wire of that place was read so only until more was
// known of it. What comes later and says less, such as JSON beside calls, has told
// nothing of it.
func (s *Store) superseded(place int) bool {
	w := s.wires[place]
	return slices.ContainsFunc(s.wires[place+1:], func(later wire) bool {
		return w.framing == later.framing && told(w.protocol) < told(later.protocol)
	})
}

// told is how much a protocol says of what is spoken.
func told(p protocol.Protocol) int {
	switch p {
	case protocol.Protocol(opaque.Bytes):
		return 0
	case protocol.Protocol(opaque.JSON):
		return 1
	case protocol.Protocol(jsonrpc.Plain):
		return 2
	}
	return 3
}

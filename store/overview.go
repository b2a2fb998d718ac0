package store

import (
	"slices"
	"strings"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// Overview describes the session as a whole, for the head of the screen.
type Overview struct {
	Protocols         []string
	Kinds             []string // in the order of appearance
	Frames, Bytes     int64
	Exchanges, Open   int64
	Failed            int64 // operations
	Joined            int64 // exchanges that belong to others
	Longest           int   // the longest name of an exchange, or kind of one without a name, in characters, with room for the answer of a model
	Findings          int64
	Conns             int
	Run               bool  // it is a run of wirectl rlm
	Dropped           int64 // frames that were dropped from the index
	Gone              int64 // exchanges whose row was dropped
	Lost              int64 // frames that the source dropped
	First, Last       int64 // stamps
	Timed             bool
	Ended             bool
	Altered           bool // by faults or edits
	Err               error
	Notice            string
	Held              []Held // frames that wait on the wire
	Filter            string
	Matches, Searched int64 // frames that match the filter, and frames that were checked
	Listed            int64 // the index after the newest frame of the list
}

// Overview describes the session as a whole.
func (s *Store) Overview() Overview {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := Overview{
		Kinds:  s.kinds.list[1:len(s.kinds.list):len(s.kinds.list)],
		Frames: s.frames.total, Bytes: s.traffic.bytes, Exchanges: s.rows.total, Open: int64(len(s.rows.open)), Failed: s.rows.failed, Joined: s.rows.joined, Longest: s.rows.longest,
		Findings: s.findings.total, Conns: len(s.order),
		Dropped: s.frames.dropped, Gone: s.rows.dropped, Lost: s.lost,
		First: s.first, Last: s.last, Timed: s.timed, Ended: s.ended, Altered: s.session.Altered, Err: s.end, Held: s.spelled(),
		Protocols: s.protocols(), Run: s.session.Unit == "wirectl rlm" && len(s.runs.names) > 0,
	}
	_, o.Listed = s.listed()
	if n := len(s.notices); n > 0 {
		o.Notice = s.notices[n-1]
	}
	if s.filter != nil {
		o.Filter, o.Matches, o.Searched = s.filter.text, int64(len(s.hits.seqs)), s.hits.searched(s)
	}
	return o
}

// protocols returns the protocols with their framing and versions: mcp/line 2025-06-18.
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

// superseded reports whether a later wire with the same framing has a more specific protocol.
// Frames were then read by the first one only until more was known.
func (s *Store) superseded(place int) bool {
	w := s.wires[place]
	return slices.ContainsFunc(s.wires[place+1:], func(later wire) bool {
		return w.framing == later.framing && all.Depth(w.protocol) < all.Depth(later.protocol)
	})
}

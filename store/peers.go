package store

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// A Peer is what is known of a connection.
type Peer struct {
	Conn        int
	Name        string
	Opened      time.Time
	Frames      [3]int64 // by direction
	Bytes       [3]int64
	Last        [3]int64 // stamps of the last frames
	Half        [3]bool  // the direction has ended
	Exit        string   // how the unit's process ended
	Failed      bool     // it did so by a signal or with a status other than 0
	Stall       [3]time.Duration
	StallTotal  [3]time.Duration
	StderrLines int64
	Note        string // what was said last of it, such as that it does not read
	place, next string // of a connection of a run: where it belongs, and the cell that comes
}

// peerNamed returns how long the longest name of a connection is, in characters; 0 if one
// has none.
func (s *Store) peerNamed() (longest int) {
	for _, p := range s.peers {
		if p.Name == "" {
			return 0
		}
		longest = max(longest, utf8.RuneCountInString(p.Name))
	}
	return longest
}

// State says whether the connection is open, or how it ended.
func (p *Peer) State() string {
	switch {
	case p.Exit != "":
		return p.Exit
	case p.Half[frame.C2U] && p.Half[frame.U2C]:
		return "closed"
	case p.Half[frame.C2U]:
		return "→ ended"
	case p.Half[frame.U2C]:
		return "← ended"
	}
	return "open"
}

// stalled is from when on it takes long to hand a frame on: the side that is to
// read does not.
const stalled = 10 * time.Millisecond

// peer returns what is known of a connection.
func (s *Store) peer(conn int) *Peer {
	if p := s.lastPeer; p != nil && p.Conn == conn {
		return p
	}
	p := s.peers[conn]
	if p == nil {
		p = &Peer{Conn: conn}
		if len(s.peers) < maxPeers {
			s.peers[conn] = p
			s.order = append(s.order, conn)
		}
	}
	s.lastPeer = p
	return p
}

const maxPeers = 10_000

func (p *Peer) frame(e *entry) {
	d := e.dir()
	p.Frames[d]++
	p.Bytes[d] += int64(e.raw)
	p.Last[d] = e.time
	if e.wrote == 0 {
		return
	}
	if took := time.Duration(e.wrote-1) * time.Microsecond; took > stalled {
		p.StallTotal[d] += took
		p.Stall[d] = max(p.Stall[d], took)
	}
}

// A Line is something that was said beside the frames.
type Line struct {
	Time time.Time
	Conn int
	Kind capture.Kind
	Text string
}

const (
	maxLines = 5000
	maxLine  = 4096
)

func (p *Peer) addEvent(s *Store, r *capture.Record) {
	text := string(r.Text[:min(len(r.Text), maxLine)])
	switch r.Kind {
	case capture.Opened:
		p.Name, p.Opened = text, r.Time
		text = "opened " + text
	case capture.HalfClosed:
		if r.Dir <= frame.U2C {
			p.Half[r.Dir] = true
		}
		text = "no more from the " + side(r.Dir)
	case capture.Exited:
		p.Exit, p.Failed = fmt.Sprintf("exit status %d", r.Status), r.Status != 0
		text = "the unit's process ended: " + p.Exit
	case capture.Signalled:
		p.Exit, p.Failed = "ended by "+text, true
		text = "the unit's process was " + p.Exit
	case capture.Stderr:
		p.StderrLines++
	case capture.Note:
		if !strings.HasPrefix(text, "{") { // what a gate did to a frame
			p.Note = text
		}
	}
	s.log = append(s.log, Line{r.Time, r.Conn, r.Kind, text})
	if len(s.log) > maxLines {
		s.log = append(s.log[:0], s.log[maxLines/10:]...)
	}
}

func side(d frame.Dir) string {
	switch d {
	case frame.C2U:
		return "controller"
	case frame.U2C:
		return "unit"
	}
	return "peer"
}

// Peers are the connections and what was said beside the frames.
type Peers struct {
	Session  capture.Session
	Peers    []Peer
	Lines    []Line // the last of those that were asked for
	Total    int    // lines there are
	LogStart int    // the number of the first of Lines
}

// Peers returns the connections, and n lines from the one of that number on;
// negative numbers count from the end.
func (s *Store) Peers(from, n int) Peers {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Peers{Session: s.session}
	for _, c := range s.order {
		out.Peers = append(out.Peers, *s.peers[c])
	}
	out.Total = len(s.log)
	if from < 0 || from > len(s.log)-n {
		from = max(0, len(s.log)-n)
	}
	out.LogStart = from
	out.Lines = append(out.Lines, s.log[from:min(from+n, len(s.log))]...)
	return out
}

package session

import (
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// A scope is the range in which ids are valid: a connection, or one stream of it.
type scope struct {
	key    scopeKey
	serial uint64 // from 1; names of a scope that ended are not found again
	// byAge has the open exchanges by side, oldest first, or if none is open, the one
	// settled last. Answers without an id find their exchange here.
	byAge [3]*queue
	begun bool // the controller's first message was seen
	whole bool // and it was one that begins a connection
	// dismissed means that the controller has told the unit to exit.
	dismissed bool
	// unreadable counts by side the messages whose id could not be read: the peer answers
	// them without an id.
	unreadable [3]int
	nameless   [3][]orphaned   // by the same side: errors that may still answer one
	torn       [3]*torn        // by direction: the beginning of a message
	over       [3]*oversized   // by direction: a message over the limit that may go on
	utf16      [3]bool         // by direction: lines are UTF-16
	gap        [3]error        // by direction: the fault of the last frame if it was a gap
	version    string          // of the protocol; "" if unknown
	rules      *protocol.Rules // of the version
	declared   protocol.Features
	counts     protocol.Counts // what the peer counts as usage; CountsTurn if that is not known
	early      int64           // frame of the first message before the handshake; 0 if there is none
	greeting   int64           // frame of the request that began the handshake; 0 if there is none
	greeted    bool            // the handshake is over
	last       int64           // number of the newest frame
	framed     [3]bool         // by direction: a wrong framing was reported
	lanes      [3]lane         // by direction
	failing    failing         // the operation that may still be retried
	lingers    lingering       // the stream whose last event has arrived
	turns      turns           // of prompts that wait
	node       node[scope]     // in the tracker's list of all, most recently used last
	ofConn     node[scope]     // in the list of its connection
}

type scopeKey struct{ conn, stream int }

// scopeOf returns the scope of a frame, creating it if necessary.
func (t *Tracker) scopeOf(f *Frame) *scope {
	k := scopeKey{f.Conn, f.Stream}
	if s := t.lastScope; s != nil && s.key == k {
		return s
	}
	s := t.scopes[k]
	if s == nil {
		if t.scopeOrder.len >= t.inFlight {
			t.endScope(t.scopeOrder.oldest(), t.forget)
		}
		s = t.newScope(k)
	} else { // a scope in use is kept, however old
		t.scopeOrder.remove(&s.node)
		t.scopeOrder.push(&s.node, s)
	}
	t.lastScope = s
	return s
}

func (t *Tracker) newScope(k scopeKey) *scope {
	t.serial++
	s := &scope{key: k, serial: t.serial, rules: t.base}
	t.scopes[k] = s
	t.scopeOrder.push(&s.node, s)
	ofConn := t.conns[k.conn]
	if ofConn == nil {
		ofConn = new(list[scope])
		t.conns[k.conn] = ofConn
	}
	ofConn.push(&s.ofConn, s)
	return s
}

// endScope ends the open exchanges of s with end, and drops s.
func (t *Tracker) endScope(s *scope, end func(*Exchange)) {
	t.rules = s.rules
	if s.failing.op != nil {
		t.endFailing(s, nil)
	}
	for side := range frame.Dir(3) {
		t.settleOversized(s, side)
		t.settleTorn(s, side)
		t.settleOrphans(s, side)
		for e := t.openIn(s, side); e != nil; e = t.openIn(s, side) {
			if e.rules != nil {
				t.rules = e.rules
			}
			end(e)
		}
	}
	delete(t.scopes, s.key)
	t.scopeOrder.remove(&s.node)
	ofConn := t.conns[s.key.conn]
	ofConn.remove(&s.ofConn)
	if ofConn.len == 0 {
		delete(t.conns, s.key.conn)
	}
	if t.lastScope == s {
		t.lastScope = nil
	}
}

// openIn returns the oldest open exchange of a scope and side, or nil.
func (t *Tracker) openIn(s *scope, side frame.Dir) *Exchange {
	if q := s.byAge[side]; q != nil {
		if e := q.exchanges.oldest(); e != nil && !e.settled {
			return e
		}
	}
	return nil
}

// age returns the queue of all requests of a side.
func (s *scope) age(side frame.Dir) *queue {
	if s.byAge[side] == nil {
		s.byAge[side] = new(queue)
	}
	return s.byAge[side]
}

// oldest returns the exchange that an answer without an id answers: the oldest that was not
// accepted, or else the oldest. It returns nil if there is none.
func (s *scope) oldest(side frame.Dir) *Exchange {
	q := s.byAge[side]
	if q == nil {
		return nil
	}
	for n := q.exchanges.first; n != nil; n = n.next {
		if n.of.Accepted.IsZero() {
			return n.of
		}
	}
	return q.exchanges.oldest()
}

// A lane is one direction of a scope, in which frames wait for each other.
type lane struct {
	at time.Time // when the last frame was read
	// The large frame that may be delaying others: its number, its exchange, the earliest
	// time its transmission can have begun, and how long it then took. held is 0 if there
	// is none.
	seq   int64
	of    *Exchange
	by    uint64 // serial number of the exchange
	since time.Time
	held  time.Duration
}

const (
	// large is the minimum size of a frame that may delay others.
	large = 64 << 10
	// heels is the maximum gap between a large frame and a frame that waited for it.
	heels = 5 * time.Millisecond
)

// pass records that a frame of e passes the lane. The wire does not show how long a large frame
// took to write: at most the time since the frame before it.
func (l *lane) pass(f *Frame, e *Exchange) {
	if l.held != 0 || f.Size >= large {
		l.delay(f, e)
	}
	l.at = f.Time
}

// delay records how long a large frame delays those after it.
func (l *lane) delay(f *Frame, e *Exchange) {
	gap := since(f.Time, l.at)
	switch {
	case l.held == 0:
	case gap > heels:
		l.held = 0
	case e != nil && e != l.of && e.Opened.Before(l.since) && e.HeldBy != l.seq:
		e.HeldBack += l.held
		e.HeldBy = l.seq
		if l.of.serial == l.by {
			l.of.Holding = max(l.of.Holding, l.held)
		}
	}
	if f.Size >= large && gap > 0 && e != nil {
		*l = lane{seq: f.Seq, of: e, by: e.serial, since: l.at, held: gap}
	}
}

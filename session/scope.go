package session

import (
	"hash/maphash"
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
	byAge    [3]*queue
	sawFirst bool // the controller's first message was seen
	whole    bool // and it was one that begins a connection
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

// A connection can have parts, such as the sessions that a browser attaches. Each part has its
// own ids and can end before the connection does.

// anywhere is the space of ids without their part. An error may omit the part because no such
// part exists.
const anywhere protocol.Space = 0xfe

// keyWithin returns the key of a message's id within its part of the connection.
func (t *Tracker) keyWithin(ev *event, side frame.Dir) key {
	k := t.keyOf(ev.scope, side, ev.m.ID)
	if !ev.m.Within.IsZero() {
		k.hash ^= maphash.Bytes(t.table.seed, ev.m.Within.Text)
	}
	return k
}

// nameWithin binds the other names of an exchange within a part of the connection.
func (t *Tracker) nameWithin(ev *event, e *Exchange) {
	e.within = true
	t.table.bind(&e.bindings[byOperation], e, t.keyOf(ev.scope, ev.from, ev.m.Within), ev.m.Within.Text)
	if ev.m.Bind.IsZero() && !ev.m.ID.IsZero() {
		id := protocol.Token{Space: anywhere, Text: ev.m.ID.Text}
		t.table.bind(&e.bindings[bySecond], e, t.keyOf(ev.scope, ev.from, id), id.Text)
	}
}

// findAnswered returns the exchange that ev answers, which ev names by token.
func (t *Tracker) findAnswered(ev *event, token protocol.Token) *Exchange {
	side := ev.from.Opposite()
	if t.isTurn(token) {
		if ev.m.Phase.Ends() {
			return t.findTurn(ev)
		}
		return t.currentTurn(ev.scope)
	}
	if ev.m.Within.IsZero() || !protocol.SameToken(token, ev.m.ID) {
		e := t.findExchange(ev.scope, side, token)
		if e == nil && token.Space == protocol.SpaceID && ev.m.Phase == protocol.Fail {
			e = t.findExchange(ev.scope, side, protocol.Token{Space: anywhere, Text: token.Text})
		}
		return e
	}
	for _, side := range sides(side) {
		if q := t.table.findQueue(t.keyWithin(ev, side), token.Text); q != nil {
			return q.exchanges.oldest()
		}
	}
	return nil
}

// A gonePart records when a part of a connection ended, and the number of the frame that
// reported it.
type gonePart struct {
	seq int64
	at  time.Time
}

// maxGone bounds how many ended parts are remembered.
const maxGone = 1 << 12

// followPart ends the open exchanges of a part of the connection that has ended. It reports
// requests to a part that had already ended, unless the sender could not have known.
func (t *Tracker) followPart(ev *event, e *Exchange) {
	if within := ev.m.Within; ev.m.Phase == protocol.Open {
		g, ended := t.endedParts[t.keyOf(ev.scope, ev.from, within)]
		if ended && since(ev.f.Time, g.at) > crossing {
			t.addFinding(afterEnd, Warning, ev.f.Conn, []int64{g.seq, ev.f.Seq}, e.Title()+" is sent to the session "+quote(within)+", which has ended")
		}
	}
	if ev.m.Gone.IsZero() {
		return
	}
	for _, side := range sides(ev.from.Opposite()) {
		k := t.keyOf(ev.scope, side, ev.m.Gone)
		if t.endedParts == nil {
			t.endedParts = make(map[key]gonePart)
		}
		if len(t.endedParts) < maxGone {
			t.endedParts[k] = gonePart{ev.f.Seq, ev.f.Time}
		}
		for q := t.table.findQueue(k, ev.m.Gone.Text); q != nil; q = t.table.findQueue(k, ev.m.Gone.Text) {
			open := q.exchanges.oldest()
			if open.settled || !open.within {
				break
			}
			open.saw(ev.f)
			open.Closed, open.optional = ev.f.Time, true
			t.silence(open)
			open.become(Abandoned)
			open.over()
			t.settle(open)
			t.changed(open, ev.f.Seq)
		}
	}
}

// A table maps names to exchanges. It compares tokens as written, within a scope, a side and a
// token space; side is that of the opener. Memory for names is reused, so the table stops
// allocating once it has held the largest number of simultaneous names.
//
// A name leads to the open exchanges of that name, oldest first, or if none is open, to the one
// settled last.
//
// A slot also has the hash of the name, so that most entries of other names can be skipped
// without reading them: there are many names, and few of them are in the CPU cache.
type table struct {
	seed   maphash.Seed
	slots  []slot // open addressing with linear probing; a power of two
	queues int    // slots in use, three quarters of them at most
	free   []*queue
}

type slot struct {
	hash  uint64
	queue *queue
}

// A queue holds the exchanges of one name. The queue of a scope has no key.
type queue struct {
	key       key
	exchanges list[Exchange]
	text      []byte   // of the token, clipped
	short     [32]byte // has the text if it fits, so that it is cached with the key
}

// A key identifies a name, together with the beginning of its token's text. The hash has a
// secret seed and covers all of the text. A fifth field would make the compiler copy keys
// through memory, which costs a tenth of the time of a message.
type key struct {
	hash  uint64
	scope uint64 // serial number of the scope; 0 is all scopes
	side  frame.Dir
	space protocol.Space
}

// maxText bounds the length of a stored token.
const maxText = 256

func newTable() table {
	return table{seed: maphash.MakeSeed(), slots: make([]slot, 64)}
}

func (t *table) key(scope uint64, side frame.Dir, token protocol.Token) key {
	h := maphash.Bytes(t.seed, token.Text)
	h ^= (scope<<16 | uint64(side)<<8 | uint64(token.Space)) * 0x9e3779b97f4a7c15
	return key{h ^ h>>32, scope, side, token.Space}
}

// findQueue returns the queue of a name, or nil.
func (t *table) findQueue(k key, text []byte) *queue {
	for i := t.home(k.hash); t.slots[i].queue != nil; i = t.after(i) {
		if s := &t.slots[i]; s.hash == k.hash && s.queue.key == k && string(s.queue.text) == string(clip(text, maxText)) {
			return s.queue
		}
	}
	return nil
}

// home returns the first slot where a name may be, and after the next slot.
func (t *table) home(hash uint64) int { return int(hash & uint64(len(t.slots)-1)) }
func (t *table) after(i int) int      { return (i + 1) & (len(t.slots) - 1) }

// The names of an exchange: as the one that has waited longest, by its id, by its second name,
// and by the name of its operation.
const (
	byAge = iota
	byID
	bySecond
	byOperation
	numBindings
)

// A binding is one of the names of an exchange.
type binding struct {
	node  node[Exchange]
	queue *queue
}

// bind gives e another name, taking it from a settled exchange that has it. It returns the
// exchanges with that name.
func (t *table) bind(b *binding, e *Exchange, k key, text []byte) *queue {
	q := t.findQueue(k, text)
	if q == nil {
		q = t.insert(k, text)
	}
	q.bind(b, e)
	return q
}

// bind appends e, replacing a settled exchange.
func (q *queue) bind(b *binding, e *Exchange) {
	if settled := q.exchanges.oldest(); settled != nil && settled.settled {
		taken := settled.bindingIn(q)
		q.exchanges.remove(&taken.node)
		taken.queue = nil
	}
	b.queue = q
	q.exchanges.push(&b.node, e)
}

// unbind takes a name from its exchange, if it still has it.
func (t *table) unbind(b *binding) {
	q := b.queue
	if q == nil {
		return
	}
	q.exchanges.remove(&b.node)
	b.queue = nil
	if q.exchanges.len == 0 && q.key != (key{}) {
		t.remove(q)
	}
}

func (t *table) insert(k key, text []byte) *queue {
	if 4*t.queues >= 3*len(t.slots) {
		t.grow()
	}
	var q *queue
	if n := len(t.free); n > 0 {
		t.free, q = t.free[:n-1], t.free[n-1]
	} else {
		q = new(queue)
		q.text = q.short[:0]
	}
	q.key, q.text = k, append(q.text[:0], clip(text, maxText)...)
	t.put(slot{k.hash, q})
	t.queues++
	return q
}

func (t *table) put(s slot) {
	i := t.home(s.hash)
	for t.slots[i].queue != nil {
		i = t.after(i)
	}
	t.slots[i] = s
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.queue != nil {
			t.put(s)
		}
	}
}

func (t *table) remove(q *queue) {
	i := t.home(q.key.hash)
	for t.slots[i].queue != q {
		i = t.after(i)
	}
	t.removeSlot(i)
	t.free = append(t.free, q)
	t.queues--
}

// removeSlot empties a slot. Later entries move towards their home slots, so that they are
// still found.
func (t *table) removeSlot(i int) {
	for j := t.after(i); t.slots[j].queue != nil; j = t.after(j) {
		if away := j - t.home(t.slots[j].hash); away&(len(t.slots)-1) >= (j-i)&(len(t.slots)-1) {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = slot{}
}

// clip returns at most the first n bytes of text.
func clip(text []byte, n int) []byte { return text[:min(len(text), n)] }

package store

import (
	"iter"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/context"
	"github.com/wirectl/wirectl/session/join"
)

// A Model describes the model that answers an exchange, and its answer.
type Model struct {
	Name, StopReason string
	ToolCalls        []string
	// FirstPart is the time to the first token, and TokensPerSecond the speed of the answer;
	// 0 if unknown.
	FirstPart       time.Duration
	TokensPerSecond float64
	Context         *context.Call // what it was given; nil if unknown
	Said            string        // the end of the answer so far; "" once it is complete
}

// model is a Model with the answer as far as the tracker keeps it.
type model struct {
	Model
	said []byte
}

// maxTail is how much of an answer is shown, in bytes.
const maxTail = 512

// setAnswer updates the model that answers an exchange.
func (r *rows) setAnswer(mark uint32, e *session.Exchange) {
	m := r.models[mark]
	if m == nil {
		m = &model{}
		r.models[mark] = m
	}
	calls := m.ToolCalls
	if len(calls) < len(e.ToolCalls) {
		calls = slices.Clone(e.ToolCalls)
	}
	m.Model = Model{Name: e.Model, StopReason: e.StopReason, ToolCalls: calls, FirstPart: e.TimeToFirstPart(), TokensPerSecond: e.TokensPerSecond(), Context: e.Context}
	m.said = e.Said
}

// A row is the displayed state of an exchange. It has a fixed size: what most exchanges do not have is
// apart. Times are stamps; 0 means that it has not happened yet.
type row struct {
	*rare
	opened, closed  int64
	first, last     int64 // numbers of frames
	out, in         int64 // bytes
	changed         int64 // the number of its last change
	mark            uint32
	conn            uint32
	on              uint32 // the connection of its first frame, also if it is of several
	stream          int32  // if it is negative: a session of MCP over HTTP
	id              uint32 // in the texts
	name            uint32 // in the texts, plus one; 0 means none
	of              uint32 // mark of the operation to which it belongs; 0 if it is one
	older           uint32 // mark of the previous member of its operation
	run             uint32 // number of its run of wirectl rlm; 0 if it has none
	under           uint32 // mark of its parent in its run; 0 if it is on top
	kind, version   uint16
	opener, outcome uint8
	spoken          uint8 // protocol
	class           uint8 // of its cancel, plus one
	hit             bool  // the filter matches one of its frames
	hitBelow        bool  // or a frame of one of its members
	ended           bool  // by an answer
	cut             bool  // by its cancel, even if an answer follows
	guessed         bool  // it might belong to another operation as well
	edge            uint8 // to its parent on another wire
	assumed         bool  // its outcome is a guess
	accepted        bool  // it was answered, and its operation goes on
}

// rare is what only exchanges with parts, a cancel, members or findings have.
type rare struct {
	firstPart, lastPart int64
	asked, confirmed    int64 // of its cancel
	cancel              int64 // the number of the frame that asked
	parts, after        uint32
	reason              uint32 // in the texts, plus one; 0 means none
	newest              uint32 // mark of its newest member
	joined              uint32 // number of its members
	found               uint32 // findings, including those of its members
	lane
}

// none is the rare of all other rows. It is never written.
var none rare

// own returns the rare of a row, for writing.
func (x *row) own() *rare {
	if x.rare == &none {
		x.rare = new(rare)
	}
	return x.rare
}

// rows are the rows of all exchanges, by mark. The first mark is 1.
type rows struct {
	chunks  []*[chunk]row
	base    int64 // rows before the first chunk
	n       int64
	limit   int
	total   int64
	dropped int64
	hits    int64    // rows that the filter matches, or a member of which
	open    []uint32 // marks of those in flight, in the order of opening
	texts   texts
	usage   map[uint32]protocol.Usage  // by mark
	models  map[uint32]*model          // by mark
	places  map[uint32]runPlace        // of cells and calls of a run, by mark
	links   map[uint32][]protocol.Link // by mark
	why     map[uint32]session.Failure // of those that failed, by mark
	used    protocol.Usage             // in total
	joined  int64                      // total of rows that belong to others
	failed  int64                      // total of failed operations
	changes int64                      // total of changes of rows
	longest int                        // longest name, or kind of a row without a name, in characters, with room for the answer of a model
}

// addRow adds a row for a new exchange, and returns it with its mark.
func (r *rows) addRow() (*row, uint32) {
	if r.n == int64(len(r.chunks))*chunk {
		if r.n >= int64(r.limit) && len(r.chunks) > 1 {
			r.drop()
		} else {
			r.chunks = append(r.chunks, new([chunk]row))
		}
	}
	if r.base+r.n >= 1<<32-2 {
		return nil, 0
	}
	x := &r.chunks[r.n/chunk][r.n%chunk]
	r.n++
	r.total++
	*x = row{mark: uint32(r.base + r.n), rare: &none}
	r.open = append(r.open, x.mark)
	return x, x.mark
}

// touch notes that a row has changed.
func (r *rows) touch(x *row) {
	r.changes++
	x.changed = r.changes
}

// drop drops the oldest chunk, and the texts that only it needs.
func (r *rows) drop() {
	old := r.chunks[0]
	for i := range old {
		if old[i].outcome == uint8(session.Open) {
			r.closeRow(old[i].mark)
		}
		if old[i].hit || old[i].hitBelow {
			r.hits--
		}
		delete(r.usage, old[i].mark)
		delete(r.models, old[i].mark)
		delete(r.places, old[i].mark)
		delete(r.links, old[i].mark)
		delete(r.why, old[i].mark)
	}
	r.chunks = append(r.chunks[1:], old)
	r.base, r.n, r.dropped = r.base+chunk, r.n-chunk, r.dropped+chunk
	r.texts.drop(r.chunks[0][0].id)
}

// of returns the row of a mark; nil if there is none.
func (r *rows) of(mark uint32) *row {
	i := int64(mark) - 1 - r.base
	if mark == 0 || i < 0 || i >= r.n {
		return nil
	}
	return &r.chunks[i/chunk][i%chunk]
}

// operation returns the row of the operation to which x belongs, or x if there is none or it
// was dropped.
func (r *rows) operation(x *row) *row {
	if op := r.of(x.of); op != nil {
		return op
	}
	return x
}

// join adds x and its members to an operation.
func (r *rows) join(op, x *row) {
	joins := op.own()
	for _, mark := range append(r.below(x), x.mark) {
		c := r.of(mark)
		c.of, c.older, joins.newest = op.mark, joins.newest, mark
		r.touch(c)
		joins.joined++
		joins.found += c.found
		if c.hit {
			r.countHit(op)
			op.hitBelow = true
		}
	}
	if x.joined > 0 {
		x.own().newest, x.own().joined = 0, 0
	}
	r.joined++
	r.touch(op)
	if session.Outcome(x.outcome).Failed() {
		r.failed--
	}
}

// leave removes an exchange from an operation.
func (r *rows) leave(op, x *row) {
	left := op.own()
	for at := &left.newest; *at != 0; {
		c := r.of(*at)
		if c == nil || c == x {
			*at = x.older
			break
		}
		at = &c.older
	}
	x.of, x.older = 0, 0
	left.joined--
	left.found -= x.found
	r.joined--
	if session.Outcome(x.outcome).Failed() {
		r.failed++
	}
	r.touch(op)
	r.touch(x)
}

// below returns the marks of the members of an operation, the oldest first.
func (r *rows) below(op *row) (marks []uint32) {
	for x := r.of(op.newest); x != nil; x = r.of(x.older) {
		marks = append(marks, x.mark)
	}
	slices.Reverse(marks)
	return marks
}

// openedBy yields the rows of the exchanges that a frame opened.
func (r *rows) openedBy(seq int64) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		at := func(i int) *row { return &r.chunks[i/chunk][i%chunk] }
		for i := sort.Search(int(r.n), func(i int) bool { return at(i).first >= seq }); i < int(r.n) && at(i).first == seq; i++ {
			if !yield(at(i)) {
				return
			}
		}
	}
}

// use updates the usage of an exchange.
func (r *rows) use(mark uint32, u protocol.Usage) {
	was := r.usage[mark]
	r.usage[mark] = u
	r.used = r.used.Plus(u.Minus(was))
}

// matched records that the filter matches a frame of x.
func (r *rows) matched(x *row) {
	r.countHit(x)
	x.hit = true
	if op := r.operation(x); op != x {
		r.countHit(op)
		op.hitBelow = true
	}
}

func (r *rows) countHit(x *row) {
	if !x.hit && !x.hitBelow {
		r.hits++
	}
}

// closeRow removes an exchange from the list of those in flight.
func (r *rows) closeRow(mark uint32) {
	if i, ok := slices.BinarySearch(r.open, mark); ok {
		r.open = slices.Delete(r.open, i, i+1)
	}
}

// optional returns an optional text.
func (r *rows) optional(at uint32) string {
	if at == 0 {
		return ""
	}
	return string(r.texts.get(at - 1))
}

func (r *rows) keepText(b []byte) uint32 { return r.texts.addText(b[:min(len(b), 255)]) }

// texts keeps short texts in blocks, each with its length before it.
type texts struct {
	blocks [][]byte
	base   int // blocks that were dropped
}

const textBlock = 1 << 16

func (t *texts) addText(b []byte) uint32 {
	n := len(t.blocks)
	if n == 0 || len(t.blocks[n-1])+1+len(b) > textBlock {
		t.blocks = append(t.blocks, make([]byte, 0, textBlock))
		n++
	}
	block := &t.blocks[n-1]
	at := len(*block)
	*block = append(append(*block, byte(len(b))), b...)
	return uint32((t.base+n-1)*textBlock + at)
}

func (t *texts) get(at uint32) []byte {
	i := int(at/textBlock) - t.base
	if i < 0 || i >= len(t.blocks) {
		return nil
	}
	b := t.blocks[i][at%textBlock:]
	return b[1 : 1+int(b[0])]
}

// drop drops the blocks before a text.
func (t *texts) drop(at uint32) {
	if n := int(at/textBlock) - t.base; n > 0 && n < len(t.blocks) {
		t.blocks, t.base = t.blocks[n:], t.base+n
	}
}

// Slots is how many parts of time a lane has.
const Slots = 64

// A lane counts the parts of an answer in slots of time. The slots double in width when the
// exchange outlasts them, so that the size of a lane is fixed.
type lane struct {
	slot  int64 // width, as stamps count
	count [Slots]uint8
}

// firstSlot is the initial width of slots, in nanoseconds or frames.
const firstSlot = 1 << 4

// tick counts a part of an exchange.
func (x *row) tick(at int64) {
	since, l := max(at-x.opened, 0), &x.own().lane
	if l.slot == 0 {
		for l.slot = firstSlot; since/l.slot >= Slots/2; {
			l.slot *= 2
		}
	}
	l.tick(since)
}

func (l *lane) tick(since int64) {
	for since/l.slot >= Slots {
		l.fold()
	}
	if c := &l.count[since/l.slot]; *c < 255 {
		*c++
	}
}

// fold makes the slots twice as wide.
func (l *lane) fold() {
	for i := range Slots / 2 {
		l.count[i] = uint8(min(int(l.count[2*i])+int(l.count[2*i+1]), 255))
	}
	clear(l.count[Slots/2:])
	l.slot *= 2
}

// An Exchange is a row for the screen, or a heading. Times are stamps: nanoseconds since 1970,
// or numbers of frames if times are unknown; 0 means not yet.
type Exchange struct {
	Group                               *Group // of a heading, whose other fields are zero; else nil
	Within                              uint32 // the number of its group
	Mark                                uint32
	ID, Kind                            string
	Name                                string // of the tool, prompt, resource or model that is requested
	Version                             string // of the protocol; "" if unknown
	Reason                              string // of its cancel, or why its answer is missing
	session.Failure                            // if it failed
	Arguments                           string // the beginning of those of the request
	Of                                  int64  // first frame of the operation to which it belongs; 0 if it is one
	Operation                           uint32 // mark of that operation
	Guessed                             bool   // it might belong to another as well
	Assumed                             bool   // its outcome is a guess
	Joined                              int64  // number of its members
	Run                                 string // the id of its run; "" if it has none
	Place                               string // of a turn, a cell or a call in the run: t3/c1/q7
	Asks                                string // the beginning of a cell's code or of a call's prompt
	Turn                                uint32 // the id of its turn in the run of an agent; 0 if it belongs to none
	Head                                uint32 // the id of the agent right above it; 0 if there is none
	Wire                                string // in such a run
	Own                                 string // what the agent does with it for itself; "" if it is part of a turn
	Role                                join.Role
	Waits                               []Span // when nothing in it was at work; To is 0 while it waits
	Path                                []Span // its part of the critical path; To is 0 while it goes on
	Edge                                string // to its parent on another wire: exact, matched, by time
	Under                               uint32 // mark of its parent in its run; 0 if it is on top
	Level                               int    // in a list grouped by run: its depth
	Parent                              bool   // in such a list: it has children, perhaps folded away
	Usage                               protocol.Usage
	Model                               Model
	Conn                                int
	Peer                                string // the label of its connection
	Opener                              frame.Dir
	Opened, FirstPart, LastPart, Closed int64
	Over                                int64 // Closed, or for a withdrawn exchange the time of its cancel
	Asked, Confirmed                    int64
	First, Last, Cancel                 int64 // frames
	Out, In                             int64
	Parts, After                        int64
	Outcome                             session.Outcome
	Cancelled                           bool   // a cancel was asked
	Refusal                             string // why no cancel of it can be sent; "" if one can
	Class                               session.Class
	Findings                            int
	Note                                string
	// Ticks counts parts in slots of that width, starting at Opened.
	Slot  int64
	Ticks [Slots]uint8
}

// Open reports whether the exchange is in flight.
func (x *Exchange) Open() bool { return x.Outcome == session.Open }

// Ended returns when the exchange was over, or now if it is in flight.
func (x *Exchange) Ended(now int64) int64 {
	if x.Open() {
		return now
	}
	return x.Over
}

// over returns when an exchange was over; 0 if it is in flight. A withdrawn exchange was over
// at its cancel, even if an answer came later.
func (r *row) over() int64 {
	if session.Outcome(r.outcome).Stopped() && r.class > 0 {
		switch class := session.Class(r.class - 1); {
		case class == session.Crossed, class == session.LateResult, class == session.Confirmed && r.confirmed == r.asked:
			return r.asked
		}
	}
	return r.closed
}

// waits returns when an exchange waited: a model until its first part, and for the user all the time.
func (r *row) waits(role join.Role) []Span {
	end := r.over()
	switch {
	case role == join.User:
	case role != join.Model, r.firstPart == 0 && end != 0: // without parts, nobody knows when it began to answer
		return nil
	case r.firstPart != 0 && (end == 0 || r.firstPart < end):
		end = r.firstPart
	}
	return []Span{{r.opened, end}}
}

// maxAsked bounds the exchanges of an operation among which questions to the user are looked for.
const maxAsked = 256

func (s *Store) exchange(r *row) Exchange {
	x := Exchange{
		Mark: r.mark, ID: string(s.rows.texts.get(r.id)), Kind: s.kinds.list[r.kind],
		Conn: int(r.on), Opener: frame.Dir(r.opener),
		Opened: r.opened, FirstPart: r.firstPart, LastPart: r.lastPart, Closed: r.closed, Over: r.over(),
		Asked: r.asked, Confirmed: r.confirmed, First: r.first, Last: r.last, Cancel: r.cancel,
		Out: r.out, In: r.in, Parts: int64(r.parts), After: int64(r.after),
		Outcome: session.Outcome(r.outcome), Findings: int(r.found), Note: s.notes[r.first],
	}
	x.Name, x.Reason, x.Version = s.rows.optional(r.name), s.rows.optional(r.reason), s.versions.list[r.version]
	if p := s.peers[x.Conn]; p != nil {
		x.Peer = s.label(p)
	}
	x.Failure, x.Arguments = s.rows.why[r.mark], s.argumentsOf(r)
	if x.Edge = calls.Edge(r.edge).String(); s.trackers.Joins {
		p := s.runs.joins[r.mark]
		x.Turn, x.Under, x.Head, x.Wire, x.Path = p.turn, r.under, p.agent, p.wire, p.path
		x.Own = p.own
	} else if r.run != 0 {
		x.Run, x.Place, x.Asks, x.Under = s.runs.names[r.run-1], s.placeOf(r), s.rows.places[r.mark].asks, r.under
	}
	x.Role = s.roleOf(r)
	x.Waits = r.waits(x.Role)
	if r.joined > 0 && r.joined <= maxAsked {
		for _, mark := range s.rows.below(r) {
			if c := s.rows.of(mark); join.RoleOf(s.callOf(c)) == join.User {
				x.Waits = append(x.Waits, Span{c.opened, c.over()})
			}
		}
	}
	x.Joined, x.Guessed, x.Usage = int64(r.joined), r.guessed, s.rows.usage[r.mark]
	x.Assumed, x.Refusal = r.assumed, s.refusal(r)
	if m := s.rows.models[r.mark]; m != nil {
		x.Model = m.Model
		x.Model.Said = strings.ToValidUTF8(string(m.said[max(0, len(m.said)-maxTail):]), "")
	}
	if op := s.rows.operation(r); op != r {
		x.Of, x.Operation = op.first, op.mark
	}
	if r.class > 0 {
		x.Cancelled, x.Class = true, session.Class(r.class-1)
	}
	x.Slot, x.Ticks = r.slot, r.count
	return x
}

// maxAsking is how large a request may be whose arguments are read for each look at its row.
const maxAsking = 64 << 10

// maxWhy bounds the failures whose texts are kept.
const maxWhy = 1 << 16

// argumentsOf reads the arguments of an exchange from its request.
func (s *Store) argumentsOf(r *row) string {
	e := s.frames.at(r.first)
	if e == nil || e.size > maxAsking || s.roleOf(r) == join.Model || s.load(r.first, e) != nil || s.item.Protocol != s.spoken[r.spoken] {
		return ""
	}
	return s.trackers.Hide(session.OneLine(session.Arguments(&s.item.Message)))
}

// A node is a place in the tree of runs.
type node struct {
	level  int
	parent bool // it has children
}

// parent returns the mark of an exchange's parent in its run, or else of its operation.
func (r *row) parent() uint32 {
	if r.run != 0 || r.under != 0 {
		return r.under
	}
	return r.of
}

// grow lists runs as trees: below each exchange its children, the oldest first. An exchange is
// listed with all its ancestors.
func (o *sorted) grow() {
	q := &o.query
	o.keys, o.below, o.groups, o.least = o.keys[:0], nil, map[uint32]*Group{}, math.MaxUint32
	// By index of the row, and after the rows those of the heads: its oldest child, and its next sibling,
	// as spots that begin with 1.
	heads := o.runs.heads
	child, next := make([]uint32, int(o.rows.n)+len(heads)), make([]uint32, int(o.rows.n)+len(heads))
	tops := map[uint32]uint32{}   // by group
	firsts := map[int64][]int64{} // the indexes of the agents that begin with a row
	for i := range heads {
		if heads[i].Agent {
			at := int64(heads[i].ID) - 1 - o.rows.base
			firsts[at] = append(firsts[at], o.rows.n+int64(i))
		}
	}
	var alone []uint32 // spots, the newest first
	link := func(i, above int64, group uint32) {
		if above < 0 && i < o.rows.n && o.runs.joins[uint32(i+1+o.rows.base)].alone {
			alone = append(alone, uint32(i)+1)
		} else if above >= 0 {
			child[above], next[i] = uint32(i)+1, child[above]
		} else {
			next[i], tops[group] = tops[group], uint32(i)+1
		}
	}
	var prompts []int64
	place := func(i int64) {
		r := &o.rows.chunks[i/chunk][i%chunk]
		if child[i] != 0 || (o.filter == nil || r.hit) && (!q.OpenOnly || r.outcome == uint8(session.Open)) {
			if !o.runs.joins[r.mark].alone {
				o.group(r.run).count(r)
			}
			above := int64(r.parent()) - 1 - o.rows.base
			if above >= i && !(above < o.rows.n && o.runs.joins[r.parent()].prompt) {
				above = -1
			}
			if head := o.runs.joins[r.mark].head; head != 0 {
				o.group(head).count(r)
				above = o.rows.n + int64(head) - 1
			}
			link(i, above, r.run)
		}
		for _, at := range slices.Backward(firsts[i]) {
			if h := &heads[at-o.rows.n]; child[at] != 0 {
				link(at, min(int64(h.Under)-1-o.rows.base, i-1), h.turn)
			}
		}
	}
	for i := o.rows.n - 1; i >= 0; i-- {
		if o.runs.joins[uint32(i+1+o.rows.base)].prompt {
			prompts = append(prompts, i)
		} else {
			place(i)
		}
	}
	for _, i := range prompts {
		place(i)
	}
	o.spots, o.nodes = o.spots[:0], o.nodes[:0]
	var list func(spot uint32, level int)
	list = func(spot uint32, level int) {
		for ; spot != 0; spot = next[spot-1] {
			i := int64(spot) - 1
			at, folded := Spot{Number: uint32(i + 1 + o.rows.base)}, false
			if head := i - o.rows.n; head >= 0 {
				at = Spot{uint32(head) + 1, true}
				folded = o.groups[at.Number].Folded
			} else {
				folded = q.Cut.Has(at.Number)
				o.least = min(o.least, at.Number)
			}
			o.spots, o.nodes = append(o.spots, at), append(o.nodes, node{level, child[i] != 0})
			if !folded {
				list(child[i], level+1)
			}
		}
	}
	until := func(mark uint32) { // turns of one call come in the order of time
		for n := len(alone); n > 0 && o.rows.base+int64(alone[n-1]) < int64(mark); n-- {
			list(alone[n-1], 0)
			alone = alone[:n-1]
		}
	}
	top := 0
	if o.trackers.Joins {
		top = 1 // below turns of one call, too
	}
	for n := range uint32(len(o.runs.names) + 1) {
		run := (n + 1) % uint32(len(o.runs.names)+1) // exchanges without a run come last
		if run == 0 {
			until(math.MaxUint32)
		}
		if tops[run] == 0 {
			continue
		}
		if run != 0 && len(alone) > 0 {
			until(o.runs.heads[run-1].ID)
		}
		o.spots, o.nodes = append(o.spots, Spot{run, true}), append(o.nodes, node{})
		if !o.groups[run].Folded {
			list(tops[run], top)
		}
	}
}

// above returns the index of the nearest listed ancestor of r, or of its heading.
func (o *sorted) above(r *row) int {
	at := map[Spot]int{}
	for i, spot := range o.spots {
		at[spot] = i
	}
	group := r.run
	for r != nil {
		if i, ok := at[Spot{o.runs.joins[r.mark].head, true}]; ok && o.runs.joins[r.mark].head != 0 {
			return i
		}
		if r = o.rows.of(r.parent()); r == nil {
			break
		}
		if i, ok := at[Spot{Number: r.mark}]; ok {
			return i
		}
	}
	return at[Spot{group, true}]
}

package store

import (
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

// A Model is what is known of the model that answers an exchange.
type Model struct {
	Name, StopReason string
	ToolCalls        []string
	// FirstPart is the time to the first token, and TokensPerSecond how fast the answer came;
	// 0 if that is not known.
	FirstPart       time.Duration
	TokensPerSecond float64
	Prompt          *session.Prompt // what it was given; nil if that is not known
	Said            string          // the end of what it has said so far; "" when it is over
}

// model is a Model with all that is kept of what it has said, which is the tracker's.
type model struct {
	Model
	said []byte
}

// maxTail is how much of what a model has said is shown.
const maxTail = 512

// setAnswer notes what is known of the model that answers an exchange.
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
	m.Model = Model{Name: e.Model, StopReason: e.StopReason, ToolCalls: calls, FirstPart: e.TimeToFirstPart(), TokensPerSecond: e.TokensPerSecond(), Prompt: e.Prompt}
	m.said = e.Said
}

// A row is the displayed state of an exchange: all of fixed size, without pointers.
// Times are stamps, 0 as long as nothing has happened.
type row struct {
	opened, answered, firstPart, lastPart, closed int64
	asked, confirmed                              int64 // of its cancel
	cancel                                        int64 // the number of the frame that asked
	first, last                                   int64 // numbers of frames
	out, in                                       int64 // bytes
	heldBack                                      int64
	changed                                       int64 // the number of its last change
	mark                                          uint32
	parts, after                                  uint32
	conn                                          uint32
	id                                            uint32 // in the texts
	name, reason                                  uint32 // in the texts, plus one; 0 means none
	of                                            uint32 // mark of the operation that it belongs to; 0 if it is one
	newest, older                                 uint32 // marks of the newest that belongs to it, and of the one before it in its operation
	joined                                        uint32 // how many belong to it
	lane                                          uint32 // in the lanes, plus one
	found                                         uint32 // findings, with those about what belongs to it
	run                                           uint32 // of wirectl rlm, by its number; 0 if it belongs to none
	under                                         uint32 // mark of what it stands below in its run; 0 if it is on top
	kind, version                                 uint16
	opener, outcome                               uint8
	spoken                                        uint8 // protocol
	class                                         uint8 // of its cancel, plus one
	hit                                           bool  // the filter matches one of its frames
	hitBelow                                      bool  // or of those of an exchange that belongs to it
	ended                                         bool  // by an answer
	cut                                           bool  // by its cancel, whatever answers it
	guessed                                       bool  // it might belong to another operation as well
	noted                                         bool
}

// rows are those of all exchanges, by mark: 1 is the first.
type rows struct {
	chunks  []*[chunk]row
	base    int64 // rows before the first chunk
	n       int64
	limit   int
	total   int64
	dropped int64
	open    []uint32 // marks of those in flight, in the order of opening
	texts   texts
	lanes   []*[chunk]lane
	laned   int
	free    []uint32                  // lanes of rows that were dropped
	usage   map[uint32]protocol.Usage // of those that have any
	models  map[uint32]*model         // of those that a model answers
	places  map[uint32]runPlace       // of cells and calls of a run
	used    protocol.Usage            // by all
	joined  int64                     // rows that belong to others, ever
	failed  int64                     // operations that have, ever
	changes int64                     // of rows, ever
	longest int                       // name, or kind of what has none, in characters, with what a model says
	named   int                       // the same without what a model says
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
	*x = row{mark: uint32(r.base + r.n)}
	r.open = append(r.open, x.mark)
	return x, x.mark
}

// touch notes that a row has changed.
func (r *rows) touch(x *row) {
	r.changes++
	x.changed = r.changes
}

// drop forgets the oldest chunk, with the texts that only it needs.
func (r *rows) drop() {
	old := r.chunks[0]
	for i := range old {
		if old[i].outcome == uint8(session.Open) {
			r.closeRow(old[i].mark)
		}
		if old[i].lane != 0 {
			r.free = append(r.free, old[i].lane)
		}
		delete(r.usage, old[i].mark)
		delete(r.models, old[i].mark)
		delete(r.places, old[i].mark)
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

// operation returns the row of the operation that r belongs to, as far as it is kept, or
// else r.
func (r *rows) operation(x *row) *row {
	if op := r.of(x.of); op != nil {
		return op
	}
	return x
}

// join makes x, and what belongs to it, belong to an operation.
func (r *rows) join(op, x *row) {
	for _, mark := range append(r.below(x), x.mark) {
		c := r.of(mark)
		c.of, c.older, op.newest = op.mark, op.newest, mark
		r.touch(c)
		op.joined++
		op.found += c.found
		op.hitBelow = op.hitBelow || c.hit
	}
	x.newest, x.joined = 0, 0
	r.joined++
	r.touch(op)
	if session.Outcome(x.outcome).Failed() {
		r.failed--
	}
}

// below returns the marks of the exchanges that belong to an operation, the oldest first.
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

// use notes what an exchange has used.
func (r *rows) use(mark uint32, u protocol.Usage) {
	was := r.usage[mark]
	r.usage[mark] = u
	r.used = r.used.Plus(u.Minus(was))
}

// matched notes that the filter matches a frame of x.
func (r *rows) matched(x *row) {
	x.hit = true
	if op := r.operation(x); op != x {
		op.hitBelow = true
	}
}

// closeRow removes an exchange from those in flight.
func (r *rows) closeRow(mark uint32) {
	if i, ok := slices.BinarySearch(r.open, mark); ok {
		r.open = slices.Delete(r.open, i, i+1)
	}
}

// optional returns a text that may be none.
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

// drop forgets the blocks before a text.
func (t *texts) drop(at uint32) {
	if n := int(at/textBlock) - t.base; n > 0 && n < len(t.blocks) {
		t.blocks, t.base = t.blocks[n:], t.base+n
	}
}

// Slots is how many parts of time a lane has.
const Slots = 64

// A lane counts the parts of an answer in slots of time, which double in width
// when the exchange outlasts them: its size is fixed, whatever comes.
type lane struct {
	slot  int64 // width, as stamps count
	count [Slots]uint8
}

// firstSlot is the width of slots at the beginning, in nanoseconds or frames.
const firstSlot = 1 << 4

// tick notes a part of an exchange.
func (r *rows) tick(x *row, at int64) {
	since := max(at-x.opened, 0)
	if x.lane == 0 {
		x.lane = r.newLane()
		l := r.laneOf(x)
		*l = lane{slot: firstSlot}
		for since/l.slot >= Slots/2 {
			l.slot *= 2
		}
	}
	r.laneOf(x).tick(since)
}

func (r *rows) newLane() uint32 {
	if n := len(r.free); n > 0 {
		l := r.free[n-1]
		r.free = r.free[:n-1]
		return l
	}
	if r.laned == len(r.lanes)*chunk {
		r.lanes = append(r.lanes, new([chunk]lane))
	}
	r.laned++
	return uint32(r.laned)
}

func (r *rows) laneOf(x *row) *lane {
	if x.lane == 0 {
		return nil
	}
	return &r.lanes[(x.lane-1)/chunk][(x.lane-1)%chunk]
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

// An Exchange is a row as the screen has it, or a heading. Times are stamps: nanoseconds
// since 1970, or numbers of frames where times are not known; 0 is not yet.
type Exchange struct {
	Group                                         *Group // not nil for the heading of one; all else is zero
	Within                                        uint32 // the number of its group
	Mark                                          uint32
	ID, Kind                                      string
	Name                                          string // that the request names: a tool, a prompt, a resource, a model
	Version                                       string // of the protocol; "" if it is not known
	Reason                                        string // why it was cancelled
	Of                                            int64  // first frame of the operation that it belongs to; 0 if it is one
	Operation                                     uint32 // its mark
	Guessed                                       bool   // it might belong to another as well
	Joined                                        int64  // exchanges that belong to it
	Run                                           string // the id of the run that it belongs to; "" if that is none
	Place                                         string // in the run, of a turn, a cell or a call: t3/c1/q7
	Asks                                          string // of a cell the beginning of its code, of a call that of its prompt
	Under                                         uint32 // mark of what it stands below in its run; 0 if it is on top
	Level                                         int    // in a list that is grouped by run: how many stand above it
	Parent                                        bool   // in such a list: some stand below it, or are folded away
	Usage                                         protocol.Usage
	Model                                         Model
	Conn                                          int
	Peer                                          string // the name of the connection; "" if it has none
	Opener                                        frame.Dir
	Opened, Answered, FirstPart, LastPart, Closed int64
	Over                                          int64 // as Closed, but of one that was withdrawn when it was
	Asked, Confirmed                              int64
	First, Last, Cancel                           int64 // frames
	Out, In                                       int64
	Parts, After                                  int64
	HeldBack                                      int64
	Outcome                                       session.Outcome
	Cancelled                                     bool // a cancel was asked
	Class                                         session.Class
	Findings                                      int
	Note                                          string
	// Slot is the width of the slots of Parts over time, from Opened on.
	Slot  int64
	Ticks [Slots]uint8
}

// Open reports whether the exchange is in flight.
func (x *Exchange) Open() bool { return x.Outcome == session.Open }

// Ended returns when the exchange was over, or now if it is not.
func (x *Exchange) Ended(now int64) int64 {
	if x.Open() {
		return now
	}
	return x.Over
}

// over returns when an exchange was over, whatever came later: one that was withdrawn was
// over then. It is 0 for one in flight.
func (r *row) over() int64 {
	if session.Outcome(r.outcome).Stopped() && r.class > 0 {
		switch class := session.Class(r.class - 1); {
		case class == session.Crossed, class == session.LateResult, class == session.Confirmed && r.confirmed == r.asked:
			return r.asked
		}
	}
	return r.closed
}

func (s *Store) exchange(r *row) Exchange {
	x := Exchange{
		Mark: r.mark, ID: string(s.rows.texts.get(r.id)), Kind: s.kinds.list[r.kind],
		Conn: int(r.conn), Opener: frame.Dir(r.opener),
		Opened: r.opened, Answered: r.answered, FirstPart: r.firstPart, LastPart: r.lastPart, Closed: r.closed, Over: r.over(),
		Asked: r.asked, Confirmed: r.confirmed, First: r.first, Last: r.last, Cancel: r.cancel,
		Out: r.out, In: r.in, Parts: int64(r.parts), After: int64(r.after), HeldBack: r.heldBack,
		Outcome: session.Outcome(r.outcome), Findings: int(r.found),
	}
	x.Name, x.Reason, x.Version = s.rows.optional(r.name), s.rows.optional(r.reason), s.versions.list[r.version]
	if p := s.peers[x.Conn]; p != nil {
		x.Peer = p.Name
	}
	if r.run != 0 {
		x.Run, x.Place, x.Asks, x.Under = s.runs.names[r.run-1], s.placeOf(r), s.rows.places[r.mark].asks, r.under
	}
	x.Joined, x.Guessed, x.Usage = int64(r.joined), r.guessed, s.rows.usage[r.mark]
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
	if l := s.rows.laneOf(r); l != nil {
		x.Slot, x.Ticks = l.slot, l.count
	}
	if r.noted {
		x.Note = s.marks[r.mark].Text
	}
	return x
}

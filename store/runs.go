package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/join"
)

// runs are the runs of wirectl rlm in a session. Only the current turn, cell and calls of each
// are kept, because new exchanges belong to those.
type runs struct {
	names []string // by number, from 1
	of    map[string]*episode
	// joined is the number of the last change of a row that the tree of an agent's run knows.
	joined int64
	made   time.Time // when it was made, and how long that took
	took   time.Duration
	heads  []Head               // of that tree, by number, from 1
	joins  map[uint32]placement // in that tree, by mark
}

// A Span is a time from a stamp to another one.
type Span struct{ From, To int64 }

// A Head is a row in the tree of an agent's run that stands for others: a turn of its user, or what an
// agent does that another one has started.
type Head struct {
	ID           uint32 // mark of its first call
	Agent        bool
	Name         string
	Turn         uint32 // its turn; 0 if it is one, or of none
	Under        uint32 // mark of the call that has started an agent; 0 for a turn
	Opened, Over int64
	Outcome      session.Outcome
	Reason       string
	Waits        []Span // when nothing below it was at work
	OnPath       bool   // the critical path leads through it
	Stops        []Stop // how far its cancel went

	turn    uint32 // number of its turn
	changed int64
}

// GoesOn reports whether the turn or the agent goes on.
func (h *Head) GoesOn() bool { return h.Outcome == session.Open }

// A Stop is what a cancel did to an exchange; see [join.Stop].
type Stop struct {
	Mark       uint32
	Name, Wire string
	Opened, At int64 // At is 0 if it was not cancelled
	Ended      int64 // by an answer, also a late one; 0 if it goes on
	Text       string
}

// A placement is where an exchange is in the tree of an agent's run.
type placement struct {
	run, under, head uint32 // head is the agent right above it; 0 if there is none
	turn, agent      uint32 // the ids of these heads
	edge             calls.Edge
	role             join.Role
	wire, own        string
	path             []Span // its part of the critical path
	alone            bool   // it is a turn of one call, which has no head
	prompt           bool   // it is the first row of a turn, also if it was read after the calls below it
}

func (p *placement) same(as *placement) bool {
	return p.run == as.run && p.under == as.under && p.head == as.head && p.turn == as.turn && p.agent == as.agent && p.edge == as.edge && p.role == as.role && p.wire == as.wire && p.own == as.own && p.alone == as.alone && p.prompt == as.prompt && slices.Equal(p.path, as.path)
}

// maxRuns is how many runs are followed at once.
const maxRuns = 1024

// An episode is a run or a child run, with its newest turn and the newest cell of that turn.
type episode struct {
	number     uint32
	turn, cell step
	calls      map[int]*call // of the cell
}

// A step is a turn or a cell: its number in the path and its mark.
type step struct {
	n    int
	mark uint32
}

// A call is a call of a cell: the marks of the worker's request and of the request to the model.
type call struct {
	asked, sent uint32
	child       episode
}

// runID is the length of the id of a run, in hexadecimal digits.
const runID = 32

// runPlace is the place of a cell or a call in its run, and the beginning of its request.
type runPlace struct{ place, asks string }

// maxAsks is how much of a request is shown, in bytes of JSON.
const maxAsks = 160

// beginning returns the first line of a text, which is a JSON string or some other value.
func beginning(value []byte) string {
	raw := value[:min(len(value), maxAsks)]
	if !bytes.HasPrefix(raw, []byte(`"`)) {
		return strings.ToValidUTF8(string(raw), "")
	}
	raw, _, _ = bytes.Cut(raw, []byte(`\n`))
	for cut := len(raw); cut > 0 && cut > len(raw)-utf8.UTFMax-len(`\u0000`); cut-- {
		var text string
		if json.Unmarshal([]byte(strings.TrimSuffix(string(raw[:cut]), `"`)+`"`), &text) == nil {
			return text
		}
	}
	return strings.ToValidUTF8(string(raw), "")
}

// cutRun separates the id of a run from the place within it.
func cutRun(path string) (run, place string, ok bool) {
	run, place, _ = strings.Cut(path, "/")
	return run, place, len(run) == runID && strings.Trim(run, "0123456789abcdef") == ""
}

// A runSpot is the end of a path in a run.
type runSpot struct {
	*episode
	last  string // the last word of the path, such as c1; "" for the run
	n     int    // its number
	call  *call  // the call, or the call of which this is the child run
	above uint32 // mark of the parent
}

// maxPath is how long a path may be, in bytes.
const maxPath = 4096

// at follows a path. It skips words of the path that are over.
func (rs *runs) at(path string) (p runSpot, ok bool) {
	run, place, ok := cutRun(path)
	if !ok || len(path) > maxPath {
		return p, false
	}
	if p.episode = rs.of[run]; p.episode == nil {
		if rs.of == nil || len(rs.of) >= maxRuns {
			rs.of = map[string]*episode{}
		}
		rs.names = append(rs.names, run)
		p.episode = &episode{number: uint32(len(rs.names))}
		rs.of[run] = p.episode
	}
	for place != "" {
		p.step()
		p.last, place, _ = strings.Cut(place, "/")
		p.n, _ = strconv.Atoi(p.last[min(1, len(p.last)):])
		if p.call = nil; strings.HasPrefix(p.last, "q") {
			p.call = p.episode.callAt(p.n)
		}
	}
	return p, true
}

// step goes below the last word of a path.
func (p *runSpot) step() {
	switch {
	case strings.HasPrefix(p.last, "t") && p.n == p.turn.n:
		p.above = p.turn.mark
	case strings.HasPrefix(p.last, "c") && p.n == p.cell.n:
		p.above = p.cell.mark
	case p.call != nil:
		p.above, p.episode = p.call.asked, &p.call.child
	}
}

// callAt returns a call of the cell.
func (e *episode) callAt(n int) *call {
	if e.calls == nil {
		e.calls = map[int]*call{}
	}
	if e.calls[n] == nil {
		e.calls[n] = &call{child: episode{number: e.number}}
	}
	return e.calls[n]
}

// belongs notes the place of a connection, or of one of its exchanges, in a run.
func (s *Store) belongs(p *Peer, at *capture.Place) {
	switch {
	case at.Next:
		p.next = at.Run
	case len(at.ID) == 0:
		p.place = at.Run
	default:
		s.asks(p.Conn, at)
	}
}

// asks notes which call a worker's request is.
func (s *Store) asks(conn int, at *capture.Place) {
	spot, ok := s.runs.at(at.Run)
	if !ok || spot.call == nil {
		return
	}
	for i := len(s.rows.open) - 1; i >= 0; i-- {
		r := s.rows.of(s.rows.open[i])
		if r == nil || r.conn != uint32(conn) || !bytes.Equal(s.rows.texts.get(r.id), at.ID) || r.under != spot.above {
			continue
		}
		spot.call.asked = r.mark
		if p, place := s.rows.places[r.mark], PlaceOf(at.Run); p.place == "" || len(place) < len(p.place) || len(place) == len(p.place) && place < p.place {
			s.rows.places[r.mark] = runPlace{place, p.asks} // of a batch, the first
			s.rows.touch(r)
		}
		return
	}
}

// placeRow finds the place of a new exchange in its run.
func (s *Store) placeRow(r *row, e *session.Exchange) {
	p := s.peer(e.Conn)
	protocol := e.Protocol.Name()
	id := strings.Trim(string(e.ID.Text), `"`)
	if _, place, ok := cutRun(id); ok && place != "" && len(id) <= maxPath && protocol == "rlm" {
		s.placeRequest(r, id)
		return
	}
	path, isCell := p.place, p.next != "" && e.Kind == "execute"
	if isCell {
		path, p.next = p.next, ""
	}
	spot, ok := s.runs.at(path)
	if !ok {
		return
	}
	switch r.run = spot.number; {
	case isCell:
		r.under = spot.above
		spot.cell, spot.calls = step{spot.n, r.mark}, nil
		s.rows.places[r.mark] = runPlace{PlaceOf(path), beginning(s.asking)}
	case protocol == "repl":
		s.rows.places[r.mark] = runPlace{asks: beginning(s.asking)}
		s.placeOther(r, &spot)
	case spot.call != nil: // of a provider
		r.under = spot.call.sent
	case spot.n == spot.turn.n:
		r.under = spot.turn.mark
	default:
		r.under = spot.above
	}
}

// placeRequest places a request to a model, which is a turn or a call.
func (s *Store) placeRequest(r *row, path string) {
	spot, _ := s.runs.at(path)
	r.run, r.under = spot.number, spot.above
	switch {
	case spot.call != nil:
		if spot.call.asked != 0 {
			r.under = spot.call.asked
		}
		spot.call.sent = r.mark
	case strings.HasPrefix(spot.last, "t"):
		spot.turn, spot.cell, spot.calls = step{spot.n, r.mark}, step{}, nil
	}
}

// placeOther places another request to or from a worker below the running cell, or else below
// the turn.
func (s *Store) placeOther(r *row, spot *runSpot) {
	spot.step() // into a child run
	if r.under = spot.above; spot.turn.mark != 0 {
		r.under = spot.turn.mark
	}
	if cell := s.rows.of(spot.cell.mark); cell != nil && session.Outcome(cell.outcome) == session.Open {
		r.under = cell.mark
	}
}

// placeOf returns the place of a row in its run.
func (s *Store) placeOf(r *row) string {
	if p := s.rows.places[r.mark]; p.place != "" {
		return p.place
	}
	return PlaceOf(strings.Trim(string(s.rows.texts.get(r.id)), `"`))
}

// PlaceOf returns the place in a run that an unquoted id names, such as t3/c1/q7, or "".
func PlaceOf(id string) string {
	if _, place, ok := cutRun(id); ok {
		return place
	}
	return ""
}

// maxTree bounds the exchanges of a run that are joined to a tree.
const maxTree = 1 << 17

// joinWires finds the places of exchanges in the run of an agent: the turn is their group, and the call
// of which they are a part their parent. It returns the tree, or nil if nothing has changed.
func (s *Store) joinWires() []*calls.Call {
	began := time.Now()
	switch {
	case !s.trackers.Joins, s.rows.n > maxTree, s.runs.joined == s.rows.changes:
		return nil
	case !s.ended && s.rows.n > shortOrder && began.Sub(s.runs.made) < 10*s.runs.took:
		return nil // it takes long, and more will come
	}
	list, rows := make([]*calls.Call, 0, s.rows.n), make(map[*calls.Call]*row, s.rows.n)
	for i := range s.rows.n {
		if r := &s.rows.chunks[i/chunk][i%chunk]; r.of == 0 {
			c := s.callOf(r)
			list, rows[c] = append(list, c), r
		}
	}
	tree := join.Tree(list, s.trackers.Wires, s.trackers.OfRun)
	before, heads := s.runs.joins, s.runs.heads
	s.runs.names, s.runs.heads, s.runs.joins = s.runs.names[:0], nil, make(map[uint32]placement, len(list))
	type above struct{ mark, head uint32 }
	var way []above // down to a call
	turn := uint32(0)
	for i, c := range tree {
		way = append(way[:min(c.Place.Depth, len(way))], above{})
		at, under := &way[len(way)-1], way[max(len(way)-2, 0)]
		if len(way) == 1 {
			turn = 0
		}
		r := rows[c]
		if r == nil {
			at.mark, at.head = under.mark, s.head(tree[i:], turn, under.mark, rows)
			if c.Place.Turn {
				turn = at.head
			}
			continue
		}
		at.mark = r.mark
		p := placement{alone: len(way) == 1 && join.RoleOf(c) == join.Model && c.Place.Own == "", edge: c.Place.Edge, role: join.RoleOf(c), wire: c.Wire, own: c.Place.Own, prompt: c.Place.Prompt}
		if len(way) > 1 {
			p.run, p.under = turn, under.mark
			if under.head != turn {
				p.head = under.head
			}
		}
		if p.run != 0 {
			p.turn = s.runs.heads[p.run-1].ID
		}
		if p.head != 0 {
			p.agent = s.runs.heads[p.head-1].ID
		}
		s.runs.joins[r.mark] = p
	}
	path := join.CriticalPath(tree)
	var end time.Time
	for _, step := range path {
		if step.To.After(end) {
			end = step.To
		}
	}
	for _, step := range path {
		if r := rows[step.Call]; r != nil {
			p, part := s.runs.joins[r.mark], Span{step.From.UnixNano(), step.To.UnixNano()}
			if step.Call.Outcome == session.Open && step.To.Equal(end) {
				part.To = 0
			}
			p.path = append(p.path, part)
			s.runs.joins[r.mark] = p
			for head := cmp.Or(p.head, p.run); head != 0 && !s.runs.heads[head-1].OnPath; {
				h := &s.runs.heads[head-1]
				h.OnPath = true
				head = cmp.Or(s.runs.joins[h.Under].head, h.turn)
			}
		}
	}
	for i := range s.rows.n {
		r := &s.rows.chunks[i/chunk][i%chunk]
		p := s.runs.joins[r.mark]
		if op := s.rows.of(r.of); op != nil {
			p = s.runs.joins[op.mark]
			p = placement{run: p.run, turn: p.turn, under: op.mark, role: p.role, wire: p.wire}
			s.runs.joins[r.mark] = p
		}
		r.run, r.under, r.edge = p.run, p.under, uint8(p.edge)
		if was := before[r.mark]; !p.same(&was) {
			s.rows.touch(r)
		}
	}
	for i := range s.runs.heads {
		if h := &s.runs.heads[i]; i < len(heads) && h.same(&heads[i]) {
			h.changed = heads[i].changed
		} else {
			s.rows.changes++
			h.changed = s.rows.changes
		}
	}
	s.runs.joined, s.runs.made = s.rows.changes, time.Now()
	s.runs.took = s.runs.made.Sub(began)
	return tree
}

// head adds the head that is the first of these rows of the tree, and returns its number.
func (s *Store) head(tree []*calls.Call, turn, under uint32, rows map[*calls.Call]*row) uint32 {
	c, end := tree[0], 1
	for end < len(tree) && tree[end].Place.Depth > c.Place.Depth {
		end++
	}
	h := Head{
		Agent: c.Place.Agent, Name: c.Name, turn: turn, Under: under,
		Opened: c.Start.UnixNano(), Over: c.Start.Add(c.Duration).UnixNano(), Outcome: c.Outcome, Reason: c.Reason,
	}
	var busy []Span
	for _, c := range tree[1:end] {
		r := rows[c]
		if r == nil {
			continue
		}
		if h.ID == 0 {
			h.ID = r.mark
		}
		over := r.over()
		if over == 0 {
			over = math.MaxInt64
		}
		if !c.Place.Prompt {
			busy = append(busy, Span{r.opened, over})
		}
	}
	if h.Waits = gaps(busy); turn != 0 {
		h.Turn = s.runs.heads[turn-1].ID
	}
	if c.Place.Turn && c.Stopped {
		for _, stop := range join.Stops(tree[1:end]) {
			r := rows[stop.Call]
			x := Stop{Mark: r.mark, Name: cmp.Or(stop.Call.Name, stop.Call.Kind), Wire: stop.Call.Wire, Opened: r.opened, Ended: r.closed, Text: stop.String()}
			if !stop.At.IsZero() {
				x.At = stop.At.UnixNano()
			}
			h.Stops = append(h.Stops, x)
		}
	}
	name := c.Name
	if c.Place.Turn && c.Stopped && c.Reason != "" {
		name += ": " + c.Reason
	}
	s.runs.heads, s.runs.names = append(s.runs.heads, h), append(s.runs.names, name)
	return uint32(len(s.runs.heads))
}

func (h *Head) same(as *Head) bool {
	return h.ID == as.ID && h.Agent == as.Agent && h.Name == as.Name && h.Turn == as.Turn && h.Under == as.Under && h.Opened == as.Opened && h.Over == as.Over &&
		h.Outcome == as.Outcome && h.OnPath == as.OnPath && h.Reason == as.Reason && slices.Equal(h.Waits, as.Waits) && slices.Equal(h.Stops, as.Stops)
}

// gaps returns the times between the spans of a list that none of them covers.
func gaps(list []Span) (free []Span) {
	slices.SortFunc(list, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	for i, end := 0, int64(0); i < len(list); i++ {
		if i > 0 && list[i].From > end {
			free = append(free, Span{end, list[i].From})
		}
		end = max(end, list[i].To)
	}
	return free
}

// callOf returns what package join needs of an exchange.
func (s *Store) callOf(r *row) *calls.Call {
	c := &calls.Call{
		Frame: r.first, Conn: int(r.conn), Stream: int(r.stream), Protocol: s.spoken[r.spoken].Name(), Kind: s.kinds.list[r.kind], Name: s.rows.optional(r.name),
		Start: time.Unix(0, r.opened), Outcome: session.Outcome(r.outcome), Stopped: r.class > 0 || session.Outcome(r.outcome).Stopped(), Links: s.rows.links[r.mark],
	}
	if m := s.rows.models[r.mark]; m != nil {
		c.Model = m.Name
	}
	if r.closed != 0 {
		c.Closed = time.Unix(0, r.closed)
	}
	if end := r.over(); end != 0 {
		c.Duration = time.Duration(end - r.opened)
	}
	if r.asked != 0 {
		c.Asked = time.Unix(0, r.asked)
	}
	if r.class > 0 {
		c.Class = session.Class(r.class - 1)
	}
	return c
}

// A series counts the traffic in slots of time, which double in width when the session
// outlasts them.
type series struct {
	bytes int64
	begin int64
	slot  int64
	slots []Traffic
	last  int64 // the slot of the newest frame
	level int64 // exchanges in flight after it
}

// Traffic is what passed in a slot of time.
type Traffic struct {
	Frames   [3]int64 // by direction
	Bytes    [3]int64
	InFlight int64 // at most
}

const (
	seriesSlots = 1024
	seriesWidth = 1 << 20 // at the beginning: about a millisecond, or frames
)

func (t *series) countFrame(at int64, d frame.Dir, n int64) {
	t.bytes += n
	c := t.at(at)
	c.Frames[d]++
	c.Bytes[d] += n
}

// flies sets how many exchanges are in flight after the newest frame.
func (t *series) flies(n int64) {
	t.level = n
	c := &t.slots[t.last]
	c.InFlight = max(c.InFlight, n)
}

// at returns the slot of a time. Times before the beginning belong to the first slot. The
// number in flight does not change while nothing passes.
func (t *series) at(at int64) *Traffic {
	if t.slot == 0 {
		t.begin, t.slot = at, seriesWidth
		if at < 1<<40 { // a number of a frame
			t.slot = 1
		}
	}
	i := max(at-t.begin, 0) / t.slot
	for i >= seriesSlots {
		t.fold()
		i = max(at-t.begin, 0) / t.slot
	}
	for int64(len(t.slots)) <= i {
		t.slots = append(t.slots, Traffic{InFlight: t.level})
	}
	t.last = i
	return &t.slots[i]
}

func (t *series) fold() {
	for i := range (len(t.slots) + 1) / 2 {
		sum := t.slots[2*i]
		if 2*i+1 < len(t.slots) {
			more := t.slots[2*i+1]
			for d := range sum.Frames {
				sum.Frames[d] += more.Frames[d]
				sum.Bytes[d] += more.Bytes[d]
			}
			sum.InFlight = max(sum.InFlight, more.InFlight)
		}
		t.slots[i] = sum
	}
	t.slots = t.slots[:(len(t.slots)+1)/2]
	t.slot *= 2
}

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
	Joins             bool  // it has several wires, which are joined
	Run               bool  // it is a run, or a question of wirectl rlm
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
	Calls             int64 // exchanges that match it
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
		Protocols: s.protocols(), Joins: s.trackers.Joins, Run: s.session.Unit == "wirectl rlm" && len(s.runs.names) > 0 || s.trackers.Joins,
	}
	_, o.Listed = s.listed()
	if n := len(s.notices); n > 0 {
		o.Notice = s.notices[n-1]
	}
	if s.filter != nil {
		o.Filter, o.Matches, o.Searched, o.Calls = s.filter.text, int64(len(s.hits.seqs)), s.hits.searched(s), s.rows.hits
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

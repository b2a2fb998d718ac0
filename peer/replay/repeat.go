package replay

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/transport"
)

// A Repeater plays the unit of a recording for clients that send the recorded requests any
// number of times and in any order. A [Script] is played once, from start to end.
type Repeater struct {
	script *Script // of the first connection
	ignore []jsondiff.Path
	scenes []*scene
	alike  map[[jsondiff.DigestSize]byte][]*scene // by their cue
	named  map[string]bool                        // tasks
	own    int64                                  // the largest number among the ids of the unit's requests
}

// A scene is a frame of the client and all frames that belong to it.
type scene struct {
	script *Script
	cue    *step   // nil for frames that the unit sends first
	steps  []*step // in order, without the cue
	pause  []time.Duration
	tasks  []string // that the unit begins
}

// NewRepeater returns a repeater for the connections of a recording that have the protocol
// and framing of the first. They must be prepared for the side frame.U2C. Values at the
// ignored paths do not distinguish requests.
func NewRepeater(scripts []*Script, ignore []jsondiff.Path) *Repeater {
	p := &Repeater{script: scripts[0], ignore: slices.Concat(scripts[0].inBody(ignore), scripts[0].ignore, scripts[0].undigested, webSessions), alike: make(map[[jsondiff.DigestSize]byte][]*scene), named: make(map[string]bool)}
	for _, s := range scripts {
		if s.Protocol == p.script.Protocol && s.Framing == p.script.Framing {
			p.addScript(s)
		}
	}
	return p
}

func (p *Repeater) addScript(s *Script) {
	groups, order := s.groups(frame.U2C), s.orderOf(frame.U2C)
	byGroup := make(map[int]*scene)
	for i, st := range s.steps {
		if st.dir == frame.U2C && st.opens != 0 {
			number, _ := strconv.ParseInt(string(st.message.ID.Text), 10, 64)
			p.own = max(p.own, number)
		}
		sc := byGroup[groups[i]]
		if sc == nil {
			sc = &scene{script: s}
			byGroup[groups[i]] = sc
			if groups[i] > 0 || s == p.script {
				p.scenes = append(p.scenes, sc)
			}
		}
		if groups[i] == i+1 {
			sc.cue = st
			sum := p.digest(&st.reading)
			p.alike[sum] = append(p.alike[sum], sc)
			continue
		}
		sc.steps, sc.pause = append(sc.steps, st), append(sc.pause, order.pause[i])
	}
	for i, st := range s.steps {
		if asks := s.askedBy(st); groups[i] == i+1 && st.inner.Phase.Ends() && asks >= 0 {
			byGroup[groups[asks]].await(st, func(other *step) bool { return other.index > st.index })
		}
		sc := byGroup[groups[i]]
		sc.addTasks(st, p.named)
		if cancel := s.cancelOf(st); cancel != nil && sc.cue != nil && cancel.index > sc.cue.index {
			sc.await(cancel, func(other *step) bool { return other == st })
		}
	}
}

// await adds a frame of the client that came in a scene of its own, before the first step for
// which isNext is true: an answer to a request of the unit, which is posted over HTTP, or the
// cancel of a task.
func (sc *scene) await(st *step, isNext func(*step) bool) {
	if at := slices.IndexFunc(sc.steps, isNext); at >= 0 {
		sc.steps, sc.pause = slices.Insert(sc.steps, at, st), slices.Insert(sc.pause, at, 0)
	}
}

// cancelOf returns the request that cancelled a task, given the unit's step that says so; nil
// if there is none.
func (s *Script) cancelOf(st *step) *step {
	task := st.said().Operation
	if st.dir != frame.U2C || task.Does != protocol.Cancelled || task.Of.IsZero() {
		return nil
	}
	for _, other := range slices.Backward(s.steps[:st.index]) {
		if other.dir == frame.C2U && cancels(other.said(), task.Of) {
			return other
		}
	}
	return nil
}

// cancels reports whether a message is the request to cancel a task.
func cancels(m *protocol.Message, task protocol.Token) bool {
	return m.Operation.Does == protocol.Cancel && m.Operation.Of.Space == task.Space && bytes.Equal(m.Operation.Of.Text, task.Text)
}

func (p *Repeater) digest(h *reading) [jsondiff.DigestSize]byte {
	m := h.message
	if s := m.Ref.Space; s == protocol.SpaceTask || s == protocol.SpaceTurn { // the unit's ids are as recorded
		m.Ref = protocol.Token{}
	}
	return jsondiff.Digest(h.value(), &m, p.ignore)
}

// A turn is a scene that is being played.
type turn struct {
	*scene
	came  []bool // of the steps of the client
	next  int
	names *names
	ids   []name // of the turn
	moved time.Time
}

// speaks reports whether the next step is the unit's.
func (t *turn) speaks() bool { return t.next < len(t.steps) && t.steps[t.next].dir == frame.U2C }

// over reports whether the unit has nothing more to say.
func (t *turn) over() bool {
	return !slices.ContainsFunc(t.steps[t.next:], func(st *step) bool { return st.dir == frame.U2C })
}

// A repetition is a connection to a client. Its script and names are those of the turn
// being handled.
type repetition struct {
	*run
	book   *Repeater
	turns  []*turn // in progress, oldest first
	live   map[name]*turn
	times  map[[jsondiff.DigestSize]byte]int // how often a frame of the client has arrived
	played map[*scene]bool
	fresh  int64 // the number of the unit's last request
	shared map[utterance]string

	recorded map[string]string               // the recorded ids of tasks, by their live ones
	clients  map[string]map[utterance]string // the ids of their clients, likewise
	repeated int64                           // the number of repeated tasks

	busy    bool     // a frame is being written
	now     *turn    // the turn of that frame, or nil
	refused [][]byte // answers to write before those of turns
}

// The bounds of a connection.
const (
	maxTurns   = 10_000 // the oldest turn is dropped
	maxRefused = 100    // reading pauses
)

// Run answers a client until it leaves. The result has a divergence for each request
// that was never recorded.
func (p *Repeater) Run(ctx context.Context, conn transport.Conn, o Options) (Result, error) {
	if err := p.script.refused; err != nil {
		return Result{}, errors.Join(err, conn.Close())
	}
	cases := o.Cases
	o.KeepGoing, o.Cases = true, false
	r := &repetition{
		run: &run{
			ctx: ctx, script: p.script, options: &o, conn: conn, started: time.Now(), names: newNames(o.Side, p.script.Protocol),
			incoming: make(chan arrival), outgoing: make(chan []byte, 1), written: make(chan error, 1),
			result: Result{Conn: p.script.Conn},
		},
		book: p, live: make(map[name]*turn), times: make(map[[jsondiff.DigestSize]byte]int),
		played: make(map[*scene]bool), fresh: p.own, shared: make(map[utterance]string),
		recorded: make(map[string]string), clients: make(map[string]map[utterance]string),
	}
	for _, sc := range p.scenes {
		if sc.cue == nil {
			r.startTurn(sc, nil)
		}
	}
	result, err := r.playBy(r.loop)
	if cases {
		result.Cases = r.cases()
	}
	return result, err
}

// cases returns the requests of the recording, and the others.
func (r *repetition) cases() (list []Case) {
	for _, sc := range r.book.scenes {
		if sc.cue != nil && sc.cue.message.Phase == protocol.Open {
			list = append(list, Case{Name: sc.cue.String(), Skipped: !r.played[sc]})
		}
	}
	for _, d := range r.result.Divergences {
		list = append(list, Case{Name: d.Live.title(), Divergence: d})
	}
	return list
}

func (r *repetition) loop() error {
	for {
		wait, ready := r.sendSoonest()
		if r.stopped || r.ended && !r.busy && !ready {
			return nil
		}
		if err := r.await(wait, ready); err != nil {
			return err
		}
	}
}

// sendSoonest starts writing the next frame if it is due. Otherwise it returns how long to
// wait, and whether there is a next frame.
func (r *repetition) sendSoonest() (wait time.Duration, ready bool) {
	if r.busy {
		return 0, false
	}
	if len(r.refused) > 0 {
		raw := r.refused[0]
		r.refused = r.refused[1:]
		r.write(raw, nil)
		return 0, true
	}
	var best *turn
	var due time.Time
	for _, t := range r.turns {
		if !t.speaks() {
			continue
		}
		at := t.moved
		if r.options.Speed > 0 {
			at = at.Add(time.Duration(float64(t.pause[t.next]) / r.options.Speed))
		}
		if best == nil || at.Before(due) {
			best, due = t, at
		}
	}
	if best == nil {
		return 0, false
	}
	if wait = time.Until(due); wait <= 0 {
		r.speak(best)
	}
	return wait, true
}

func (r *repetition) write(raw []byte, t *turn) {
	r.busy, r.now = true, t
	r.outgoing <- raw
}

// await waits for the client, for the end of a write, or until a frame is due.
func (r *repetition) await(wait time.Duration, ready bool) error {
	var due <-chan time.Time
	if ready && !r.busy {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	incoming := r.incoming
	if r.ended || len(r.refused) > maxRefused {
		incoming = nil
	}
	select {
	case a := <-incoming:
		return r.heardFrom(a)
	case err := <-r.written:
		r.wrote(err)
	case <-due:
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
	return nil
}

// wrote handles the end of a write. If it failed, the client has left.
func (r *repetition) wrote(err error) {
	t := r.now
	r.busy, r.now = false, nil
	if err != nil {
		r.ended, r.stopped = true, true
		return
	}
	r.result.Sent++
	if t != nil {
		t.next++
		r.advance(t)
	}
}

// speak starts writing the next frame of a turn.
func (r *repetition) speak(t *turn) {
	st := t.steps[t.next]
	r.script, r.names = t.script, t.names
	raw, payload := r.bytesOf(st)
	m := st.message
	if st.well {
		_ = r.script.Protocol.Parse(payload, &m) // only the ids differ
	}
	switch {
	case st.opens != 0:
		r.nameTurn(t, frame.U2C, &m)
	case m.Phase == protocol.Close && !st.ends: // it continues under a name given by the unit
		r.nameTurn(t, frame.C2U, &m)
	}
	r.trace(st.dir, st.seq, payload, &m, st.frame.Gap)
	r.write(raw, t)
}

// nameTurn binds a turn to the names of an exchange.
func (r *repetition) nameTurn(t *turn, opener frame.Dir, m *protocol.Message) {
	for _, token := range []protocol.Token{m.ID, m.Bind} {
		if !token.IsZero() {
			n := name{opener, token.Space, string(token.Text)}
			r.live[n] = t
			t.ids = append(t.ids, n)
		}
	}
}

// startTurn starts playing a scene in answer to h, which is nil for frames that the unit
// sends first.
func (r *repetition) startTurn(sc *scene, h *heard) {
	t := &turn{scene: sc, came: make([]bool, len(sc.steps)), names: newNames(frame.U2C, sc.script.Protocol), moved: time.Now()}
	t.names.others = r.shared
	if h != nil {
		r.nameTasks(t, h.tasks)
		t.names.meet(&sc.cue.message, &h.message)
		r.nameTurn(t, frame.C2U, &h.message)
		r.learn(t, sc.cue, h)
		r.keepIDs(t)
	}
	if r.played[sc] || sc.script != r.book.script {
		r.renumber(t)
	}
	r.played[sc] = true
	if r.turns = append(r.turns, t); len(r.turns) > maxTurns {
		r.endTurn(r.turns[0])
	}
	r.advance(t)
}

// renumber gives the unit's own requests unused ids.
func (r *repetition) renumber(t *turn) {
	for _, st := range t.steps {
		if st.dir == frame.U2C && st.opens != 0 && !st.message.ID.IsZero() {
			r.fresh++
			id := st.message.ID
			t.names.own[name{frame.U2C, id.Space, string(id.Text)}] = freshID(string(id.Text), r.fresh)
		}
	}
}

// advance skips the frames that have arrived and ends a finished turn.
func (r *repetition) advance(t *turn) {
	t.moved = time.Now()
	for t.next < len(t.steps) && t.came[t.next] {
		t.next++
	}
	if t.over() {
		r.endTurn(t)
	}
}

func (r *repetition) endTurn(t *turn) {
	r.turns = slices.DeleteFunc(r.turns, func(other *turn) bool { return other == t })
	for _, n := range t.ids {
		if r.live[n] == t {
			delete(r.live, n)
		}
	}
}

// learn learns the client's ids. They replace those of earlier clients.
func (r *repetition) learn(t *turn, st *step, h *heard) {
	r.script, r.names = t.script, t.names
	for u := range idsIn(st) {
		delete(r.shared, u)
	}
	r.payloads(st, h)
	r.result.Matched++
	r.trace(frame.C2U, st.seq, h.wire(), &h.message, h.gap)
}

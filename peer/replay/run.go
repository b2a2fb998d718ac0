package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/internal/jsonline"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session/jsondiff"
	"github.com/wirectl/wirectl/transport"
)

// A run plays a script once. One goroutine owns it; two others read and write the
// connection for it.
type run struct {
	ctx     context.Context
	script  *Script
	options *Options
	conn    transport.Conn
	wire    io.ReadWriter // the bytes of frames on conn
	started time.Time

	order   order
	lacks   []int       // for each frame of ours: the number of unmet preconditions
	waiters [][]int     // for each frame of the peer: frames of ours that need it
	after   [][]int     // for each frame of ours: those that follow it
	moved   []time.Time // when the latest precondition was met
	ready   []int       // frames of ours that may be sent, in their order
	unsent  int

	theirs []*step   // from the first missing one
	queues [][]*step // the same, by exchange
	came   []bool    // by index
	left   int       // missing frames of the peer

	live  *ledger
	heard *heard // the latest frame of the peer
	names *names

	incoming chan arrival
	outgoing chan []byte // buffers one frame, because the writer may have ended
	written  chan error
	writing  *step // the frame being written, or nil
	closed   bool  // our side, for writing
	ended    bool  // the peer's side
	gapped   bool  // the latest bytes of the peer were not a frame
	stopped  bool  // by a divergence

	sweep  *sweep // nil if no cancel is tried
	result Result
}

// An arrival is a frame, or the end of the peer's side.
type arrival struct {
	frame frame.Frame
	err   error // of the last one; nil after a clean end
	last  bool
}

// quiet is how long a finished run waits for excess frames if the peer does not close.
const quiet = time.Second

// Run plays the script over a connection, which it closes. The error is about the
// connection or the run; divergences are in the result.
func (s *Script) Run(ctx context.Context, conn transport.Conn, o Options) (Result, error) {
	if s.refused != nil {
		return Result{}, errors.Join(s.refused, conn.Close())
	}
	r := newRun(ctx, s, conn, &o, nil)
	return r.playBy(r.loop)
}

func newRun(ctx context.Context, s *Script, conn transport.Conn, o *Options, w *sweep) *run {
	r := &run{
		ctx: ctx, script: s, options: o, conn: conn, started: time.Now(),
		order: s.orderOf(o.Side), lacks: make([]int, len(s.steps)), waiters: make([][]int, len(s.steps)),
		after: make([][]int, len(s.steps)), moved: make([]time.Time, len(s.steps)), came: make([]bool, len(s.steps)),
		queues: make([][]*step, len(s.opened)), live: newLedger(s.Protocol), names: newNames(o.Side, s.Protocol),
		incoming: make(chan arrival), outgoing: make(chan []byte, 1), written: make(chan error, 1),
		sweep: w, result: Result{Conn: s.Conn},
	}
	if w != nil {
		w.loosen(s, &r.order)
	}
	for i, st := range s.steps {
		switch {
		case w.leavesOut(s, st):
		case st.dir == o.Side:
			r.expectToSend(i)
		default:
			r.theirs = append(r.theirs, st)
			r.queues[st.exchange] = append(r.queues[st.exchange], st)
			r.left++
		}
	}
	for _, st := range r.theirs {
		if r.skips(st.message.Kind) {
			r.consume(st)
		}
	}
	return r
}

// playBy runs a loop with a reader and a writer goroutine, and returns its result.
func (r *run) playBy(loop func() error) (Result, error) {
	readerDone, writerDone := make(chan struct{}), make(chan struct{})
	stop, cancel := context.WithCancel(r.ctx)
	r.wire = r.conn
	if m, ok := r.conn.(transport.Messenger); ok && r.script.Framing == frame.Line {
		r.wire = &jsonline.Conn{Messenger: m, Context: stop}
	}
	scanner := r.newScanner()
	go func() { defer close(readerDone); r.readPeer(stop, scanner) }()
	go func() { defer close(writerDone); r.writeOutgoing(stop) }()
	err := loop()
	cancel()
	closing := r.conn.Close()
	<-readerDone
	<-writerDone
	r.settle()
	if err == nil && r.result.Differences == 0 && !errors.Is(closing, io.ErrClosedPipe) {
		err = closing
	}
	r.result.Missing += int64(r.left)
	r.result.Took = time.Since(r.started)
	if r.options.Cases {
		r.result.Cases = r.cases()
	}
	return r.result, err
}

// settle counts a frame of ours whose answer ended the run before its write was seen to end.
func (r *run) settle() {
	select {
	case err := <-r.written:
		if err == nil {
			r.result.Sent++
		}
	default:
	}
}

func (r *run) newScanner() *frame.Scanner {
	s := frame.NewScanner(r.wire, r.script.Framing)
	limit := r.options.Limit
	if limit == 0 {
		limit = all.Limit(r.script.Protocol)
	}
	s.SetLimit(limit)
	s.SetAccept(all.Plausible(r.script.Protocol))
	s.ResyncAtOnce()
	return s
}

// readPeer reads the peer's frames and passes them to the main loop.
func (r *run) readPeer(ctx context.Context, s *frame.Scanner) {
	more := true
	for more {
		more = s.Scan()
		a := arrival{last: !more, err: s.Err()}
		if more {
			a.frame = s.Frame().Clone()
		}
		select {
		case r.incoming <- a:
		case <-ctx.Done():
			return
		}
	}
}

// writeOutgoing writes outgoing frames one at a time and reports the result of each.
func (r *run) writeOutgoing(ctx context.Context) {
	for {
		select {
		case b := <-r.outgoing:
			_, err := r.wire.Write(b)
			r.written <- err
		case <-ctx.Done():
			return
		}
	}
}

// loop runs the script until it is done.
func (r *run) loop() error {
	for !r.done() {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		wait, err := r.sendDue()
		if err != nil {
			return err
		}
		if err := r.wait(wait); err != nil {
			return err
		}
	}
	return nil
}

// A pause is a wait for the peer, and the action after the time is up.
type pause struct {
	time    time.Duration
	forever bool
	over    func()
}

// sendDue starts sending a frame if one is due, and returns how long to wait.
func (r *run) sendDue() (pause, error) {
	if r.sweep != nil && r.writing == nil {
		r.sweep.act(r)
		if r.done() {
			return pause{}, nil
		}
	}
	if r.writing == nil && len(r.ready) > 0 {
		st := r.script.steps[r.soonest()]
		due := time.Until(r.due(st.index))
		if due > 0 {
			return pause{time: due}, nil
		}
		r.sendFrame(st)
	}
	if r.spoken() && !r.closed {
		if err := r.closeWrite(); err != nil || r.done() {
			return pause{}, err
		}
	}
	switch {
	case r.sweep != nil:
		return r.sweep.pause(r), nil
	case r.options.Side == frame.U2C && r.over() && r.visit() != nil:
		return pause{over: func() { r.ended = true }}, nil
	case r.options.Side == frame.U2C:
		return pause{forever: true}, nil
	case r.over():
		return pause{time: r.linger(), over: func() { r.ended = true }}, nil
	case r.options.Timeout == 0:
		return pause{forever: true}, nil
	}
	return pause{time: r.options.Timeout, over: r.timeout}, nil
}

// spoken reports whether nothing more will be sent. A unit's client may always send
// another request.
func (r *run) spoken() bool {
	switch {
	case r.unsent > 0 || r.writing != nil || r.sweep != nil:
		return false
	case r.options.Side == frame.U2C:
		return r.ended
	}
	return r.left == 0 || r.endsInside()
}

// endsInside reports whether the last bytes sent are not a whole frame, so that the peer
// only notices when the stream ends.
func (r *run) endsInside() bool {
	for _, st := range slices.Backward(r.script.steps) {
		if st.dir == r.options.Side {
			return st.frame.Gap
		}
	}
	return true
}

// over reports whether both sides have sent everything.
func (r *run) over() bool { return r.unsent == 0 && r.writing == nil && r.left == 0 }

// visit is the peer if it is an HTTP client, which does not announce its end; nil otherwise.
func (r *run) visit() *webVisit {
	v, _ := r.conn.(*webVisit)
	return v
}

// isWeb reports whether the frames are lines of HTTP.
func (r *run) isWeb() bool { _, ok := r.script.Protocol.(web); return ok }

// linger is how long to wait for the peer's end. A peer without frames in the recording
// may have much to send.
func (r *run) linger() time.Duration {
	if len(r.script.steps) == int(r.result.Sent) && r.options.Timeout > 0 {
		return r.options.Timeout
	}
	return quiet
}

// done reports whether the run is at its end.
func (r *run) done() bool {
	return r.stopped || r.ended && r.writing == nil && (r.sweep != nil || len(r.ready) == 0)
}

// wait waits for the peer, for the end of a write, or for the end of the pause.
func (r *run) wait(p pause) error {
	var over <-chan time.Time
	if !p.forever {
		timer := time.NewTimer(max(p.time, 0))
		defer timer.Stop()
		over = timer.C
	}
	incoming := r.incoming
	if r.ended {
		incoming = nil
	}
	select {
	case a := <-incoming:
		return r.arrived(a)
	case err := <-r.written:
		return r.sent(err)
	case <-over:
		if p.over != nil {
			p.over()
		}
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// The bounds of the number of versions kept, and of the length of each.
const maxVersions, maxVersion = 8, 64

// trace reports a frame to the options' Trace, and to the sweep.
func (r *run) trace(d frame.Dir, seq int64, payload []byte, m *protocol.Message, gap bool) {
	if v := string(render.Clip(m.Version, maxVersion)); v != "" && len(r.result.Versions) < maxVersions && !slices.Contains(r.result.Versions, v) {
		r.result.Versions = append(r.result.Versions, v)
	}
	if r.sweep != nil {
		r.sweep.feed(r, d, payload, m, gap)
	}
	if r.options.Trace == nil {
		return
	}
	e := Event{Time: time.Now(), Dir: d, Recorded: seq, Payload: payload, Kind: string(m.Kind)}
	if !m.ID.IsZero() {
		e.ID = string(m.ID.Text)
	}
	r.options.Trace(e)
}

// An order holds the preconditions for sending each frame of ours.
type order struct {
	// before is the frame of ours that must be sent first; -1 if there is none.
	before []int
	// needs are the frames of the peer that must have arrived, except those that
	// the frames before it need.
	needs [][]int
	// pause is the recorded time between the last of these and the frame.
	pause []time.Duration
}

func newOrder(n int) order { return order{make([]int, n), make([][]int, n), make([]time.Duration, n)} }

// orderOf returns the order in which a side sends. A controller sends in the order of
// the recording, once everything has arrived that had arrived then. A unit only waits for
// the frames of the same exchange: the client chooses the requests and their order.
func (s *Script) orderOf(side frame.Dir) order {
	n := len(s.steps)
	if _, isWeb := s.Protocol.(web); isWeb && side == frame.U2C {
		return s.webOrder()
	}
	o := newOrder(n)
	groups := make([]int, n)
	if side == frame.U2C {
		groups = s.groups(side)
	}
	last := map[int]int{}         // of ours, by group
	needed := map[int][]int{}     // of the peer since then, by group
	latest := map[int]time.Time{} // of either, by group
	for i, st := range s.steps {
		g := groups[i]
		if st.dir != side {
			needed[g] = append(needed[g], i)
			latest[g] = st.time
			continue
		}
		o.before[i] = -1
		if b, ok := last[g]; ok {
			o.before[i] = b
		}
		o.needs[i], needed[g] = needed[g], nil
		if t := latest[g]; !t.IsZero() && st.time.After(t) {
			o.pause[i] = st.time.Sub(t)
		}
		last[g], latest[g] = i, st.time
	}
	return o
}

// groups assigns each frame to a group, as the unit sees it: the number of the peer's
// frame that started it, from 1; 0 before the first. A frame that the unit sends on its
// own belongs to the latest open request, or else to the latest frame of the peer.
func (s *Script) groups(side frame.Dir) []int {
	groups := make([]int, len(s.steps))
	var open []int // exchanges of the peer
	ended := map[int]bool{}
	last := 0
	for i, st := range s.steps {
		theirs := st.exchange != 0 && s.opened[st.exchange].from != side
		switch {
		case st.opens != 0 && st.dir != side && st.exchange == st.opens:
			groups[i], last = i+1, i+1
			open = append(open, st.exchange)
		case st.exchange != 0 && st.exchange != st.opens:
			groups[i] = groups[s.opened[st.exchange].step]
		case st.dir != side:
			groups[i], last = i+1, i+1
		default:
			groups[i] = last
			if n := len(open); n > 0 {
				groups[i] = groups[s.opened[open[n-1]].step]
			}
		}
		if theirs && st.ends {
			ended[st.exchange] = true
		}
		for len(open) > 0 && ended[open[len(open)-1]] {
			open = open[:len(open)-1]
		}
	}
	return groups
}

// expectToSend adds a frame of ours and its preconditions.
func (r *run) expectToSend(i int) {
	r.unsent++
	r.moved[i] = r.started
	for _, need := range r.order.needs[i] {
		r.lacks[i]++
		r.waiters[need] = append(r.waiters[need], i)
	}
	if before := r.order.before[i]; before >= 0 {
		r.lacks[i]++
		r.after[before] = append(r.after[before], i)
	}
	if r.lacks[i] == 0 {
		r.ready = append(r.ready, i)
	}
}

// pass marks a frame of ours as sent.
func (r *run) pass(st *step) {
	r.unsent--
	for _, i := range r.after[st.index] {
		r.supply(i)
	}
}

// supply marks one precondition of a frame of ours as met.
func (r *run) supply(i int) {
	r.moved[i] = time.Now()
	if r.lacks[i]--; r.lacks[i] == 0 {
		r.ready = append(r.ready, i)
	}
}

// consume marks a frame of the peer as arrived, or as no longer expected.
func (r *run) consume(st *step) {
	if r.came[st.index] {
		return
	}
	r.came[st.index] = true
	r.left--
	for len(r.theirs) > 0 && r.came[r.theirs[0].index] {
		r.theirs = r.theirs[1:]
	}
	for _, i := range r.waiters[st.index] {
		r.supply(i)
	}
}

// missing yields the frames of the peer that have not arrived, in order.
func (r *run) missing(yield func(*step) bool) {
	for _, st := range r.theirs {
		if !r.came[st.index] && !yield(st) {
			return
		}
	}
}

// first returns the first missing frame for which may is true.
func (r *run) first(may func(*step) bool) *step {
	for st := range r.missing {
		if may(st) {
			return st
		}
	}
	return nil
}

// expected returns the missing frames of an exchange; some after the first may have
// arrived.
func (r *run) expected(exchange int) []*step {
	q := r.queues[exchange]
	for len(q) > 0 && r.came[q[0].index] {
		q = q[1:]
	}
	r.queues[exchange] = q
	return q
}

// expects reports whether frames of an exchange are missing.
func (r *run) expects(exchange int) bool { return len(r.expected(exchange)) > 0 }

// Each task that a unit repeats has an id of its own, so that clients do not get each other's.
// The first has the recorded id.

// aliases are the live ids of tasks, by their recorded ones.
type aliases map[string]string

// taskOf returns the id of a task; "" if the token is not one.
func taskOf(t protocol.Token) string {
	if t.Space != protocol.SpaceTask {
		return ""
	}
	if text, ok := jsonscan.Unquote(t.Text); ok {
		return string(text)
	}
	return ""
}

// addTasks adds the tasks that a step of the scene is the first of the recording to name, if it is
// the unit's. seen has those named before.
func (sc *scene) addTasks(st *step, seen map[string]bool) {
	m := st.said()
	for _, t := range []protocol.Token{m.Bind, m.Operation.Of, m.Ref} {
		id := taskOf(t)
		if id == "" || seen[id] {
			continue
		}
		seen[id] = true
		if st.dir == frame.U2C && sc.cue != nil {
			sc.tasks = append(sc.tasks, id)
		}
	}
}

// nameTasks gives the tasks of a turn their live ids. Those that its request names keep theirs.
func (r *repetition) nameTasks(t *turn, named aliases) {
	t.names.tasks = aliases{}
	maps.Copy(t.names.tasks, named)
	for _, id := range t.tasks {
		live := id
		if _, again := r.recorded[id]; again {
			r.repeated++
			live = freshTask(id, r.repeated)
		}
		if len(r.recorded) >= maxTurns { // older tasks are forgotten
			clear(r.recorded)
			clear(r.clients)
		}
		t.names.tasks[id], r.recorded[live] = live, id
	}
}

// keepIDs keeps the ids that a client has just sent with the tasks of the turn, so that its later
// requests about them are answered with its ids, and not with another client's.
func (r *repetition) keepIDs(t *turn) {
	mine := map[utterance]string{}
	for _, live := range t.names.tasks {
		maps.Copy(mine, r.clients[live])
	}
	for u := range idsIn(t.cue) {
		if live, ok := r.shared[u]; ok {
			mine[u] = live
		}
	}
	for _, live := range t.names.tasks {
		r.clients[live] = mine
	}
	if len(t.names.tasks) > 0 {
		t.names.mine = mine
	}
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// freshTask returns an unused id that looks like another.
func freshTask(id string, n int64) string {
	const digits = 12
	if uuid.MatchString(id) {
		return fmt.Sprintf("%s%0*x", id[:len(id)-digits], digits, n)
	}
	return fmt.Sprintf("%s-%d", id, n)
}

// hearTasks reads a frame of the client as if it had the recorded ids of tasks.
func (r *repetition) hearTasks(f *frame.Frame) *heard {
	h := r.hear(f)
	if len(r.recorded) == 0 || h.form == nil || r.script.Protocol.Encoding() != protocol.JSON {
		return h
	}
	named := aliases{}
	places := idPlaces(h.payload, func(live string) (string, bool) {
		id, ok := r.recorded[live]
		if ok {
			named[id] = live
		}
		return id, ok && id != live
	})
	if h.tasks = named; len(places) == 0 {
		return h
	}
	plain := framed(f, r.script.Framing, protocol.AppendPlaced(nil, h.payload, places))
	again := r.hear(&plain)
	again.live, again.tasks = h.payload, named
	return again
}

// idPlaces returns the changes to the ids in a payload that have others.
func idPlaces(payload []byte, other func(id string) (string, bool)) (list []protocol.Place) {
	jsondiff.Leaves(payload, func(key string, at int, value []byte) {
		var text []byte
		switch id, isText := jsonscan.Unquote(value); {
		case holdsResource(key):
			text = renameSegments(value, other)
		case isText && jsondiff.HoldsID(key):
			if with, ok := other(string(id)); ok {
				text = jsonscan.AppendQuote(nil, []byte(with))
			}
		}
		if text != nil {
			list = append(list, protocol.Place{Start: at, End: at + len(value), Text: text})
		}
	})
	return list
}

package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/internal/jsonline"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/transport"
)

// A run plays scenes over a connection. Its guide decides which, and what the frames of the peer
// mean. One goroutine owns both; two others read and write the connection.
type run struct {
	guide

	ctx     context.Context
	script  *Script // of the turn being handled
	names   *names  // likewise
	options *Options
	conn    transport.Conn
	wire    io.ReadWriter // the bytes of frames on conn
	started time.Time

	turns    []*turn           // with frames of ours to send, oldest first
	ready    []*turn           // those of turns whose next frame is ours
	waiting  map[*step][]*turn // the others by the frame that they wait for; nil if nobody asks
	incoming chan arrival
	outgoing chan []byte // buffers one frame, because the writer may have ended
	written  chan error
	writing  *step // the frame being written, or nil
	now      *turn // its turn; nil for a frame that is not in the recording

	count   int  // of turns so far
	full    bool // the peer must wait
	closed  bool // our side, for writing
	ended   bool // the peer's side
	gapped  bool // the latest bytes of the peer were not a frame
	stopped bool // by a divergence

	follow func(d frame.Dir, payload []byte, m *protocol.Message, gap bool) // each frame; nil if nothing does
	tap    func(f *frame.Frame, seq int64)                                  // likewise, with its number in the script
	result Result
}

// A guide decides what a run plays.
type guide interface {
	// act may write a frame. It is called whenever none is being written.
	act()
	// noteSend notes that a frame of a turn, which m is, will be written next.
	noteSend(t *turn, st *step, m *protocol.Message)
	// noteEnd notes that a turn has no more frames of ours.
	noteEnd(t *turn)
	// handle judges a frame of the peer.
	handle(h *liveFrame) error
	// peerEnded handles the end of the peer's side, which err is about; nil if it is clean.
	peerEnded(err error)
	// writeFailed handles a failed write of a frame.
	writeFailed(st *step, err error)
	// pause returns how long to wait for the peer.
	pause() (pause, error)
}

// A turn is a scene that is being played.
type turn struct {
	*scene
	number int            // of the turns so far
	came   map[*step]bool // frames of the peer
	next   int            // the step that it waits for
	last   int            // the last step of ours; -1 if there is none
	moved  time.Time      // when next changed
	names  *names
	ids    []name // of the turn
}

// An arrival is a frame, a part of an exchange, or the end of the peer's side.
type arrival struct {
	frame frame.Frame
	part  *part // nil if the peer sends frames
	err   error // of the last one; nil after a clean end
	last  bool
}

func newRun(ctx context.Context, s *Script, conn transport.Conn, o *Options) *run {
	return &run{
		ctx: ctx, script: s, names: newNames(o.Side, s.Protocol), options: o, conn: conn, started: time.Now(),
		incoming: make(chan arrival), outgoing: make(chan []byte, 1), written: make(chan error, 1),
		result: Result{Conn: s.Conn},
	}
}

// begin starts a turn, unless it has nothing of ours.
func (r *run) begin(t *turn) {
	r.count++
	t.number, t.moved, t.last = r.count, time.Now(), -1
	for i, st := range t.steps {
		if st.dir == r.options.Side {
			t.last = i
		}
	}
	r.turns = append(r.turns, t)
	r.advance(t, t.moved)
}

// advance skips the frames that have arrived by now, and ends a turn that has nothing more of ours.
func (r *run) advance(t *turn, now time.Time) {
	for t.next < len(t.steps) && t.came[t.steps[t.next]] {
		t.next++
		t.moved = now
	}
	switch {
	case t.next > t.last:
		r.retire(t)
	case t.steps[t.next].dir != r.options.Side && r.waiting != nil:
		st := t.steps[t.next]
		r.waiting[st] = append(r.waiting[st], t)
	case t.steps[t.next].dir == r.options.Side && !slices.Contains(r.ready, t):
		r.ready = append(r.ready, t)
	}
}

func (r *run) retire(t *turn) {
	r.drop(func(other *turn) bool { return other == t })
	r.noteEnd(t)
}

// drop drops turns without further notice.
func (r *run) drop(which func(*turn) bool) {
	r.turns, r.ready = slices.DeleteFunc(r.turns, which), slices.DeleteFunc(r.ready, which)
}

// soonest returns the turn whose frame is due first, and when; nil if all wait for the peer.
func (r *run) soonest() (best *turn, due time.Time) {
	first := 0
	for _, t := range r.ready {
		st, at := t.steps[t.next], t.moved
		if r.options.Speed > 0 {
			at = at.Add(time.Duration(float64(t.pause[t.next]) / r.options.Speed))
		}
		place := t.number
		if t.cue == nil {
			place = st.index // in the recording
		}
		if best == nil || at.Before(due) || at.Equal(due) && place < first {
			best, due, first = t, at, place
		}
	}
	return best, due
}

// play runs the loop with a reader and a writer goroutine. It closes the connection.
func (r *run) play() (Result, error) {
	readerDone, writerDone := make(chan struct{}), make(chan struct{})
	stop, cancel := context.WithCancel(r.ctx)
	r.wire = r.conn
	if m, ok := r.conn.(transport.Messenger); ok && r.script.Framing == frame.Line {
		r.wire = &jsonline.Conn{Messenger: m, Context: stop}
	}
	next := r.arrivals(stop)
	go func() { defer close(readerDone); r.readPeer(stop, next) }()
	go func() { defer close(writerDone); r.writeOutgoing(stop) }()
	err := r.loop()
	cancel()
	closing := r.conn.Close()
	<-readerDone
	<-writerDone
	select {
	case err := <-r.written: // of a frame whose answer ended the run
		if err == nil {
			r.result.Sent++
		}
	default:
	}
	if err == nil && r.result.Differences == 0 && !errors.Is(closing, io.ErrClosedPipe) {
		err = closing
	}
	r.result.Took = time.Since(r.started)
	return r.result, err
}

// arrivals returns the function that waits for the next arrival.
func (r *run) arrivals(ctx context.Context) func() arrival {
	if box, ok := r.conn.(interface {
		receive(ctx context.Context) (*part, error)
	}); ok {
		return func() arrival {
			p, err := box.receive(ctx)
			return arrival{part: p, err: err, last: err != nil}
		}
	}
	s := frame.NewScanner(r.wire, r.script.Framing)
	s.SetLimit(cmp.Or(r.options.Limit, all.Limit(r.script.Protocol)))
	s.SetAccept(all.Plausible(r.script.Protocol))
	s.ResyncAtOnce()
	return func() arrival {
		if s.Scan() {
			return arrival{frame: s.Frame().Clone()}
		}
		return arrival{last: true, err: s.Err()}
	}
}

// readPeer passes what the peer sends to the main loop.
func (r *run) readPeer(ctx context.Context, next func() arrival) {
	for more := true; more; {
		a := next()
		more = !a.last
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

// loop plays until it is done.
func (r *run) loop() error {
	for {
		if r.writing == nil && !r.stopped {
			r.act()
		}
		if r.done() {
			return nil
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
		p, err := r.sendDue()
		if err == nil && !r.done() {
			err = r.wait(p)
		}
		if err != nil {
			return err
		}
	}
}

// done reports whether the run is at its end.
func (r *run) done() bool {
	if r.stopped || !r.ended || r.writing != nil {
		return r.stopped
	}
	return len(r.ready) == 0
}

// A pause is a wait for the peer, and the action after the time is up.
type pause struct {
	time    time.Duration
	forever bool
	over    func()
}

// sendDue starts sending a frame if one is due, and returns how long to wait.
func (r *run) sendDue() (pause, error) {
	if r.writing == nil {
		if t, due := r.soonest(); t != nil {
			if wait := time.Until(due); wait > 0 {
				return pause{time: wait}, nil
			}
			r.speak(t)
		}
	}
	return r.pause()
}

// wait waits for the peer, for the end of a write, or for the end of the pause.
func (r *run) wait(p pause) error {
	select {
	case err := <-r.written: // before the peer's answer to it
		r.sent(err)
		return nil
	default:
	}
	var over <-chan time.Time
	if !p.forever {
		timer := time.NewTimer(max(p.time, 0))
		defer timer.Stop()
		over = timer.C
	}
	incoming := r.incoming
	if r.ended || r.full {
		incoming = nil
	}
	select {
	case a := <-incoming:
		return r.arrived(a)
	case err := <-r.written:
		r.sent(err)
	case <-over:
		if p.over != nil {
			p.over()
		}
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
	return nil
}

// arrived handles a frame from the peer, or its end.
func (r *run) arrived(a arrival) error {
	if a.last {
		r.ended = true
		r.peerEnded(a.err)
		return nil
	}
	if r.tap != nil && a.part == nil {
		a.frame.Dir = r.options.Side.Opposite()
		r.tap(&a.frame, 0)
	}
	gapped := r.gapped
	if r.gapped = a.frame.Gap; gapped && r.gapped {
		return nil // further pieces of bytes that are not a frame
	}
	h := &liveFrame{gap: a.frame.Gap}
	if h.part = a.part; h.part != nil {
		h.readPayload(h.part.form(), r.script)
	} else {
		h.read(&a.frame, r.script)
	}
	return r.handle(h)
}

// speak starts writing the next frame of a turn.
func (r *run) speak(t *turn) {
	st := t.steps[t.next]
	if st.dies {
		r.stopped = true
		return
	}
	r.script, r.names = t.script, t.names
	raw, payload := r.bytesOf(st)
	m := st.message
	if st.well && !bytes.Equal(payload, st.payload) {
		_ = r.script.Protocol.Parse(payload, &m) // only the ids differ
	}
	r.noteSend(t, st, &m)
	r.write(st, t, raw, payload, &m)
}

// write starts writing a frame, which may not be in the recording.
func (r *run) write(st *step, t *turn, raw, payload []byte, m *protocol.Message) {
	r.writing, r.now = st, t
	if r.tap != nil {
		f := st.frame
		if !bytes.Equal(raw, f.Raw) {
			f = framed(&f, r.script.Framing, payload)
		}
		f.Dir = r.options.Side
		r.tap(&f, st.seq)
	}
	r.trace(r.options.Side, st.seq, payload, m, st.frame.Gap)
	r.outgoing <- raw
}

// sent handles the end of a write.
func (r *run) sent(err error) {
	st, t := r.writing, r.now
	r.writing, r.now = nil, nil
	if err != nil {
		r.writeFailed(st, err)
		return
	}
	r.result.Sent++
	if t != nil {
		r.ready = slices.DeleteFunc(r.ready, func(other *turn) bool { return other == t })
		t.next++
		t.moved = time.Now()
		r.advance(t, t.moved)
	}
}

// bytesOf returns a frame of ours with the live ids.
func (r *run) bytesOf(st *step) (raw, payload []byte) {
	payload = st.payload
	if !st.frame.Gap && !st.frame.Compressed {
		payload = r.names.rename(st, r.script.Protocol)
	}
	if bytes.Equal(payload, st.payload) {
		return st.frame.Raw, payload
	}
	raw, err := frame.Append(nil, r.script.Framing, payload)
	if err != nil {
		return st.frame.Raw, st.payload
	}
	return raw, payload
}

// visit is the peer if it is an HTTP client, which does not announce its end; nil otherwise.
func (r *run) visit() *webVisit {
	v, _ := r.conn.(*webVisit)
	return v
}

// isWeb reports whether the frames are parts.
func (r *run) isWeb() bool { _, ok := r.script.Protocol.(web); return ok }

// The bounds of the number of versions kept, and of the length of each.
const maxVersions, maxVersion = 8, 64

// trace reports a frame to the options' Trace, and to whoever follows the run.
func (r *run) trace(d frame.Dir, seq int64, payload []byte, m *protocol.Message, gap bool) {
	if v := string(render.Clip(m.Version, maxVersion)); v != "" && len(r.result.Versions) < maxVersions && !slices.Contains(r.result.Versions, v) {
		r.result.Versions = append(r.result.Versions, v)
	}
	if r.follow != nil {
		r.follow(d, payload, m, gap)
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

// A Player plays one side on a connection: a [Script] or a [Repeater].
type Player interface {
	Run(ctx context.Context, conn transport.Conn, o Options) (Result, error)
}

// Serve plays the recorded unit for each client of a listener, concurrently, until ctx
// ends or, if clients is positive, for that many clients. The clients get the players in
// turn. Serve calls done with each result, one at a time, and returns when all have ended.
func Serve(ctx context.Context, l transport.Listener, players []Player, o Options, clients int, done func(client int, r Result, err error)) error {
	var running sync.WaitGroup
	defer running.Wait()
	var one sync.Mutex
	for n := 1; clients <= 0 || n <= clients; n++ {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		running.Go(func() {
			r, err := players[(n-1)%len(players)].Run(ctx, conn, o)
			one.Lock()
			defer one.Unlock()
			done(n, r, err)
		})
	}
	return nil
}

package replay

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/transport"
)

// A run plays a script once. One goroutine owns it; two others read and write the
// connection for it.
type run struct {
	ctx     context.Context
	script  *Script
	options *Options
	conn    transport.Conn
	wire    io.ReadWriter // what conn carries
	started time.Time

	order   order
	lacks   []int       // for each frame of ours: frames of the peer still to come
	waiters [][]int     // for each frame of the peer: frames of ours that need it
	after   [][]int     // for each frame of ours: those that follow it
	moved   []time.Time // when a frame was sent, or had all that it needs
	ready   []int       // frames of ours that may be sent, in their order
	unsent  int

	theirs []*step   // from the first that has not come
	queues [][]*step // the same, by exchange
	came   []bool    // by index
	left   int       // theirs to come

	live  *ledger
	heard *heard // what came last of the peer
	names *names

	incoming chan arrival
	outgoing chan []byte // has room for the one that is written: the writer may have ended
	written  chan error
	writing  *step // what is being written; nil if nothing is
	closed   bool  // our side is, for writing
	ended    bool  // the peer's side is
	gapped   bool  // what came last was no frame
	stopped  bool  // by a divergence

	sweep  *sweep // nil unless a cancel is to be tried
	result Result
}

// An arrival is a frame, or the end of what the peer says.
type arrival struct {
	frame frame.Frame
	err   error // of the last: nil after a clean end
	last  bool
}

// quiet is how long after its end a run waits for what the peer says too much,
// if the peer does not end.
const quiet = time.Second

// Run plays the script over a connection, which it closes. The error is about the
// connection or the run; that the peer is not as recorded is in the result.
func (s *Script) Run(ctx context.Context, conn transport.Conn, o Options) (Result, error) {
	r := newRun(ctx, s, conn, &o, nil)
	return r.playBy(r.loop)
}

func newRun(ctx context.Context, s *Script, conn transport.Conn, o *Options, w *sweep) *run {
	r := &run{
		ctx: ctx, script: s, options: o, conn: conn, started: time.Now(),
		order: s.orderOf(o.Side), lacks: make([]int, len(s.steps)), waiters: make([][]int, len(s.steps)),
		after: make([][]int, len(s.steps)), moved: make([]time.Time, len(s.steps)), came: make([]bool, len(s.steps)),
		queues: make([][]*step, len(s.opened)), live: newLedger(s.Protocol), names: newNames(o.Side),
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

// playBy runs a loop until all is said, or the peer diverges.
func (r *run) playBy(loop func() error) (Result, error) {
	readerDone, writerDone := make(chan struct{}), make(chan struct{})
	stop, cancel := context.WithCancel(r.ctx)
	r.wire = overWire(stop, r.conn, r.script.Framing)
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

// settle counts what had been written when the peer's answer to it ended the run.
func (r *run) settle() {
	select {
	case err := <-r.written:
		if err == nil {
			r.result.Sent++
		}
	default:
	}
}

// newScanner returns the scanner of the peer's frames.
func (r *run) newScanner() *frame.Scanner {
	s := frame.NewScanner(r.wire, r.script.Framing)
	limit := r.options.Limit
	if limit == 0 {
		limit = all.Limit(r.script.Protocol, r.script.Framing)
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

// A pause is how long to wait for the peer, and what to do when the time is over.
type pause struct {
	time    time.Duration
	forever bool
	over    func()
}

// sendDue begins to send a frame if one is due, and returns how long to wait.
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

// spoken reports whether nothing more will be sent. A unit has not as long as its
// client may ask.
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
	for i := len(r.script.steps) - 1; i >= 0; i-- {
		if st := r.script.steps[i]; st.dir == r.options.Side {
			return st.frame.Gap
		}
	}
	return true
}

// over reports whether all is said that was to be said, by either side.
func (r *run) over() bool { return r.unsent == 0 && r.writing == nil && r.left == 0 }

// visit is the peer if it is a client of HTTP, whose end nothing tells; nil otherwise.
func (r *run) visit() *webVisit {
	v, _ := r.conn.(*webVisit)
	return v
}

// linger is how long to wait for the peer's end. One that was never heard in the
// recording may have much to say.
func (r *run) linger() time.Duration {
	if len(r.script.steps) == int(r.result.Sent) && r.options.Timeout > 0 {
		return r.options.Timeout
	}
	return quiet
}

// done reports whether the run is at its end.
func (r *run) done() bool {
	switch {
	case r.stopped:
		return true
	case !r.ended || r.writing != nil:
		return false
	case r.sweep != nil:
		return true
	case len(r.ready) > 0:
		return false
	}
	return true
}

// wait waits for the peer, for the end of a write, or for a pause to be over.
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

// The bounds of how many versions are told, and of the length of each.
const maxVersions, maxVersion = 8, 64

// trace tells of a frame.
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

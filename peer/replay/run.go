package replay

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/internal/jsonline"
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

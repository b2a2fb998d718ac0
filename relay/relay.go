// Package relay moves bytes between two endpoints and lets others observe them. The
// bytes are moved unchanged, whether or not they parse. Framing and parsing happen in
// parallel, on a copy.
//
// Package transport opens the endpoints. Captures and taps receive capture.Records.
package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/relay/fault"
	"github.com/wirectl/wirectl/transport"
)

// Config configures a relay.
type Config struct {
	Controller, Unit transport.Conn
	// Sink receives the records; nil means no observers. It may be shared with other
	// relays. The relay only waits for a sink that is 2 MiB behind.
	Sink *Fan
	// Gate changes frames on request; nil changes nothing.
	Gate *Gate
	// Conn numbers the connection in the records, and Name names it.
	Conn int
	Name string
	// Framing and Protocol describe the stream; nil means to detect them.
	Framing  frame.Framing
	Protocol protocol.Protocol
	// Limit is the largest payload in bytes; 0 is the default of the framing and
	// protocol.
	Limit int
	// Stderr receives the standard error of the unit's process.
	Stderr io.Writer
	// Grace is how long the unit's process may go on after its controller has left, that
	// is, when nobody reads its output, and again after SIGTERM. The end of its standard
	// input begins nothing. 0 does not end it.
	Grace time.Duration
	// Signals are forwarded to the unit's process. If the unit is not a process, the
	// first signal that terminates processes ends the relay.
	Signals <-chan os.Signal
	// Warn, if not nil, is called at once for problems that do not end the relay.
	Warn func(text string)
	// Alarm is Warn for processes that the relay ends; nil is Warn.
	Alarm func(text string)
	// Patience is how long a side may leave bytes unread before a stall is reported;
	// 0 is five seconds.
	Patience time.Duration
}

// A Traffic counts one direction.
type Traffic struct {
	Frames, Bytes int64
}

// A Result is the outcome of a relay.
type Result struct {
	// ToUnit and ToController count the traffic. Frames are only counted with a
	// sink.
	ToUnit, ToController Traffic
	// Worst is the longest time that a side left bytes unread.
	Worst Stall
	// Exit is the end of the unit's process; nil if the unit was not a process.
	Exit *transport.Exit
	// Signal ended the relay, if it is not nil.
	Signal os.Signal
}

// Run moves bytes between the two endpoints until both directions, or the unit's
// process, have ended, and closes both. If an endpoint fails, the other sees a failure
// ([transport.Abort]). Both see one if the relay ends first or the unit's process
// fails. The error is that of the endpoint that failed first. All goroutines of Run
// have ended when it returns, except one in a read or write that cannot be interrupted.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.check(); err != nil {
		return Result{}, errors.Join(err, transport.Abort(cfg.Unit, err), transport.Abort(cfg.Controller, err))
	}
	r := newRelay(cfg)
	r.record(capture.Record{Kind: capture.Opened, Text: []byte(cfg.Name)})
	transport.Guard(cfg.Controller, cfg.Unit)
	r.start()
	err := r.supervise(ctx)
	if err != nil {
		r.broken = err
	}
	r.closeAndWait()
	return r.result, err
}

// A relay is one run.
type relay struct {
	cfg     Config
	process transport.Process // the unit, if it is a process
	link    *link             // through the gate; nil if there is none
	queue   *queue            // to the observer; nil without one
	seen    *observer
	stalls  stalls
	ways    [3]*way // by direction
	result  Result
	broken  error // the failure with which the ends are closed; nil after a clean end
	// dismissed means that the unit's process did not end by itself, but because of its
	// controller or a signal. The supervisor sets it.
	dismissed bool
	silent    atomic.Bool // the unit's output has ended
	exited    chan exit
	stderr    chan struct{} // closed when standard error has ended
	done      chan struct{} // closed when the relay ends
	moving    sync.WaitGroup
	// interrupt stops the poller, and finish makes it end the unit's output after what is
	// there; nil without one.
	interrupt, finish func()
}

// An exit is the result of waiting for a process.
type exit struct {
	transport.Exit
	err error
}

func newRelay(cfg Config) *relay {
	r := &relay{cfg: cfg, exited: make(chan exit, 1), stderr: make(chan struct{}), done: make(chan struct{})}
	r.process, _ = cfg.Unit.(transport.Process)
	if cfg.Patience == 0 {
		r.cfg.Patience = 5 * time.Second
	}
	if cfg.Alarm == nil {
		r.cfg.Alarm = cfg.Warn
	}
	if cfg.Sink != nil {
		r.queue = newQueue()
		r.seen = newObserver(r.queue, &r.cfg)
	}
	r.stalls.init(r)
	fromController, fromUnit := cfg.Controller, cfg.Unit
	if cfg.Gate != nil {
		r.link = cfg.Gate.between(r)
		fromController, fromUnit = gated{fromController, r.link.passages[frame.C2U]}, gated{fromUnit, r.link.passages[frame.U2C]}
	}
	r.ways[frame.C2U] = newWay(r, frame.C2U, fromController, cfg.Unit)
	r.ways[frame.U2C] = newWay(r, frame.U2C, fromUnit, cfg.Controller)
	return r
}

// isObserved reports whether anybody wants the bytes.
func (r *relay) isObserved() bool { return r.queue != nil && !r.cfg.Sink.idle.Load() }

// record passes a record that is not a frame to the observer, in chronological order.
func (r *relay) record(rec capture.Record) {
	if r.queue != nil {
		rec.Time, rec.Conn = time.Now(), r.cfg.Conn
		r.queue.addEvent(&rec)
	}
}

// warn records a problem and passes it to Config.Warn, and alarm to Config.Alarm.
func (r *relay) warn(text string)  { r.note(text, r.cfg.Warn) }
func (r *relay) alarm(text string) { r.note(text, r.cfg.Alarm) }

func (r *relay) note(text string, tell func(string)) {
	r.record(capture.Record{Kind: capture.Note, Text: []byte(text)})
	if tell != nil {
		tell(text)
	}
}

// A Fan is the session of one or more relays: it numbers the frames and passes
// each record to every sink. A sink that fails is reported and removed, so that
// observers never affect the relay.
type Fan struct {
	mu    sync.Mutex
	seq   int64
	sinks []capture.Writer
	slow  bool        // not every sink accepts runs
	idle  atomic.Bool // no sink is left
	warn  func(text string)
}

// NewFan returns a Fan over sinks. It calls warn when one fails.
func NewFan(warn func(text string), sinks ...capture.Writer) *Fan {
	f := &Fan{sinks: sinks, warn: warn}
	for _, s := range sinks {
		if _, ok := s.(capture.RunWriter); !ok {
			f.slow = true
		}
	}
	return f
}

// Write passes on a record. It is safe for concurrent use.
func (f *Fan) Write(r *capture.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Kind == capture.Frame {
		f.seq++
		r.Seq = f.seq
	}
	f.each(func(s capture.Writer) error { return s.Write(r) })
}

// writeRun passes on a run of records.
func (f *Fan) writeRun(r *capture.Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Shared.Seq = f.seq + 1
	f.seq += int64(len(r.Frames))
	f.each(func(s capture.Writer) error {
		if w, ok := s.(capture.RunWriter); ok {
			return w.WriteRun(r)
		}
		for i := range r.Frames {
			rec := r.Record(i)
			if err := s.Write(&rec); err != nil {
				return err
			}
		}
		return nil
	})
}

// each calls give for every sink.
func (f *Fan) each(give func(capture.Writer) error) {
	f.sinks = slices.DeleteFunc(f.sinks, func(s capture.Writer) bool {
		err := give(s)
		if err != nil && !errors.Is(err, capture.ErrEnough) {
			f.warn(fmt.Sprintf("%v: the relay continues without it", err))
		}
		return err != nil
	})
	f.idle.Store(len(f.sinks) == 0)
}

// A link is a connection that passes a gate.
type link struct {
	gate     *Gate
	relay    *relay
	conn     int
	passages [3]*passage // by direction

	mu      sync.Mutex
	grammar grammar
	version string // of the protocol, once negotiated
	told    bool   // the warning of tell was given

	ends    atomic.Int32 // sources that have ended
	closing sync.Once
	closed  chan struct{}
	cut     atomic.Bool // a fault closed it
}

// closeLink ends both directions.
func (k *link) closeLink() {
	k.closing.Do(func() {
		close(k.closed)
		for _, l := range k.passages {
			if l != nil {
				l.out.endWith(nil)
			}
		}
		k.gate.forget(k)
	})
}

// speaks returns the framing and protocol of the connection, as far as known.
func (k *link) speaks() (frame.Framing, protocol.Protocol) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grammar.framing, k.grammar.protocol
}

// tell warns once that a connection passes unchanged.
func (k *link) tell() {
	k.mu.Lock()
	now := k.grammar.carried && !k.told
	k.told = k.told || now
	k.mu.Unlock()
	if now {
		k.relay.warn(fmt.Sprintf("connection %d speaks HTTP or WebSocket: faults and holds only work on streams of frames, so it passes unchanged", k.conn))
	}
}

// A passage is one direction of a link. It has one goroutine, which ends with its source.
type passage struct {
	link    *link
	dir     frame.Dir
	src     transport.Conn
	out     *outbox
	framer  *framer
	faults  *fault.Filter
	item    fault.Item
	openers map[string]*opener // of exchanges, by their names; the link's lock guards it
}

// passFrames forwards frames until the source ends or the link closes.
func (l *passage) passFrames() {
	l.framer = newFramer(&l.link.grammar)
	defer l.framer.stop()
	buf := make([]byte, 64<<10)
	next := func() ([]byte, error) {
		n, err := l.src.Read(buf)
		return buf[:n], err
	}
	if src, ok := l.src.(transport.Messenger); ok {
		next = func() (_ []byte, err error) {
			buf, err = l.link.relay.cfg.receive(buf[:0], src)
			return buf, err
		}
	}
	for {
		data, err := next()
		frames := l.cut(data, err != nil)
		l.link.tell()
		if !l.pass(frames) {
			return
		}
		if err != nil {
			l.passEnd(err)
			return
		}
	}
}

// cut cuts more of the stream into frames, and copies them.
func (l *passage) cut(data []byte, ended bool) (frames []frame.Frame) {
	k := l.link
	k.mu.Lock()
	defer k.mu.Unlock()
	use := func(b *frame.Batch) {
		for i := range b.Frames {
			f := &b.Frames[i]
			k.grammar.refine(f)
			f.Conn, f.Dir = k.conn, l.dir
			frames = append(frames, f.Clone())
		}
	}
	if len(data) > 0 {
		l.framer.push(data, use)
	}
	if ended {
		l.framer.endInput(use)
	}
	return frames
}

// passEnd forwards the end after the held frames. Once both sources have ended, all frames
// are released, because nobody can act on them any more.
func (l *passage) passEnd(err error) {
	if l.faults != nil {
		l.applySteps(l.faults.End())
	}
	if l.link.ends.Add(1) == 2 {
		l.link.gate.letGo(func(h *heldFrame) bool { return h.passage.link == l.link })
	}
	l.link.gate.drain(l)
	if err == io.EOF {
		err = nil
	}
	l.out.endWith(err)
}

// pass moves frames through the gate. It returns false if the link has closed.
func (l *passage) pass(frames []frame.Frame) bool {
	for i := range frames {
		f := &frames[i]
		framing, p := l.link.speaks()
		l.item.Read(f, framing, p)
		switch {
		case l.follow(&l.item):
			l.keepFrame(&l.item)
		case l.answered(&l.item):
		case l.link.gate.hold(l, &l.item):
		case l.faults == nil:
			l.out.put(f.Raw, true)
		default:
			steps, done := l.faults.Apply(&l.item)
			for _, a := range done {
				l.link.gate.alter(l.link.conn, l.dir, "fault: %s: %s", a, describe(&l.item))
			}
			if !l.applySteps(steps) {
				return false
			}
		}
		select {
		case <-l.link.closed:
			return false
		default:
		}
	}
	return true
}

// answered asks about a frame, and reports whether its receiver has got another one.
func (l *passage) answered(it *fault.Item) bool {
	g := l.link.gate
	if g.cfg.Answer == nil {
		return false
	}
	note, instead := g.cfg.Answer(it.Frame)
	var raw []byte
	if instead != nil {
		var err error
		if raw, err = frame.Append(nil, it.Framing, instead); err != nil {
			raw = nil
		}
	}
	if raw != nil {
		g.alter(l.link.conn, l.dir, "replaced for the %s: %s", sideOf(l.dir), describe(it))
	}
	if note != nil {
		g.record(*note, l.link.conn, l.dir)
	}
	if raw != nil {
		l.out.put(raw, true)
	}
	return raw != nil
}

// describe names a frame.
func describe(it *fault.Item) string {
	s := it.Frame.Dir.String() + " " + string(it.Message.Kind)
	if id := it.Message.ID; !id.IsZero() {
		s += " " + string(id.Text)
	}
	return s
}

// applySteps carries out the steps of a fault.
func (l *passage) applySteps(steps []fault.Step) bool {
	for _, s := range steps {
		if s.Wait > 0 {
			select {
			case <-time.After(s.Wait):
			case <-l.link.closed:
				return false
			}
		}
		l.out.put(s.Bytes, true)
		if s.Cancel != nil {
			_ = l.link.cancel(s.Cancel, l.dir.Opposite()) // the exchange may have ended
		}
		if s.Close {
			l.link.cut.Store(true)
			l.link.closeLink()
			return false
		}
	}
	return true
}

// errNoExchange means that there is nothing to cancel.
var errNoExchange = errors.New("no open exchange has that id")

// cancel sends a cancel for an exchange that was opened in a direction.
func (k *link) cancel(id []byte, dir frame.Dir) error {
	l := k.passages[dir]
	k.mu.Lock()
	o := l.openers[string(id)]
	p := k.grammar.protocol
	k.mu.Unlock()
	if o == nil {
		return errNoExchange
	}
	payload, err := all.Of(p).AppendCancel(nil, &protocol.Target{Opened: &o.message}, firstOwn+k.gate.nextName())
	if err != nil {
		return err
	}
	return l.inject(payload, "a cancel of %s", o.message.ID.Text)
}

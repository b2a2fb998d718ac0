// Package relay moves bytes between two endpoints and lets others observe them. The
// bytes are moved unchanged, whether or not they parse. Framing and parsing happen in
// parallel, on a copy.
//
// Package transport opens the endpoints. Captures and taps receive capture.Records.
package relay

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
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

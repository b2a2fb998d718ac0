// Package relay moves bytes between two endpoints and lets others see them
// pass. The bytes are moved unchanged, whether or not they parse. Framing and parsing
// happen in parallel, on a copy.
//
// It opens no endpoint: package transport does. It keeps no capture and serves
// no tap: it hands capture.Records to those that do.
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

// Config says what to put the relay between, and who watches.
type Config struct {
	Controller, Unit transport.Conn
	// Sink receives the records; nil means that nobody watches. It may be shared
	// with other relays. The relay waits for a sink only if it is 2 MiB behind.
	Sink *Fan
	// Gate changes frames on request; nil changes nothing.
	Gate *Gate
	// Conn numbers the connection in the records, and Name names it.
	Conn int
	Name string
	// Framing and Protocol describe the stream; nil means to detect them.
	Framing  frame.Framing
	Protocol protocol.Protocol
	// Limit is the largest payload in bytes; 0 is the default of the pairing.
	Limit int
	// Stderr takes what the unit's process writes to its standard error.
	Stderr io.Writer
	// Grace is how long the unit's process may take for each step of ending:
	// how long it may be silent when its standard input has ended, and how long
	// it may live when it was told to terminate. 0 does not end it.
	Grace time.Duration
	// Signals are forwarded to the unit's process. If the unit is not a process, the
	// first signal that terminates processes ends the relay.
	Signals <-chan os.Signal
	// Warn, if not nil, is called at once for problems that do not end the relay.
	Warn func(text string)
	// Patience is how long a side may let bytes wait before it is said to
	// stall; 0 is five seconds.
	Patience time.Duration
}

// A Traffic is what passed in one direction.
type Traffic struct {
	Frames, Bytes int64
}

// A Result is what a relay did.
type Result struct {
	// ToUnit and ToController are what passed. Frames are counted where there
	// is a sink.
	ToUnit, ToController Traffic
	// Worst is the longest time that bytes waited for a side to take them.
	Worst Stall
	// Exit is how the unit's process ended; nil if the unit was not a process.
	Exit *transport.Exit
	// Signal ended the relay, if it is not nil.
	Signal os.Signal
}

// Run moves bytes between the two endpoints until both directions have ended,
// or the unit's process has, and closes both. An endpoint that fails ends its
// directions, and the other sees a failure ([transport.Abort]), as both do where the
// relay ends ahead of them or the unit's process fails; the error is that of the first that failed by itself. Every
// goroutine that Run began has ended when it returns, save one that reads or
// writes what cannot be interrupted.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.check(); err != nil {
		return Result{}, errors.Join(err, transport.Abort(cfg.Unit, err), transport.Abort(cfg.Controller, err))
	}
	r := newRelay(cfg)
	r.recordOpened()
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
	queue   *queue            // to the observer; nil if nobody watches
	seen    *observer
	stalls  stalls
	ways    [3]*way // by direction
	result  Result
	broken  error // why the ends are closed as failed ones; nil if all has ended well
	// dismissed says that the unit's process has ended because of its controller or
	// because it was told to, and not by itself. The supervisor sets it.
	dismissed bool
	silent    atomic.Bool // the unit's output has ended
	exited    chan exit
	stderr    chan struct{} // closed when standard error has ended
	done      chan struct{} // closed when the relay ends
	moving    sync.WaitGroup
	// interrupt makes the poller let go of the descriptors; nil if there is none.
	interrupt func()
}

// An exit is how waiting for a process ended.
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

// recordOpened records the beginning of the connection.
func (r *relay) recordOpened() {
	r.record(capture.Record{Kind: capture.Opened, Text: []byte(r.cfg.Name)})
}

// record hands a record that is not a frame to the observer, in the order of time.
func (r *relay) record(rec capture.Record) {
	if r.queue != nil {
		rec.Time, rec.Conn = time.Now(), r.cfg.Conn
		r.queue.addEvent(&rec)
	}
}

// warn tells live, and records, what goes wrong.
func (r *relay) warn(text string) {
	r.record(capture.Record{Kind: capture.Note, Text: []byte(text)})
	if r.cfg.Warn != nil {
		r.cfg.Warn(text)
	}
}

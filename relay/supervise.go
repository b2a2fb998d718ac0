package relay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/transport"
)

// supervise waits for the end of the relay, and enforces it.
func (r *relay) supervise(ctx context.Context) error {
	var failed error
	toUnit, toController, exited := r.ways[frame.C2U].ended, r.ways[frame.U2C].ended, r.exited
	e := newEnding(r)
	defer e.timer.Stop()
	defer e.silence.Stop()
	var late, hung <-chan time.Time
	if r.cfg.Grace > 0 {
		hung = time.Tick(min(max(r.cfg.Grace/4, time.Millisecond), time.Second))
	}
	for {
		select {
		case err := <-toUnit:
			toUnit = nil
			if failed == nil && r.process == nil {
				failed = err // because a process need not read its standard input
			}
			if err == nil && r.process != nil {
				e.awaitExit(r.cfg.Grace)
			}
			if failedAt(err) == frame.U2C || err == nil && whole(r.cfg.Controller) {
				e.controllerLeft()
			}
		case err := <-toController:
			toController = nil
			if failed == nil && r.result.Exit == nil {
				failed = err
			}
			if r.process != nil {
				_ = r.process.CloseRead()
			}
			if failedAt(err) == frame.U2C {
				e.controllerLeft()
			} else if r.endHeld() {
				late = time.After(lateOutput)
			}
		case <-late:
			_ = r.cfg.Controller.CloseWrite() // the unit keeps running without output
		case <-hung:
			if toController != nil && transport.HungUp(r.cfg.Controller) {
				hung = nil
				e.controllerLeft()
			}
		case x := <-exited:
			exited = nil
			if x.Code() != 0 {
				r.broken = errors.New("the unit has " + x.String())
			}
			r.result.Exit = &x.Exit
			select {
			case sig := <-r.cfg.Signals: // the process may have received it, too
				e.asked = e.asked || Terminates(sig)
			default:
			}
			r.dismissed = r.dismissed || e.asked
			if failed = x.err; e.asked {
				failed = nil // such as ssh, which then reports a failure
			}
			if end, shared := r.cfg.Controller.(*sharedEnd); shared {
				end.giveUp(r.broken)
			}
			if r.finish != nil {
				r.finish()
			}
		case sig := <-r.cfg.Signals:
			if r.process == nil && Terminates(sig) {
				r.result.Signal = sig
				r.broken = errInterrupted
				return nil
			}
			e.pass(sig)
		case <-e.silence.C:
			e.lingers()
		case <-e.timer.C:
			if e.due() {
				return failed
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch {
		case r.result.Exit != nil && toController == nil:
			wait.Done(r.stderr, lateOutput)
			return failed
		case r.process == nil && (failed != nil || r.isOver(toUnit == nil, toController == nil)):
			return failed
		case toUnit == nil && whole(r.cfg.Unit) || toController == nil && whole(r.cfg.Controller):
			e.startClock() // it cannot learn that the other side has ended
		}
	}
}

// errInterrupted is the error of a relay that a signal has ended.
var errInterrupted = errors.New("the relay was interrupted")

// endHeld reports whether the end of the unit's output is held until its process ends:
// the controller must not mistake a crash for a clean end.
func (r *relay) endHeld() bool {
	_, tells := r.cfg.Controller.(transport.Aborter)
	return tells && r.process != nil
}

// isOver reports whether nothing more can pass, judging by the ways that have ended.
func (r *relay) isOver(toUnit, toController bool) bool {
	switch {
	case toUnit && toController:
		return true
	case toUnit:
		return whole(r.cfg.Controller)
	case toController:
		_, shared := r.cfg.Unit.(*Member) // its end is that of the unit
		return shared || whole(r.cfg.Unit)
	}
	return false
}

// whole reports whether a side is a message transport: it has no half-close.
func whole(c transport.Conn) bool {
	_, messages := c.(transport.Messenger)
	return messages
}

// Terminates reports whether a signal is to end a process.
func Terminates(sig os.Signal) bool {
	return slices.Contains([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}, sig)
}

// An ending ends the unit's process after its controller has left. If the process is still
// running after the grace period, it is terminated, and after another one it is killed. If one
// side of a connection has ended and the other cannot be informed, the connection is closed
// after a silent grace period.
type ending struct {
	relay *relay
	timer *time.Timer
	told  bool // it was asked to terminate
	asked bool // a signal that we forwarded asked it to terminate
	begun bool
	// silence fires when the process has been silent for a grace period after the end of its
	// standard input.
	silence *time.Timer
	waits   bool // silence is running
}

func newEnding(r *relay) *ending {
	e := &ending{relay: r, timer: time.NewTimer(time.Hour), silence: time.NewTimer(time.Hour)}
	e.timer.Stop()
	e.silence.Stop()
	return e
}

// awaitExit checks after a time that a process whose standard input has ended has exited.
func (e *ending) awaitExit(after time.Duration) {
	if e.waits = after > 0; e.waits {
		e.silence.Reset(after)
	}
}

// lingers records that the unit's process is still running, unless it was asked to end or has
// written something meanwhile.
func (e *ending) lingers() {
	r := e.relay
	switch quiet := e.quiet(r.ways[frame.U2C]); {
	case !e.waits || e.asked || e.told || r.result.Exit != nil:
	case quiet < r.cfg.Grace:
		e.awaitExit(r.cfg.Grace - quiet)
		return
	default:
		text := fmt.Sprintf("the unit keeps running: its stdin has ended, and it has written nothing for %v", r.cfg.Grace)
		r.record(capture.Record{Kind: capture.Lingering, Text: []byte(text)})
	}
	e.waits = false
}

// quiet returns how long nothing has arrived on a way.
func (e *ending) quiet(w *way) time.Duration { return time.Since(time.Unix(0, w.last.Load())) }

// startClock starts the clock if it has not been started.
func (e *ending) startClock() {
	if !e.begun {
		e.restart()
	}
}

func (e *ending) restart() {
	if e.relay.cfg.Grace > 0 {
		e.begun = true
		e.timer.Reset(e.relay.cfg.Grace)
	}
}

// failedAt returns the direction to the side that failed.
func failedAt(err error) frame.Dir {
	if failed, ok := errors.AsType[*sideError](err); ok {
		return failed.dir
	}
	return frame.DirUnknown
}

// controllerLeft is called when nobody reads the unit's output any more. Writing it fails for
// the unit, as it would without a relay.
func (e *ending) controllerLeft() {
	r := e.relay
	r.dismissed = r.dismissed || r.result.Exit == nil
	switch {
	case r.finish != nil:
		r.finish()
	case r.process != nil:
		_ = r.process.CloseRead()
	}
	e.startClock()
}

// pass forwards a signal to the unit's process.
func (e *ending) pass(sig os.Signal) {
	p := e.relay.process
	if p == nil || sig == syscall.SIGPIPE {
		return
	}
	e.asked = e.asked || Terminates(sig)
	_ = p.Forward(sig) // it may have ended
	if sig == syscall.SIGTERM || sig == syscall.SIGHUP || e.relay.result.Exit != nil && Terminates(sig) {
		e.told = true
		e.restart()
	}
}

// due takes the next step. It returns true at the end of the relay.
func (e *ending) due() bool {
	r := e.relay
	quiet := min(e.quiet(r.ways[frame.C2U]), e.quiet(r.ways[frame.U2C]))
	switch {
	case r.result.Exit != nil: // its last output is not read
		return true
	case e.told:
		r.alarm("the unit did not exit when asked: killed it, with all that it has started")
		_ = r.process.Signal(os.Kill)
	case r.process == nil && quiet < r.cfg.Grace:
		e.timer.Reset(r.cfg.Grace - quiet)
	case r.process == nil:
		r.warn("one side has ended and the other is silent: closing the connection")
		return true
	default:
		e.lingers()
		e.told = true
		r.alarm("the controller has left and the unit keeps running: sending SIGTERM to it and all that it has started")
		_ = r.process.Signal(syscall.SIGTERM)
		e.timer.Reset(r.cfg.Grace)
	}
	return false
}

// lateOutput is how long the relay waits for standard error after the end of the unit's process,
// which nobody may be reading, and for the process after the end of its output.
const lateOutput = 500 * time.Millisecond

// stuck is how long the relay waits for a read or a write that cannot be interrupted, when
// everything else has ended.
const stuck = time.Second

// closeAndWait closes both ends and waits for everything that the relay has started.
func (r *relay) closeAndWait() {
	r.dismissed = r.dismissed || r.isCut()
	close(r.done)
	r.stalls.stopped.Wait()
	if r.interrupt != nil {
		r.interrupt()
	}
	if r.link != nil {
		r.link.closeLink()
	}
	if e, shared := r.cfg.Controller.(*sharedEnd); shared && r.result.Exit != nil {
		exit := r.exitRecord()
		e.exit.Store(&exit)
	}
	transport.PassGoodbye(r.cfg.Controller, r.cfg.Unit)
	transport.PassGoodbye(r.cfg.Unit, r.cfg.Controller)
	r.closeEnds()
	r.noteProcesses()
	moved := make(chan struct{})
	go func() { r.moving.Wait(); close(moved) }()
	wait.Done(moved, stuck)
	r.recordExit()
	if r.seen != nil {
		r.seen.unitLeft = r.unitLeft()
	}
	r.result.Worst = r.stalls.worst()
	r.result.ToUnit.Bytes = r.ways[frame.C2U].bytes.Load()
	r.result.ToController.Bytes = r.ways[frame.U2C].bytes.Load()
	if r.queue != nil {
		r.queue.closeQueue()
		<-r.seen.stopped
		r.result.ToUnit.Frames = r.seen.lanes[frame.C2U].frames
		r.result.ToController.Frames = r.seen.lanes[frame.U2C].frames
	}
}

// isCut reports whether a fault has closed the connection.
func (r *relay) isCut() bool { return r.link != nil && r.link.cut.Load() }

// unitLeft reports whether the unit ended the relay by itself.
func (r *relay) unitLeft() bool {
	if r.dismissed || errors.Is(r.broken, errInterrupted) || errors.Is(r.broken, context.Canceled) {
		return false
	}
	return r.result.Exit != nil || failedAt(r.broken) == frame.C2U
}

// closeEnds closes both ends. It aborts them if something failed.
func (r *relay) closeEnds() {
	if r.broken != nil {
		_ = transport.Abort(r.cfg.Unit, r.broken)
		_ = transport.Abort(r.cfg.Controller, r.broken)
		return
	}
	_ = r.cfg.Unit.Close()
	if r.endHeld() {
		_ = r.cfg.Controller.CloseWrite() // because Close resets a connection with unread bytes
	}
	_ = r.cfg.Controller.Close()
}

// noteProcesses tells about processes that closing the unit's process has ended, or left alone.
func (r *relay) noteProcesses() {
	if r.process == nil {
		return
	}
	switch exit, _ := r.process.Wait(); { //nolint:errcheck // it is in the result
	case exit.Told && r.result.Exit == nil:
		r.alarm("the unit kept running after its stdin ended: ended it, with all that it has started")
	case r.process.Outlived():
		r.warn("the unit has exited, and processes that it started are still running: they are left alone")
	}
}

// recordExit records the end of the unit's process. For a shared unit, each connection
// records it.
func (r *relay) recordExit() {
	if m, ok := r.cfg.Unit.(*Member); ok {
		if exit := m.shared.exit.Load(); exit != nil {
			r.record(*exit)
		}
		return
	}
	if r.result.Exit != nil {
		r.record(r.exitRecord())
	}
}

// exitRecord returns the record of the end of the unit's process.
func (r *relay) exitRecord() capture.Record {
	rec := capture.Record{Kind: capture.Exited, Status: r.result.Exit.Status}
	if s := r.result.Exit.Signal; s != nil {
		n, _ := s.(syscall.Signal)
		rec.Kind, rec.Status, rec.Text = capture.Signalled, int(n), []byte(s.String())
	}
	if r.dismissed {
		rec.Dir = frame.C2U
	}
	return rec
}

// reap waits for the unit's process.
func (r *relay) reap(p transport.Process) {
	x, err := p.Wait()
	r.exited <- exit{x, err}
}

package relay

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/transport"
)

// A way is one direction of a relay.
type way struct {
	relay    *relay
	dir      frame.Dir
	src, dst transport.Conn
	well     well
	bytes    atomic.Int64
	last     atomic.Int64  // when bytes last arrived, in nanoseconds since 1970
	wait     *pendingWrite // the current write
	ended    chan error    // has room for one
}

func newWay(r *relay, dir frame.Dir, src, dst transport.Conn) *way {
	w := &way{relay: r, dir: dir, src: src, dst: dst, ended: make(chan error, 1)}
	w.wait = r.stalls.waitOf(dir)
	return w
}

// copy moves bytes until the source ends or one of the two fails.
func (w *way) copy() {
	defer w.well.releaseSlab()
	for {
		n, err := w.src.Read(w.well.room())
		if n > 0 {
			if err := w.pass(w.well.took(n)); err != nil {
				w.reportEnd(&sideError{w.dir, err})
				return
			}
		}
		if err != nil {
			w.finishWay(err)
			return
		}
	}
}

// pass writes bytes and queues them for the observer.
func (w *way) pass(data []byte) error {
	c := w.noteRead(data)
	w.wait.startWrite(len(data))
	_, err := w.dst.Write(data)
	w.wait.endWrite()
	w.wrote(c)
	return err
}

// noteRead counts bytes that were read into the slab of the current well, and queues them
// for the observer.
func (w *way) noteRead(data []byte) *chunk {
	now := w.count(len(data))
	if !w.relay.isObserved() {
		return nil
	}
	return w.relay.queue.data(w.dir, w.well.slab, data, now)
}

// count counts n bytes that have just arrived.
func (w *way) count(n int) time.Time {
	now := time.Now()
	w.bytes.Add(int64(n))
	w.last.Store(now.UnixNano())
	return now
}

// wrote sets the time at which a chunk was written.
func (w *way) wrote(c *chunk) {
	if c != nil {
		w.relay.queue.done(c, time.Now())
	}
}

// finishWay forwards the end of the source.
func (w *way) finishWay(err error) {
	if err != io.EOF {
		w.reportEnd(&sideError{w.dir.Opposite(), err})
		return
	}
	w.recordEnd()
	if w.dir == frame.U2C && w.relay.endHeld() {
		w.reportEnd(nil)
		return
	}
	err = w.dst.CloseWrite()
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil // both directions end together
	}
	if err != nil {
		err = &sideError{w.dir, err}
	}
	w.reportEnd(err)
}

// recordEnd records the end of the source. After the unit's end, the controller's is
// recorded when the relay ends, so that the exit of the unit's process comes first. Ends
// that a fault causes are also recorded then.
func (w *way) recordEnd() {
	r := w.relay
	if w.dir == frame.C2U && r.silent.Load() || r.isCut() {
		return
	}
	if w.dir == frame.U2C {
		r.silent.Store(true)
	}
	if r.queue != nil {
		r.queue.pushEnd(w.dir, time.Now())
		r.queue.rouse()
	}
}

// reportEnd reports that the way has ended. err is nil after a clean end.
func (w *way) reportEnd(err error) { w.ended <- err }

// A sideError is the failure of one side.
type sideError struct {
	dir frame.Dir // to that side
	err error
}

func (e *sideError) Error() string {
	for _, gone := range []error{syscall.ECONNRESET, syscall.EPIPE, syscall.ENOTCONN} {
		if errors.Is(e.err, gone) {
			return fmt.Sprintf("the %s has gone: %v", sideOf(e.dir), gone)
		}
	}
	return sideOf(e.dir) + ": " + e.err.Error()
}

// Unwrap returns the cause, except for a broken pipe of the unit. A command would mistake that
// for a broken pipe of its own output, which is not a failure.
func (e *sideError) Unwrap() error {
	if e.dir == frame.C2U && errors.Is(e.err, syscall.EPIPE) {
		return nil
	}
	return e.err
}

// sideOf names the receiver of a direction.
func sideOf(dir frame.Dir) string {
	if dir == frame.C2U {
		return "unit"
	}
	return "controller"
}

// start starts moving bytes.
func (r *relay) start() {
	if r.seen != nil {
		go r.seen.observe()
	}
	if !r.poll() {
		r.moving.Go(r.ways[frame.C2U].mover())
		r.moving.Go(r.ways[frame.U2C].mover())
	}
	if r.link != nil {
		r.moving.Go(r.link.passages[frame.C2U].passFrames)
		r.moving.Go(r.link.passages[frame.U2C].passFrames)
	}
	r.stalls.stopped.Go(r.stalls.watch)
	if r.process == nil {
		close(r.stderr)
		return
	}
	r.moving.Go(r.drain)
	r.moving.Go(func() { r.reap(r.process) })
}

// drain passes on the standard error of the unit's process.
func (r *relay) drain() {
	defer close(r.stderr)
	buf := make([]byte, 32<<10)
	in := r.process.Stderr()
	for {
		n, err := in.Read(buf)
		if n > 0 {
			r.record(capture.Record{Kind: capture.Stderr, Text: append([]byte(nil), buf[:n]...), Frame: frame.Frame{Dir: frame.U2C}})
			r.stalls.stderr.startWrite(n)
			_, _ = r.cfg.Stderr.Write(buf[:n]) // the output may be gone, but the unit must still be drained
			r.stalls.stderr.endWrite()
		}
		if err != nil {
			return
		}
	}
}

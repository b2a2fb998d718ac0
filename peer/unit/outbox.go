package unit

import (
	"context"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"
)

// outboxRoom is how many bytes may wait to be written before answers block.
const outboxRoom = 256 << 10

// An outbox collects messages, so that answers that are ready at the same time are written
// together. The goroutine that adds a message writes it, unless another one is writing.
// Messages added meanwhile are left to the outbox's own goroutine, because a reader that is
// busy writing would not see cancels.
type outbox struct {
	w      io.Writer
	more   chan struct{} // wakes the goroutine, and gives it the turn to write
	ended  chan struct{} // closed when the goroutine has returned
	failed func(error)   // called with the error that ends writing

	mu         sync.Mutex
	changed    sync.Cond // room was made, or writing ended
	buf, spare []byte
	writing    bool // some goroutine has the turn to write
	err        error
	waiting    func() // called once when there is room, if not nil
}

func newOutbox(w io.Writer, failed func(error)) *outbox {
	o := &outbox{w: w, more: make(chan struct{}, 1), ended: make(chan struct{}), failed: failed}
	o.changed.L = &o.mu
	go o.writeBatches()
	return o
}

func (o *outbox) writeBatches() {
	defer close(o.ended)
	for range o.more {
		for o.writeBatch() {
		}
	}
}

// drain writes the queued messages, and waits until they are written.
func (o *outbox) drain() {
	o.flush()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing {
		o.changed.Wait()
	}
}

// drainAndStop writes the queued messages and ends the goroutine. Nothing may be added
// afterwards.
func (o *outbox) drainAndStop() error {
	o.drain()
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.more)
	<-o.ended
	return o.err
}

// addMessage appends a message. It never blocks, so callers may only add a little between two
// flushes.
func (o *outbox) addMessage(m proto.Message) {
	o.mu.Lock()
	o.buf = appendFrame(o.buf, m)
	o.mu.Unlock()
}

// addRaw appends bytes as they are.
func (o *outbox) addRaw(b []byte) {
	o.mu.Lock()
	o.buf = append(o.buf, b...)
	o.mu.Unlock()
}

// await waits until there is room, or ctx ends.
func (o *outbox) await(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf) < outboxRoom {
		return o.err
	}
	stop := context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.changed.Broadcast()
	})
	defer stop()
	for len(o.buf) >= outboxRoom && o.err == nil && ctx.Err() == nil {
		o.changed.Wait()
	}
	return o.err
}

// defers arranges for f to be called when there is room; only the last f is called. It returns
// false if there is room already.
func (o *outbox) defers(f func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf) < outboxRoom {
		return false
	}
	o.waiting = f
	return true
}

// flush writes the added messages, or leaves them to the goroutine that is writing.
func (o *outbox) flush() {
	o.mu.Lock()
	if o.writing || len(o.buf) == 0 {
		o.mu.Unlock()
		return
	}
	o.writing = true
	o.mu.Unlock()
	if o.writeBatch() {
		o.more <- struct{}{}
	}
}

// writeBatch writes the queued bytes and reports whether more were added meanwhile. The
// caller must hold the turn, and keeps it while there is more.
func (o *outbox) writeBatch() bool {
	o.mu.Lock()
	out := o.buf
	o.buf = o.spare[:0]
	o.mu.Unlock()

	_, err := o.w.Write(out)

	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.waiting; f != nil && len(o.buf) < outboxRoom {
		o.waiting = nil
		o.mu.Unlock()
		f()
		o.mu.Lock()
	}
	o.spare = out
	if cap(o.spare) > 4*outboxRoom {
		o.spare = nil
	}
	if err != nil && o.err == nil {
		o.err = err
		o.failed(err)
	}
	if o.err != nil {
		o.buf = o.buf[:0]
	}
	o.writing = len(o.buf) > 0
	o.changed.Broadcast()
	return o.writing
}

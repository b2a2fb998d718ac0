package relay

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// A queue passes the bytes that the relay read to its observer, in order. It holds at most
// maxBehind bytes, and then blocks. An observer that is further behind lacks processor time,
// and spilling to disk would use even more of it.
type queue struct {
	mu      sync.Mutex
	chunks  []*chunk
	taken   int // of the chunks
	bytes   int
	closed  bool
	room    sync.Cond
	wake    chan struct{} // has a buffer of one
	lazy    bool          // the reading goroutine calls rouse itself
	waiting atomic.Int64  // bytes since the observer was last woken
}

// maxBehind is how many bytes the observer may be behind.
const maxBehind = 2 << 20

// A chunk is the result of a read, the end of a direction, or an event.
type chunk struct {
	dir  frame.Dir
	data []byte // in slab, which is nil if there is no data
	slab *slab
	read time.Time
	// written is when the data was written to the other side, in nanoseconds since 1970; 0 if it
	// has not been.
	written atomic.Int64
	ended   bool
	event   *capture.Record
}

// writtenAt returns when the data was written; the zero time if it has not been.
func (c *chunk) writtenAt() time.Time {
	if at := c.written.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// size is the size of a chunk in the queue.
func (c *chunk) size() int {
	if c.event != nil {
		return len(c.event.Raw) + len(c.event.Text)
	}
	return len(c.data)
}

func newQueue() *queue {
	q := &queue{wake: make(chan struct{}, 1)}
	q.room.L = &q.mu
	return q
}

// data queues the bytes of a read, before they are written to the other side. The chunk's
// slab is kept until the observer has seen it.
func (q *queue) data(dir frame.Dir, s *slab, data []byte, at time.Time) *chunk {
	s.Hold()
	c := &chunk{dir: dir, data: data, slab: s, read: at}
	q.push(c)
	return c
}

// pushEnd queues the end of a direction.
func (q *queue) pushEnd(dir frame.Dir, at time.Time) { q.push(&chunk{dir: dir, read: at, ended: true}) }

// addEvent queues a record.
func (q *queue) addEvent(rec *capture.Record) {
	q.push(&chunk{read: rec.Time, event: rec})
	q.rouse()
}

func (q *queue) push(c *chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > maxBehind && !q.closed {
		q.rouse()
		q.room.Wait()
	}
	q.chunks = append(q.chunks, c)
	q.bytes += c.size()
	q.waiting.Add(int64(c.size()))
}

// done marks a chunk as written. It must be called only once.
func (q *queue) done(c *chunk, at time.Time) {
	c.written.Store(at.UnixNano())
	if !q.lazy || q.waiting.Load() > rouseAt {
		q.rouse()
	}
}

// rouseAt is how many bytes a lazy queue accumulates before it wakes the observer.
const rouseAt = 128 << 10

// rouse wakes the observer.
func (q *queue) rouse() {
	q.waiting.Store(0)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// takeChunk removes and returns the oldest chunk. It returns nil if the queue is empty, or
// if written is set and the chunk is still to be written. It also reports whether more may
// come.
func (q *queue) takeChunk(written bool) (c *chunk, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chunks) == q.taken {
		q.chunks, q.taken = q.chunks[:0], 0
		q.waiting.Store(0)
		return nil, !q.closed
	}
	c = q.chunks[q.taken]
	if written && c.data != nil && c.written.Load() == 0 {
		return nil, true
	}
	q.chunks[q.taken] = nil
	q.taken++
	return c, true
}

// presses reports whether more than that many bytes are queued, including the current ones.
func (q *queue) presses(than int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes > than
}

// seen makes room for n bytes that the observer has recorded.
func (q *queue) seen(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= n
	q.room.Broadcast()
}

// closeQueue marks the queue as complete: nothing is pushed after it.
func (q *queue) closeQueue() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.room.Broadcast()
	q.rouse()
}

package relay

import (
	"errors"
	"fmt"
	"io"
	"sync"
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

// A Stall is a period in which bytes waited because a side did not read them.
type Stall struct {
	// What is the cause, such as "unit has not read its stdin".
	What  string
	For   time.Duration
	Bytes int64
}

// String describes the stall, as in "unit has not read its stdin for 31s; 4096 bytes wait".
func (s Stall) String() string {
	return fmt.Sprintf("%s for %v; %d bytes wait", s.What, s.For.Round(time.Millisecond), s.Bytes)
}

// A pendingWrite is the time and the size of the current write of a way. Reads are timed
// separately: only a side that does not read waiting bytes stalls, not one that sends nothing.
type pendingWrite struct {
	what  string
	since atomic.Int64 // nanoseconds since 1970; 0 while no write is under way
	bytes atomic.Int64
	// worst is the longest write that has ended.
	worst, size atomic.Int64

	told int64 // the since of the write that was reported last; only for the watcher
}

func (w *pendingWrite) startWrite(n int) {
	w.bytes.Store(int64(n))
	w.since.Store(time.Now().UnixNano())
}

func (w *pendingWrite) endWrite() {
	took := time.Now().UnixNano() - w.since.Swap(0)
	if took > w.worst.Load() {
		w.worst.Store(took)
		w.size.Store(w.bytes.Load())
	}
}

// now returns the duration of the current write.
func (w *pendingWrite) now(at time.Time) (s Stall, since int64) {
	s = Stall{What: w.what, Bytes: w.bytes.Load()}
	if since = w.since.Load(); since != 0 {
		s.For = time.Duration(at.UnixNano() - since)
	}
	return s, since
}

// stalls watches the writes of a relay.
type stalls struct {
	relay   *relay
	ways    [3]pendingWrite // by direction
	stderr  pendingWrite
	stopped sync.WaitGroup
}

func (s *stalls) init(r *relay) {
	s.relay = r
	s.ways[frame.C2U].what, s.ways[frame.U2C].what = "unit does not read", "controller does not read"
	if r.process != nil {
		s.ways[frame.C2U].what = "unit has not read its stdin"
		s.ways[frame.U2C].what = "controller does not drain stdout"
	}
	s.stderr.what = "stderr is not drained"
}

func (s *stalls) waitOf(dir frame.Dir) *pendingWrite { return &s.ways[dir] }

func (s *stalls) all() []*pendingWrite {
	return []*pendingWrite{&s.ways[frame.C2U], &s.ways[frame.U2C], &s.stderr}
}

// watch reports a write that takes longer than the relay's patience, and its end.
func (s *stalls) watch() {
	tick := time.Tick(max(s.relay.cfg.Patience/4, time.Millisecond))
	for {
		select {
		case <-s.relay.done:
			return
		case now := <-tick:
			for _, w := range s.all() {
				s.checkWrite(w, now)
			}
		}
	}
}

func (s *stalls) checkWrite(w *pendingWrite, now time.Time) {
	stall, since := w.now(now)
	switch {
	case w.told != 0 && since != w.told:
		over := time.Duration(w.worst.Load())
		w.told = 0
		s.relay.warn(fmt.Sprintf("%s: it went on after %v", w.what, over.Round(time.Millisecond)))
	case w.told == 0 && stall.For >= s.relay.cfg.Patience:
		w.told = since
		s.relay.warn(stall.String())
	}
}

// worst returns the longest wait so far.
func (s *stalls) worst() (worst Stall) {
	now := time.Now()
	for _, w := range s.all() {
		stall, _ := w.now(now)
		if ended := time.Duration(w.worst.Load()); ended > stall.For {
			stall.For, stall.Bytes = ended, w.size.Load()
		}
		if stall.For > worst.For {
			worst = stall
		}
	}
	return worst
}

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

// A slab is memory that consecutive reads fill, so that the bytes reach the observer without
// a copy. It is reused when its last holder has released it.
type slab struct {
	buf     []byte
	used    int
	holders atomic.Int32
}

const (
	firstSlab = 4 << 10   // a quiet connection needs little
	fullSlab  = 256 << 10 // measured: larger reads are no faster
	leastRead = 1 << 10   // the least room worth a read
)

var slabs = sync.Pool{New: func() any { return &slab{buf: make([]byte, fullSlab)} }}

// newSlab returns a slab of that size with one holder.
func newSlab(size int) *slab {
	var s *slab
	if size == fullSlab {
		s = slabs.Get().(*slab)
		s.used = 0
	} else {
		s = &slab{buf: make([]byte, size)}
	}
	s.holders.Store(1)
	return s
}

// Hold and Release are those of [capture.Memory].
func (s *slab) Hold() { s.holders.Add(1) }

func (s *slab) Release() {
	if s.holders.Add(-1) == 0 && len(s.buf) == fullSlab {
		slabs.Put(s)
	}
}

// A well provides room for reads, in one slab after another.
type well struct {
	slab *slab
	size int
}

// room returns the buffer for the next read.
func (w *well) room() []byte {
	switch {
	case w.slab == nil:
		w.size = firstSlab
		w.slab = newSlab(w.size)
	case len(w.slab.buf) < w.size:
		w.replace()
	case w.slab.holders.Load() == 1:
		w.slab.used = 0
	case len(w.slab.buf)-w.slab.used < leastRead:
		w.replace()
	}
	return w.slab.buf[w.slab.used:]
}

// atLeast returns room for n bytes, and allocates memory if necessary.
func (w *well) atLeast(n int) []byte {
	room := w.room()
	if len(room) < n {
		w.slab.Release()
		w.slab = newSlab(max(n, w.size))
		room = w.slab.buf
	}
	return room
}

// took marks n bytes of the room as used, and returns them.
func (w *well) took(n int) []byte {
	data := w.slab.buf[w.slab.used : w.slab.used+n]
	if w.slab.used+n == len(w.slab.buf) {
		w.size = min(4*w.size, fullSlab)
	}
	w.slab.used += n
	return data
}

func (w *well) replace() {
	w.slab.Release()
	w.slab = newSlab(w.size)
}

// releaseSlab frees the memory.
func (w *well) releaseSlab() {
	if w.slab != nil {
		w.slab.Release()
		w.slab = nil
	}
}

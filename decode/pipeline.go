package decode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// A pipeline moves batches from the feed through workers to the output. Workers take turns
// at reading and at writing. In between, one worker handles all of a batch, so that its
// bytes stay with one core: it shows the items or, if one view sees all in order, parses
// them; then showing is a part of writing. A fixed set of jobs goes around, which bounds
// the memory.
type pipeline struct {
	cfg     Config
	feed    feed
	out     io.Writer
	newView func() View
	result  Result
}

// A job is a batch and its output.
type job struct {
	turn  int       // at which it was read, and is written
	free  chan *job // where it goes after it was written
	batch batch
	ahead []parsed // by frame; empty unless they are parsed ahead
	out   []byte
	seen  Result // less than the batch if err ended it
	err   error
}

// errEnough ends a run that has shown everything it was asked for.
var errEnough = errors.New("enough")

func (p *pipeline) run(ctx context.Context) error {
	work := p.inline
	switch {
	case p.cfg.Skip > 0 || p.cfg.Head > 0:
		// Which items are shown depends on how many were before, so that
		// counting them off is not for workers that overtake each other.
	case p.cfg.Workers <= 1:
	case p.cfg.InOrder:
		work = p.inOrder
	default:
		work = p.parallel
	}
	return work(ctx)
}

// inline does everything on the caller's goroutine.
func (p *pipeline) inline(ctx context.Context) error {
	w := p.newWorker()
	w.skip, w.head = p.cfg.Skip, p.cfg.Head
	defer func() { p.result.Passed, p.result.Shown = p.cfg.Skip-w.skip, p.cfg.Head-w.head }()
	var j job
	for ctx.Err() == nil && p.feed.nextBatch(&j.batch) {
		p.cfg.around(func() { w.work(&j) })
		if err := p.writeOutput(&j); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// parallel has several workers, each with a view.
func (p *pipeline) parallel(ctx context.Context) error {
	return p.spread(ctx, p.writeOutput, func() func(*job) { return p.newWorker().work })
}

// inOrder has several workers, which parse for one view.
func (p *pipeline) inOrder(ctx context.Context) error {
	w := p.newWorker()
	show := func(j *job) error {
		p.cfg.around(func() { w.work(j) })
		return p.writeOutput(j)
	}
	return p.spread(ctx, show, func() func(*job) {
		it := NewItem(p.cfg)
		return func(j *job) { j.parse(it) }
	})
}

// spread has workers do the work from newWork with batches, and finishes these in their
// order.
func (p *pipeline) spread(ctx context.Context, finish func(*job) error, newWork func() func(*job)) error {
	g, ctx := p.group(ctx)
	q := &queue{feed: p.feed, finish: finish, done: make([]*job, p.cfg.Workers*jobsEach)}
	for range p.cfg.Workers {
		g.Go(func() error {
			work := newWork()
			free := jobs()
			for {
				j, err := q.readJob(ctx, free)
				if j == nil {
					return err
				}
				work(j)
				if err := q.writeJob(j); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// group returns a group of goroutines. When one fails, a read that waits for
// input returns.
func (p *pipeline) group(ctx context.Context) (*errgroup.Group, context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	if p.cfg.Interrupt != nil {
		context.AfterFunc(ctx, p.cfg.Interrupt)
	}
	return g, ctx
}

// writeOutput writes a job's output. It frees a buffer that a large job has grown.
func (p *pipeline) writeOutput(j *job) error {
	p.result.Merge(&j.seen)
	if len(j.out) > 0 {
		if _, err := p.out.Write(j.out); err != nil {
			return err
		}
	}
	if cap(j.out) > maxKept {
		j.out = nil
	}
	return j.err
}

// maxKept is how much memory for output a job keeps for the next batch.
const maxKept = 2 << 20

// A worker turns batches into output.
type worker struct {
	match      func(*Item) bool
	view       View
	tally      *tally // that the view adds to; nil if it adds to none
	event      func(*capture.Record)
	item       Item
	skip, head int64
	lines      bool // the pieces of a fault count as one item
}

func (p *pipeline) newWorker() *worker {
	w := &worker{match: p.cfg.Match, event: p.cfg.Event, item: *NewItem(p.cfg), lines: p.cfg.Lines}
	if c := p.cfg.Counter; c != nil {
		w.tally = c.tally()
		w.view = w.tally.view
	} else {
		w.view = p.newView()
	}
	return w
}

// parsed is the part of an item that was parsed before its view. A compressed frame is not
// parsed ahead: its payload lies in the item's own memory.
type parsed struct {
	ready    bool
	protocol protocol.Protocol
	payload  []byte
	message  protocol.Message
	err      error
	well     bool
}

// parse parses the frames of a job's batch, by way of an item.
func (j *job) parse(it *Item) {
	b := &j.batch
	j.ahead = slices.Grow(j.ahead[:0], len(b.Frames))[:len(b.Frames)]
	for run, s := range b.since {
		for i := s.index; i < b.endOfRun(run); i++ {
			f, a := &b.Frames[i], &j.ahead[i]
			if a.ready = !f.Compressed; a.ready {
				it.readFrame(f, s.protocol, &a.message)
				a.protocol, a.payload, a.err, a.well = it.Protocol, it.Payload, it.Err, it.well
			}
		}
	}
}

// readItem fills it with frame i of the job, which may have been parsed.
func (j *job) readItem(it *Item, i int, p protocol.Protocol) {
	f := &j.batch.Frames[i]
	if i >= len(j.ahead) || !j.ahead[i].ready {
		it.Read(f, p)
		return
	}
	a := &j.ahead[i]
	it.Frame, it.Protocol = f, a.protocol
	it.Payload, it.Message, it.Err, it.well = a.payload, a.message, a.err, a.well
}

// work shows the items of a job's batch.
func (w *worker) work(j *job) {
	j.out, j.seen, j.err = j.out[:0], Result{}, nil
	b := &j.batch
	it := &w.item
	clock, among := b.clock, b.among
	for run, s := range b.since {
		it.Framing, it.Redacted, it.Outlined, it.Altered = s.framing, s.redacted, s.outlined, s.altered
		for i := s.index + w.count(j, run); i < b.endOfRun(run) && j.err == nil; i++ {
			it.Seq, it.Place = b.first+int64(i), -1
			if len(b.place) > 0 {
				it.Place = b.place[i]
			}
			if len(b.times) > 0 {
				w.stampTimes(&clock, &b.times[i])
			}
			if len(among) > 0 {
				among = w.showEvents(among, i)
			}
			j.readItem(it, i, s.protocol)
			it.goesOn = it.Frame.Gap && it.Err != nil && !j.begins(i)
			j.err = w.show(j)
			switch {
			case it.Err != nil: // a view may have found more faults
				j.fault(it, i)
			case !it.Frame.Gap:
				j.seen.Frames++
			}
		}
	}
	w.showEvents(among, len(b.Frames))
}

// count counts the frames at the beginning of a run that need no look of their own, and
// returns their number.
func (w *worker) count(j *job, run int) int {
	s := &j.batch.since[run]
	if w.tally == nil || s.protocol != opaque.Bytes || w.match != nil || w.skip > 0 || w.head > 0 {
		return 0
	}
	n := w.tally.addBytes(j.batch.Frames[s.index:j.batch.endOfRun(run)])
	j.seen.Frames += int64(n)
	return n
}

// fault counts the fault of the item of that frame.
func (j *job) fault(it *Item, i int) {
	if j.seen.First == nil {
		j.seen.First = it.fault()
	}
	if !it.Frame.Gap {
		j.seen.Frames++
		j.seen.Faults++
		return
	}
	j.seen.Skipped.Bytes += int64(len(it.Frame.Raw))
	if j.begins(i) {
		j.seen.Faults++
		j.seen.Skipped.Faults++
	}
}

// begins reports whether the frame of an index is a gap that begins a fault.
func (j *job) begins(i int) bool {
	_, begins := slices.BinarySearch(j.batch.fault, i)
	return begins
}

// showEvents shows the events up to the frame with that index, and returns the others.
func (w *worker) showEvents(events []event, index int) []event {
	for len(events) > 0 && events[0].index <= index {
		w.event(&events[0].record)
		events = events[1:]
	}
	return events
}

// stampTimes sets the times of the item. The first frame of a session counts as its own
// predecessor.
func (w *worker) stampTimes(c *clock, t *times) {
	it := &w.item
	it.Time, it.Written, it.First, it.Previous = t.read, t.written, c.first, c.previous
	if c.first.IsZero() {
		it.First, it.Previous = t.read, t.read
	}
	c.pass(t.read)
}

// show appends the item to the job's output, if it is to be shown.
func (w *worker) show(j *job) error {
	if w.match != nil && !w.match(&w.item) {
		return nil
	}
	asOne := w.lines && w.item.goesOn
	if w.skip > 0 {
		if !asOne {
			w.skip--
		}
		return nil
	}
	var err error
	if j.out, err = w.view(j.out, &w.item); err != nil {
		return fmt.Errorf("frame %d: %w", w.item.Seq, err)
	}
	if w.head > 0 && !asOne {
		if w.head--; w.head == 0 {
			return errEnough
		}
	}
	return nil
}

// A queue has workers read batches one after the other, and writes their output in the
// order of the batches, whichever is done first.
type queue struct {
	feed   feed
	finish func(*job) error

	waiting sync.Mutex // held by the one that is awake
	reading sync.Mutex
	atHand  atomic.Bool // input is, as the last read tells
	turn    int         // number of the batch that is read next

	mu      sync.Mutex
	done    []*job // the jobs that wait for their turn, each at its turn modulo their number
	next    int    // the turn that is written next
	writing bool   // by some worker, which goes on as long as it finds the next one
	err     error  // ended the writing
}

// jobsEach is how many jobs a worker has, so that it can go on while one waits
// for its turn.
const jobsEach = 2

// jobs returns the jobs of one worker.
func jobs() chan *job {
	free := make(chan *job, jobsEach)
	for range jobsEach {
		free <- &job{free: free}
	}
	return free
}

// readJob reads the next batch into a free job. It returns nil at the end of the feed, and
// nil with the cause when the context is done.
func (q *queue) readJob(ctx context.Context, free chan *job) (*job, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case j := <-free:
		q.lock()
		defer q.reading.Unlock()
		if ctx.Err() != nil || !q.nextBatch(&j.batch) {
			return nil, context.Cause(ctx)
		}
		j.turn = q.turn
		q.turn++
		return j, nil
	}
}

// patience is how long a worker spins while another one reads: longer than reading
// available bytes takes, and about as long as waking up takes.
const patience = 100 * time.Microsecond

// plenty is how many bytes a read of available input returns: half of a pipe's buffer.
// Shorter reads come from a peer that writes message by message; spinning for it would
// never stop.
const plenty = 32 << 10

// lock takes the right to read. If input is available, one waiting worker spins, because
// the read is over before the worker could be woken.
func (q *queue) lock() {
	q.waiting.Lock()
	defer q.waiting.Unlock()
	if q.atHand.Load() {
		for began := time.Now(); time.Since(began) < patience; runtime.Gosched() {
			if q.reading.TryLock() {
				return
			}
		}
	}
	q.reading.Lock()
}

// nextBatch reads the next batch.
func (q *queue) nextBatch(b *batch) bool {
	began := time.Now()
	more := q.feed.nextBatch(b)
	q.atHand.Store(more && atHand(time.Since(began), b))
	return more
}

// atHand reports whether a batch that took so long to read was at hand.
func atHand(took time.Duration, b *batch) bool { return took < patience && b.holds(plenty) }

// writeJob writes a job if it is its turn, and then the jobs that waited for it. If it is
// not its turn, or another worker is writing, that worker writes it.
func (q *queue) writeJob(j *job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done[j.turn%len(q.done)] = j
	if q.writing {
		return nil
	}
	q.writing = true
	for q.err == nil {
		at := &q.done[q.next%len(q.done)]
		due := *at
		if due == nil {
			break
		}
		*at = nil
		q.mu.Unlock()
		err := q.finish(due)
		due.free <- due
		q.mu.Lock()
		q.next++
		q.err = err
	}
	q.writing = false
	return q.err
}

// A stream yields batches of frames and the protocol of each. It detects what its
// configuration leaves open.
type stream struct {
	cfg      Config
	scanner  *frame.Scanner
	framing  frame.Framing
	protocol protocol.Protocol
	refiner  *all.Refiner // not nil while a later message may tell more
	started  bool
	failed   error
	seq      int64
	fault    fault // of the gap before
}

func newStream(r io.Reader, cfg Config) *stream {
	s := &stream{cfg: cfg, scanner: frame.NewScanner(r, nil), seq: max(cfg.FirstSeq, 1)}
	if cfg.Resync {
		s.scanner.Resync()
	}
	return s
}

func (s *stream) nextBatch(b *batch) bool {
	if !s.started {
		s.started = true
		s.detect()
	}
	if s.framing == nil || !s.scanner.ScanBatch(&b.Batch) {
		return false
	}
	b.first = s.seq
	b.since = append(b.since[:0], since{framing: s.framing, protocol: s.protocol})
	b.fault = b.fault[:0]
	for i := 0; i < len(b.Frames); i++ {
		f := &b.Frames[i]
		f.Conn = s.cfg.Conn
		if f.Gap {
			if s.numberFault(f, b.first+int64(i)) {
				b.fault = append(b.fault, i)
			}
			continue
		}
		if s.refiner != nil && !f.Compressed && s.refine(f, b.first+int64(i)) {
			b.since = append(b.since, since{index: i, framing: s.framing, protocol: s.protocol})
			s.scanner.Return(&b.Batch, i+1) // they were scanned by the rules of another protocol
		}
	}
	s.seq += int64(len(b.Frames))
	return true
}

// numberFault puts a number into the fault of a gap. It reports whether the gap is the
// first one with this fault.
func (s *stream) numberFault(f *frame.Frame, seq int64) (begins bool) {
	if f.Flaw == nil {
		return false
	}
	if begins = !s.fault.is(f.Flaw); begins {
		s.fault = fault{f.Flaw, numbered(f.Flaw, seq)}
	}
	f.Flaw = s.fault.shown
	return begins
}

func (s *stream) err() error {
	switch err := s.scanner.Err(); {
	case s.failed != nil:
		return s.failed
	case err == nil:
		return nil
	case s.fault.is(err):
		return s.fault.shown
	default:
		return numbered(err, s.seq)
	}
}

func (s *stream) state() (frame.Framing, int64) { return s.framing, s.seq }

// detect settles framing and protocol, waiting for no more than the first
// frame, or 64 KiB.
func (s *stream) detect() {
	guess := all.Guess{Framing: s.cfg.Framing, Protocol: s.cfg.Protocol, Limit: s.cfg.Limit}
	if guess.Framing == nil || guess.Protocol == nil {
		head, atEOF := s.scanner.Peek(1)
		for !guess.Detect(head, atEOF) {
			head, atEOF = s.scanner.Peek(len(head) + 1)
		}
		if len(head) == 0 {
			s.scanner.Scan() // its error says why there is nothing
			return
		}
		if calls := newCalls(&s.cfg); calls.hasSchema() {
			s.failed = ErrNoMessage
			return
		}
		if guess.Framing == nil {
			guess.Framing, guess.Protocol = frame.Unknown, opaque.Bytes
		} else {
			s.notice("%s", guess.String())
		}
	}
	s.framing = guess.Framing
	s.scanner.SetFraming(guess.Framing)
	s.setProtocol(guess.Protocol)
	if s.cfg.Protocol == nil {
		s.refiner = guess.Refiner()
	}
}

// setProtocol makes p the protocol of the frames that follow.
func (s *stream) setProtocol(p protocol.Protocol) {
	s.protocol = p
	s.adjust(s.scanner, p)
}

// adjust makes a scanner accept the frames that p allows.
func (s *stream) adjust(scanner *frame.Scanner, p protocol.Protocol) {
	limit := s.cfg.Limit
	if limit == 0 {
		limit = all.Limit(p)
	}
	scanner.SetLimit(limit)
	scanner.SetAccept(all.Plausible(p))
}

// refine detects a more specific protocol from the frame of that number, and reports
// whether it did.
func (s *stream) refine(f *frame.Frame, seq int64) bool {
	p, why, done := s.refiner.Refine(f.Payload())
	if done {
		s.refiner = nil
	}
	if p == s.protocol {
		return false
	}
	s.notice("frame %d: %s: %s from here on", seq, why, p.Name())
	s.setProtocol(p)
	return true
}

func (s *stream) notice(format string, args ...any) {
	if s.cfg.Notice != nil {
		s.cfg.Notice(fmt.Sprintf(format, args...))
	}
}

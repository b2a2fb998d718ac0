package decode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/protocol"
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
	ready   bool
	payload []byte
	message protocol.Message
	err     error
	well    bool
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
				a.payload, a.err, a.well = it.Payload, it.Err, it.well
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
	it.Frame, it.Protocol = f, p
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

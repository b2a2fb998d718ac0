package decode

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
)

// A pipeline moves batches from the feed through workers to the output. One
// goroutine reads, the workers parse and show, one goroutine writes; a fixed
// set of jobs goes around among them, which bounds the memory.
type pipeline struct {
	cfg     Config
	feed    feed
	out     io.Writer
	newView func() View
	result  Result
}

// A job is a batch and what is to be seen of it.
type job struct {
	batch  batch
	out    []byte
	faults int64
	err    error
	done   chan struct{}
}

// errEnough ends a run that has shown all that was asked for.
var errEnough = errors.New("enough")

func (p *pipeline) run(ctx context.Context) error {
	// Which items are shown depends on how many were before, so that counting
	// them off is not for workers that overtake each other.
	work := p.parallel
	if p.cfg.Workers <= 1 && !p.cfg.Ahead || p.cfg.Skip > 0 || p.cfg.Head > 0 {
		work = p.inline
	}
	if err := work(ctx); !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

// inline does everything on the caller's goroutine.
func (p *pipeline) inline(ctx context.Context) error {
	w := p.newWorker()
	w.skip, w.head = p.cfg.Skip, p.cfg.Head
	defer func() { p.result.Passed, p.result.Shown = p.cfg.Skip-w.skip, p.cfg.Head-w.head }()
	var j job
	for ctx.Err() == nil && p.feed.next(&j.batch) {
		w.work(&j)
		if err := p.finish(&j); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func (p *pipeline) parallel(ctx context.Context) error {
	n := max(p.cfg.Workers, 1) + 2
	free := make(chan *job, n)
	todo := make(chan *job, n)
	order := make(chan *job, n)
	for range n {
		free <- &job{done: make(chan struct{}, 1)}
	}
	g, ctx := errgroup.WithContext(ctx)
	if p.cfg.Interrupt != nil {
		defer context.AfterFunc(ctx, p.cfg.Interrupt)()
	}
	g.Go(func() error {
		defer close(todo)
		defer close(order)
		return p.read(ctx, free, todo, order)
	})
	for range max(p.cfg.Workers, 1) {
		g.Go(func() error {
			w := p.newWorker()
			for j := range todo {
				w.work(j)
				j.done <- struct{}{}
			}
			return nil
		})
	}
	g.Go(func() error {
		for j := range order {
			<-j.done
			if err := p.finish(j); err != nil {
				return err
			}
			free <- j
		}
		return nil
	})
	return g.Wait()
}

// read hands out batches until the feed, or the context, ends. Every job
// that is in todo is in order too.
func (p *pipeline) read(ctx context.Context, free, todo, order chan *job) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case j := <-free:
			if !p.feed.next(&j.batch) {
				return nil
			}
			todo <- j
			order <- j
		}
	}
}

// finish writes a job's output, and keeps nothing that a large one has grown.
func (p *pipeline) finish(j *job) error {
	p.result.Faults += j.faults
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
	item       Item
	skip, head int64
}

func (p *pipeline) newWorker() *worker {
	return &worker{match: p.cfg.Match, view: p.newView(), item: *NewItem(p.cfg)}
}

// work shows the items of a job's batch.
func (w *worker) work(j *job) {
	j.out, j.faults, j.err = j.out[:0], 0, nil
	b := &j.batch
	it := &w.item
	for run, s := range b.since {
		end := len(b.Frames)
		if run+1 < len(b.since) {
			end = b.since[run+1].index
		}
		it.Framing = s.framing
		for i := s.index; i < end && j.err == nil; i++ {
			it.Seq = b.first + int64(i)
			if len(b.times) > 0 {
				t := &b.times[i]
				it.Time, it.Written, it.First, it.Previous = t.read, t.written, t.first, t.previous
			}
			it.Read(&b.Frames[i], s.protocol)
			j.err = w.show(j)
			// A view may find more that is wrong. Gaps are counted by the feed.
			if it.Err != nil && !it.Frame.Gap {
				j.faults++
			}
		}
	}
}

// show appends the item to the job's output, if it is to be shown.
func (w *worker) show(j *job) error {
	if w.match != nil && !w.match(&w.item) {
		return nil
	}
	if w.skip > 0 {
		w.skip--
		return nil
	}
	var err error
	if j.out, err = w.view(j.out, &w.item); err != nil {
		return fmt.Errorf("frame %d: %w", w.item.Seq, err)
	}
	if w.head > 0 {
		if w.head--; w.head == 0 {
			return errEnough
		}
	}
	return nil
}

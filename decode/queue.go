package decode

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

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

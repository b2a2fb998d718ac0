package recorder

import (
	"errors"
	"io"
	"time"

	"github.com/wirectl/wirectl/capture"
)

// defaultPace is how long the writer lets records accumulate after a write. Waking up for
// each record would cost the session more than the records themselves.
const defaultPace = 20 * time.Millisecond

// writeQueue writes the queue until recording ends.
func (r *Recorder) writeQueue() {
	defer close(r.done)
	rest := time.NewTimer(r.cfg.Pace)
	defer rest.Stop()
	for r.await() {
		if r.err = r.writeAll(); r.err != nil {
			break
		}
		select {
		case <-rest.C:
		case <-r.full:
		}
		rest.Reset(r.cfg.Pace)
	}
	if r.err != nil {
		r.notice("recording stopped: %v; the session continues", r.err)
		r.abandon()
	}
	r.changed.Broadcast()
	r.spilling.Wait()
	r.err = errors.Join(r.err, r.spill.failed, r.to.close(), r.spill.removeFiles())
}

// await waits for a record. It returns false when none is left.
func (r *Recorder) await() bool {
	r.mu.Lock()
	if len(r.queue) == 0 && !r.ended {
		r.idle = true
		r.mu.Unlock()
		<-r.wake
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	return len(r.queue) > 0
}

// writeAll writes the whole queue.
func (r *Recorder) writeAll() error {
	for {
		it, hurry := r.takeItem()
		if it == nil {
			return r.to.flush()
		}
		if err := r.writeItem(it, hurry); err != nil {
			return err
		}
		r.recycle(it)
	}
}

// takeItem removes the oldest item from the queue; nil if the queue is empty. It also reports
// whether so many records are waiting that labels should be skipped.
func (r *Recorder) takeItem() (it *item, hurry bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil, false
	}
	it = r.queue[0]
	r.queue[0], r.queue = nil, r.queue[1:]
	it.taken = true
	hurry = r.memory > r.cfg.Memory/16 || r.spill.held > 0
	if it.Segment != nil {
		r.memory -= it.cost
		r.changed.Broadcast()
	}
	return it, hurry
}

// maxSpare bounds the number of spare segments: 8 MiB.
const maxSpare = 32

// recycle reuses the memory of an item that was written.
func (r *Recorder) recycle(it *item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case it.Segment == nil:
		r.spill.held--
	case !it.busy:
		r.reuse(it.Segment)
	}
}

// reuse adds a segment to the spare ones. Nobody may hold its records any more.
func (r *Recorder) reuse(s *Segment) {
	s.Reset()
	if len(r.spare) < maxSpare {
		r.spare = append(r.spare, s)
	}
}

// abandon discards the queue.
func (r *Recorder) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.queue, r.memory = true, nil, 0
}

// writeItem writes the records of an item.
func (r *Recorder) writeItem(it *item, hurry bool) error {
	if it.Segment != nil {
		records := inMemory(it.Records)
		return r.to.takeRecords(it.session, &records, hurry)
	}
	records, err := r.spill.readExtent(it.at)
	if err != nil {
		return err
	}
	return r.to.takeRecords(it.session, records, hurry)
}

// inMemory is a source of records in memory.
type inMemory []capture.Record

func (m *inMemory) Next(rec *capture.Record) error {
	if len(*m) == 0 {
		return io.EOF
	}
	*rec = (*m)[0]
	*m = (*m)[1:]
	return nil
}

func (m *inMemory) Buffered() bool { return len(*m) > 0 }

package recorder

import (
	"errors"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/internal/segment"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// pace is how long the writer lets records gather after it has written some:
// waking up for each one would cost the session more than the records do.
const pace = 20 * time.Millisecond

// run writes the queue to its end.
func (r *Recorder) run() {
	defer close(r.done)
	rest := time.NewTimer(pace)
	defer rest.Stop()
	for r.await() {
		if r.err = r.writeAll(); r.err != nil {
			break
		}
		select {
		case <-rest.C:
		case <-r.full:
		}
		rest.Reset(pace)
	}
	if r.err != nil {
		r.notice("recording has ended: %v; the session goes on", r.err)
		r.abandon()
	}
	r.changed.Broadcast()
	r.spilling.Wait()
	r.err = errors.Join(r.err, r.spill.failed, r.out.close(), r.spill.close())
}

// await waits for a record. It returns false when there is none left.
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

// writeAll writes what the queue holds.
func (r *Recorder) writeAll() error {
	for {
		it := r.take()
		if it == nil {
			return r.flush()
		}
		if err := r.write(it); err != nil {
			return err
		}
		r.recycle(it)
	}
}

// take takes the oldest item out of the queue; nil if there is none.
func (r *Recorder) take() *item {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil
	}
	it := r.queue[0]
	r.queue[0], r.queue = nil, r.queue[1:]
	it.taken = true
	r.hurry = r.memory > r.cfg.Memory/16 || r.spill.held > 0
	if it.Segment != nil {
		r.memory -= it.cost
		r.changed.Broadcast()
	}
	return it
}

// label labels a frame, if there is time for it.
func (r *Recorder) label(rec *capture.Record, l *pcapng.Label) {
	if !r.hurry {
		r.cfg.Label(rec, l)
	}
}

// maxSpare bounds the segments that wait to be used again: 8 MiB.
const maxSpare = 32

// recycle gives back the memory of an item that was written.
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

// reuse keeps a segment whose records nobody holds any more.
func (r *Recorder) reuse(s *segment.Segment) {
	s.Reset()
	if len(r.spare) < maxSpare {
		r.spare = append(r.spare, s)
	}
}

// abandon gives up what is in the queue.
func (r *Recorder) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.queue, r.memory = true, nil, 0
}

// write writes the records of an item.
func (r *Recorder) write(it *item) error {
	if it.Segment == nil {
		put := func(rec *capture.Record) error { return r.put(it.session, rec) }
		return r.spill.read(it.at, put)
	}
	for i := range it.Records {
		if err := r.put(it.session, &it.Records[i]); err != nil {
			return err
		}
	}
	return nil
}

// blocks is how many bytes are written at once while more wait.
const blocks = 256 << 10

// put encodes a record, and begins another part if this one is full.
func (r *Recorder) put(s *capture.Session, rec *capture.Record) error {
	if r.part > 0 && r.out.full(len(r.encode.Buf)) {
		if err := r.flush(); err != nil {
			return err
		}
		if err := r.out.next(); err != nil {
			return err
		}
		r.encode.End()
		r.part = 0
	}
	r.part++
	if err := r.encode.Write(s, rec); err != nil {
		return err
	}
	if len(r.encode.Buf) >= blocks {
		return r.flush()
	}
	return nil
}

// flush brings what was encoded to the file.
func (r *Recorder) flush() error {
	if len(r.encode.Buf) == 0 {
		return nil
	}
	err := r.out.write(r.encode.Buf)
	r.encode.Reset()
	return err
}

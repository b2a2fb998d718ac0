package journal

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// A Cursor reads the records of a [Journal]. It is a [capture.Live] for one goroutine; the end
// of the session is io.EOF.
type Cursor struct {
	// Pace is how long records accumulate between two reads. Waking up for each record would
	// cost the session more than the records themselves. It is set before the first read, and
	// is 20 ms otherwise.
	Pace time.Duration

	journal *Journal
	follows bool                              // it loses nothing
	lost    func(frames int64) capture.Record // makes the note for lost frames

	current *segment // of the current records
	records []capture.Record
	session *capture.Session
	stored  stored
	hurry   bool // many records are unread

	// The journal's lock guards these fields.
	number          int64      // of the record after the current ones
	frames          int64      // before that record
	limit           int64      // where it ends if it is detached
	left            []*segment // if it is detached
	end             error      // at the end; nil is io.EOF
	posted          []capture.Record
	waiting, closed bool

	wake, full chan struct{} // with a buffer of one
	stop       chan struct{}
	rest       *time.Timer
}

const pace = 20 * time.Millisecond

func (j *Journal) newCursor() *Cursor {
	c := &Cursor{
		Pace: pace, journal: j, session: j.session, number: j.next, frames: j.frames, limit: -1,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), stop: make(chan struct{}), rest: time.NewTimer(0),
	}
	j.cursors[c] = struct{}{}
	return c
}

// View returns a cursor that begins with the history. If it is too slow, it loses records: lost
// makes the note with the number of lost frames. hello, which may be nil, makes its first
// record. The cursor must be closed.
func (j *Journal) View(hello func(Totals) capture.Record, lost func(frames int64) capture.Record) *Cursor {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.newCursor()
	c.lost = lost
	j.viewers++
	if len(j.tail) > 0 {
		oldest := j.tail[0]
		c.number, c.frames, c.session = oldest.first, oldest.frames, oldest.owner
	}
	if hello != nil {
		c.records = []capture.Record{hello(j.totals())}
	}
	return c
}

// Follow returns a cursor that reads all records from now on. It must be closed.
func (j *Journal) Follow() *Cursor {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.newCursor()
	c.follows = true
	return c
}

// Session describes the session. It is replaced when the session is altered.
func (c *Cursor) Session() *capture.Session { return c.session }

// Buffered reports whether Next will not block; see [capture.Live].
func (c *Cursor) Buffered() bool {
	if len(c.records) > 0 || c.stored.from < c.stored.to {
		return true
	}
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	return c.number < c.journal.next || len(c.posted) > 0 || c.journal.closed || c.closed || c.limit >= 0
}

// Next waits for the next record and reads it; see [capture.Reader].
func (c *Cursor) Next(r *capture.Record) error {
	records, err := c.batch()
	if err != nil {
		*r = capture.Record{}
		return err
	}
	*r = records[0]
	c.records = records[1:]
	return nil
}

// Post adds a record for this cursor only.
func (c *Cursor) Post(r capture.Record) {
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	if !c.closed {
		c.posted = append(c.posted, r)
		c.rouse()
	}
}

// Close makes Next return [io.ErrClosedPipe], even if it is waiting.
func (c *Cursor) Close() error {
	j := c.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.stop)
		c.rouse()
		for _, s := range c.left {
			s.users--
			j.recycle(s)
		}
		c.left = nil
		c.leave()
	}
	for c.follows && j.spill.active && !j.isFollowed() {
		j.room.Wait()
	}
	return nil
}

// leave makes the journal keep nothing more for the cursor.
func (c *Cursor) leave() {
	j := c.journal
	if _, in := j.cursors[c]; !in {
		return
	}
	delete(j.cursors, c)
	if c.follows {
		j.advance()
		j.tidy()
	} else {
		j.viewers--
	}
}

// detach ends the cursor after the records so far, which it keeps, and then makes Next return
// err; nil is io.EOF.
func (c *Cursor) detach(err error) {
	j := c.journal
	if c.closed || c.limit >= 0 {
		return
	}
	c.limit, c.end = j.next, err
	if c.number < c.limit {
		for _, s := range j.tail {
			if s.nextNumber() > c.number {
				s.users++
				c.left = append(c.left, s)
			}
		}
	}
	c.rouse()
	signal(c.full)
	c.leave()
}

// batch returns the current records or, if none are left, the next ones. They are valid until
// the next call.
func (c *Cursor) batch() ([]capture.Record, error) {
	for len(c.records) == 0 {
		if c.stored.from == c.stored.to {
			if err := c.fetch(); err != nil {
				return nil, err
			}
		}
		switch {
		case c.stored.from < c.stored.to:
			if err := c.readStored(); err != nil {
				return nil, err
			}
		case len(c.records) == 0:
			c.await()
		}
	}
	return c.records, nil
}

// stored are records in a file that are the next ones.
type stored struct {
	segment  *segment // nil once its bytes are read
	from, to int64    // indexes of records
	data     []byte
	reader   *pcapng.Reader
	record   [1]capture.Record
}

// fetch gets the next records, in memory or in a file, or none if there are none yet.
func (c *Cursor) fetch() error {
	j := c.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	c.release()
	var next *segment
	if len(c.left) > 0 {
		next = c.left[0]
	} else if i := sort.Search(len(j.tail), func(i int) bool { return j.tail[i].nextNumber() > c.number }); i < len(j.tail) {
		next = j.tail[i]
	}
	switch {
	case c.closed:
		return io.ErrClosedPipe
	case len(c.posted) > 0:
		c.records, c.posted = c.posted, nil
	case c.limit >= 0 && c.number >= c.limit, c.number == j.next && j.closed:
		return cmp.Or(c.end, io.EOF)
	case c.number == j.next:
		c.waiting = true
		j.waiting++
	case next == nil:
		c.skip(j.next, j.frames)
	case c.number < next.first:
		c.skip(next.first, next.frames)
	default:
		c.takeSegment(next)
	}
	return nil
}

// release releases the segment that was read.
func (c *Cursor) release() {
	if s := c.current; s != nil {
		c.current = nil
		s.users--
		c.journal.recycle(s)
	}
}

// skip skips records that were evicted.
func (c *Cursor) skip(number, frames int64) {
	c.records = []capture.Record{c.lost(frames - c.frames)}
	c.number, c.frames = number, frames
}

// takeSegment makes the next records of a segment the current ones.
func (c *Cursor) takeSegment(s *segment) {
	j := c.journal
	c.hurry = j.memory > j.opts.Memory/16 || j.spill.held > 0 || !c.follows && j.next-c.number > 4*segmentRecords
	c.current, c.session = s, s.owner
	from, to := c.number-s.first, s.count
	if c.limit >= 0 {
		to = min(to, c.limit-s.first)
	}
	c.number = s.first + to
	if len(c.left) > 0 {
		c.left = c.left[1:]
	} else if s.users++; c.follows {
		j.advance()
	}
	if s.batch == nil {
		c.stored.segment, c.stored.from, c.stored.to = s, from, to
	} else {
		c.records = s.records[from:to]
		c.count()
	}
}

// count counts the frames among the current records.
func (c *Cursor) count() {
	for i := range c.records {
		if !c.follows && c.records[i].Kind == capture.Frame {
			c.frames++
		}
	}
}

// readStored makes the next record in a file the current one. The segment of the file is
// released once its bytes are read.
func (c *Cursor) readStored() (err error) {
	f := &c.stored
	if s := f.segment; s != nil {
		if cap(f.data) > maxBuffer {
			f.data = nil
		}
		f.segment, f.data = nil, slices.Grow(f.data[:0], int(s.at.n))[:s.at.n]
		_, err = s.at.file.ReadAt(f.data, s.at.from)
		c.journal.mu.Lock()
		c.release()
		c.journal.mu.Unlock()
		if err == nil {
			f.reader, err = pcapng.NewReader(bytes.NewReader(f.data), len(f.data))
		}
		for i := int64(0); i < f.from && err == nil; i++ {
			err = f.reader.Next(&f.record[0])
		}
	}
	if err == nil {
		err = f.reader.Next(&f.record[0])
	}
	if err != nil {
		return fmt.Errorf("the temporary file: %w", err)
	}
	f.from++
	c.records = f.record[:]
	c.count()
	return nil
}

// await waits for a record, and then lets more accumulate.
func (c *Cursor) await() {
	select {
	case <-c.wake:
	case <-c.stop:
		return
	}
	full := c.full
	if !c.follows {
		full = nil
	}
	select {
	case <-c.rest.C:
	case <-full:
	case <-c.stop:
		return
	}
	c.rest.Reset(c.Pace)
}

// rouse wakes the cursor if it waits.
func (c *Cursor) rouse() {
	if c.waiting {
		c.waiting = false
		c.journal.waiting--
		signal(c.wake)
	}
}

// Package journal keeps the records of a running session. Records are appended once, and every
// reader is a [Cursor]: the viewers of a tap, the file of a capture, the sender to a hub.
//
// The newest records stay in memory, for readers that come late. A cursor of [Journal.View]
// that is too slow loses records, which are counted. A cursor of [Journal.Follow] loses none:
// records that it has not read wait, first in memory and then in a temporary file.
package journal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
)

// A Policy says what to do with records if the reader that must get them is too slow.
type Policy string

// The policies.
const (
	// Spill writes them to a temporary file: nothing is lost. Write only waits for that file.
	Spill Policy = "spill"
	// Block makes Write wait: nothing is lost, but the session slows down.
	Block Policy = "block"
	// Drop makes files read as viewers do. The capture notes how many frames are missing.
	Drop Policy = "drop"
)

// Policies lists every policy, the default first.
var Policies = []Policy{Spill, Block, Drop}

// Options limit the memory of a journal.
type Options struct {
	// Bytes and Records approximately limit the history: the records in memory that are only
	// kept for readers that come late. 0 means [DefaultBytes] and [DefaultRecords]. The newest
	// record is kept, however large it is.
	Bytes, Records int64
	// Memory is the maximum size of the records in memory that a cursor of Follow has not
	// read; 0 means [DefaultMemory], or for Block [DefaultBlocked]. For Drop, the history has at
	// least that size.
	Memory int64
	// Policy says what to do beyond Memory; "" is Spill.
	Policy Policy
	// Notice, if not nil, is called with messages for the user: that records go to a temporary
	// file, or why a recording ended before its session.
	Notice func(text string)
}

// The default limits. Exceeding the size of a cache has no benefit if writers wait.
const (
	DefaultBytes   = 16 << 20
	DefaultRecords = 32 << 10
	DefaultMemory  = 32 << 20
	DefaultBlocked = 4 << 20
)

// A Journal is the [capture.Writer] of a relay or a broker. It never waits for a viewer. It is
// safe for concurrent use.
type Journal struct {
	opts Options

	mu      sync.Mutex
	room    *sync.Cond       // fewer records are unread, or spilling has ended
	session *capture.Session // replaced, never changed
	tail    []*segment       // oldest first, with gaps; records are appended to the last one
	spare   []*batch
	next    int64 // the number of the next record, from 0
	frames  int64
	bytes   int64 // of frames
	kept    size  // in memory
	floods  size  // of the segments that hold floods
	flood   flood
	cursors map[*Cursor]struct{}
	viewers int   // those that may lose records
	waiting int   // those that wait
	unread  int   // the index in the tail of the first segment that a cursor of Follow has to read
	memory  int64 // the size of those segments in memory, without what was read
	spill   spill
	closed  bool

	delay atomic.Int64 // see Delay
}

// A size is the total size of segments.
type size struct{ bytes, records int64 }

// New returns the journal of a session.
func New(s capture.Session, o Options) *Journal {
	o.Bytes = cmp.Or(max(o.Bytes, 0), DefaultBytes)
	o.Records = cmp.Or(max(o.Records, 0), DefaultRecords)
	if o.Policy == Block {
		o.Memory = cmp.Or(o.Memory, DefaultBlocked)
	}
	o.Memory = cmp.Or(o.Memory, DefaultMemory)
	if o.Policy == Drop {
		o.Bytes, o.Records = max(o.Bytes, o.Memory), math.MaxInt64
	}
	j := &Journal{
		opts: o, session: &s, cursors: make(map[*Cursor]struct{}),
		spill: spill{dirs: []string{""}},
	}
	j.room = sync.NewCond(&j.mu)
	return j
}

// Write appends a record. Its error is always nil: Options.Notice and [Recorder.Close] report
// problems with files.
func (j *Journal) Write(r *capture.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.awaitRoom() {
		return nil
	}
	last := j.open()
	if !last.appendRecord(r) {
		last = j.beginSegment()
		last.appendRecord(r)
	}
	j.appended(last, 1)
	j.next++
	if r.Kind == capture.Frame {
		j.frames++
		j.bytes += int64(len(r.Raw))
	}
	j.wake()
	return nil
}

// WriteRun appends a run of records; see [capture.RunWriter]. Memory that is held is only
// copied when it is written to a file.
func (j *Journal) WriteRun(r *capture.Run) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.flood.countPassed(r.Shared.Time, r.Bytes(), int64(len(r.Frames)))
	j.flood.on = j.flood.on && j.viewers == 0
	done := 0
	if j.flood.on && len(j.cursors) == 0 {
		done = max(0, len(r.Frames)-floodRecords)
	}
	j.count(r, 0, done)
	for done < len(r.Frames) {
		if !j.awaitRoom() {
			return nil
		}
		last := j.open()
		if last.flood != j.flood.on {
			last = j.beginSegment()
		}
		n := last.appendRun(r, done)
		if n == 0 {
			last = j.beginSegment()
			n = last.appendRun(r, done)
		}
		j.appended(last, n)
		j.count(r, done, done+n)
		done += n
		j.wake()
	}
	return nil
}

// count counts frames of a run.
func (j *Journal) count(r *capture.Run, from, to int) {
	for i := range r.Frames[from:to] {
		j.bytes += int64(len(r.Frames[from+i].Raw))
	}
	j.next += int64(to - from)
	j.frames += int64(to - from)
}

// awaitRoom waits while too many records are unread. It returns false if the session has ended.
func (j *Journal) awaitRoom() bool {
	for !j.closed && j.memory > j.opts.Memory {
		begun := time.Now()
		j.hasten()
		j.room.Wait()
		j.delay.Add(int64(time.Since(begun)))
	}
	return !j.closed
}

// Delay returns the total time that records have waited for room.
func (j *Journal) Delay() time.Duration { return time.Duration(j.delay.Load()) }

// last returns the newest segment; nil if there is none.
func (j *Journal) last() *segment {
	if len(j.tail) == 0 {
		return nil
	}
	return j.tail[len(j.tail)-1]
}

// open returns the segment to which the next record is appended.
func (j *Journal) open() *segment {
	last := j.last()
	if last == nil || last.sealed || last.owner != j.session || last.nextNumber() != j.next {
		return j.beginSegment()
	}
	return last
}

// beginSegment begins a segment, and evicts old ones that exceed the limits.
func (j *Journal) beginSegment() *segment {
	if !j.isFollowed() {
		j.unread = len(j.tail)
	}
	j.trim()
	s := &segment{batch: &batch{}, owner: j.session, first: j.next, frames: j.frames, flood: j.flood.on}
	if n := len(j.spare); n > 0 {
		s.batch, j.spare = j.spare[n-1], j.spare[:n-1]
	}
	j.tail = append(j.tail, s)
	if j.isFollowed() {
		j.hasten()
	}
	return s
}

// hasten makes cursors that let records accumulate read them now.
func (j *Journal) hasten() {
	for c := range j.cursors {
		signal(c.full)
	}
}

// appended updates the sizes after an append of n records to the last segment.
func (j *Journal) appended(last *segment, n int) {
	last.count += int64(n)
	grown := last.size() - last.cost
	j.resize(last, grown, int64(n))
	if !j.isFollowed() {
		last.read = last.cost
		return
	}
	j.memory += grown
	if j.opts.Policy != Block && j.memory > j.opts.Memory/2 {
		j.overflow()
	}
}

// resize updates the sizes after a change of the memory that a segment uses.
func (j *Journal) resize(s *segment, bytes, records int64) {
	s.cost += bytes
	j.kept.bytes += bytes
	j.kept.records += records
	if s.flood {
		j.floods.bytes += bytes
	}
}

// isFollowed reports whether a cursor must get all records.
func (j *Journal) isFollowed() bool { return len(j.cursors) > j.viewers }

// trim evicts the oldest segments that exceed the limits, except those that are unread.
func (j *Journal) trim() {
	for j.unread > 0 && (j.kept.bytes > j.opts.Bytes || j.kept.records > j.opts.Records) {
		j.evict(0)
	}
	for i := 0; i < j.unread && j.floods.bytes > floodKept; {
		if j.tail[i].flood {
			j.evict(i)
		} else {
			i++
		}
	}
}

// evict removes a segment that is not unread from the tail.
func (j *Journal) evict(i int) {
	s := j.tail[i]
	j.tail = slices.Delete(j.tail, i, i+1)
	j.unread--
	if s.batch != nil {
		j.resize(s, -s.cost, -s.count)
	}
	s.gone = true
	j.recycle(s)
}

// maxSpare bounds the spare batches: 8 MiB.
const maxSpare = 32

// recycle reuses the memory of a segment that nobody needs.
func (j *Journal) recycle(s *segment) {
	switch {
	case !s.gone || s.users > 0:
	case s.batch == nil:
		j.spill.held--
		j.tidy()
	default:
		j.reuse(s.batch)
	}
}

func (j *Journal) reuse(b *batch) {
	b.reset()
	if len(j.spare) < maxSpare {
		j.spare = append(j.spare, b)
	}
}

// advance notes that a cursor of Follow has read or left records: they need no room any more.
func (j *Journal) advance() {
	to := j.next
	for c := range j.cursors {
		if c.follows {
			to = min(to, c.number)
		}
	}
	for j.unread < len(j.tail) && j.tail[j.unread].nextNumber() <= to {
		s := j.tail[j.unread]
		j.memory -= s.cost - s.read
		s.read = s.cost
		if j.unread == len(j.tail)-1 && s.batch != nil {
			break // more may be appended
		}
		if j.unread++; s.batch == nil {
			j.evict(j.unread - 1) // nobody else reads the file
		}
	}
	j.trim()
	j.room.Broadcast()
}

// Alter marks the session as altered from the next record on, because faults, edits or
// injected frames are enabled.
func (j *Journal) Alter() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.session.Altered {
		s := *j.session
		s.Altered = true
		j.session = &s
	}
}

// Session describes the session.
func (j *Journal) Session() capture.Session {
	j.mu.Lock()
	defer j.mu.Unlock()
	return *j.session
}

// Close ends the session. Cursors read the remaining records and then io.EOF.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.room.Broadcast()
	j.wake()
	j.hasten()
	j.tidy()
	return nil
}

// wake wakes the cursors that wait.
func (j *Journal) wake() {
	if j.waiting == 0 {
		return
	}
	for c := range j.cursors {
		c.rouse()
	}
}

// Totals are those of a session so far.
type Totals struct {
	Frames  int64 `json:"frames"`
	Bytes   int64 `json:"bytes"`
	Viewers int   `json:"viewers"`
	// Lost are the first frames, which the history lacks.
	Lost    int64 `json:"-"`
	Altered bool  `json:"-"`
}

// Totals returns the totals so far.
func (j *Journal) Totals() Totals {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.totals()
}

func (j *Journal) totals() Totals {
	t := Totals{Frames: j.frames, Bytes: j.bytes, Viewers: j.viewers, Altered: j.session.Altered}
	if len(j.tail) > 0 {
		t.Lost = j.tail[0].frames
	}
	return t
}

// Find returns a copy of the frame with that number, if it is still in memory.
func (j *Journal) Find(seq int64) (capture.Record, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range slices.Backward(j.tail) {
		if s.batch == nil {
			continue
		}
		for i := range slices.Backward(s.records) {
			if r := &s.records[i]; r.Kind == capture.Frame && r.Seq == seq {
				return r.Clone(), true
			}
		}
	}
	return capture.Record{}, false
}

// signal wakes one receiver of c. It never blocks.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// A flood is more traffic than a person can look at. Without readers, only the newest part of a
// flood is kept. Copying all of it through memory as large as the history, which fits in no
// cache, would double the relay's cost.
type flood struct {
	on            bool
	since         time.Time
	bytes, frames int64 // since then
}

const (
	floodTime   = 20 * time.Millisecond
	floodBytes  = 4 << 20 // per floodTime; more is a flood
	floodFrames = 16 << 10

	floodKept    = 512 << 10 // bytes kept of all floods
	floodRecords = 64        // records kept per run during a flood
)

// countPassed counts traffic at a given time.
func (f *flood) countPassed(at time.Time, bytes, frames int64) {
	passed := at.Sub(f.since)
	if f.on = f.on && passed < 2*floodTime; passed > floodTime {
		f.on = f.on && f.rises()
		f.since, f.bytes, f.frames = at, 0, 0
	}
	f.bytes += bytes
	f.frames += frames
	f.on = f.on || f.rises()
}

func (f *flood) rises() bool { return f.bytes > floodBytes || f.frames > floodFrames }

// notice calls Options.Notice.
func (j *Journal) notice(format string, args ...any) {
	if j.opts.Notice != nil {
		j.opts.Notice(fmt.Sprintf(format, args...))
	}
}

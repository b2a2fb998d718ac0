// Package recorder writes a running session to a pcapng file. It delays the session only by a
// copy of each record. Records wait in memory; when the memory limit is reached, a [Policy]
// decides. A failure of the file ends the recording, never the session.
package recorder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// A Policy says what to do with records if the file is too slow.
type Policy string

// The policies.
const (
	// Spill writes them to a temporary file: nothing is lost.
	Spill Policy = "spill"
	// Block makes Write wait: nothing is lost, but the session slows down.
	Block Policy = "block"
	// Drop discards them, and notes in the capture how many frames are missing.
	Drop Policy = "drop"
)

// Policies lists every policy, the default first.
var Policies = []Policy{Spill, Block, Drop}

// DefaultMemory is the default memory limit in bytes. For Block it is DefaultBlocked, since
// exceeding the size of a cache has no benefit there.
const (
	DefaultMemory  = 32 << 20
	DefaultBlocked = 4 << 20
)

// A Config configures a recorder.
type Config struct {
	Session capture.Session
	// Label makes the labels of frames for Wireshark; nil makes none. Frames that arrive too
	// fast get no labels. Labels can be added later.
	Label func(*capture.Record, *pcapng.Label)
	// Policy is Spill if it is empty.
	Policy Policy
	// Memory is the maximum size of waiting records in memory, in bytes; 0 means
	// [DefaultMemory], or for Block [DefaultBlocked].
	Memory int64
	// SplitSize is the approximate size in bytes after which a new part begins; 0 means
	// never. Only the newest Keep parts are kept; 0 means all.
	SplitSize int64
	Keep      int
	// Pace is how long records accumulate between two writes; 0 means 20 ms.
	Pace time.Duration
	// Notice, if not nil, is called with messages for the user: that records are spilled, or
	// why recording ended before its session.
	Notice func(text string)
}

// A Recorder is a [capture.Writer] that is safe for concurrent use. Records reach the file
// within 200 ms, in whole blocks, so that a crash leaves a readable capture.
type Recorder struct {
	cfg   Config
	to    destination
	spill spill

	mu      sync.Mutex
	changed *sync.Cond // there is room, or something to spill
	session *capture.Session
	queue   []*item // oldest first; records are appended to the last
	spare   []*Segment
	memory  int64 // of the queue
	dropped int64 // frames since the last accepted record
	ended   bool  // no more records are accepted
	idle    bool  // the writer is waiting for a record

	delay atomic.Int64 // see Delay

	wake, full chan struct{} // with a buffer of one
	done       chan struct{}
	err        error // set before done is closed
	spilling   sync.WaitGroup
}

// A destination receives the records, from one goroutine.
type destination interface {
	// takeRecords writes the records of a session. They are only valid until it returns.
	// hurry means that many more are waiting.
	takeRecords(s *capture.Session, from source, hurry bool) error
	// flush is called when the queue is empty.
	flush() error
	close() error
}

// A source is a run of records.
type source interface {
	// Next reads the next record, see [capture.Reader]. Buffered reports whether there is
	// one.
	Next(*capture.Record) error
	Buffered() bool
}

// An item of the queue is a segment, in memory or in the temporary file.
type item struct {
	*Segment
	session *capture.Session
	cost    int64
	at      extent // if Segment is nil
	busy    bool   // it is being spilled
	taken   bool   // out of the queue, to be written
}

// Create starts recording to the file with that name, which is replaced. With cfg.SplitSize,
// it records to parts of the file. If the name ends in ".zst", the capture is compressed.
func Create(name string, cfg Config) (*Recorder, error) {
	f, err := newFiles(name, cfg.SplitSize, cfg.Keep)
	if err != nil {
		return nil, err
	}
	return startEncoding(f, cfg, filepath.Dir(name))
}

// New starts recording to w, which may be a pipe. It ignores SplitSize and Keep.
func New(w io.Writer, cfg Config) (*Recorder, error) { return startEncoding(&stream{w}, cfg) }

// startEncoding starts recording to out. Spill files may also be created in the folders
// beside.
func startEncoding(out output, cfg Config, beside ...string) (*Recorder, error) {
	e, err := newEncoder(out, &cfg)
	if err != nil {
		return nil, err
	}
	return start(e, cfg, beside...), nil
}

func start(to destination, cfg Config, beside ...string) *Recorder {
	switch {
	case cfg.Memory > 0:
	case cfg.Policy == Block:
		cfg.Memory = DefaultBlocked
	default:
		cfg.Memory = DefaultMemory
	}
	cfg.Policy = cmp.Or(cfg.Policy, Spill)
	cfg.Pace = cmp.Or(cfg.Pace, defaultPace)
	r := &Recorder{
		cfg: cfg, to: to, session: &cfg.Session, spill: spill{dirs: append([]string{""}, beside...)},
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), done: make(chan struct{}),
	}
	r.changed = sync.NewCond(&r.mu)
	go r.writeQueue()
	return r
}

// Write accepts a record. Its error is always nil: Config.Notice and Close report
// problems with the file.
func (r *Recorder) Write(rec *capture.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	frames := 0
	if rec.Kind == capture.Frame {
		frames = 1
	}
	if r.room(frames) {
		r.owe()
		r.append(rec)
	}
	return nil
}

// WriteRun accepts a run of records; see [capture.RunWriter]. Memory that is held is only
// copied when it is written to the file.
func (r *Recorder) WriteRun(run *capture.Run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for done := 0; done < len(run.Frames); {
		if !r.room(len(run.Frames) - done) {
			return nil
		}
		r.owe()
		last := r.last()
		n := 0
		if r.canAppend(last) {
			n = last.AppendRun(run, done)
		}
		if n == 0 {
			last = r.push()
			n = last.AppendRun(run, done)
		}
		done += n
		r.appended(last)
	}
	return nil
}

// owe adds a pending note about dropped frames before the next record.
func (r *Recorder) owe() {
	if r.dropped > 0 {
		note := droppedNote(r.dropped)
		r.dropped = 0
		r.append(&note)
	}
}

func droppedNote(frames int64) capture.Record {
	return capture.Record{
		Kind: capture.Note, Time: time.Now(),
		Text: fmt.Appendf(nil, "%d frames are missing here: the capture could not be written as fast as they arrived", frames),
	}
}

// Alter marks the session as altered from the next record on.
func (r *Recorder) Alter() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.session.Altered {
		s := *r.session
		s.Altered = true
		r.session = &s
	}
}

// room applies the policy and reports whether there is room for records, including the given
// number of frames.
func (r *Recorder) room(frames int) bool {
	for !r.ended && r.memory > r.cfg.Memory {
		if r.cfg.Policy == Drop {
			r.dropped += int64(frames)
			return false
		}
		begun := time.Now()
		r.changed.Wait()
		r.delay.Add(int64(time.Since(begun)))
	}
	return !r.ended
}

// Delay returns the total time that records have waited for room.
func (r *Recorder) Delay() time.Duration { return time.Duration(r.delay.Load()) }

// append adds a record to the queue, and wakes the writer.
func (r *Recorder) append(rec *capture.Record) {
	last := r.last()
	if !r.canAppend(last) || !last.Append(rec) {
		last = r.push()
		last.Append(rec)
	}
	r.appended(last)
}

// canAppend reports whether more records can be appended to an item.
func (r *Recorder) canAppend(it *item) bool {
	return it != nil && it.Segment != nil && !it.busy && it.session == r.session
}

// appended updates the counts after an append to the last item.
func (r *Recorder) appended(last *item) {
	cost := last.Cost()
	r.memory += cost - last.cost
	last.cost = cost
	switch {
	case r.idle:
		r.idle = false
		r.wake <- struct{}{}
	case len(r.queue) > 1:
		signal(r.full)
	}
	if r.cfg.Policy == Spill && r.memory > r.cfg.Memory/2 {
		r.overflow()
	}
}

// signal wakes one receiver of c. It never blocks.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (r *Recorder) last() *item {
	if len(r.queue) == 0 {
		return nil
	}
	return r.queue[len(r.queue)-1]
}

func (r *Recorder) push() *item {
	it := &item{Segment: &Segment{}, session: r.session}
	if n := len(r.spare); n > 0 {
		it.Segment, r.spare = r.spare[n-1], r.spare[:n-1]
	}
	r.queue = append(r.queue, it)
	return it
}

// Close writes the remaining records. If recording ended early, it returns the reason. If ctx
// ends first, Close leaves the rest unwritten and abandons a write that is stuck.
func (r *Recorder) Close(ctx context.Context) error {
	r.mu.Lock()
	r.owe()
	r.closeIntake()
	r.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("the end of the capture is missing: %w", context.Cause(ctx))
	}
}

// closeIntake rejects further records and wakes all waiting goroutines.
func (r *Recorder) closeIntake() {
	r.ended = true
	if r.idle {
		r.idle = false
		r.wake <- struct{}{}
	}
	signal(r.full)
	r.changed.Broadcast()
}

// notice calls Config.Notice.
func (r *Recorder) notice(format string, args ...any) {
	if r.cfg.Notice != nil {
		r.cfg.Notice(fmt.Sprintf(format, args...))
	}
}

// A spill is a temporary file for records that exceed the memory limit. If writing it fails,
// the next file is created beside the capture. One writer and one reader use different
// extents. The recorder's lock guards everything except the content of the files.
type spill struct {
	dirs   []string   // folders for the next files; "" is the temporary folder
	files  []*os.File // new extents go to the last one
	size   int64      // of the last file
	held   int        // items in the files
	active bool
	failed error

	encode Encoder // used by the writer
	buf    []byte  // used by the reader
}

// An extent is the position of an item in a file.
type extent struct {
	file    *os.File
	from, n int64
}

// overflow starts spilling, unless it is already running.
func (r *Recorder) overflow() {
	if r.spill.active || r.ended {
		return
	}
	r.spill.active = true
	r.spilling.Go(r.spillAll)
}

// spillAll spills items until memory use is at most half of the limit.
func (r *Recorder) spillAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.spill.active = false }()
	for r.memory > r.cfg.Memory/2 {
		it := r.victim()
		if it == nil {
			return
		}
		err := r.spillOne(it)
		for err != nil && len(r.spill.dirs) > 0 && r.openSpill(err) == nil {
			err = r.spillOne(it)
		}
		if r.spill.failed = err; err != nil {
			r.notice("recording stopped: frames that wait for the capture cannot be kept: %v; the session continues", r.spill.failed)
			r.closeIntake()
			return
		}
		r.changed.Broadcast()
	}
}

// victim returns the newest complete item in memory, because the writer needs the oldest one
// next. If there is none, it returns the incomplete last item.
func (r *Recorder) victim() *item {
	for i := len(r.queue) - 2; i >= 0; i-- {
		if it := r.queue[i]; it.Segment != nil {
			return it
		}
	}
	if last := r.last(); last != nil && last.Segment != nil {
		return last
	}
	return nil
}

// unnamed is a placeholder for the session of spilled records.
var unnamed = &capture.Session{}

// spillOne writes an item to the file. It releases the lock while writing.
func (r *Recorder) spillOne(it *item) error {
	if len(r.spill.files) == 0 {
		if err := r.openSpill(nil); err != nil {
			return err
		}
	}
	if r.spill.held == 0 {
		r.spill.size = 0
	}
	at, records := extent{file: r.spill.files[len(r.spill.files)-1], from: r.spill.size}, it.Segment
	it.busy = true
	r.mu.Unlock()
	e := &r.spill.encode
	e.Reset()
	e.EndSession()
	var err error
	for i := 0; i < len(records.Records) && err == nil; i++ {
		err = e.Write(unnamed, &records.Records[i])
	}
	if err == nil {
		_, err = at.file.WriteAt(e.Buf, at.from)
	}
	r.mu.Lock()
	it.busy = false
	if it.taken {
		return nil
	}
	if err != nil {
		return err
	}
	at.n = int64(len(e.Buf))
	it.at, it.Segment = at, nil
	r.reuse(records)
	r.memory -= it.cost
	r.spill.size += at.n
	r.spill.held++
	return nil
}

// openSpill creates a file in the next folder that works. failed is the error of the previous
// file, if any.
func (r *Recorder) openSpill(failed error) error {
	s := &r.spill
	for len(s.dirs) > 0 {
		dir := s.dirs[0]
		s.dirs = s.dirs[1:]
		f, err := os.CreateTemp(dir, "wirectl-*.spill")
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		_ = os.Remove(f.Name()) // if an open file cannot be removed, removeFiles does it later
		s.files, s.size = append(s.files, f), 0
		if failed != nil {
			r.notice("the temporary folder cannot be written: %v: waiting frames go to a file beside the capture", failed)
		} else {
			r.notice("the capture is written more slowly than frames arrive: waiting frames go to a temporary file")
		}
		return nil
	}
	return failed
}

// readExtent returns the records of an extent. They are valid until the next call.
func (s *spill) readExtent(at extent) (source, error) {
	s.buf = slices.Grow(s.buf[:0], int(at.n))[:at.n]
	if _, err := at.file.ReadAt(s.buf, at.from); err != nil {
		return nil, err
	}
	return pcapng.NewReader(bytes.NewReader(s.buf), int(at.n))
}

func (s *spill) removeFiles() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
		if gone := os.Remove(f.Name()); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

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

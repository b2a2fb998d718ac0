// Package judge prints frames as they pass, and a summary at the end.
package judge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/recorder"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// A Judge prints what passes a relay, and knows at the end what became of it. It gets
// what a capture would get, in bounded memory. If it prints or keeps, it leaves nothing out: what
// comes faster waits in a temporary file. If not, it must not hold up the relay: it
// leaves out what comes while much waits, and what is left at the end.
type Judge struct {
	trackers track.Trackers // mu guards them
	mu       sync.Mutex
	show     decode.View // nil if it prints nothing
	backlog  *recorder.Recorder
	reader   *recorder.Reader // of the backlog
	most     int64            // bytes that may wait
	each     int64            // what a record counts for besides its bytes
	waiting  atomic.Int64     // bytes that were taken in and not judged
	passed   atomic.Int64     // frames
	judged   int64            // of them; valid when done
	largest  int64            // what came at once so far, in bytes
	behind   bool             // what comes is left out
	since    time.Time        // when that began
	last     time.Time        // when the last record came
	keep     capture.Writer   // or nil
	done     chan struct{}
	watching sync.WaitGroup
}

const (
	// maxWaiting bounds what may wait to be judged, in bytes: disks are not there
	// to be filled by who did not ask for it.
	maxWaiting = 1 << 30
	// inMemory is how much of it may wait in memory, and if nothing is printed all that
	// may wait besides the largest frame. More makes the relay itself slower.
	inMemory = 8 << 20
	// maxDelay bounds how long frames are kept waiting in all because even the
	// temporary file is too slow: millions of frames of a few bytes can do that.
	maxDelay = 500 * time.Millisecond
	// recordSize is what a record takes besides its bytes. Where nothing is printed or kept,
	// what counts is the time that the relay has to share with the judge: that of recordTime
	// bytes more, so that a flood of small frames is given up as soon as one of large ones.
	recordSize = 64
	recordTime = 512
	// calm is a pause after which a judge that was behind goes on. It does so without
	// one every longest.
	calm, longest = 250 * time.Millisecond, time.Second
	// maxClosing is how long a judge that prints nothing may take at the end.
	maxClosing = 100 * time.Millisecond
)

// lost is the note that stands for what was left out.
var lost = capture.Record{Kind: capture.Note, Text: []byte("frames were left out here: they came faster than they were analysed")}

// New returns the judge of a session, who prints what show makes of each frame to to, and
// hands on all records to keep. It prints nothing if show is nil, and hands on nothing if
// keep is.
func New(s capture.Session, to io.Writer, cfg decode.Config, show decode.View, keep capture.Writer) *Judge {
	j := &Judge{show: show, keep: keep, most: maxWaiting, each: recordSize, done: make(chan struct{})}
	if !j.isComplete() {
		j.most, j.each = inMemory, recordTime
	}
	j.backlog, j.reader = recorder.NewReader(recorder.Config{Session: s, Memory: 128 << 20})
	go func() {
		defer close(j.done)
		defer j.reader.Close()
		j.judge(to, cfg)
	}()
	return j
}

// isComplete reports whether the judge leaves nothing out.
func (j *Judge) isComplete() bool { return j.show != nil || j.keep != nil }

// Write takes in a record; see [capture.Writer].
func (j *Judge) Write(r *capture.Record) error {
	frames := 0
	if r.Kind == capture.Frame {
		frames = 1
	}
	if bare := frames == 0 && r.Kind != capture.Stderr; !j.room(frames, j.sizeOf(r), r.Time) && !bare {
		return nil
	}
	j.waiting.Add(j.sizeOf(r))
	return j.backlog.Write(r)
}

// WriteRun takes in a run of records; see [capture.RunWriter].
func (j *Judge) WriteRun(r *capture.Run) error {
	size := r.Bytes() + j.each*int64(len(r.Frames))
	if !j.room(len(r.Frames), size, r.Shared.Time) {
		return nil
	}
	j.waiting.Add(size)
	return j.backlog.WriteRun(r)
}

// room counts frames that come at a time, and reports whether they are to be judged.
func (j *Judge) room(frames int, size int64, at time.Time) bool {
	j.passed.Add(int64(frames))
	j.largest = max(j.largest, size)
	pause := at.Sub(j.last)
	j.last = at
	switch {
	case !j.behind && (j.waiting.Load() > j.most+j.largest || j.backlog.Delay() > maxDelay):
		j.behind, j.since = true, at
		note := lost
		j.waiting.Add(j.sizeOf(&note))
		_ = j.backlog.Write(&note) // it never fails
	case j.behind && j.waiting.Load() == 0 && j.backlog.Delay() <= maxDelay && (pause > calm || at.Sub(j.since) > longest):
		j.behind = false
	}
	return !j.behind
}

// sizeOf is what a record adds to what waits.
func (j *Judge) sizeOf(r *capture.Record) int64 { return int64(len(r.Raw)+len(r.Text)) + j.each }

// judge reads what was taken in, to its end.
func (j *Judge) judge(to io.Writer, cfg decode.Config) {
	from := &counted{Reader: j.reader, judge: j, keep: j.keep}
	in := decode.Input{Capture: from}
	cfg.Workers, cfg.Resync = 1, true
	f := track.NewFollower(&j.trackers, in, cfg)
	cfg.Around = func(show func()) {
		j.mu.Lock()
		defer j.mu.Unlock()
		show()
		j.waiting.Add(-from.read)
		from.read = 0
	}
	cfg.Event = func(rec *capture.Record) {
		if rec.Kind == capture.Note && bytes.Equal(rec.Text, lost.Text) {
			f.Lose()
		} else {
			f.Event(rec)
		}
	}
	view := func(dst []byte, it *decode.Item) ([]byte, error) {
		j.judged++
		dst, err := f.View(dst, it)
		if err != nil || j.show == nil {
			return dst, err
		}
		return j.show(dst, it)
	}
	_, _ = decode.Run(context.Background(), in, to, cfg, func() decode.View { return view }) // what is missing is counted
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting.Load() > 0 {
		f.Lose()
	}
	f.End()
}

// A counted reader counts the bytes that it has read, and hands records on.
type counted struct {
	*recorder.Reader
	judge *Judge
	read  int64
	keep  capture.Writer // or nil
}

func (c *counted) Next(r *capture.Record) error {
	err := c.Reader.Next(r)
	if err == nil {
		c.read += c.judge.sizeOf(r)
		if c.keep != nil && c.keep.Write(r) != nil {
			c.keep = nil
		}
	}
	return err
}

// Watch begins to tell of each request that has had no answer for a time, until the judge
// ends. It need not look at a clock for each frame: it looks at what is open now and then,
// and says nothing while frames wait that may be answers.
func (j *Judge) Watch(patience time.Duration, tell func(text string)) {
	j.watching.Go(func() { j.watch(patience, tell) })
}

func (j *Judge) watch(patience time.Duration, tell func(text string)) {
	tick := time.NewTicker(min(max(patience/10, time.Millisecond), time.Second))
	defer tick.Stop()
	before := time.Now() // a tick earlier: what was said until then has arrived here
	for {
		select {
		case <-j.done:
			return
		case now := <-tick.C:
			for _, call := range j.overdue(before.Add(-patience)) {
				tell(fmt.Sprintf("%s has had no answer for %s s", call, strconv.FormatFloat(patience.Seconds(), 'f', -1, 64)))
			}
			before = now
		}
	}
}

// overdue names the requests of which nothing was heard since a time, unless that is not
// known yet.
func (j *Judge) overdue(since time.Time) (calls []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting.Load() > 0 {
		return nil
	}
	for _, t := range j.trackers.List {
		for e := range t.Overdue(since) {
			calls = append(calls, e.Title())
		}
	}
	return calls
}

// End lets the judge come to its end, for as long as ctx does. It says so where
// that takes long.
func (j *Judge) End(ctx context.Context, warn func(text string)) {
	if !j.isComplete() {
		left := maxClosing
		if j.behind { // and would not be complete with more time
			left = 0
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	said := make(chan struct{})
	late := time.AfterFunc(time.Second, func() {
		defer close(said)
		warn(fmt.Sprintf("judging what has passed: %s to go", render.Count(j.waiting.Load(), "byte")))
	})
	defer func() {
		if !late.Stop() {
			<-said // lest it be said beside what comes next
		}
	}()
	_ = j.backlog.Close(ctx) // what is missing is counted
	j.reader.Close()
	<-j.done
	j.watching.Wait()
}

// Counts are what a judge has seen.
type Counts struct {
	Frames, Exchanges, Failures, Findings int64
	// Missed says that not all was judged.
	Missed    bool
	Cancels   [len(session.Stats{}.Cancels)]int64 // by class
	Found     map[string]int64                    // findings by name
	Protocols []string
}

// Counts returns what was seen by the end.
func (j *Judge) Counts() Counts {
	c := Counts{Found: map[string]int64{}, Frames: j.judged, Missed: j.judged < j.passed.Load()}
	for _, t := range j.trackers.List {
		s := t.Stats()
		c.Exchanges += s.Opened
		for class, n := range s.Cancels {
			c.Cancels[class] += n
		}
		for name, n := range s.Findings {
			c.Findings += n
			c.Found[name] += n
		}
		for _, kind := range s.Kinds {
			for o, n := range kind.Outcomes {
				if session.Outcome(o).Failed() {
					c.Failures += n
				}
			}
		}
		if name := t.Protocol.Name(); !slices.Contains(c.Protocols, name) {
			c.Protocols = append(c.Protocols, name)
		}
	}
	return c
}

// Summary says what became of the exchanges.
func (j *Judge) Summary() string {
	var b strings.Builder
	c := j.Counts()
	if c.Missed {
		fmt.Fprintf(&b, "; analysed: %d of %s", c.Frames, render.Count(j.passed.Load(), "frame"))
	}
	fmt.Fprintf(&b, "; %s", render.Count(c.Exchanges, "exchange"))
	var cancels []string
	for class, n := range c.Cancels {
		if n > 0 {
			cancels = append(cancels, fmt.Sprintf("%d %v", n, session.Class(class)))
		}
	}
	if len(cancels) > 0 {
		fmt.Fprintf(&b, "; cancels: %s", strings.Join(cancels, ", "))
	}
	fmt.Fprintf(&b, "; %s", render.Count(c.Findings, "finding"))
	var names []string
	for _, rule := range session.Findings {
		switch n := c.Found[rule.Name]; n {
		case 0:
		case 1:
			names = append(names, rule.Name)
		default:
			names = append(names, fmt.Sprintf("%d %s", n, rule.Name))
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(names, ", "))
	}
	return b.String()
}

package watch

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
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

// A Judge prints the records of a relay, and knows at the end how the exchanges ended. It
// gets the records that a capture would get, in bounded memory. If it prints or keeps
// records, it leaves nothing out: those that come faster wait in a temporary file.
// Otherwise it must not hold up the relay: it leaves out records while many wait, and those
// that are left at the end.
type judge struct {
	trackers track.Trackers // mu guards them
	mu       sync.Mutex
	show     decode.View // nil if it prints nothing
	backlog  *journal.Journal
	reader   *journal.Cursor // of the backlog
	most     int64           // bytes that may wait
	each     int64           // bytes that a record counts for besides its own
	waiting  atomic.Int64    // bytes that were taken in and not judged
	passed   atomic.Int64    // frames
	judged   int64           // of those; valid when done
	largest  int64           // the most that came at once so far, in bytes
	behind   bool            // records are left out
	since    time.Time       // when that began
	last     time.Time       // when the last record came
	keep     capture.Writer  // or nil
	client   func(string)    // gets the names that clients give themselves; nil if nobody wants them
	clients  []string        // those so far
	others   int             // requests without a name so far
	brief    bool            // see Wants
	enough   atomic.Bool     // nothing more can be found
	done     chan struct{}
	watching sync.WaitGroup
}

const (
	// maxWaiting bounds the bytes that wait to be judged: nobody asked to fill a disk.
	maxWaiting = 1 << 30
	// inMemory is how many of these may wait in memory and, if nothing is printed, all that
	// may wait besides the largest frame. More makes the relay itself slower.
	inMemory = 8 << 20
	// maxDelay bounds how long frames are kept waiting in all because even the
	// temporary file is too slow: millions of frames of a few bytes can do that.
	maxDelay = 500 * time.Millisecond
	// recordSize is the size of a record besides its bytes. If nothing is printed or kept,
	// the time that the judge takes from the relay counts too, as recordTime more bytes: so
	// a flood of small frames is given up as soon as one of large frames.
	recordSize = 64
	recordTime = 512
	// calm is a pause after which a judge that was behind goes on. After longest it goes on
	// without one.
	calm, longest = 250 * time.Millisecond, time.Second
	// maxClosing is how long a judge that prints nothing may take at the end.
	maxClosing = 100 * time.Millisecond
)

// lost is the note in the place of records that were left out.
var lost = capture.Record{Kind: capture.Note, Text: []byte("frames were skipped here: they came faster than they were analysed")}

// wants are what is wanted of a judge besides the counts at its end. All may be missing.
type wants struct {
	Show   decode.View           // prints each frame
	Keep   capture.Writer        // gets all records
	Client func(name string)     // gets each name that a client gives itself
	Found  func(session.Finding) // gets each finding
	// Brief says that not even the counts are wanted, but only whether the unit ignores the
	// end of its input. The judge leaves as soon as that cannot be found.
	Brief bool
}

// newJudge returns the judge of a session. It prints to to.
func newJudge(s capture.Session, to io.Writer, cfg decode.Config, w wants) *judge {
	j := &judge{show: w.Show, keep: w.Keep, client: w.Client, brief: w.Brief, most: maxWaiting, each: recordSize, done: make(chan struct{})}
	if w.Found != nil {
		j.trackers.Watcher = finder(w.Found)
	}
	if !j.isComplete() {
		j.most, j.each = inMemory, recordTime
	}
	j.backlog = journal.New(s, journal.Options{Bytes: 1, Memory: 128 << 20})
	j.reader = j.backlog.Follow()
	go func() {
		defer close(j.done)
		defer j.reader.Close()
		j.judge(to, cfg)
	}()
	return j
}

// A finder is a watcher that gets only findings.
type finder func(session.Finding)

func (finder) Changed(*session.Exchange, int64) {}
func (finder) Asked(*session.Cancel)            {}
func (f finder) Found(found session.Finding)    { f(found) }

func endsWithInput(t track.Tracker) bool { return all.Rules(t.Protocol).EndsWithInput }

// isComplete reports whether the judge leaves nothing out.
func (j *judge) isComplete() bool { return j.show != nil || j.keep != nil }

// Write adds a record; see [capture.Writer].
func (j *judge) Write(r *capture.Record) error {
	if j.enough.Load() {
		return capture.ErrEnough
	}
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

// WriteRun adds a run of records; see [capture.RunWriter].
func (j *judge) WriteRun(r *capture.Run) error {
	if j.enough.Load() {
		return capture.ErrEnough
	}
	size := r.Bytes() + j.each*int64(len(r.Frames))
	if !j.room(len(r.Frames), size, r.Shared.Time) {
		return nil
	}
	j.waiting.Add(size)
	return j.backlog.WriteRun(r)
}

// room counts frames that come at a time, and reports whether they shall be judged.
func (j *judge) room(frames int, size int64, at time.Time) bool {
	j.passed.Add(int64(frames))
	j.largest = max(j.largest, size)
	pause := at.Sub(j.last)
	j.last = at
	switch {
	case !j.behind && (j.waiting.Load() > j.most+j.largest || j.backlog.Delay() > maxDelay):
		j.behind, j.since = true, at
		j.enough.Store(j.brief) // an answer may be missing from now on
		note := lost
		j.waiting.Add(j.sizeOf(&note))
		_ = j.backlog.Write(&note) // it never fails
	case j.behind && j.waiting.Load() == 0 && j.backlog.Delay() <= maxDelay && (pause > calm || at.Sub(j.since) > longest):
		j.behind = false
	}
	return !j.behind
}

// sizeOf returns how much a record adds to those that wait.
func (j *judge) sizeOf(r *capture.Record) int64 { return int64(len(r.Raw)+len(r.Text)) + j.each }

// judge reads the records to their end.
func (j *judge) judge(to io.Writer, cfg decode.Config) {
	from := &counted{Cursor: j.reader, judge: j, keep: j.keep}
	in := decode.Input{Capture: from}
	cfg.Workers, cfg.Resync = 1, true
	f := track.NewFollower(&j.trackers, in, cfg)
	cfg.Around = func(show func()) {
		j.mu.Lock()
		defer j.mu.Unlock()
		show()
		j.waiting.Add(-from.read)
		from.read = 0
		if j.brief && len(j.trackers.List) > 0 && !slices.ContainsFunc(j.trackers.List, endsWithInput) {
			j.enough.Store(true)
		}
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
		if it.Frame.Dir == frame.C2U {
			j.name(&it.Message)
		}
		dst, err := f.View(dst, it)
		if err != nil || j.show == nil {
			return dst, err
		}
		return j.show(dst, it)
	}
	_, _ = decode.Run(context.Background(), in, to, cfg, func() decode.View { return view }) // Missed tells the rest
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting.Load() > 0 {
		f.Lose()
	}
	f.End()
}

// Bounds of what is looked at for names of clients.
const (
	maxClients    = 8
	maxClientName = 100
	maxNameless   = 64
)

// name passes on the name that a client gives itself, once.
func (j *judge) name(m *protocol.Message) {
	if j.client == nil || len(j.clients) == maxClients || j.others == maxNameless && string(m.Kind) != "initialize" {
		return
	}
	name := all.ClientName(m)
	switch {
	case name == "" && m.Phase == protocol.Open:
		j.others = min(j.others+1, maxNameless)
	case name != "" && len(name) <= maxClientName && !slices.Contains(j.clients, name):
		j.clients = append(j.clients, name)
		j.client(name)
	}
}

// A counted reader counts the bytes that it has read, and passes records on.
type counted struct {
	*journal.Cursor
	judge *judge
	read  int64
	keep  capture.Writer // or nil
}

func (c *counted) Next(r *capture.Record) error {
	err := c.Cursor.Next(r)
	if err == io.ErrClosedPipe {
		err = io.EOF
	}
	if err == nil {
		c.read += c.judge.sizeOf(r)
		if c.keep != nil && c.keep.Write(r) != nil {
			c.keep = nil
		}
	}
	return err
}

// Watch reports each request that has had no answer for a time, until the judge ends. It
// need not look at a clock for each frame: it checks the open requests now and then, and
// waits while frames are pending that may be answers.
func (j *judge) Watch(patience time.Duration, tell func(text string)) {
	j.watching.Go(func() { j.watch(patience, tell) })
}

func (j *judge) watch(patience time.Duration, tell func(text string)) {
	tick := time.Tick(min(max(patience/10, time.Millisecond), time.Second))
	before := time.Now() // a tick earlier: all frames up to then have arrived here
	for {
		select {
		case <-j.done:
			return
		case now := <-tick:
			for _, call := range j.overdue(before.Add(-patience)) {
				tell(fmt.Sprintf("%s has had no answer for %s s", call, strconv.FormatFloat(patience.Seconds(), 'f', -1, 64)))
			}
			before = now
		}
	}
}

// overdue names the requests without a sign of life since a time, unless that is not known
// yet.
func (j *judge) overdue(since time.Time) (calls []string) {
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

// awaitEnd waits for the judge to end, as long as ctx allows. It warns if that takes long.
func (j *judge) awaitEnd(ctx context.Context, warn func(text string)) {
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
		warn(fmt.Sprintf("checking earlier frames: %s to go", render.Count(j.waiting.Load(), "byte")))
	})
	defer func() {
		if !late.Stop() {
			<-said // so that the warning comes before the next output
		}
	}()
	j.backlog.Close()
	select {
	case <-j.done:
	case <-ctx.Done(): // Missed tells the rest
	}
	j.reader.Close()
	<-j.done
	j.watching.Wait()
}

// counts are those of the frames and faults that a judge has seen.
type counts struct {
	Frames, Exchanges, Failures, Findings int64
	// Missed says that not all was judged.
	Missed    bool
	Cancels   [len(session.Stats{}.Cancels)]int64 // by class
	Found     map[string]int64                    // findings by name
	Protocols []string
}

// counts returns the counts at the end.
func (j *judge) Counts() counts {
	c := counts{Found: map[string]int64{}, Frames: j.judged, Missed: j.judged < j.passed.Load()}
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

// Summary says how the exchanges ended.
func (j *judge) Summary() string {
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

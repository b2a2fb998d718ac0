// Package judge prints what passes, and says at the end what became of it.
package judge

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/recorder"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// A Judge prints what passes a relay, and knows at the end what became of it.
// It gets what a capture would get, and as that does: what comes faster than it
// can be judged waits in memory, and then in a temporary file. It gives up what
// comes faster even than that.
type Judge struct {
	trackers track.Trackers
	backlog  *recorder.Recorder
	reader   *recorder.Reader // of the backlog
	most     int64            // bytes that may wait
	waiting  atomic.Int64     // bytes that were taken in and not judged
	passed   atomic.Int64     // frames
	missed   atomic.Int64     // the first frame that was not taken in; 0 if there is none
	judged   int64            // frames, from the first one on; valid when done
	done     chan struct{}
}

const (
	// maxWaiting bounds what may wait to be judged, in bytes: disks are not there
	// to be filled by who did not ask for it.
	maxWaiting = 1 << 30
	// inMemory is how much of it may wait in memory.
	inMemory = 64 << 20
	// maxDelay bounds how long frames are kept waiting in all because even the
	// temporary file is too slow: millions of frames of a few bytes can do that.
	maxDelay = 500 * time.Millisecond
)

// New returns the judge of a session, who prints what show makes of each frame to to.
func New(s capture.Session, to io.Writer, cfg decode.Config, show decode.View) *Judge {
	j := &Judge{most: maxWaiting, done: make(chan struct{})}
	j.backlog, j.reader = recorder.NewReader(recorder.Config{Session: s, Memory: inMemory})
	go func() {
		defer close(j.done)
		defer j.reader.Close()
		j.judge(to, cfg, show)
	}()
	return j
}

// Silent shows nothing.
func Silent(dst []byte, _ *decode.Item) ([]byte, error) { return dst, nil }

// Write takes in a record; see [capture.Writer].
func (j *Judge) Write(r *capture.Record) error {
	frames := 0
	if r.Kind == capture.Frame {
		frames = 1
	}
	return j.take(frames, sizeOf(r), func() error { return j.backlog.Write(r) })
}

// WriteRun takes in a run of records; see [capture.RunWriter].
func (j *Judge) WriteRun(r *capture.Run) error {
	return j.take(len(r.Frames), r.Bytes(), func() error { return j.backlog.WriteRun(r) })
}

// take takes in records of that size, so many of which are frames, unless too much
// waits already.
func (j *Judge) take(frames int, size int64, keep func() error) error {
	first := j.passed.Add(int64(frames)) - int64(max(frames-1, 0))
	if j.waiting.Load() > j.most || j.backlog.Delay() > maxDelay {
		j.missed.CompareAndSwap(0, first)
		return nil
	}
	j.waiting.Add(size)
	return keep()
}

// sizeOf is what a record adds to what waits.
func sizeOf(r *capture.Record) int64 { return int64(len(r.Raw) + len(r.Text)) }

// judge reads what was taken in, to its end. Behind a frame that is missing
// nothing can be judged any more, but still be shown: what is open then may have
// been answered.
func (j *Judge) judge(to io.Writer, cfg decode.Config, show decode.View) {
	in := decode.Input{Capture: &awaited{j.reader, &j.waiting}}
	cfg.Workers, cfg.Resync = 1, true
	f := track.NewFollower(&j.trackers, in, cfg)
	cfg.Ended = func(conn int, dir frame.Dir, at time.Time) {
		if j.missed.Load() == 0 {
			f.Ended(conn, dir, at)
		}
	}
	view := func(dst []byte, it *decode.Item) ([]byte, error) {
		if missed := j.missed.Load(); missed == 0 || it.Seq < missed {
			j.judged++
			if dst, err := f.View(dst, it); err != nil {
				return dst, err
			}
		}
		return show(dst, it)
	}
	_, _ = decode.Run(context.Background(), in, to, cfg, func() decode.View { return view }) // what is missing is counted
	if j.missed.Load() == 0 {
		f.End()
	} else {
		f.Release()
	}
}

// An awaited reader counts what it has read.
type awaited struct {
	*recorder.Reader
	waiting *atomic.Int64
}

func (a *awaited) Next(r *capture.Record) error {
	err := a.Reader.Next(r)
	a.waiting.Add(-sizeOf(r))
	return err
}

// End lets the judge come to its end, for as long as ctx does. It says so where
// that takes long.
func (j *Judge) End(ctx context.Context, warn func(text string)) {
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
}

// Summary says what became of the exchanges.
func (j *Judge) Summary() string {
	var b strings.Builder
	if passed := j.passed.Load(); j.judged < passed {
		fmt.Fprintf(&b, "; judged are the first %s, the others came too fast", render.Count(j.judged, "frame"))
	}
	var exchanges, findings int64
	classes := map[session.Class]int64{}
	for _, t := range j.trackers.List {
		s := t.Stats()
		exchanges += s.Opened
		for class, n := range s.Cancels {
			classes[session.Class(class)] += n
		}
		for _, n := range s.Findings {
			findings += n
		}
	}
	fmt.Fprintf(&b, "; %s", render.Count(exchanges, "exchange"))
	var cancels []string
	for class := session.Class(0); int(class) < len(session.Stats{}.Cancels); class++ {
		if n := classes[class]; n > 0 {
			cancels = append(cancels, fmt.Sprintf("%d %v", n, class))
		}
	}
	if len(cancels) > 0 {
		fmt.Fprintf(&b, "; cancels: %s", strings.Join(cancels, ", "))
	}
	fmt.Fprintf(&b, "; %s", render.Count(findings, "finding"))
	return b.String()
}

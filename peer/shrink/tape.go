package shrink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/transport"
)

// A tape is what a try sent and received.
type tape struct {
	frames  []replay.Record // numbered by serials
	ends    []capture.Record
	script  *replay.Script
	attempt replay.Attempt
	shown   []string // what was to be seen; empty if it was not
	verdict verdict
	exit    string // how the process of the server ended by itself; "" if it did not
	stderr  string // its last lines
	session capture.Session
}

// newTape returns a tape with the given frames.
func newTape(frames []replay.Record) *tape {
	t := &tape{frames: frames, script: scriptOf(frames)}
	return t
}

// scriptOf returns the script of frames; nil without any.
func scriptOf(frames []replay.Record) *replay.Script {
	s := new(replay.Session)
	for _, r := range frames {
		s.Add(r)
	}
	for _, script := range s.Scripts(frame.C2U) {
		return script
	}
	return nil
}

// size counts the frames and their bytes.
func (t *tape) size() (frames, bytes int) {
	for _, r := range t.frames {
		bytes += len(r.Frame.Raw)
	}
	return len(t.frames), bytes
}

// reader returns the tape as a capture.
func (t *tape) reader() capture.Reader {
	r := &reader{session: t.session}
	var offsets [3]int64
	for i, one := range t.frames {
		f := *one.Frame
		f.Conn, f.Offset = 1, offsets[f.Dir]
		offsets[f.Dir] += int64(len(f.Raw))
		r.records = append(r.records, capture.Record{Kind: capture.Frame, Seq: int64(i + 1), Time: one.Time, Protocol: one.Protocol.Name(), Framing: one.Framing.Name(), Frame: f})
	}
	r.records = append(r.records, t.ends...)
	return r
}

// A reader is a capture in memory.
type reader struct {
	session capture.Session
	records []capture.Record
}

func (r *reader) Session() *capture.Session { return &r.session }

func (r *reader) Next(rec *capture.Record) error {
	if len(r.records) == 0 {
		return io.EOF
	}
	*rec, r.records = r.records[0], r.records[1:]
	return nil
}

// maxStderr is how much of standard error is kept: the end.
const maxStderr = 4 << 10

// A tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text) - maxStderr; n > 0 {
		t.text = slices.Delete(t.text, 0, n)
	}
	return len(p), nil
}

// atOnce is how long a server may take to end.
const atOnce = 500 * time.Millisecond

// serial numbers frames, so that they can be followed from try to try.
var serial atomic.Int64

// play plays a script against a fresh server: to its end or, unless it is to be whole, until what is
// wanted was seen.
func (s *search) play(ctx context.Context, script *replay.Script, patience time.Duration, whole bool) (*tape, error) {
	var stderr tail
	var exits []transport.Exit
	dial := transport.Shown{Endpoint: s.Server, Stderr: &stderr, Ended: func(x transport.Exit, _ error) { exits = append(exits, x) }}
	conn, err := dial.Dial(ctx)
	if err != nil {
		return nil, err
	}
	t := &tape{session: s.session}
	var judging time.Duration
	var judged time.Time
	parting := atOnce
	if s.Keep.finding == session.IgnoresEOF {
		parting = s.Patience
	}
	trial := replay.Trial{Parting: parting, Speed: s.speed, Patience: patience, Startup: s.Patience, Answers: s.original.script, Limit: s.Limit}
	trial.Heard = func(f *frame.Frame, seq int64) {
		if seq == 0 {
			seq = serial.Add(1)
		}
		one := f.Clone()
		one.Conn = 1
		t.frames = append(t.frames, replay.Record{Seq: seq, Time: time.Now(), Frame: &one, Framing: script.Framing, Protocol: script.Protocol})
	}
	trial.Enough = func() bool {
		if whole || time.Since(judged) < 4*judging {
			return false
		}
		start := time.Now()
		isShown := s.judge(ctx, t, true) == nil && len(t.shown) > 0
		judged = time.Now()
		judging = judged.Sub(start)
		return isShown
	}
	t.attempt, err = script.Try(ctx, conn, trial)
	if p, ok := conn.(transport.Process); ok && p.Outlived() {
		_ = p.Signal(os.Kill) // what it leaves behind would pile up, try after try
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, replay.ErrNoTrial):
		return nil, err
	}
	t.end(&stderr, exits, parting)
	t.script = scriptOf(t.frames)
	if failed := s.judge(ctx, t, false); failed != nil {
		return nil, failed
	}
	if len(t.frames) == 0 && err != nil {
		return nil, err
	}
	return t, nil
}

// end adds how the connection ended.
func (t *tape) end(stderr *tail, exits []transport.Exit, parting time.Duration) {
	stderr.mu.Lock()
	defer stderr.mu.Unlock()
	at := frame.Frame{Conn: 1}
	add := func(r capture.Record) {
		r.Time = time.Now()
		t.ends = append(t.ends, r)
	}
	if len(stderr.text) > 0 {
		t.stderr = string(stderr.text)
		add(capture.Record{Kind: capture.Stderr, Text: stderr.text, Frame: at})
	}
	first, second := frame.C2U, frame.U2C
	if t.attempt.Died {
		first, second = second, first
	}
	halves := [2]frame.Frame{{Conn: 1, Dir: first}, {Conn: 1, Dir: second}}
	add(capture.Record{Kind: capture.HalfClosed, Frame: halves[0]})
	if t.attempt.Lingers && parting > atOnce {
		add(capture.Record{Kind: capture.Lingering, Text: fmt.Appendf(nil, "the unit keeps running: its stdin has ended, and it has written nothing for %v", parting), Frame: at})
	}
	for _, x := range exits {
		rec := capture.Record{Kind: capture.Exited, Status: x.Status, Frame: at}
		if sig, ok := x.Signal.(syscall.Signal); ok {
			rec.Kind, rec.Status, rec.Text = capture.Signalled, int(sig), []byte(sig.String())
		}
		if x.Told || !t.attempt.Died {
			rec.Dir = frame.C2U
		} else {
			t.exit = x.String()
		}
		add(rec)
	}
	add(capture.Record{Kind: capture.HalfClosed, Frame: halves[1]})
}

// exitPrefix marks the ends of servers among what is wanted.
const exitPrefix = "exit: "

// judge sets what a tape shows.
func (s *search) judge(ctx context.Context, t *tape, goesOn bool) (err error) {
	if t.verdict.calls, t.verdict.findings, err = s.Judge(ctx, t.reader(), goesOn); err != nil {
		return err
	}
	t.shown = s.Keep.seen(ctx, &t.verdict, goesOn)
	if s.wanted != nil && !goesOn && !s.wanted[exitPrefix+t.exit] {
		t.shown = nil // another fault ended the server
	}
	if s.wanted != nil {
		t.shown = slices.DeleteFunc(t.shown, func(what string) bool { return !s.wanted[what] })
	}
	return nil
}

// lastLines returns the last lines of standard error on one line.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

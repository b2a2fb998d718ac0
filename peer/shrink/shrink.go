// Package shrink finds the smallest session that still shows something: a finding, an outcome of a
// call, or whatever a jq filter of calls tells.
//
// It plays the client of a recorded session against a fresh server again and again, each time without
// some exchanges, members of arguments, or bytes (delta debugging). A try counts by what the live
// server sends. One that shows it replaces the session, so a smaller one is always a session that
// took place.
package shrink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/transport"
)

// Options say what is shrunk, and how.
type Options struct {
	// Scripts are the connections of the session. The first that shows it is shrunk.
	Scripts []*replay.Script
	Keep    *Keep
	// Server is started, or connected to, for each try.
	Server transport.Endpoint
	// Judge returns the calls and findings of a session, which may go on.
	Judge func(ctx context.Context, r capture.Reader, goesOn bool) ([]*calls.Call, []session.Finding, error)
	// Patience is how long a silent server is waited for at most.
	Patience time.Duration
	// Runs is how often a session must show it in a row.
	Runs int
	// MaxTries and MaxTime bound the tries. Jobs is how many run at once.
	MaxTries int
	MaxTime  time.Duration
	Jobs     int
	// Limit is the largest payload to read, in bytes; 0 is the default.
	Limit int
	// Mask takes secrets out of a text.
	Mask func(text string) string
	// Terminal shows how far the search is, if it is not nil.
	Terminal io.Writer
}

// Keeping checks the options, and sets what to keep.
func (o *Options) Keeping(text string) (err error) {
	if o.Runs < 1 || o.MaxTries < 1 || o.Jobs < 1 || o.Patience <= 0 || o.MaxTime <= 0 {
		return errors.New("--runs, --max-tries, --jobs, --timeout and --max-time must be over 0")
	}
	if o.Server == nil {
		return nil // another error says why
	}
	if text == "" {
		return errors.New("say what the session must show: --keep finding:NAME, outcome:NAME or jq:EXPR")
	}
	if o.Keep, err = ParseKeep(text); err != nil {
		return fmt.Errorf("invalid --keep %w", err)
	}
	if scheme, _, _ := strings.Cut(o.Server.String(), "://"); slices.Contains([]string{"http", "https", "grpc", "grpcs"}, scheme) {
		return errOverHTTP
	}
	return nil
}

var errOverHTTP = errors.New("shrink plays servers over pipes and sockets; over HTTP and gRPC, only replay plays")

// Announcement says what will happen.
func (o *Options) Announcement() string {
	return fmt.Sprintf("each of up to %d tries plays against %s for real", o.MaxTries, render.Safe(o.Mask(o.Server.String())))
}

// A Result is the smallest session that was found.
type Result struct {
	Capture capture.Reader
	// Summary compares it with the original, and says why the search ended early.
	Summary string
}

// A NotShownError says that the original session does not show it.
type NotShownError struct{ text string }

func (e *NotShownError) Error() string { return e.text }

// A rate is how often something was shown in a number of tries.
type rate struct{ hits, of int }

func (r rate) String() string { return fmt.Sprintf("%d of %d tries", r.hits, r.of) }

// Why a search ends early.
var (
	errTries = errors.New("the limit of --max-tries")
	errTime  = errors.New("the limit of --max-time")
	errHalt  = errors.New("interrupted")
)

// A search is the state of shrinking.
type search struct {
	Options
	session  capture.Session
	original *tape
	best     *tape
	speed    float64
	patience time.Duration   // for each try
	wanted   map[string]bool // what must be seen again, so that shrinking does not slip to another fault; nil for anything
	flaky    int             // how many tries show it with high probability, if each may not; 0 if all do
	was      rate            // of the original, if it is flaky
	rate     rate            // of the result
	locked   map[string]bool
	tries    atomic.Int64
	began    time.Time
	from     [2]int // frames and bytes
	where    string // in a session with several connections
	mu       sync.Mutex
	known    map[string]bool // rejected scripts
}

// Run shrinks a session. The error is a [*NotShownError] if the session does not show it.
func Run(ctx context.Context, o Options) (*Result, error) {
	s := &search{Options: o, began: time.Now()}
	if o.Terminal != nil {
		defer func() { _, _ = io.WriteString(o.Terminal, "\r\x1b[K") }()
	}
	s.session = capture.Session{Created: s.began, Unit: o.Mask(o.Server.String()), Comment: "shrunk, keeping " + o.Mask(o.Keep.String())}
	limited, cancel := context.WithTimeoutCause(ctx, o.MaxTime, errTime)
	defer cancel()
	var err error
	for i, script := range o.Scripts {
		if script.OverHTTP() {
			err = cmp.Or(err, errOverHTTP)
			continue
		}
		s.load(script)
		failed := s.baseline(limited)
		if len(o.Scripts) > 1 {
			s.where = fmt.Sprintf("connection %d of %d: ", i+1, len(o.Scripts))
		}
		if s.best != nil {
			err = failed
			break
		}
		unseen, isUnseen := errors.AsType[*NotShownError](failed)
		if !isUnseen {
			return nil, failed
		}
		err = cmp.Or(err, error(&NotShownError{s.where + unseen.text}))
	}
	if s.best == nil {
		return nil, err
	}
	first := s.best
	for wide := 0; err == nil; wide++ {
		if err = s.reduce(limited); err != nil {
			break
		}
		isHasty := false
		if isHasty, err = s.confirm(limited); !isHasty || err != nil || wide == 3 {
			break
		}
		// Some answers only took longer than the patience.
		s.best, s.patience, s.known = first, min(4*s.patience, o.Patience), map[string]bool{}
	}
	if err == nil && s.flaky > 0 {
		s.rate, err = s.measure(limited, s.best.script, 0, 0)
	}
	return s.result(err)
}

// load makes a script the original.
func (s *search) load(script *replay.Script) {
	var frames []replay.Record
	for _, st := range script.Steps() {
		st.Seq, st.Frame.Conn = serial.Add(1), 1
		frames = append(frames, st.Record)
	}
	s.original, s.patience, s.wanted = newTape(frames), s.Patience, nil
	if by := script.EndedBy(); by != frame.DirUnknown {
		for _, dir := range []frame.Dir{by, by.Opposite()} {
			s.original.ends = append(s.original.ends, capture.Record{Kind: capture.HalfClosed, Time: frames[len(frames)-1].Time, Frame: frame.Frame{Conn: 1, Dir: dir}})
		}
	}
	s.known, s.locked = map[string]bool{}, map[string]bool{}
	s.from[0], s.from[1] = s.original.size()
	s.lock()
}

// lock notes the kinds of messages that begin a session, which stay.
func (s *search) lock() {
	for _, r := range handshakes(s.original.script.Protocol) {
		s.locked[r] = true
	}
}

// result describes the best session.
func (s *search) result(err error) (*Result, error) {
	if err != nil && !errors.Is(err, errTries) && !errors.Is(err, errTime) && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	if errors.Is(err, context.Canceled) {
		err = errHalt
	}
	frames, bytes := s.best.size()
	text := s.where + fmt.Sprintf("%s, %s → %s, %s", render.Count(int64(s.from[0]), "frame"), render.Count(int64(s.from[1]), "byte"), render.Count(int64(frames), "frame"), render.Count(int64(bytes), "byte"))
	text += fmt.Sprintf("; the server ran %s in %v", times(s.tries.Load()), time.Since(s.began).Round(100*time.Millisecond))
	if s.speed > 0 {
		text += "; the recorded pauses matter"
	}
	if s.flaky > 0 {
		text += fmt.Sprintf("; flaky: the original shows it in %v", s.was)
	}
	if s.rate.of > 0 {
		text += fmt.Sprintf(", the result in %v", s.rate)
	}
	if err != nil {
		text += "; perhaps not the smallest: " + err.Error()
	}
	return &Result{Capture: s.best.reader(), Summary: text}, nil
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// attempt plays a script once, within the limits.
func (s *search) attempt(ctx context.Context, script *replay.Script, patience time.Duration, whole bool) (*tape, error) {
	if s.tries.Add(1) > int64(s.MaxTries) {
		s.tries.Add(-1)
		return nil, errTries
	}
	t, err := s.play(ctx, script, patience, whole)
	if err == nil {
		s.learn(t)
	}
	if s.Terminal != nil {
		s.mu.Lock()
		frames, bytes := s.from[0], s.from[1]
		if s.best != nil {
			frames, bytes = s.best.size()
		}
		fmt.Fprintf(s.Terminal, "\rtry %d of at most %d: %s → %s, %s\x1b[K", s.tries.Load(), s.MaxTries, render.Count(int64(s.from[0]), "frame"), render.Count(int64(frames), "frame"), render.Count(int64(bytes), "byte"))
		s.mu.Unlock()
	}
	return t, err
}

// The least patience, and how much longer than the slowest answer so far it is.
const (
	leastPatience = 250 * time.Millisecond
	spare         = 4
)

// learn raises the patience to what the server needs.
func (s *search) learn(t *tape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.patience < s.Patience {
		s.patience = min(max(s.patience, spare*t.attempt.Slowest), s.Patience)
	}
}

// baseline tries the original: at once and, if that does not always show it, with the recorded
// pauses. It learns how patient to be.
func (s *search) baseline(ctx context.Context) error {
	var last *tape
	var rates [2]int
	of := max(s.Runs, 1)
	err := s.judge(ctx, s.original, false) // the live server must show what the recorded one did
	if err != nil {
		return s.failed(ctx, err, nil, 0)
	}
	recorded := s.original.shown
	var shown [2]*tape
	wanted := map[string]bool{}
	for i, speed := range []float64{0, 1} {
		if s.speed = speed; i == 1 && rates[0] == of {
			break
		}
		for n := range of {
			t, err := s.attempt(ctx, s.original.script, s.patience, false)
			if err != nil {
				return s.failed(ctx, err, last, max(rates[0], rates[1]))
			}
			if len(recorded) > 0 {
				t.shown = slices.DeleteFunc(t.shown, func(what string) bool { return !slices.Contains(recorded, what) })
			}
			if !t.hears() && s.original.script.Has(frame.U2C) {
				t.shown = nil // as if another program was started
			}
			if last = t; n == 0 && i == 0 {
				s.mu.Lock()
				s.patience = min(max(leastPatience, spare*t.attempt.Slowest), s.Patience)
				s.mu.Unlock()
			}
			if len(t.shown) > 0 {
				rates[i]++
				shown[i] = cmp.Or(shown[i], t)
				wanted[exitPrefix+t.exit] = true
				for _, what := range t.shown {
					wanted[what] = true
				}
			}
		}
	}
	chosen := 0
	if rates[1] > rates[0] {
		chosen = 1
	}
	s.speed = []float64{0, 1}[chosen]
	if rates[chosen] == 0 {
		return s.failed(ctx, nil, last, 0)
	}
	s.best, s.wanted = shown[chosen], wanted
	if rates[chosen] == of {
		return nil
	}
	s.was, err = s.measure(ctx, s.original.script, rates[chosen], of)
	share := max(float64(s.was.hits)-spread, 0.5) / float64(s.was.of)
	s.flaky = min(max(leastTries, int(math.Ceil(math.Log(missed)/math.Log(1-share)))), 3*measured)
	return err
}

// missed is how likely a flaky session is rejected by mistake. Its rate is only known from a few tries: it
// may be lower, by that many hits.
const (
	missed     = 0.03
	spread     = 2
	leastTries = 5
)

// measured is how often a session is tried to tell how often it shows something.
const measured = 10

// measure finds out how often a script shows it, in addition to some tries.
func (s *search) measure(ctx context.Context, script *replay.Script, hits, of int) (rate, error) {
	for ; of < measured; of++ {
		t, err := s.attempt(ctx, script, s.patience, false)
		if err != nil {
			return rate{hits, of}, err
		}
		if len(t.shown) > 0 {
			hits++
		}
	}
	return rate{hits, of}, nil
}

// failed says that the original does not show it, or too rarely, and what it showed.
func (s *search) failed(ctx context.Context, err error, last *tape, hits int) error {
	switch isLimit := errors.Is(err, errTries) || errors.Is(err, errTime); {
	case isLimit && last == nil:
		return fmt.Errorf("no try has come to its end: %w", err)
	case isLimit && hits > 0:
		return fmt.Errorf("the original shows %s, but not yet in %s: %w", s.Mask(s.Keep.String()), render.Count(int64(s.Runs), "run"), err)
	case err != nil && !isLimit:
		return err
	}
	text := fmt.Sprintf("the original does not show %s in %s", s.Mask(s.Keep.String()), strings.Replace(render.Count(s.tries.Load(), "try"), "trys", "tries", 1))
	text += ": " + s.Mask(last.seen())
	if what := cmp.Or(s.Keep.unknown, s.Keep.complaint(ctx, &last.verdict)); what != "" {
		text += "; " + what
	}
	if len(s.original.shown) > 0 {
		text += "; the recording shows it in " + strings.Join(s.original.shown, ", ")
	}
	return &NotShownError{text}
}

// hears reports whether the server sent anything.
func (t *tape) hears() bool {
	return slices.ContainsFunc(t.frames, func(r replay.Record) bool { return r.Frame.Dir == frame.U2C })
}

// seen says what a tape shows, in words.
func (t *tape) seen() string {
	count := func(names []string) string {
		n := map[string]int{}
		for _, name := range names {
			n[name]++
		}
		var list []string
		for _, name := range slices.Sorted(maps.Keys(n)) {
			if n[name] > 1 {
				name = fmt.Sprintf("%d× %s", n[name], name)
			}
			list = append(list, name)
		}
		return strings.Join(list, ", ")
	}
	var outcomes, found []string
	for _, c := range t.verdict.calls {
		outcomes = append(outcomes, strings.TrimSpace(c.Kind+" "+c.Name)+" "+c.Outcome.String())
	}
	for _, f := range t.verdict.findings {
		found = append(found, f.Name)
	}
	text := "the server sent nothing"
	switch {
	case len(outcomes) > 0 && !t.hears():
		text += ", and it had " + count(outcomes)
	case len(outcomes) > 0:
		text = "it had " + count(outcomes)
	case t.hears():
		text = "it had no calls"
	}
	if text += "; findings: " + count(found); len(found) == 0 {
		text = strings.TrimSuffix(text, "; findings: ") + "; no findings"
	}
	if t.exit != "" {
		text += "; the server " + t.exit
	}
	if t.stderr != "" && t.exit != "" {
		text += ": " + lastLines(t.stderr)
	}
	return text
}

// confirm plays the best session to its end and with all patience, so that replay finds nothing else
// in it. It reports whether the session only showed what it did because patience was too short.
func (s *search) confirm(ctx context.Context) (hasty bool, err error) {
	for range max(1, s.flaky) {
		t, err := s.attempt(ctx, s.best.script, s.Patience, true)
		if err != nil {
			return false, err
		}
		if len(t.shown) > 0 {
			s.best = t
			return false, nil
		}
	}
	return s.best.attempt.Waited && s.patience < s.Patience, nil
}

// accepts tries a script: it must show it each time, or sometimes if the original does so sometimes.
// It returns nil if it does not.
func (s *search) accepts(ctx context.Context, frames []replay.Record) (*tape, error) {
	key := keyOf(frames)
	s.mu.Lock()
	isKnown, patience := s.known[key] && s.flaky == 0, s.patience // a flaky one may have missed its chance
	s.known[key] = true
	s.mu.Unlock()
	script := scriptOf(frames)
	if isKnown || script == nil || !script.Has(frame.C2U) {
		return nil, nil
	}
	for n := 0; ; {
		t, err := s.attempt(ctx, script, patience, false)
		if err != nil {
			return nil, err
		}
		n++
		switch isShown := len(t.shown) > 0; {
		case isShown && (s.flaky > 0 || n >= s.Runs):
			return t, nil
		case !isShown && n >= s.flaky:
			return nil, nil
		}
	}
}

// keyOf identifies what the client sends.
func keyOf(frames []replay.Record) string {
	var b strings.Builder
	for _, r := range frames {
		if r.Frame.Dir == frame.C2U {
			fmt.Fprintf(&b, "%d:%s", len(r.Frame.Raw), r.Frame.Raw)
		}
	}
	return b.String()
}

// first replaces the best session by the first of several that is accepted, and returns its number; -1
// if there is none. Up to Jobs are tried at once.
func (s *search) first(ctx context.Context, candidates [][]replay.Record) (int, error) {
	for from := 0; from < len(candidates); from += max(1, s.Jobs) {
		batch := candidates[from:min(from+max(1, s.Jobs), len(candidates))]
		tapes, errs := make([]*tape, len(batch)), make([]error, len(batch))
		var running sync.WaitGroup
		for i, frames := range batch {
			running.Go(func() { tapes[i], errs[i] = s.accepts(ctx, frames) })
		}
		running.Wait()
		if i := slices.IndexFunc(tapes, func(t *tape) bool { return t != nil }); i >= 0 {
			s.mu.Lock()
			s.best = tapes[i]
			s.mu.Unlock()
			return from + i, nil
		}
		if err := cmp.Or(errs...); err != nil {
			return -1, err
		}
	}
	return -1, nil
}

package source

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/internal/wait"
)

// Together opens several sessions of one machine as one, in the order of time, as a run is. Those that
// follow is true of are followed. An error is that of the first one that cannot be
// opened. Of one name it is Session.
func (o *Opener) Together(ctx context.Context, names []string, cfg decode.Config, follow func(name string) bool) (*Session, error) {
	if len(names) == 1 {
		return o.Session(ctx, names[0], cfg, follow(names[0]))
	}
	if len(names) > maxParts {
		return nil, &Error{fmt.Errorf("%d sessions are too many for one tree: name at most %d", len(names), maxParts)}
	}
	ctx, stop := context.WithCancel(ctx)
	r := &Run{cfg: cfg, final: true, over: true}
	r.wait = func() bool { return wait.For(ctx, lookEvery) == nil }
	all := decode.Input{Joins: true}
	var reading sync.WaitGroup
	done := func() {
		stop()
		r.closeParts()
		reading.Wait()
	}
	for i, wire := range WireNames(names) {
		s, err := o.Session(ctx, names[i], cfg, follow(names[i]))
		if err == nil && s.Capture == nil {
			s.Close()
			err = errUntimed
		}
		if err != nil {
			done()
			if of := (*Error)(nil); errors.As(err, &of) {
				return nil, err
			}
			return nil, &Error{fmt.Errorf("%s: %w", Label(names[i]), err)}
		}
		p := &part{name: Label(names[i]), wire: wire, close: s.Close, conns: map[int]int{}}
		in := s.Limited(cfg)
		if follow(names[i]) || IsHub(names[i]) || MayStillRun(names[i], o.Stdin) {
			r.final = false
			p.awaits(ctx, r, in, &reading)
		} else {
			p.reads(in)
		}
		r.parts, all.OfRun = append(r.parts, p), all.OfRun || s.OfRun
		r.session.Altered, r.session.Redacted = r.session.Altered || in.Session().Altered, r.session.Redacted || in.Session().Redacted
	}
	r.session.Comment = strings.Join(names, ", ")
	all.Capture = r
	return &Session{all, done}, nil
}

var errUntimed = errors.New("has no times by which it could be joined with others")

// awaitTime is how long the next record of a part is waited for before others go first.
const awaitTime = 10 * time.Millisecond

// awaits makes a part of a reader that waits for its records.
func (p *part) awaits(ctx context.Context, r *Run, in capture.Reader, reading *sync.WaitGroup) {
	type step struct {
		rec     capture.Record
		altered bool
		err     error
	}
	session, steps := *in.Session(), make(chan step, 64)
	reading.Go(func() {
		for err := error(nil); err == nil; {
			var rec capture.Record
			err = in.Next(&rec)
			select {
			case steps <- step{rec.Clone(), in.Session().Altered, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	p.session = func() *capture.Session { return &session }
	p.next = func() (*capture.Record, error) {
		select {
		case s := <-steps:
			r.session.Altered = r.session.Altered || s.altered
			return &s.rec, s.err
		case <-time.After(awaitTime):
			return nil, nil
		}
	}
}

// WireNames returns short names of inputs that are read together: as those of the wires of a run, unless
// two would be equal.
func WireNames(names []string) []string {
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = Label(name)
		if !strings.Contains(name, ":") {
			short[i] = wireOf(filepath.Base(filepath.Clean(short[i])))
		}
		short[i] = strings.ReplaceAll(short[i], ": ", ":") // which ends the name of a wire
	}
	for i := range names {
		if slices.Index(short, short[i]) != i {
			for j, name := range names {
				short[j] = strings.ReplaceAll(Label(name), ": ", ":")
			}
			break
		}
	}
	return short
}

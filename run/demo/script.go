package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/transport"
)

// script is what the controllers say, and when.
func (s *stage) script(good, bad, lazy transport.Endpoint) error {
	g, ctx := errgroup.WithContext(s.ctx)
	g.Go(func() error { return s.converse(ctx, good) })
	g.Go(func() error { return s.insist(ctx, bad) })
	g.Go(func() error { return s.overwhelm(ctx, lazy) })
	return g.Wait()
}

const long = "the report says that rivers carry less water each summer, that towns store more of it in spring, and that nobody agreed on who pays"

// converse has many prompts in flight, states asked for in between, and cancels
// that are obeyed.
func (s *stage) converse(ctx context.Context, e transport.Endpoint) error {
	l, c, err := meet(ctx, e)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := l.CreateSession(ctx, map[string]string{"user": "demo"}); err != nil {
		return err
	}
	s.at(c, 0, prompt(l, "summarize: "+long, 0))
	s.at(c, 300*time.Millisecond, prompt(l, "ask what rivers carry", 0))
	s.at(c, 600*time.Millisecond, prompt(l, "translate: "+long, 9))
	s.at(c, 1500*time.Millisecond, l.State())
	s.at(c, 6*time.Second, l.Ping())
	for i := range 24 {
		at := 7*time.Second + time.Duration(i)*750*time.Millisecond
		cancelAfter := 0
		if i%6 == 5 {
			cancelAfter = 2 + i%4
		}
		kind := []string{"ask how number %d goes on", "count to %d and then some more, slowly", "compare %d with what was said before"}[i%3]
		s.at(c, at, prompt(l, fmt.Sprintf(kind, i), cancelAfter))
	}
	s.at(c, 26*time.Second, l.State())
	return c.group.Wait()
}

// insist cancels what a unit goes on with all the same, and what ends before the
// cancel can have come.
func (s *stage) insist(ctx context.Context, e transport.Endpoint) error {
	l, c, err := meet(ctx, e)
	if err != nil {
		return err
	}
	defer l.Close()
	s.at(c, 4*time.Second, prompt(l, hasty, 1))
	s.at(c, 9*time.Second, prompt(l, "stubborn: "+long, 4))
	return c.group.Wait()
}

// overwhelm sends more than a unit that does not read can take.
func (s *stage) overwhelm(ctx context.Context, e transport.Endpoint) error {
	l, c, err := meet(ctx, e)
	if err != nil {
		return err
	}
	defer l.Close()
	for i := range 12 {
		s.at(c, 2*time.Second+time.Duration(i)*100*time.Millisecond, prompt(l, strings.Repeat("a long document ", 64<<10), 0))
	}
	return c.group.Wait()
}

// meet dials a unit, for a crowd of calls.
func meet(ctx context.Context, e transport.Endpoint) (*client.Latis, *crowd, error) {
	nc, err := e.Dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	return client.DialLatis(nc, client.NewWatch(latis.Protocol, nil)), &crowd{ctx: ctx}, nil
}

func prompt(l *client.Latis, content string, cancelAfter int) client.Call {
	return l.Prompt(client.LatisPrompt{Content: content, Cancel: client.CancelAfter{Parts: cancelAfter}, AwaitEnd: true})
}

// A crowd is calls that are made at their times.
type crowd struct {
	ctx   context.Context
	group errgroup.Group
}

// at makes a call at a time of the play.
func (s *stage) at(c *crowd, d time.Duration, call client.Call) {
	c.group.Go(func() error {
		s.wait(c.ctx, d)
		if over(c.ctx) {
			return nil
		}
		err := call(c.ctx, func(client.Part) {})
		if fault := (*client.PeerError)(nil); errors.As(err, &fault) {
			return nil // part of the play
		}
		return err
	})
}

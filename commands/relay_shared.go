package commands

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"

	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// A sharing is the one unit of all controllers, and how long they may take to go
// when it has ended.
type sharing struct {
	*relay.Shared
	unit  transport.Conn
	grace time.Duration
}

// share reaches the unit that is to be shared, if one is.
func (v *relaying) share(ctx context.Context) error {
	if !v.c.Bool("shared") {
		return nil
	}
	unit, err := v.unit.Dial(ctx)
	if err != nil {
		return err
	}
	s, err := relay.Share(unit, v.cfg.Framing, v.cfg.Protocol, v.cfg.Limit)
	if err != nil {
		unit.Close()
		return err
	}
	v.shared = &sharing{s, unit, v.c.Duration("grace")}
	return nil
}

// unitFor reaches the unit of one controller.
func (v *relaying) unitFor(ctx context.Context) (transport.Conn, error) {
	if v.shared != nil {
		return v.shared.Join()
	}
	return v.unit.Dial(ctx)
}

// run serves controllers until the unit ends and they have had what it said, and
// returns its status.
func (s *sharing) run(stderr io.Writer) error {
	var draining sync.WaitGroup
	p, isProcess := s.unit.(transport.Process)
	if isProcess {
		draining.Go(func() { _, _ = io.Copy(stderr, p.Stderr()) }) // ends when the process has been closed
	}
	err := s.Run()
	s.unit.Close()
	draining.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	s.Left(ctx)
	if err != nil || !isProcess {
		return cmp.Or(err, relay.ErrUnitEnded)
	}
	x, err := p.Wait()
	return cmp.Or(err, statusOf(&relay.Result{Exit: &x}), relay.ErrUnitEnded)
}

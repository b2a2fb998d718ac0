package commands

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// share relays between all controllers that come and one unit, until that ends
// or a signal ends it.
func (v *relaying) share(ctx context.Context) error {
	l, err := v.listen(v.c)
	if err != nil {
		return err
	}
	defer l.Close()
	unit, err := v.unit.Dial(ctx)
	if err != nil {
		return err
	}
	shared := relay.NewShared(relay.SharedConfig{
		Framing: v.cfg.Framing, Protocol: v.cfg.Protocol, Limit: v.cfg.Limit,
		Grace: v.c.Duration("grace"), Sink: v.watch.fan, Altered: v.watch.altered,
	})
	v.warn("listening on " + l.Addr())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	accepting, stop := context.WithCancel(ctx)
	defer stop()
	var serving sync.WaitGroup
	failed := make(chan error, 1)
	serving.Go(func() { failed <- v.join(ctx, accepting, l, shared, &serving) })
	result, err := relay.Run(ctx, v.beforeUnit(shared, unit))
	stop()
	last := time.AfterFunc(v.c.Duration("grace"), cancel) // what the unit said last has to reach who asked
	defer last.Stop()
	serving.Wait()
	if refused := <-failed; err == nil && !errors.Is(refused, context.Canceled) {
		err = refused
	}
	if err != nil {
		return err
	}
	return statusOf(&result)
}

// beforeUnit returns how what is shared and the unit are to be relayed. Frames
// are seen at the controllers.
func (v *relaying) beforeUnit(shared *relay.Shared, unit transport.Conn) relay.Config {
	cfg := v.between(shared.Unit(), unit, 0)
	cfg.Gate, cfg.Sink = nil, nil
	if v.watch.fan != nil {
		cfg.Sink = relay.NewFan(v.warn, aside{v.watch.fan})
	}
	return cfg
}

// aside passes on what is told of the unit's process, but no frames.
type aside struct{ fan *relay.Fan }

func (a aside) Write(r *capture.Record) error {
	switch r.Kind {
	case capture.Stderr, capture.Exited, capture.Signalled, capture.Note:
		a.fan.Write(r)
	}
	return nil
}

// join lets controllers come to the unit.
func (v *relaying) join(ctx, accepting context.Context, l transport.Listener, shared *relay.Shared, serving *sync.WaitGroup) error {
	for {
		controller, err := l.Accept(accepting)
		if err != nil {
			return err
		}
		conn := v.watch.nextConn()
		cfg := v.between(controller, shared.Join(conn), conn)
		cfg.Signals = nil
		serving.Go(func() {
			result, err := relay.Run(ctx, cfg)
			v.watch.add(&result)
			if err != nil && !errors.Is(err, context.Canceled) {
				v.warn(err.Error())
			}
		})
	}
}

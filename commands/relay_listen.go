package commands

import (
	"context"
	"errors"
	"sync"

	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// serve relays between each controller that comes and a unit of its own, until
// a signal ends it.
func (v *relaying) serve(ctx context.Context) error {
	l, err := v.listenUnanswered(v.c)
	if err != nil {
		return err
	}
	defer l.Close()
	if v.c.Bool("reflect") {
		v.reflect(ctx)
	}
	v.warn("listening on " + l.Addr())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var serving sync.WaitGroup
	failed := make(chan error, 1)
	serving.Go(func() { failed <- v.accept(ctx, l, &serving) })
	err = v.untilSignal(ctx, failed)
	cancel()
	serving.Wait()
	return err
}

// untilSignal waits for what ends listening.
func (v *relaying) untilSignal(ctx context.Context, failed <-chan error) error {
	for {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case sig := <-v.signals:
			if relay.Terminates(sig) {
				return &childError{status: (transport.Exit{Signal: sig}).Code()}
			}
		}
	}
}

// accept takes controllers from one listener.
func (v *relaying) accept(ctx context.Context, l transport.Listener, serving *sync.WaitGroup) error {
	for {
		controller, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		conn := v.watch.nextConn()
		serving.Go(func() { v.connect(ctx, controller, conn) })
	}
}

// connect relays one controller. What goes wrong with it ends no other.
func (v *relaying) connect(ctx context.Context, controller transport.Conn, conn int) {
	unit, err := transport.Onward(v.unit, controller).Dial(ctx)
	if err != nil {
		_ = transport.Abort(controller, err)
		v.warn(err.Error())
		return
	}
	if controller, err = transport.Answer(controller, unit); err != nil {
		_ = transport.Abort(unit, err)
		v.warn(err.Error())
		return
	}
	cfg := v.between(controller, unit, conn)
	cfg.Signals = nil
	result, err := relay.Run(ctx, cfg)
	v.watch.add(&result)
	if err != nil && !errors.Is(err, context.Canceled) {
		v.warn(err.Error())
	}
}

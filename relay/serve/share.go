package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// Share relays between all controllers and one unit, until the unit ends or a signal.
func (s *Server) Share(ctx context.Context, l transport.Listener) (relay.Result, error) {
	unit, err := s.reach(ctx, s.Unit, 0)
	if err != nil {
		return relay.Result{}, err
	}
	shared := relay.NewShared(relay.SharedConfig{
		Framing: s.Relay.Framing, Protocol: s.Relay.Protocol, Limit: s.Relay.Limit,
		Sink: s.Relay.Sink, Altered: s.Altered,
	})
	s.Relay.Warn("listening on " + l.Addr())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	accepting, stop := context.WithCancel(ctx)
	defer stop()
	var serving sync.WaitGroup
	failed := make(chan error, 1)
	serving.Go(func() { failed <- s.join(ctx, accepting, l, shared, &serving) })
	result, err := relay.Run(ctx, s.beforeUnit(shared, unit))
	stop()
	last := time.AfterFunc(s.Relay.Grace, cancel) // the last answers must reach the controllers
	defer last.Stop()
	serving.Wait()
	if refused := <-failed; err == nil && !errors.Is(refused, context.Canceled) {
		err = refused
	}
	return result, err
}

// beforeUnit returns the configuration of the relay to the unit. Frames are recorded at the
// controllers.
func (s *Server) beforeUnit(shared *relay.Shared, unit transport.Conn) relay.Config {
	cfg := s.between(shared.Unit(), unit, 0)
	cfg.Gate, cfg.Sink = nil, nil
	if s.Relay.Sink != nil {
		cfg.Sink = relay.NewFan(s.Relay.Warn, aside{s.Relay.Sink})
	}
	return cfg
}

// aside passes on records of the unit's process, but no frames.
type aside struct{ fan *relay.Fan }

func (a aside) Write(r *capture.Record) error {
	switch r.Kind {
	case capture.Stderr, capture.Exited, capture.Signalled, capture.Note, capture.Lingering:
		a.fan.Write(r)
	}
	return nil
}

// join accepts controllers.
func (s *Server) join(ctx, accepting context.Context, l transport.Listener, shared *relay.Shared, serving *sync.WaitGroup) error {
	for {
		controller, err := l.Accept(accepting)
		if err != nil {
			return err
		}
		conn := s.nextConn()
		cfg := s.between(controller, shared.Join(conn), conn)
		serving.Go(func() { s.runBeside(ctx, cfg) })
	}
}

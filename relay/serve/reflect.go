package serve

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport/grpc"
)

// reflectionWait is how long a server may take to send its schemas.
const reflectionWait = 10 * time.Second

// Reflect asks the unit for the schemas of its services, through the relay, so that a
// capture contains them and its readers know the messages of all calls.
func (s *Server) Reflect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reflectionWait)
	defer cancel()
	unit, err := s.Unit.Dial(ctx)
	if err == nil {
		err = s.reflectBy(ctx, s.between(nil, unit, s.nextConn()))
	}
	if err != nil {
		s.Relay.Warn("the unit does not provide its schemas: " + err.Error() + "; calls are shown without them, unless --proto FILE has them")
	}
}

// reflectBy relays the conversation.
func (s *Server) reflectBy(ctx context.Context, cfg relay.Config) error {
	ours, theirs := net.Pipe()
	cfg.Controller = pipe{ours}
	var relaying sync.WaitGroup
	defer relaying.Wait()
	cfg.Signals = nil
	relaying.Go(func() {
		if _, err := relay.Run(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) {
			s.Relay.Warn(err.Error())
		}
	})
	services, err := grpc.Reflect(ctx, theirs, "reflection")
	if err == nil {
		s.Relay.Warn("the unit provides the schemas of " + render.Count(int64(len(services)), "service"))
	}
	return err
}

// A pipe is one end of a connection within the program.
type pipe struct{ net.Conn }

// CloseWrite fails: a pipe has no half-close.
func (pipe) CloseWrite() error { return errors.ErrUnsupported }

package commands

import (
	"errors"
	"fmt"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/transport"
)

// lingers returns a function that prints once that wirectl waits for a program; nil with --quiet
// or a short grace.
func lingers(inv *invocation, c *cli.Context) func() {
	grace := c.Duration("grace")
	if c.Bool("quiet") || grace <= transport.AtOnce {
		return nil
	}
	return sync.OnceFunc(func() {
		fmt.Fprintf(inv.Stderr, "wirectl: waiting for the program to exit after its input ended: it gets a signal after %v (--grace)\n", grace)
	})
}

// reached returns the endpoint of the peer. It records how a program ended.
func (s *sending) reached() transport.Endpoint {
	return transport.Shown{Endpoint: s.endpoint, Stderr: s.Stderr, Ended: s.exits.Add, Lingers: lingers(s.invocation, s.c)}
}

// withExit adds to an error how the peer's program ended. If the program has answered, that is only
// printed.
func (s *sending) withExit(err error) error {
	failed := s.exits.Failed()
	switch {
	case failed == nil:
	case errors.Is(err, client.ErrEnded) && is[*transport.StartError](failed):
		return failed
	case errors.Is(err, client.ErrEnded):
		return fmt.Errorf("%w: %w", err, failed)
	case !s.c.Bool("quiet"):
		s.told(failed.Error())
	}
	return err
}
